"""The line below the timeline: what its colours are, and how much is in view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldb.tui import legends, theme
from kerneldb.tui.numbers import percent, safe, several
from kerneldb.tui.screens.timeline_tracks import IDLE_HUES, LETTERS, OTHER_CAUSE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from textual.content import Content

    from kerneldb.api.tracks import Track
    from kerneldb.tui.legends import Entry, Ink
    from kerneldb.tui.screens.timeline_data import Board


def legend(board: Board, room: int, ink: Ink | None, track: Track | None = None) -> Content:
    """The categories by their time in view, and how much is in view.

    In the idle times of a `track`, their causes with the letters of narrow ones.
    """
    if track is not None and track.kind == "idle":
        causes = _shares(board.tracks.causes(track))
        entries = [_cause(name, share) for name, share in causes]
        return legends.legend(entries, _amounts(board), room, ink, before="idle  ")
    shares = _shares(board.view.categories)
    named = [(theme.category_hue(name), f"{legends.category(name, ink)} {share}") for name, share in shares]
    return legends.legend(named, _amounts(board), room, ink)


def _shares(times: Mapping[str | None, int]) -> Iterator[tuple[str | None, str]]:
    """Names with their shares of all time, the largest first."""
    total = sum(times.values()) or 1
    for name, ns in sorted(times.items(), key=lambda item: -item[1]):
        yield name, percent(100 * ns / total)


def _cause(name: str | None, share: str) -> Entry:
    cause = name or "idle"
    return IDLE_HUES.get(cause, OTHER_CAUSE), f"{LETTERS.get(cause, cause[:1])} {safe(cause)} {share}"


def _amounts(board: Board) -> list[str]:
    """How many launches are in view, how many lanes there are, how traces share the axis; then less of it."""
    launches = several(board.view.launches, "launch", "launches")
    clock = [] if len(board.axis.traces) == 1 else ["one clock" if board.axis.aligned else "each from 0"]
    left_out = len(board.axis.left_out)
    without = [f"{several(left_out, 'trace')} without a timeline"] if left_out else []
    brief = [f"{left_out} without times"] if left_out else []
    ways = [launches, several(len(board.lanes), "lane"), *clock, *without], [launches, *clock, *brief], [launches]
    return [" · ".join(facts) for facts in ways]
