"""Figures and names that no sound trace has: no number at all, years, names of a million characters."""

from __future__ import annotations

import math

import pytest

from kerneldb.output.text import display_width
from kerneldb.tui import numbers

ODD = (math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("value", ODD)
def test_what_is_no_number_is_unknown(value: float) -> None:
    for write in (numbers.count, numbers.duration, numbers.percent, numbers.ratio, numbers.figure, numbers.amount):
        assert write(value) == numbers.UNKNOWN
    assert numbers.fixed(value, 1) == numbers.UNKNOWN
    assert numbers.fixed(12.34, 1) == "12.3"


def test_bars_and_sparklines_are_drawn_of_anything() -> None:
    assert [numbers.bar(share, 2) for share in ODD] == ["  ", "██", "  "]
    assert numbers.sparkline([1.0, math.nan, math.inf, 2.0]) == "▄ ██"
    assert numbers.sparkline([math.nan]) == " "
    assert numbers.sparkline([1.0], math.nan) == " "


@pytest.mark.parametrize(
    ("ns", "text"), [(8.6e13, "23.9 h"), (8.64e13, "1.00 d"), (3e16, "347 d"), (1.7635e18, "55.9 y"), (9.2e18, "292 y")]
)
def test_long_durations_fit_their_column(ns: float, text: str) -> None:
    assert numbers.duration(ns) == text
    assert len(text) <= 8


@pytest.mark.parametrize("middle", [False, True])
@pytest.mark.parametrize("name", ["я", "核", "x", "\x1b", "e\u0301"])
def test_of_a_long_name_no_more_is_measured_than_is_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, middle: bool
) -> None:
    measured: list[int] = []

    def counting(text: str) -> int:
        measured.append(len(text))
        return display_width(text)

    monkeypatch.setattr(numbers, "display_width", counting)
    fitted = numbers.fit(name * 1_000_000, 22, middle=middle)
    assert display_width(fitted) == 22
    assert "…" in fitted
    assert sum(measured) < 10_000
    assert len(numbers.cut(name * 1_000_000, 22, middle=middle)) <= 2 * 22


def test_a_name_that_fits_is_not_cut() -> None:
    for name in ("核函数", "abc", "e\u0301" * 6):
        assert numbers.cut(name, 6) == name
    assert numbers.cut("核函数", 5) == "核函…"
    assert numbers.cut("abc", 0) == ""
