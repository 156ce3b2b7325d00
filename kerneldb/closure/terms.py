"""The balance of a stage as a list: a row per term, with a note where there is no value.

Of a section, the terms of the role `addend` add up to its `predicted, replayed only`, together with those `addend, not
replayed` to its `predicted`; in a host-bound stage, those `addend, observed` make it the measured time. Observed
energies are in the totals. `status` says how far a value can be trusted.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.closure.model import GRAPH, KNOWN_PCT
from kerneldb.closure.unknown import above_zero, below, error_pct, formatted, minus, over, plus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.closure.books import Book
    from kerneldb.closure.unknown import Figure

    Ends = tuple[Figure, Figure]

FIGURES: Final = ("value", "low", "high")
"""Columns that are numbers, in the unit of the term; all others are text."""
ADDEND: Final = "addend"
NOT_REPLAYED: Final = "addend, not replayed"
LEFT_OUT: Final = "left out"
PREDICTED: Final = "predicted"
REPLAYS: Final = "replays"
REPLAYED_ONLY: Final = "without the unreplayed"
CAPPED: Final = "kernels that the power cap slows down, at the clock of the model"
SAME_CLOCK: Final = 0.02
"""Clocks that differ by no more than this part are the same."""

NO_GAPS: Final = "few gaps of a full queue in the trace, and no replay measured them"
IDLE_HOST: Final = "the profiler slows the host: its idle time is not that of the run"
OBSERVED: Final = "measured less predicted: no prediction"
UNWAITED: Final = {
    "GPU bound": "the GPU hardly waits",
    "unknown": "how long collectives waited for other ranks is not known: the traces of all ranks tell",
    "unmeasured": "the wall time was not measured",
}
WAITS: Final = "{:.1f} µs under the profiler, which slows ranks unequally: they are not those of the run"
LESS_BOTH: Final = "less gap power for the predicted time and context power for the wait"


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """A row of `closure_terms`: a term of time, of energy, or of energy above the power of gaps."""

    trace: str
    stage: str
    mode: str | None
    section: str
    term: str
    role: str
    status: str
    value: Figure
    unit: str
    low: Figure
    high: Figure
    source: str | None
    note: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A term without the stage and the section that it belongs to."""

    term: str
    role: str
    status: str
    value: Figure
    unit: str
    low: Figure = None
    high: Figure = None
    source: str | None = None
    note: str | None = None


def terms(book: Book) -> Iterator[Term]:
    """The terms of a stage that say something of it."""
    sections = {"time": _time(book), "energy": _energy(book), "above gap": _above_gap(book)}
    for section, lines in sections.items():
        for line in lines:
            # Two kinds of terms have no value for a reason; any other without one is unknown.
            unknown = line.value is None and line.status not in {LEFT_OUT, "withheld"}
            row = {**dataclasses.asdict(line), "status": "unknown" if unknown else line.status}
            yield Term(*book.stage.key, section, **row)


def _time(book: Book) -> Iterator[Line]:
    """The terms of the time, in ns."""
    yield from _time_of_kernels(book)
    yield from _time_between(book)
    yield from _time_predicted(book)
    yield from _time_waited(book)
    yield from _time_measured(book)
    yield from _clocks(book)


def _time_of_kernels(book: Book) -> Iterator[Line]:
    sums = book.sums
    own = sums.kernels_ns - sums.inherited_ns - sums.inferred_ns
    half = sums.kernels_half_ns if sums.kernels_ns > sums.inherited_ns + sums.inferred_ns else None
    source = f"replays ({sums.caches or 'none'})"
    shares = sums.replayed_launches_pct, sums.replayed_time_pct
    note = formatted("{:.1f} % of the launches, {:.1f} % of their recorded time", *shares)
    yield Line("kernels", ADDEND, PREDICTED, own, "ns", *_ends(own, half), source, note)
    yield from _of_found_calls("kernels", "ns", sums.inherited_ns, sums.inferred_ns)
    note = CAPPED if sums.clock_ns > 0 else None
    yield Line("lower clock", ADDEND, PREDICTED, sums.clock_ns, "ns", source=REPLAYS, note=note)


def _of_found_calls(term: str, unit: str, inherited: float, inferred: float) -> Iterator[Line]:
    """What kernels without a recorded call add, by how their calls were found."""
    if inherited:
        note = "calls taken from the same launches elsewhere"
        yield Line(f"{term}, inherited calls", ADDEND, PREDICTED, inherited, unit, source=REPLAYS, note=note)
    if inferred:
        note = "calls found by trying"
        yield Line(f"{term}, inferred calls", ADDEND, PREDICTED, inferred, unit, source=REPLAYS, note=note)


def _time_between(book: Book) -> Iterator[Line]:
    """What runs at once, and what lies between launches."""
    time, trace = book.time, f"trace {book.stage.trace}"
    yield Line("overlap", ADDEND, PREDICTED, minus(0, time.overlap_ns), "ns", source=trace)
    note = formatted("{:.1f} launches with {:.0f} ns each", time.gap_launches, time.gap_ns) or NO_GAPS
    yield Line("launch gaps", ADDEND, PREDICTED, time.gaps_ns, "ns", source=time.gap_source, note=note)
    if book.stage.mode != GRAPH:
        yield Line("idle", ADDEND, LEFT_OUT, time.idle_ns, "ns", note=IDLE_HOST)
    elif time.idle_ns is None:
        yield Line("idle", ADDEND, PREDICTED, None, "ns", note="no gaps of a full queue in a trace of the graph")
    else:
        note = "longer waits from node to node of the graph"
        yield Line("idle", ADDEND, PREDICTED, time.idle_ns, "ns", source=trace, note=note)
    note = "at their recorded time, less their overlap"
    yield Line("unreplayed", NOT_REPLAYED, "recorded", time.rest_ns, "ns", source=trace, note=note)


def _time_predicted(book: Book) -> Iterator[Line]:
    time, found = book.time, book.verdict
    status = "lower bound" if time.status == "host bound" else PREDICTED
    replayed = time.predicted_replayed_ns
    yield Line("predicted, replayed only", "total", status, replayed, "ns", note=REPLAYED_ONLY)
    ends, note = (
        (found.predicted_low_ns, found.predicted_high_ns),
        time.time_reason or "if the GPU never waits for the host",
    )
    yield Line("predicted, GPU bound", "total", status, time.predicted_ns, "ns", *ends, note=note)


def _time_waited(book: Book) -> Iterator[Line]:
    """How long the GPU waited for the host, and, of ranks that exchange anything, collectives for other ranks."""
    time, stage = book.time, book.stage
    status = "observed" if time.status == "host bound" else LEFT_OUT
    if status == LEFT_OUT:
        note = UNWAITED[time.status]
    elif time.waiting_ns is None:
        note = book.verdict.error_reason or ""
    else:
        note = f"{OBSERVED}; what other ranks waited for is in it" if time.exchanging else OBSERVED
    waiting, role = time.waiting_ns, "addend, observed"
    yield Line("waiting for the host", role, status, waiting, "ns", source=stage.wall_method, note=note)
    if time.exchanging:
        waits = time.collective_waits_ns
        note = (
            "how long collectives waited for other ranks is not known" if waits is None else WAITS.format(1e-3 * waits)
        )
        yield Line("waiting in collectives", ADDEND, LEFT_OUT, None, "ns", source=f"trace {stage.trace}", note=note)


def _time_measured(book: Book) -> Iterator[Line]:
    stage, found, share = book.stage, book.verdict, book.sums.replayed_time_pct
    measured = stage.wall_low_ns, stage.wall_high_ns
    unmeasured = found.error_reason if stage.wall_ns is None else None
    yield Line("measured", "measured", "measured", stage.wall_ns, "ns", *measured, stage.wall_method, unmeasured)
    little = formatted("only {:.1f} % of the recorded time is replayed", share) if below(share, KNOWN_PCT) else None
    ends = _ends_of_error((found.predicted_low_ns, found.predicted_high_ns), measured)
    yield _error("error", found.error_pct, ends, "recorded" if little else "valid", found.error_reason or little)
    status = "withheld" if found.error_pct is None else "valid"
    yield Line("error, replayed only", "error", status, found.replayed_error_pct, "%", note=found.error_reason)


def _clocks(book: Book) -> Iterator[Line]:
    """How busy the GPU was, and its clocks."""
    time, model = book.time, book.stage.sm_mhz
    measured = time.measured_busy_ns is not None
    source = "measurement" if measured else PREDICTED
    if time.exchanging:
        source = f"trace {book.stage.trace}, without waits for other ranks"
    bound = f"{time.status}: less than 80 %" if time.status == "host bound" else time.status
    status = "measured" if measured else PREDICTED
    yield Line("busy share", "share", status, time.busy_share_pct, "%", source=source, note=bound)
    note = "no clock was measured" if model is None else None
    yield Line("clock, model", "clock", "measured", model, "MHz", source="measurement", note=note)
    yield _clock(book.sums.replay_mhz, model, book.sums.clock_ns, "replays, while timed")


def _energy(book: Book) -> Iterator[Line]:
    """The terms of the energy, in mJ."""
    yield from _energy_of_kernels(book)
    yield from _energy_between(book)
    yield from _energy_totals(book)
    yield _clock(book.sums.energy_mhz, book.stage.sm_mhz, book.sums.clock_mj, "replays, while energy was measured")


def _energy_of_kernels(book: Book) -> Iterator[Line]:
    sums, half = book.sums, book.energy.above_gap_half_mj
    own = minus(sums.above_gap_mj, sums.inherited_mj, sums.inferred_mj)
    note = formatted("{:.1f} % of the kernel time", book.energy.powered_time_pct)
    note = book.verdict.energy_error_reason if own is None else note
    yield Line("kernels above gap", ADDEND, PREDICTED, own, "mJ", *_ends(own, half), REPLAYS, note)
    yield from _of_found_calls("above gap", "mJ", sums.inherited_mj, sums.inferred_mj)
    note = CAPPED if sums.clock_mj else None
    yield Line("lower clock", ADDEND, PREDICTED, sums.clock_mj, "mJ", source=REPLAYS, note=note)


def _energy_between(book: Book) -> Iterator[Line]:
    """The power of gaps, of waiting, and an estimate for what has no energy."""
    energy, time = book.energy, book.time
    ends = _ends(energy.gap_mj, energy.gap_half_mj)
    note = formatted("{:.1f} W for the predicted time", energy.gap_power_w) or "the power of gaps was not measured"
    yield Line("gap", ADDEND, PREDICTED, energy.gap_mj, "mJ", *ends, REPLAYS, note)
    source, power = "context power", energy.context_power_w
    if power is None:
        source, power = "gap power", energy.gap_power_w
    status = "observed" if time.status == "host bound" else LEFT_OUT
    value, reason = None, book.verdict.error_reason if status == "observed" else None
    if time.waiting_ns is not None:
        value, reason = energy.waiting_mj, formatted("{:.1f} W for the observed wait", power) or "no power is known"
    yield Line("waiting for the host", ADDEND, status, value, "mJ", source=source, note=reason)
    unpowered, note = energy.unpowered_mj, "at the mean power of the kernels with an energy"
    yield Line("unreplayed above gap", NOT_REPLAYED, "estimate", unpowered, "mJ", source="estimate", note=note)


def _energy_totals(book: Book) -> Iterator[Line]:
    """What is predicted, what was measured, and the errors."""
    stage, energy, found = book.stage, book.energy, book.verdict
    replayed, reason = energy.predicted_replayed_mj, found.energy_error_reason
    yield Line("predicted, replayed only", "total", PREDICTED, replayed, "mJ", note=REPLAYED_ONLY)
    note = "with the observed wait" if book.time.waiting_ns is not None else None
    note = reason if energy.predicted_mj is None else note
    predicted = found.predicted_low_mj, found.predicted_high_mj
    yield Line("predicted", "total", _total_status(book), energy.predicted_mj, "mJ", *predicted, note=note)
    measured = stage.energy_low_mj, stage.energy_high_mj
    note = reason if stage.energy_mj is None else None
    yield Line("measured", "measured", "measured", stage.energy_mj, "mJ", *measured, stage.energy_method, note)
    boards = energy.energy_board, stage.board
    other = formatted("replays on another board: {}, not {}", *boards) if boards[0] != boards[1] else None
    yield _error("error", found.energy_error_pct, _ends_of_error(predicted, measured), "valid", reason or other)
    status = "withheld" if found.energy_error_pct is None else "valid"
    yield Line("error, replayed only", "error", status, found.energy_replayed_error_pct, "%", note=reason)


def _above_gap(book: Book) -> Iterator[Line]:
    """The terms of the energy above the power of gaps, which hardly depends on how long the GPU waits."""
    energy, found, method = book.energy, book.verdict, book.stage.energy_method
    predicted, half = energy.above_gap_all_mj, energy.above_gap_half_mj
    known_half = None if below(energy.powered_time_pct, KNOWN_PCT) or energy.powered_time_pct is None else half
    ends = _ends(predicted, known_half)
    yield Line("predicted", "total", _total_status(book), predicted, "mJ", *ends, REPLAYS, "with the unreplayed")
    measured = energy.above_gap_measured_mj
    ends = _ends(measured, energy.above_gap_measured_half_mj)
    note = "less gap power for the wall time"
    yield Line("measured", "measured", "measured", measured, "mJ", *ends, method, note)
    between = _ends_of_error(_ends(predicted, half), ends)
    yield _error("error", found.above_gap_error_pct, between, "valid", found.above_gap_reason)
    if book.time.status == "host bound":
        value, term = energy.above_waiting_measured_mj, "measured, waiting at context power"
        yield Line(term, "measured, other", "measured", value, "mJ", source=method, note=LESS_BOTH)
        off = found.above_waiting_error_pct
        yield _error("error, waiting at context power", off, (None, None), "valid", found.above_gap_reason)


def _total_status(book: Book) -> str:
    return "estimate" if below(book.energy.powered_time_pct, KNOWN_PCT) else PREDICTED


def _ends(value: Figure, half: Figure) -> Ends:
    """`value` ± `half`."""
    return minus(value, half), plus(value, half)


def _error(term: str, value: Figure, ends: Ends, status: str, note: str | None) -> Line:
    """An error in %, between `ends`; without a value, it is withheld and has none."""
    low, high = ends if value is not None else (None, None)
    return Line(term, "error", "withheld" if value is None else status, value, "%", low, high, None, note)


def _ends_of_error(predicted: Ends, measured: Ends) -> Ends:
    """The least and the largest error of a prediction between two values against a measurement between two values.

    A measurement that may be nothing bounds no error.
    """
    (low, high), (least, most) = predicted, measured
    return error_pct(low, most), error_pct(high, above_zero(least))


def _clock(replay_mhz: Figure, model_mhz: Figure, corrected: Figure, source: str) -> Line:
    """The clock of the multiprocessors in replays, against that of the model."""
    note = "no replay recorded it" if replay_mhz is None else None
    off = minus(over(replay_mhz, model_mhz), 1)
    if off is not None and abs(off) > SAME_CLOCK:
        note = f"{100 * off:+.1f} % of that of the model: {'see lower clock' if corrected else 'not corrected'}"
    return Line("clock, replay", "clock", "measured", replay_mhz, "MHz", source=source, note=note)
