"""What the timeline of a page that is served asks for: a stretch in finer steps, the largest gaps, names, sums, links.

Times in questions and answers are in ns since the first event of the trace, as in the page.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import timeline, tracks
from kerneldb.errors import UsageError
from kerneldb.output.text import harmless
from kerneldb.report import events
from kerneldb.report.asking import asking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kerneldb.api import Database
    from kerneldb.api.timeline import Axis, Stretch
    from kerneldb.report.asking import Asking
    from kerneldb.report.events import Extent

NAMED: Final = 40
"""Names of each kind that the sums of a range hold."""
GAPS: Final = 1000
FEW: Final = 20
STEPS: Final = (4_000, 100_000, 1_000_000)
"""Gaps are looked for that are longer than such a part of the trace, until there are a `FEW`."""
MOST_WHOLE: Final = 2**63 - 1
KEPT: Final = 64
_extents: dict[str, Extent] = {}
"""Of traces by id, which is made of their contents."""


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A question to a trace: its `words`, by name."""

    ask: Asking
    found: Extent
    axis: Axis
    words: Mapping[str, str]

    def number(self, name: str, otherwise: int | None = None) -> int:
        """A whole number, within 64 bits. Raises UsageError where it is none."""
        try:
            found = round(float(self.words.get(name, "" if otherwise is None else otherwise)))
            return max(-MOST_WHOLE, min(found, MOST_WHOLE))
        except (ValueError, OverflowError):
            raise UsageError(f"{name} is no number") from None

    def at(self, name: str) -> int:
        """A time, by the clock of the trace, within it."""
        whole = self.found.whole
        return max(whole.first_ns, min(whole.first_ns + self.number(name), whole.last_ns))

    @property
    def shift(self) -> int:
        """What takes a time of the trace to its axis, on which `kerneldb.api` gives and takes times."""
        return self.axis.traces[0].shift_ns if self.axis.traces else 0

    @property
    def back(self) -> int:
        """What takes a time of the axis to the page."""
        return -self.shift - self.found.whole.first_ns

    def range(self) -> Stretch:
        """`from` to `to`, on the axis."""
        first, last = self.at("from"), self.at("to")
        return timeline.Stretch(first + self.shift, max(last - first, 1), 1)


@contextlib.contextmanager
def question(database: Database, words: Mapping[str, str]) -> Iterator[Question]:
    """What is asked of the trace `name`. Raises UsageError where there is none."""
    name = words.get("name", "")
    (trace,) = database.traces([name]).rows()
    with asking(database) as ask:
        one = ask.about(trace=name)
        if (found := _extents.get(trace["trace_id"])) is None:
            found = events.extent(one)
            _extents[trace["trace_id"]] = found
            if len(_extents) > KEPT:
                _extents.pop(next(iter(_extents)), None)  # another thread may have taken it
        yield Question(one, found, one.of(timeline.axis, [name]), words)


def window(asked: Question) -> bytes:
    """The stretch `from` to `to` in `bins` steps, packed as in a page."""
    first, last = asked.at("from"), asked.at("to")
    return events.packed(events.window(asked.ask, asked.found, first, max(last, first + 1), asked.number("bins")))


def gaps(asked: Question) -> dict[str, Any]:
    """The longest idle times of the whole trace (`place`, `start`, `length`), all that last at least `least`."""
    whole, rows, step = asked.found.whole, [], 1
    for steps in STEPS:
        step = max(1, (whole.last_ns - whole.first_ns) // steps)
        rows = asked.ask.also({**dataclasses.asdict(whole), "step_ns": step}).rows("events_breaks")
        if len(rows) >= FEW:
            break
    rows.sort(key=lambda row: -row["duration_ns"])
    found = [
        {"place": row["place"], "start": row["start_ns"] - whole.first_ns, "length": row["duration_ns"]}
        for row in rows[:GAPS]
    ]
    return {"least": step, "gaps": found}


def causes(asked: Question) -> list[dict[str, Any]]:
    """Why devices were idle from `from` to `to`: `place`, `start`, `name` and `category` of each idle time."""
    stretch = events.Window(asked.at("from"), asked.at("to"), 0)
    rows = events.caused(asked.ask, stretch)
    origin = asked.found.whole.first_ns
    return [
        {"place": place, "start": start - origin, "name": harmless(name), "category": f"idle: {cause}"}
        for place, cause, name, start, _ in rows
    ]


def find(asked: Question) -> dict[str, Any] | None:
    """The next event after `at` (`back`: before it) with `text` in its name: `kind`, `process`, `thread`, `start`."""
    if not asked.axis.traces:
        return None
    at = asked.at("at") + asked.shift
    found = asked.ask.of(tracks.search, asked.axis, asked.words.get("text", ""), at, forward="back" not in asked.words)
    if found is None:
        return None
    return {**{name: found[name] for name in ("kind", "process", "thread")}, "start": found["begins"] + asked.back}


def sums(asked: Question) -> list[dict[str, Any]]:
    """What the range `from` to `to` holds: `kind`, `name`, `n`, `total_ns`."""
    if not asked.axis.traces:
        return []
    found = asked.ask.of(tracks.summed, asked.axis, asked.range(), NAMED)
    return [{**row, "name": harmless(str(row["name"]))} for row in found]


def facts(asked: Question) -> dict[str, Any] | None:
    """What is stored of the launches of `signature` (see `events.facts`)."""
    found = events.facts(asked.ask, asked.words.get("signature", ""))
    return next(iter(found.values()), None)


def launched(asked: Question) -> dict[str, Any] | None:
    """What the operator or call (`kind`) of number `id` launched: `n`, `total_ns`, and the `start` of the first."""
    kind = asked.words.get("kind", "")
    wanted = next((one for one in tracks.HOST if one == kind and one in events.CALLERS), None)
    if wanted is None or not asked.axis.traces:
        return None
    event = tracks.Event(0, 0, "", id=asked.number("id"))
    found = asked.ask.of(tracks.launched, asked.axis, tracks.Track(0, wanted), event)
    if found is None:
        return None
    first, n, total_ns = found
    return {"n": n, "total_ns": total_ns, "start": first["start_ns"] - asked.found.whole.first_ns}
