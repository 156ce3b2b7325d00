"""The line at the bottom: the keys of what has the keyboard, drawn as one widget however many there are."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

if TYPE_CHECKING:
    from textual import events
    from textual.binding import Binding
    from textual.screen import Screen


CHARACTERS: Final = {"slash": "/", "question_mark": "?"}
"""What keys of the application type that Textual has no character for, or that represent others beside them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A key as it is pressed and as it is written, what it does, whether it works now, and on every screen."""

    key: str
    written: str
    does: str
    enabled: bool
    everywhere: bool

    @property
    def width(self) -> int:
        """Its cells, with the space around its two words."""
        return cell_len(self.written) + cell_len(self.does) + 3


class Keys(Widget):
    """The keys that act now, as long as they fit; a click presses one.

    Textual's own footer is a widget per key, and makes all of them again whenever the keyboard goes elsewhere.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key", "keys--description"}
    DEFAULT_CSS = """
    Keys {
        dock: bottom; height: 1; text-wrap: nowrap; color: $footer-foreground; background: $footer-background;
        & > .keys--key { color: $footer-key-foreground; background: $footer-key-background; text-style: bold; }
        & > .keys--description {
            color: $footer-description-foreground; background: $footer-description-background;
        }
    }
    """

    shown: reactive[tuple[Key, ...]] = reactive(())

    def on_mount(self) -> None:
        """Follow the keyboard."""

        def changed(screen: Screen[object]) -> None:
            if self.app.app_focus and self.is_attached and screen is self.screen:
                self.call_after_refresh(self._update)

        self.screen.bindings_updated_signal.subscribe(self, changed)

    def on_unmount(self) -> None:
        """Nothing is drawn any more."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _update(self) -> None:
        """Of several keys that do the same, the first."""
        found: dict[str, Key] = {}
        for node, binding, enabled, _ in self.screen.active_bindings.values():
            if binding.show and not self._typed(binding.key):
                written = self._written(binding)
                key = Key(binding.key, written, binding.description, enabled, everywhere=node is self.app)
                found.setdefault(binding.action, key)
        self.shown = tuple(found.values())

    def _typed(self, key: str) -> bool:
        """Whether a key is text where the keyboard is; Textual does not know the character of every key."""
        focused, character = self.screen.focused, CHARACTERS.get(key)
        return focused is not None and character is not None and focused.check_consume_key(key, character)

    def _written(self, binding: Binding) -> str:
        """A key as it is written: `key_display` is of one key of several, which may be text where another one works."""
        named = binding.key_display
        if named is not None and any(named == character and self._typed(key) for key, character in CHARACTERS.items()):
            binding = dataclasses.replace(binding, key_display=None)
        return self.app.get_key_display(binding)

    def fitting(self) -> list[Key]:
        """Those that fit, none cut; the ones that work everywhere (keys, quit) come before those of a screen."""
        room, kept = self.size.width, set()
        for key in sorted(self.shown, key=lambda key: not key.everywhere):
            room -= key.width
            if room < 0:
                break
            kept.add(key)
        return [key for key in self.shown if key in kept]

    def render(self) -> Content:
        """Keys with what they do, from the left."""
        strong, plain = self.get_visual_style("keys--key"), self.get_visual_style("keys--description")
        parts = []
        for key in self.fitting():
            text = Content.assemble(Content.styled(f" {key.written} ", strong), Content.styled(f"{key.does} ", plain))
            parts.append(text if key.enabled else text.stylize("dim"))
        return Content.assemble(*parts)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press the key under the mouse."""
        end = 0
        for key in self.fitting():
            end += key.width
            if event.x < end:
                self.app.simulate_key(key.key) if key.enabled else self.app.bell()
                return
