"""The lines at the top: the screens with their keys, and what is looked at."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from kerneldb.output.text import shorten
from kerneldb.tui import numbers
from kerneldb.tui.screens import PLACES
from kerneldb.tui.store import READY, Condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    from textual import events

    from kerneldb.tui.model import Choice
    from kerneldb.tui.store import Store

    Connection = duckdb.DuckDBPyConnection

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

    def ask(con: Connection) -> dict[str, Any]:
        con.register("chosen", rollups(con, choice.traces))
        (found,) = rows(con, "tui_status_rollups", {"names": list(choice.traces) or None})
        return found

    facts = await store.read(ask)
    devices = tuple(row["device"] for row in await store.rows("tui_devices"))
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
        sums = f" ({format(facts.counted, ',') if facts.counted else 'none'} primary){sums}"
    text = launches if matched == facts.launches else f"{matched:,} of {launches}"
    return text + sums if all_of_it else text


def _time(facts: Facts, *, share: bool = True) -> str:
    if facts.matched_ns is None:
        return ""
    part = ""
    if share and facts.total_ns and facts.matched_ns != facts.total_ns:
        part = f" ({numbers.percent(100 * facts.matched_ns / facts.total_ns)})"
    return f"{numbers.duration(facts.matched_ns)} GPU{part}"
