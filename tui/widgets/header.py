"""The lines around a screen: the screens with their keys and what is looked at at the top, keys at the bottom."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from kerneldb.output.text import shorten
from kerneldb.tui import numbers
from kerneldb.tui.screens import PLACES
from kerneldb.tui.store import READY, Condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual import events
    from textual.binding import Binding
    from textual.screen import Screen

    from kerneldb.api.queries import Connection
    from kerneldb.tui.model import Choice
    from kerneldb.tui.store import Store


KEYS_ONLY: Final = 76
LEAST_NAME: Final = 16
"""Characters that are left of a name at least."""


class Tabs(Static):
    """The screens with their keys; a click shows one."""

    active: reactive[str] = reactive("")

    def __init__(self) -> None:
        super().__init__(id="tabs")
        self._ends: list[tuple[int, str]] = []

    def render(self) -> Content:
        """The names, as long as they fit; keys alone where they do not."""
        parts: list[Content] = []
        self._ends, end = [], 0
        space = " " if self.size.width >= sum(len(place.title) + 4 for place in PLACES) else ""
        for place in PLACES:
            here = place.name == self.active
            text = f" {place.key} {place.title}{space}" if here or self.size.width >= KEYS_ONLY else f" {place.key}"
            parts.append(Content.styled(text, "bold reverse" if here else ""))
            end += len(text)
            self._ends.append((end, place.name))
        return Content.assemble(*parts)

    async def on_click(self, event: events.Click) -> None:
        """Show the screen under the mouse."""
        for end, name in self._ends:
            if event.x < end:
                await self.app.run_action(f"show({name!r})")
                return


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What the status line knows: sizes of the file and of the Selection; None is not known yet.

    `launches` are those that are recorded one by one; `summed` of the Selection are known by sums alone. Of those
    matched, `counted` enter sums of time: no profiled ones, and the work of a run once.
    """

    devices: tuple[str, ...] = ()
    traces: int | None = None
    launches: int | None = None
    total_ns: int | None = None
    matched: int | None = None
    matched_ns: int | None = None
    counted: int | None = None
    summed: int = 0
    problem: str = ""


async def facts_of(store: Store, choice: Choice) -> Facts:
    """Ask for the facts. Without a WHERE text, they come from sums that were made at ingest."""
    from kerneldb.api.queries import rollups, rows

    names = {"names": list(choice.traces) or None}

    def ask(con: Connection) -> dict[str, Any]:
        con.register("chosen", rollups(con, choice.traces))
        (found,) = rows(con, "tui_status_rollups", names)
        return found

    facts = await store.read(ask)
    devices = tuple(row["device"] for row in await store.rows("tui_devices", names))
    if choice.where.strip():
        (found,) = await store.rows("tui_status_launches", None, choice.selection())
        facts |= found
    return Facts(devices=devices, summed=await store.summed(choice), **facts)


class Status(Static):
    """The line about the file and the Selection; the WHERE text is in the bar below."""

    facts: reactive[Facts] = reactive(Facts())
    condition: reactive[Condition] = reactive(READY)
    choice: reactive[Choice | None] = reactive(None)
    asking: reactive[bool] = reactive(False)

    def __init__(self, name: str) -> None:
        super().__init__("", id="status", markup=False)
        self._file = name

    def rename(self, name: str) -> None:
        """Another file is open."""
        self._file = name
        self.facts = Facts()
        self.refresh()

    def watch_condition(self, condition: Condition) -> None:
        """A file that cannot be had is what matters most."""
        self.set_class(condition.kind != "ready", "-warning")

    def render(self) -> Content:
        """File, GPU, traces, and the matched launches with their share."""
        mark = "◌ " if self.asking else "● "
        if self.condition.kind != "ready":
            return Content(mark + self.condition.sentence.splitlines()[0])
        return Content(mark + self._line(self.size.width - 4))

    def _line(self, room: int) -> str:
        """File, GPU, traces, launches, time; where that is too long, as much of it as has room."""
        facts = self.facts
        more = f" +{len(facts.devices) - 1}" if len(facts.devices) > 1 else ""
        parts = {
            "file": self._file,
            "device": facts.devices[0] + more if facts.devices else "",
            "traces": _traces(facts, self.choice),
            "problem": facts.problem,
            "launches": _matched(facts),
            "time": _time(facts),
        }
        # What goes, one after the other. Traces that were chosen stay: they are part of the Selection.
        shorter = {"device": "", "file": ""}
        if self.choice is None or not self.choice.traces:
            shorter["traces"] = ""
        shorter |= {"time": _time(facts, share=False), "launches": _matched(facts, all_of_it=False)}
        for name, text in shorter.items():
            if len(_joined(parts)) > room:
                parts[name] = text
        over = len(_joined(parts)) - room
        if over > 0 and parts["traces"]:
            parts["traces"] = shorten(parts["traces"], max(len(parts["traces"]) - over, LEAST_NAME))
        return _joined(parts)


def _joined(parts: Mapping[str, str]) -> str:
    return " · ".join(numbers.safe(text) for text in parts.values() if text)


def _traces(facts: Facts, choice: Choice | None) -> str:
    if facts.traces is None:
        return ""
    if choice is not None and len(choice.traces) == 1:
        return f"trace {choice.traces[0]}"
    if choice is not None and choice.traces:
        return f"{len(choice.traces)} of {facts.traces:,} traces"
    return numbers.several(facts.traces, "trace")


def _matched(facts: Facts, *, all_of_it: bool = True) -> str:
    if facts.launches is None:
        return ""
    matched, launches = facts.matched or 0, numbers.several(facts.launches, "launch", "launches")
    sums = f" + {facts.summed:,} in sums only" if facts.summed else ""
    if facts.counted is not None and facts.counted != matched:
        counted = f"{facts.counted:,} primary" if facts.counted else "none in sums"
        sums = f" ({counted}){sums}"
    text = launches if matched == facts.launches else f"{matched:,} of {launches}"
    return text + sums if all_of_it else text


def _time(facts: Facts, *, share: bool = True) -> str:
    if facts.matched_ns is None:
        return ""
    part = ""
    if share and facts.total_ns and facts.matched_ns != facts.total_ns:
        part = f" ({numbers.percent(100 * facts.matched_ns / facts.total_ns)})"
    return f"{numbers.duration(facts.matched_ns)} GPU{part}"


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
