"""The widgets that screens share, drawn with Textual's core alone."""
