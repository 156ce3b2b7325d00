"""Screens in the terminal over the views of a warehouse."""
