"""What the timeline asks: first everything on its axis, perhaps before there are widgets to show it; then details."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import timeline

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    import duckdb

    from kerneldb.api.timeline import Axis, Bin, Label, Lane, Seen, Stretch
    from kerneldb.selection import Selection
    from kerneldb.tui.store import Store

    Asked = tuple[object, Selection, int]
    Found = tuple[Axis, Seen]
    Connection = duckdb.DuckDBPyConnection

Row = dict[str, Any]

MOST_NAMED: Final = 100_000
"""With more launches in view than this, none is wide enough to be worth looking for its name."""
NAMES: Final = 400
LEAST_NAMED_CELLS: Final = 5
KEPT: Final = 8
"""So many Selections can be gone back to without asking again."""


class First:
    """Asks for the axis of a selection and what lies on it.

    The axis depends on the traces alone, so it stays known for as long as the file has the same contents; so do the
    last few answers.
    """

    def __init__(self) -> None:
        self._axis: tuple[object, tuple[str, ...], Axis] | None = None
        self._ahead: tuple[Asked, asyncio.Task[Found]] | None = None
        self._kept: dict[Asked, Found] = {}

    def begin(self, store: Store, selection: Selection, columns: int) -> None:
        """Ask now, before anybody waits; `answer` takes it up where it is asked the same of the same contents."""
        asked = store.version(), selection, columns
        if asked in self._kept or (self._ahead is not None and self._ahead[0] == asked and _goes_on(self._ahead[1])):
            return
        known = self._known(asked)
        task = store.prefetch(lambda con: timeline.beginning(con, known, selection, columns))
        task.add_done_callback(functools.partial(self._prefetched, asked))
        self._ahead = asked, task

    async def answer(self, store: Store, selection: Selection, columns: int) -> Found:
        """The axis, and everything on it in as many bins as there are `columns`."""
        asked, ahead = (store.version(), selection, columns), self._ahead
        self._ahead = None
        if asked in self._kept:
            found = self._kept.pop(asked)
        elif ahead is not None and ahead[0] == asked and _goes_on(ahead[1]):
            store.want(ahead[1])
            found = await ahead[1]
        else:
            known = self._known(asked)
            found = await store.read(lambda con: timeline.beginning(con, known, selection, columns))
        self._keep(asked, found)
        return found

    def _known(self, asked: Asked) -> Axis | None:
        version, selection, _ = asked
        if self._axis is None or version is None or self._axis[:2] != (version, selection.traces):
            return None
        return self._axis[2]

    def _prefetched(self, asked: Asked, task: asyncio.Task[Found]) -> None:
        """A failure is told to whoever asks in earnest."""
        if not task.cancelled() and task.exception() is None:
            self._keep(asked, task.result())

    def _keep(self, asked: Asked, found: Found) -> None:
        """Remember an answer, for as long as the contents are known to be the same."""
        version, selection, _ = asked
        if version is None:
            return
        self._axis = version, selection.traces, found[0]
        self._kept = {key: value for key, value in self._kept.items() if key[0] == version} | {asked: found}
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]


def _goes_on(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and not task.cancelling()


@dataclasses.dataclass(frozen=True, slots=True)
class More:
    """What comes after the bins: phases, names of wide launches, the launch under the cursor."""

    phases: Mapping[int, Mapping[int, Bin]]
    names: list[Label]
    launch: Row | None


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What of `More` is asked for: phases or not, names or not, and the launch of `lane` (None: none) in `span`."""

    axis: Axis
    selection: Selection
    stretch: Stretch
    phases: bool
    names: bool
    lane: Lane | None
    span: tuple[int, int]

    def ask(self, con: Connection) -> More:
        """Ask for all of it, in one go."""
        where = self.axis, self.selection
        least = LEAST_NAMED_CELLS * self.stretch.step_ns
        return More(
            timeline.phases(con, *where, self.stretch) if self.phases else {},
            timeline.labels(con, *where, self.stretch, least, NAMES) if self.names else [],
            timeline.at(con, *where, self.lane, self.span) if self.lane is not None else None,
        )
