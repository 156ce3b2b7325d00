"""The line below the timeline: a square for each colour, and as much of what is in view as there is room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kerneldb.api.timeline import Axis, Placed, Seen, Stretch
from kerneldb.api.tracks import Event, Line, Track
from kerneldb.tui import theme
from kerneldb.tui.screens.timeline_data import Board
from kerneldb.tui.screens.timeline_legend import legend

if TYPE_CHECKING:
    from kerneldb.tui.theme import Hue

TIMES = {"GEMM": 50, "MEMCPY": 20, "CONVOLUTION": 10, "OTHER": 9, "MEMSET": 8, None: 3}
IDLE = Track(0, "idle", device=0)


def board(traces: int = 1, left_out: int = 0) -> Board:
    placed = tuple(Placed(f"t{number}", f"t:{number}", 0, 1000, 0) for number in range(traces))
    axis = Axis(placed, aligned=False, left_out=tuple((f"s{number}", "sums") for number in range(left_out)))
    return Board(axis, Seen(categories=TIMES), Stretch(0, 10, 100))


def ink(hue: Hue) -> str:
    return theme.COLOURS[hue]["dark"]


def test_what_has_one_colour_stands_behind_one_square() -> None:
    shown = legend(board(), 200, ink)
    assert shown.plain == (
        "■ GEMM 50.0 %, CONVOLUTION 10.0 %  ■ MEMCPY 20.0 %, MEMSET 8.0 %  ■ OTHER 9.0 %, unknown 3.0 %  "
        "0 launches · 0 lanes"
    )
    drawn = [(shown.plain[span.start], str(span.style)) for span in shown.spans if shown.plain[span.start] == "■"]
    assert drawn == [("■", ink("blue")), ("■", ink("cyan")), ("■", ink("grey"))]


def test_without_colours_a_letter_is_in_the_place_of_the_square() -> None:
    assert legend(board(), 200, None).plain.startswith(
        "G GEMM 50.0 %, C CONVOLUTION 10.0 %  M MEMCPY 20.0 %, Z MEMSET 8.0 %  U OTHER 9.0 %, ? unknown 3.0 %  "
    )


def test_each_category_has_a_letter_of_its_own() -> None:
    assert set(theme.CATEGORY_LETTERS) == set(theme.CATEGORY_HUES)
    letters = [*theme.CATEGORY_LETTERS.values(), theme.NO_CATEGORY]
    assert len(set(letters)) == len(letters)


@pytest.mark.parametrize(("room", "shown"), [
    (78, "■ GEMM 50.0 %, +5 more  0 launches · each from 0 · 4 without times"),
    (104, "■ GEMM 50.0 %, +5 more  0 launches · 0 lanes · each from 0 · 4 traces without a timeline"),
    (60, "■ GEMM 50.0 %, CONVOLUTION 10.0 %  +4 more  0 launches"),
])  # fmt: skip
def test_a_narrow_terminal_keeps_room_for_the_colours(room: int, shown: str) -> None:
    found = legend(board(traces=2, left_out=4), room, ink).plain
    assert (found, len(found) <= room) == (shown, True)


def test_in_idle_times_it_has_their_causes_in_view_with_the_letters_of_narrow_ones() -> None:
    shown = board()
    events = [
        Event(-50, 60, "launching"),  # 60 ns of it are in view
        Event(100, 130, "launch latency"),
        Event(200, 210, "between launches"),
    ]
    shown.tracks.add({IDLE: Line(events)})
    told = legend(shown, 200, ink, IDLE).plain
    assert told.startswith("idle  ■ l launching 60.0 %  ■ q launch latency 30.0 %, b between launches 10.0 %  ")
    assert "GEMM" in legend(shown, 200, ink, Track(0, "API calls")).plain
