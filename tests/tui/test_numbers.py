"""Numbers, bars and texts of a width."""

from __future__ import annotations

import pytest

from kerneldb.output.text import display_width
from kerneldb.tui import numbers
from kerneldb.tui.widgets.columns import grid_and_block, short_shape


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "–"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1_234, "1.23 µs"),
        (99_960, "100 µs"),
        (999_999, "1.00 ms"),
        (46_800_000, "46.8 ms"),
        (2_500_000_000, "2.50 s"),
        (7_200_000_000_000, "2.00 h"),
        (float("nan"), "–"),
    ],
)
def test_durations(ns: float | None, text: str) -> None:
    assert numbers.duration(ns) == text


def test_other_quantities() -> None:
    assert numbers.size(74_500_000) == "74.5 MB"
    assert numbers.count(1234567) == "1,234,567"
    assert numbers.percent(0.04) == "0.0 %"
    assert numbers.percent(100) == "100 %"
    assert numbers.energy(12.5) == "12.5 mJ"
    assert numbers.energy(2_500) == "2.50 J"
    assert numbers.energy(3e9) == "3.00 MJ"
    assert numbers.ratio(0.974) == "0.97×"


@pytest.mark.parametrize("width", [1, 2, 7, 30])
@pytest.mark.parametrize("text", ["", "short", "a longer text than that", "数字と文字", "line\nbreak", "x" * 50])
@pytest.mark.parametrize("middle", [False, True])
def test_texts_take_exactly_their_cells(text: str, width: int, middle: bool) -> None:
    fitted = numbers.fit(text, width, middle=middle)
    assert display_width(fitted) == width
    assert "\n" not in fitted


def test_bars_grow_in_eighths() -> None:
    assert numbers.bar(0.5, 10) == "█████     "
    assert numbers.bar(0.0625, 2) == "▏ "
    assert numbers.bar(7.0, 3) == "███"


def test_a_small_value_still_shows_in_a_sparkline() -> None:
    assert numbers.sparkline([0.0, 0.001, 0.5, 1.0]) == " ▁▄█"
    assert numbers.sparkline([0.0, 0.0]) == "  "


def test_shapes_and_grids_are_short() -> None:
    assert short_shape("[[8, 1024], [], [1024, 64]]") == "8×1024 1024×64"
    assert short_shape("[[[4, 4], [2]], 3]") == "(4×4 2)"
    assert short_shape("[[], []]") is None
    assert short_shape("no json") == "no json"
    row = {"grid_x": 132, "grid_y": 8, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    assert grid_and_block(row) == "132×8|256"
    assert grid_and_block(dict.fromkeys(row)) is None
