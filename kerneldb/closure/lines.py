"""A line of the balance, and the lines that time and energy have in common."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.closure.unknown import above_zero, error_pct, minus, over

if TYPE_CHECKING:
    from kerneldb.closure.unknown import Figure

ADDEND: Final = "addend"
LEFT_OUT: Final = "left out"
PREDICTED: Final = "predicted"
REPLAYS: Final = "replays"
INHERITED: Final = "calls taken from the same launches elsewhere"
INFERRED: Final = "calls found by trying"
REPLAYED_ONLY: Final = "without the unreplayed"
CAPPED: Final = "kernels that the power cap slows down, at the clock of the model"
NEAR: Final = 0.02
"""Clocks that differ by no more than this part are the same."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A term as `closure_terms` has it."""

    term: str
    role: str
    status: str
    value: Figure
    unit: str
    low: Figure = None
    high: Figure = None
    source: str | None = None
    note: str | None = None


def error(term: str, value: Figure, ends: tuple[Figure, Figure], status: str, note: str | None) -> Line:
    """An error in %, between `ends`; without a value, it is withheld and has none."""
    low, high = ends if value is not None else (None, None)
    return Line(term, "error", "withheld" if value is None else status, value, "%", low, high, None, note)


def ends_of_error(predicted: tuple[Figure, Figure], measured: tuple[Figure, Figure]) -> tuple[Figure, Figure]:
    """The least and the largest error of a prediction between two values against a measurement between two values.

    A measurement that may be nothing bounds no error.
    """
    (low, high), (least, most) = predicted, measured
    return error_pct(low, most), error_pct(high, above_zero(least))


def clock(replay_mhz: Figure, model_mhz: Figure, corrected: Figure, source: str) -> Line:
    """The clock of the multiprocessors in replays, against that of the model."""
    note = "no replay recorded it" if replay_mhz is None else None
    off = minus(over(replay_mhz, model_mhz), 1)
    if off is not None and abs(off) > NEAR:
        note = f"{100 * off:+.1f} % of that of the model: {'see lower clock' if corrected else 'not corrected'}"
    return Line("clock, replay", "clock", "measured", replay_mhz, "MHz", source=source, note=note)
