"""Colours that stand for something are told apart without one kind of cones, too: in the terminal and on pages."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from kerneldb.report import charts
from kerneldb.tui import theme
from kerneldb.tui.screens import timeline_tracks
from tests.colour_vision import VISIONS, contrast, difference, nearest

if TYPE_CHECKING:
    from pathlib import Path

TOLD_APART = 10.0
"""CIEDE2000; 2.3 is what is just noticed where two colours touch."""
BACKGROUNDS = {"dark": "#121212", "light": "#e0e0e0"}
"""Of Textual's themes."""


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.49, -0.001), (50, -2.49, 0.0009), 7.1792),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((6.7747, -0.2908, -2.4247), (5.8714, -0.0985, -2.2286), 0.6377),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_difference_is_the_published_one(
    one: tuple[float, float, float], other: tuple[float, float, float], distance: float
) -> None:
    assert difference(one, other) == pytest.approx(distance, abs=1e-4)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("shade", ["dark", "light"])
def test_hues_of_the_terminal_are_told_apart(shade: theme.Shade, vision: str) -> None:
    hues = {hue: colours[shade] for hue, colours in theme.COLOURS.items()}
    assert nearest(hues, vision) > (TOLD_APART,)
    assert min(contrast(colour, BACKGROUNDS[shade]) for colour in hues.values()) > 3.4


def test_causes_of_idle_time_have_a_hue_of_their_own_or_a_letter_that_tells_them_apart() -> None:
    causes = [
        *timeline_tracks.IDLE_HUES,
        "loading code",
        "garbage collection",
        "other call",
        "profiler",
        "unattributed",
    ]
    assert len({timeline_tracks.LETTERS.get(cause, cause[0]) for cause in causes}) == len(causes)
    hues = [timeline_tracks.IDLE_HUES.get(cause, timeline_tracks.OTHER_CAUSE) for cause in causes]
    assert set(hues) == set(theme.COLOURS)
    shared = {cause for cause, hue in zip(causes, hues, strict=True) if hues.count(hue) > 1}
    assert shared == {"launch latency", "between launches", *causes[8:]}  # of the queue; all else that a host does


def test_hues_of_sixteen_colours_are_eight() -> None:
    assert len({colours["ansi"] for colours in theme.COLOURS.values()}) == len(theme.COLOURS)


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_of_pages_are_told_apart(root: Path, vision: str) -> None:
    script = (root / "kerneldb" / "report" / "timeline_picture.js").read_text()
    (listed,), (other,) = re.findall(r"const COLOURS = (\[.*?\])", script), re.findall(r'OTHER = "(#\w+)"', script)
    assert (*(colour.upper() for colour in ast.literal_eval(listed)), other.upper()) == charts.COLOURS
    assert nearest({colour: colour for colour in charts.COLOURS}, vision) > (TOLD_APART,)
    (causes,) = re.findall(r"const IDLE = \{(.*?)\}", script, re.DOTALL)
    idle = dict(re.findall(r'"?([a-z ]+)"?: "(#[0-9a-f]{6})"', causes))
    assert len(idle) == 8
    assert idle.pop("between launches") == idle["launch latency"]  # both: the host was not late
    assert nearest(idle, vision) > (TOLD_APART,)


def test_plots_are_grey_and_told_apart_without_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nearest({grey: grey for grey in charts.GREYS}, "normal") > (8.0,)
    rows = [{"bar": "all", "part": f"c{number}", "ns": number + 1} for number in range(8)]
    monkeypatch.setattr(charts, "DRAWINGS", {"top": lambda rows: charts.stacked(rows, "bar", ("ns", "time"), "part")})
    charts.save("top", rows, tmp_path / "coloured.svg")
    monkeypatch.setenv("NO_COLOR", "1")
    charts.save("top", rows, tmp_path / "grey.svg")
    coloured, grey = ((tmp_path / f"{name}.svg").read_text() for name in ("coloured", "grey"))
    assert all(colour in coloured for colour in charts.COLOURS)
    assert not [one for one in re.findall("#([0-9A-Fa-f]{6})", grey) if not one[:2] == one[2:4] == one[4:]]


def test_a_colour_of_a_chart_stands_for_one_value() -> None:
    rows = [{"lane": str(one), "category": str(one), "from_ms": 0, "to_ms": 1, "busy": 1, "n": 1} for one in range(12)]
    drawn = charts.lanes(rows)
    colours = drawn["encoding"]["color"]["scale"]["range"][: len(rows)]
    assert colours[:8] == list(charts.COLOURS)
    assert set(colours[8:]) == {charts.COLOURS[-1]}
