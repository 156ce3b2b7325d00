"""What the timeline asks: first everything on its axis, perhaps before there are widgets to show it; then details."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from kerneldb.api.timeline import Axis, Bin, Label, Lane, Seen, Stretch
    from kerneldb.selection import Selection
    from kerneldb.tui.store import Store

    Asked = tuple[object, Selection, int]
    Connection = duckdb.DuckDBPyConnection

Row = dict[str, Any]

MOST_NAMED: Final = 100_000
"""With more launches in view than this, none is wide enough to be worth looking for its name."""
NAMES: Final = 400
LEAST_NAMED_CELLS: Final = 5


class First:
    """Asks for the axis of a selection and what lies on it.

    The axis depends on the traces alone, so it stays known for as long as the file has the same contents.
    """

    def __init__(self) -> None:
        self._axis: tuple[object, tuple[str, ...], Axis] | None = None
        self._ahead: tuple[Asked, asyncio.Task[tuple[Axis, Seen]]] | None = None

    def begin(self, store: Store, selection: Selection, columns: int) -> None:
        """Ask now, before anybody waits; `answer` takes it up where it is asked the same of the same contents."""
        asked = store.version(), selection, columns
        if self._ahead is not None and self._ahead[0] == asked and not self._ahead[1].cancelling():
            return
        known = self._known(asked)
        task = store.foresee(lambda con: timeline.beginning(con, known, selection, columns))
        task.add_done_callback(_noticed)
        self._ahead = asked, task

    async def answer(self, store: Store, selection: Selection, columns: int) -> tuple[Axis, Seen]:
        """The axis, and everything on it in as many bins as there are `columns`."""
        asked, ahead = (store.version(), selection, columns), self._ahead
        self._ahead = None
        if ahead is not None and ahead[0] == asked and not ahead[1].cancelling():
            store.want(ahead[1])
            found = await ahead[1]
        else:
            known = self._known(asked)
            found = await store.read(lambda con: timeline.beginning(con, known, selection, columns))
        self._axis = asked[0], selection.traces, found[0]
        return found

    def _known(self, asked: Asked) -> Axis | None:
        version, selection, _ = asked
        if self._axis is None or version is None or self._axis[:2] != (version, selection.traces):
            return None
        return self._axis[2]


def _noticed(task: asyncio.Task[Any]) -> None:
    """A failure is told to whoever asks in earnest."""
    if not task.cancelled():
        task.exception()


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
