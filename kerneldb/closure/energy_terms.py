"""The terms of the energy of a stage, all of it and above the power of gaps, in mJ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kerneldb.closure.lines import (
    ADDEND,
    CAPPED,
    INFERRED,
    INHERITED,
    LEFT_OUT,
    PREDICTED,
    REPLAYED_ONLY,
    REPLAYS,
    Line,
    clock,
    ends_of_error,
    error,
)  # fmt: skip
from kerneldb.closure.model import KNOWN_PCT
from kerneldb.closure.unknown import below, minus, plus, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.closure.books import Book
    from kerneldb.closure.unknown import Figure

SHARE: Final = "{:.1f} % of the kernel time"
GAP: Final = "{:.1f} W for the predicted time"
NO_GAP: Final = "the power of gaps was not measured"
WAITING: Final = "{:.1f} W for the observed wait"
NO_WAITING: Final = "no power is known"
ESTIMATED: Final = "at the mean power of the kernels with an energy"
WITH_WAIT: Final = "with the observed wait"
OTHER_BOARD: Final = "replays on another board: {}, not {}"
LESS_GAPS: Final = "less gap power for the wall time"
LESS_BOTH: Final = "less gap power for the predicted time and context power for the wait"


def lines(book: Book) -> Iterator[Line]:
    """All terms of the energy."""
    yield from _kernels(book)
    yield from _rest(book)
    yield from _totals(book)
    yield from _measured(book)
    yield clock(book.sums.energy_mhz, book.stage.sm_mhz, book.sums.clock_mj, "replays, while energy was measured")


def _kernels(book: Book) -> Iterator[Line]:
    sums, half = book.sums, book.energy.above_gap_half_mj
    own = minus(sums.above_gap_mj, sums.inherited_mj, sums.inferred_mj)
    note = book.verdict.energy_error_reason if own is None else told(SHARE, book.energy.powered_time_pct)
    ends = minus(own, half), plus(own, half)
    yield Line("kernels above gap", ADDEND, PREDICTED, own, "mJ", *ends, REPLAYS, note)
    if sums.inherited_mj:
        yield Line(
            "above gap, inherited calls", ADDEND, PREDICTED, sums.inherited_mj, "mJ", source=REPLAYS, note=INHERITED
        )
    if sums.inferred_mj:
        yield Line(
            "above gap, inferred calls", ADDEND, PREDICTED, sums.inferred_mj, "mJ", source=REPLAYS, note=INFERRED
        )
    note = CAPPED if sums.clock_mj else None
    yield Line("lower clock", ADDEND, PREDICTED, sums.clock_mj, "mJ", source=REPLAYS, note=note)


def _rest(book: Book) -> Iterator[Line]:
    """The power of gaps, of waiting, and an estimate for what has no energy."""
    energy = book.energy
    ends = minus(energy.gap_mj, energy.gap_half_mj), plus(energy.gap_mj, energy.gap_half_mj)
    note = told(GAP, energy.gap_power_w) or NO_GAP
    yield Line("gap", ADDEND, PREDICTED, energy.gap_mj, "mJ", *ends, REPLAYS, note)
    yield _waiting(book)
    unpowered = energy.unpowered_mj
    role = "addend, not replayed"
    yield Line("unreplayed above gap", role, "estimate", unpowered, "mJ", source="estimate", note=ESTIMATED)


def _waiting(book: Book) -> Line:
    energy, time = book.energy, book.time
    status, note, value = LEFT_OUT, None, None
    power = energy.gap_power_w if energy.context_power_w is None else energy.context_power_w
    if time.status == "host bound":
        status, note = "observed", book.verdict.error_reason
    if time.waiting_ns is not None:
        value, note = energy.waiting_mj, told(WAITING, power) or NO_WAITING
    source = "gap power" if energy.context_power_w is None else "context power"
    return Line("waiting for the host", ADDEND, status, value, "mJ", source=source, note=note)


def _totals(book: Book) -> Iterator[Line]:
    energy, found = book.energy, book.verdict
    replayed = energy.predicted_replayed_mj
    yield Line("predicted, replayed only", "total", PREDICTED, replayed, "mJ", note=REPLAYED_ONLY)
    note = WITH_WAIT if book.time.waiting_ns is not None else None
    note = found.energy_error_reason if energy.predicted_mj is None else note
    ends = found.predicted_low_mj, found.predicted_high_mj
    yield Line("predicted", "total", _total_status(book), energy.predicted_mj, "mJ", *ends, note=note)


def _total_status(book: Book) -> str:
    return "estimate" if below(book.energy.powered_time_pct, KNOWN_PCT) else PREDICTED


def _measured(book: Book) -> Iterator[Line]:
    stage, found, board = book.stage, book.verdict, book.energy.energy_board
    measured = stage.energy_low_mj, stage.energy_high_mj
    unmeasured = found.energy_error_reason if stage.energy_mj is None else None
    yield Line("measured", "measured", "measured", stage.energy_mj, "mJ", *measured, stage.energy_method, unmeasured)
    ends = ends_of_error((found.predicted_low_mj, found.predicted_high_mj), measured)
    other = told(OTHER_BOARD, board, stage.board) if board != stage.board else None
    yield error("error", found.energy_error_pct, ends, "valid", found.energy_error_reason or other)
    status, note = "withheld" if found.energy_error_pct is None else "valid", found.energy_error_reason
    yield Line("error, replayed only", "error", status, found.energy_replayed_error_pct, "%", note=note)


def lines_above_gap(book: Book) -> Iterator[Line]:
    """All terms of the energy above the power of gaps, which hardly depends on how long the GPU waits."""
    stage, energy, found = book.stage, book.energy, book.verdict
    predicted, measured = energy.above_gap_all_mj, energy.above_gap_measured_mj
    half, measured_half = energy.above_gap_half_mj, energy.above_gap_measured_half_mj
    known_half = None if below(energy.powered_time_pct, KNOWN_PCT) or energy.powered_time_pct is None else half
    ends = _ends(predicted, known_half)
    total = Line("predicted", "total", _total_status(book), predicted, "mJ", *ends, REPLAYS, "with the unreplayed")
    yield total
    ends = _ends(measured, measured_half)
    yield Line("measured", "measured", "measured", measured, "mJ", *ends, stage.energy_method, LESS_GAPS)
    between = ends_of_error(_ends(predicted, half), ends)
    yield error("error", found.above_gap_error_pct, between, "valid", found.above_gap_reason)
    if book.time.status == "host bound":
        value = energy.above_waiting_measured_mj
        term = "measured, waiting at context power"
        yield Line(term, "measured, other", "measured", value, "mJ", source=stage.energy_method, note=LESS_BOTH)
        off = found.above_waiting_error_pct
        yield error("error, waiting at context power", off, (None, None), "valid", found.above_gap_reason)


def _ends(value: Figure, half: Figure) -> tuple[Figure, Figure]:
    return minus(value, half), plus(value, half)
