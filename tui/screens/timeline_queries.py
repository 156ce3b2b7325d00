"""Queries of the timeline: first everything on its axis, perhaps before there are widgets to show it; then details."""

from __future__ import annotations

import dataclasses
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


class FirstView:
    """Asks for the axis of a selection and what lies on it.

    The axis depends on the traces alone, so it stays known for as long as the file has the same contents; so do the
    last few answers.
    """

    def __init__(self) -> None:
        self._axis: tuple[object, tuple[str, ...], Axis] | None = None
        self._ahead: tuple[Asked, asyncio.Task[Found]] | None = None
        self._kept: dict[Asked, Found] = {}

    def prefetch(self, store: Store, selection: Selection, columns: int) -> None:
        """Ask now, before anybody waits; `answer` awaits it where the question and the contents are the same."""
        asked = store.version(), selection, columns
        if asked in self._kept or self._awaited(asked) is not None:
            return
        known = self._known_axis(asked)
        task = store.prefetch(lambda con: timeline.beginning(con, known, selection, columns))

        def keep(task: asyncio.Task[Found]) -> None:
            if not task.cancelled() and task.exception() is None:  # else whoever asks next gets the failure
                self._keep(asked, task.result())

        task.add_done_callback(keep)
        self._ahead = asked, task

    async def answer(self, store: Store, selection: Selection, columns: int) -> Found:
        """The axis, and everything on it in as many bins as there are `columns`."""
        asked = store.version(), selection, columns
        ahead, self._ahead = self._awaited(asked), None
        if asked in self._kept:
            found = self._kept.pop(asked)
        elif ahead is not None:
            store.want(ahead)
            found = await ahead
        else:
            found = await store.read(timeline.beginning, self._known_axis(asked), selection, columns)
        self._keep(asked, found)
        return found

    def _awaited(self, asked: Asked) -> asyncio.Task[Found] | None:
        """The task that asks the same ahead, unless it was cancelled."""
        if self._ahead is None or self._ahead[0] != asked:
            return None
        task = self._ahead[1]
        return None if task.cancelled() or task.cancelling() else task

    def _known_axis(self, asked: Asked) -> Axis | None:
        version, selection, _ = asked
        if self._axis is None or version is None or self._axis[:2] != (version, selection.traces):
            return None
        return self._axis[2]

    def _keep(self, asked: Asked, found: Found) -> None:
        """Remember an answer, for as long as the contents are known to be the same."""
        version, selection, _ = asked
        if version is None:
            return
        self._axis = version, selection.traces, found[0]
        self._kept = {key: value for key, value in self._kept.items() if key[0] == version} | {asked: found}
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]


@dataclasses.dataclass(frozen=True, slots=True)
class Details:
    """What comes after the bins: phases, names of wide launches, the launch under the cursor."""

    phases: Mapping[int, Mapping[int, Bin]]
    names: list[Label]
    launch: Row | None


def details(
    con: Connection,
    axis: Axis,
    selection: Selection,
    stretch: Stretch,
    lane: Lane | None,
    span: tuple[int, int],
    *,
    phases: bool,
    names: bool,
) -> Details:
    """The details of `stretch`: phases or not, names or not, and the launch of `lane` (None: none) in `span`."""
    least = LEAST_NAMED_CELLS * stretch.step_ns
    return Details(
        timeline.phases(con, axis, selection, stretch) if phases else {},
        timeline.labels(con, axis, selection, stretch, least, NAMES) if names else [],
        timeline.at(con, axis, selection, lane, span) if lane is not None else None,
    )
