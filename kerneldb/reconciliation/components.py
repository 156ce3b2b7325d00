"""The balance of a workload as a list: a row per component, with a note where there is no value.

Of a section, the components of the role `addend` add up to its `predicted, replayed only`, together with those `addend,
not replayed` to its `predicted`; in a host-bound workload, those `addend, observed` make it the measured time. Observed
energies are in the totals. `status` says how far a value can be trusted.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.reconciliation.model import GRAPH, KNOWN_PCT
from kerneldb.reconciliation.unknown import above_zero, below, error_pct, formatted, minus, over, plus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.reconciliation.balances import WorkloadBalance
    from kerneldb.reconciliation.unknown import Figure

    Ends = tuple[Figure, Figure]

FIGURES: Final = ("value", "low", "high")
"""Columns that are numbers, in the unit of the component; all others are text."""
ADDEND: Final = "addend"
NOT_REPLAYED: Final = "addend, not replayed"
LEFT_OUT: Final = "left out"
PREDICTED: Final = "predicted"
REPLAYS: Final = "replays"
REPLAYED_ONLY: Final = "without unreplayed launches"
CAPPED: Final = "kernels that the power cap slows down, at the clock of the model"
SAME_CLOCK: Final = 0.02
"""Clocks that differ by no more than this part are the same."""

NO_GAPS: Final = "too few gaps with a full queue in the trace, and no replay measured them"
IDLE_HOST: Final = "the profiler slows the host, so idle time in its trace is not that of the run"
OBSERVED: Final = "measured minus predicted: not a prediction"
UNWAITED: Final = {
    "GPU bound": "the GPU hardly waits",
    "unknown": "how long collectives waited for other ranks is unknown; ingest the traces of all ranks",
    "unmeasured": "the wall time was not measured",
}
WAITS: Final = "{:.1f} µs under the profiler, which slows ranks unequally: they are not those of the run"
LESS_BOTH: Final = "minus launch-loop power for the predicted time and context power for the wait"


@dataclasses.dataclass(frozen=True, slots=True)
class Component:
    """A row of `reconciliation_components`: a component of time, of energy, or of dynamic energy."""

    trace: str
    workload: str
    mode: str | None
    section: str
    component: str
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
    """A component without the workload and the section that it belongs to."""

    component: str
    role: str
    status: str
    value: Figure
    unit: str
    low: Figure = None
    high: Figure = None
    source: str | None = None
    note: str | None = None


def components(balance: WorkloadBalance) -> Iterator[Component]:
    """The components of a workload that say something of it."""
    sections = {"time": _time(balance), "energy": _energy(balance), "dynamic energy": _dynamic(balance)}
    for section, lines in sections.items():
        for line in lines:
            # Two kinds of components have no value for a reason; any other without one is unknown.
            unknown = line.value is None and line.status not in {LEFT_OUT, "withheld"}
            row = {**dataclasses.asdict(line), "status": "unknown" if unknown else line.status}
            yield Component(*balance.workload.key, section, **row)


def _time(balance: WorkloadBalance) -> Iterator[Line]:
    """The components of the time, in ns."""
    yield from _time_of_kernels(balance)
    yield from _time_between(balance)
    yield from _time_predicted(balance)
    yield from _time_waited(balance)
    yield from _time_measured(balance)
    yield from _clocks(balance)


def _time_of_kernels(balance: WorkloadBalance) -> Iterator[Line]:
    sums = balance.sums
    own = sums.kernels_ns - sums.inherited_ns - sums.inferred_ns
    half = sums.kernels_half_ns if sums.kernels_ns > sums.inherited_ns + sums.inferred_ns else None
    source = f"replays ({sums.caches or 'none'})"
    shares = sums.replayed_launches_pct, sums.replayed_time_pct
    note = formatted("{:.1f} % of the launches, {:.1f} % of their recorded time", *shares)
    yield Line("kernels", ADDEND, PREDICTED, own, "ns", *_ends(own, half), source, note)
    yield from _of_inferred_calls("kernels", "ns", sums.inherited_ns, sums.inferred_ns)
    note = CAPPED if sums.clock_ns > 0 else None
    yield Line("lower clock", ADDEND, PREDICTED, sums.clock_ns, "ns", source=REPLAYS, note=note)


def _of_inferred_calls(component: str, unit: str, inherited: float, inferred: float) -> Iterator[Line]:
    """What kernels without a recorded call add, by how their calls were found."""
    if inherited:
        note = "calls inherited from the same launches elsewhere"
        yield Line(f"{component}, inherited calls", ADDEND, PREDICTED, inherited, unit, source=REPLAYS, note=note)
    if inferred:
        note = "inferred calls"
        yield Line(f"{component}, inferred calls", ADDEND, PREDICTED, inferred, unit, source=REPLAYS, note=note)


def _time_between(balance: WorkloadBalance) -> Iterator[Line]:
    """What runs at once, and what lies between launches."""
    time, trace = balance.time, f"trace {balance.workload.trace}"
    yield Line("overlap", ADDEND, PREDICTED, minus(0, time.overlap_ns), "ns", source=trace)
    note = formatted("{:.1f} launches with {:.0f} ns each", time.gap_launches, time.gap_ns) or NO_GAPS
    yield Line("launch gaps", ADDEND, PREDICTED, time.gaps_ns, "ns", source=time.gap_source, note=note)
    if balance.workload.mode != GRAPH:
        yield Line("idle", ADDEND, LEFT_OUT, time.idle_ns, "ns", note=IDLE_HOST)
    elif time.idle_ns is None:
        yield Line("idle", ADDEND, PREDICTED, None, "ns", note="no gaps with a full queue in a trace of the graph")
    else:
        note = "longer waits between nodes of the graph"
        yield Line("idle", ADDEND, PREDICTED, time.idle_ns, "ns", source=trace, note=note)
    note = "at their recorded time, minus their overlap"
    yield Line("unreplayed", NOT_REPLAYED, "recorded", time.rest_ns, "ns", source=trace, note=note)


def _time_predicted(balance: WorkloadBalance) -> Iterator[Line]:
    time, found = balance.time, balance.verdict
    status = "lower bound" if time.status == "host bound" else PREDICTED
    replayed = time.predicted_replayed_ns
    yield Line("predicted, replayed only", "total", status, replayed, "ns", note=REPLAYED_ONLY)
    ends, note = (
        (found.predicted_low_ns, found.predicted_high_ns),
        time.time_reason or "if the GPU never waits for the host",
    )
    yield Line("predicted, GPU bound", "total", status, time.predicted_ns, "ns", *ends, note=note)


def _time_waited(balance: WorkloadBalance) -> Iterator[Line]:
    """How long the GPU waited for the host, and, of ranks that exchange anything, collectives for other ranks."""
    time, workload = balance.time, balance.workload
    status = "observed" if time.status == "host bound" else LEFT_OUT
    if status == LEFT_OUT:
        note = UNWAITED[time.status]
    elif time.waiting_ns is None:
        note = balance.verdict.error_reason or ""
    else:
        note = f"{OBSERVED}; waiting for other ranks is included" if time.exchanging else OBSERVED
    waiting, role = time.waiting_ns, "addend, observed"
    yield Line("waiting for the host", role, status, waiting, "ns", source=workload.wall_method, note=note)
    if time.exchanging:
        waits = time.collective_waits_ns
        note = "how long collectives waited for other ranks is unknown" if waits is None else WAITS.format(1e-3 * waits)
        yield Line("waiting in collectives", ADDEND, LEFT_OUT, None, "ns", source=f"trace {workload.trace}", note=note)


def _time_measured(balance: WorkloadBalance) -> Iterator[Line]:
    workload, found, share = balance.workload, balance.verdict, balance.sums.replayed_time_pct
    measured = workload.wall_low_ns, workload.wall_high_ns
    unmeasured = found.error_reason if workload.wall_ns is None else None
    yield Line("measured", "measured", "measured", workload.wall_ns, "ns", *measured, workload.wall_method, unmeasured)
    little = formatted("only {:.1f} % of the recorded time is replayed", share) if below(share, KNOWN_PCT) else None
    ends = _ends_of_error((found.predicted_low_ns, found.predicted_high_ns), measured)
    yield _error("error", found.error_pct, ends, "recorded" if little else "valid", found.error_reason or little)
    status = "withheld" if found.error_pct is None else "valid"
    yield Line("error, replayed only", "error", status, found.replayed_error_pct, "%", note=found.error_reason)


def _clocks(balance: WorkloadBalance) -> Iterator[Line]:
    """How busy the GPU was, and its clocks."""
    time, model = balance.time, balance.workload.sm_mhz
    measured = time.measured_busy_ns is not None
    source = "measurement" if measured else PREDICTED
    if time.exchanging:
        source = f"trace {balance.workload.trace}, without waits for other ranks"
    bound = f"{time.status}: less than 80 %" if time.status == "host bound" else time.status
    status = "measured" if measured else PREDICTED
    yield Line("busy share", "share", status, time.busy_share_pct, "%", source=source, note=bound)
    note = "no clock was measured" if model is None else None
    yield Line("clock, model", "clock", "measured", model, "MHz", source="measurement", note=note)
    yield _clock(balance.sums.replay_mhz, model, balance.sums.clock_ns, "replays, while timed")


def _energy(balance: WorkloadBalance) -> Iterator[Line]:
    """The components of the energy, in mJ."""
    yield from _energy_of_kernels(balance)
    yield from _energy_between(balance)
    yield from _energy_totals(balance)
    yield _clock(
        balance.sums.energy_mhz, balance.workload.sm_mhz, balance.sums.clock_mj, "replays, while energy was measured"
    )


def _energy_of_kernels(balance: WorkloadBalance) -> Iterator[Line]:
    sums, half = balance.sums, balance.energy.dynamic_half_mj
    own = minus(sums.dynamic_mj, sums.inherited_mj, sums.inferred_mj)
    note = formatted("{:.1f} % of the kernel time", balance.energy.powered_time_pct)
    note = balance.verdict.energy_error_reason if own is None else note
    yield Line("dynamic energy of kernels", ADDEND, PREDICTED, own, "mJ", *_ends(own, half), REPLAYS, note)
    yield from _of_inferred_calls("dynamic energy", "mJ", sums.inherited_mj, sums.inferred_mj)
    note = CAPPED if sums.clock_mj else None
    yield Line("lower clock", ADDEND, PREDICTED, sums.clock_mj, "mJ", source=REPLAYS, note=note)


def _energy_between(balance: WorkloadBalance) -> Iterator[Line]:
    """Launch-loop power, power while waiting, and an estimate for what has no energy."""
    energy, time = balance.energy, balance.time
    ends = _ends(energy.gap_mj, energy.gap_half_mj)
    note = (
        formatted("{:.1f} W for the predicted time", energy.launch_loop_power_w) or "launch-loop power was not measured"
    )
    yield Line("gap", ADDEND, PREDICTED, energy.gap_mj, "mJ", *ends, REPLAYS, note)
    source, power = "context power", energy.context_power_w
    if power is None:
        source, power = "launch-loop power", energy.launch_loop_power_w
    status = "observed" if time.status == "host bound" else LEFT_OUT
    value, reason = None, balance.verdict.error_reason if status == "observed" else None
    if time.waiting_ns is not None:
        value, reason = energy.waiting_mj, formatted("{:.1f} W for the observed wait", power) or "no power is known"
    yield Line("waiting for the host", ADDEND, status, value, "mJ", source=source, note=reason)
    unpowered, note = energy.unpowered_mj, "at the mean dynamic power of kernels with a measured energy"
    yield Line("dynamic energy, unreplayed", NOT_REPLAYED, "estimate", unpowered, "mJ", source="estimate", note=note)


def _energy_totals(balance: WorkloadBalance) -> Iterator[Line]:
    """What is predicted, what was measured, and the errors."""
    workload, energy, found = balance.workload, balance.energy, balance.verdict
    replayed, reason = energy.predicted_replayed_mj, found.energy_error_reason
    yield Line("predicted, replayed only", "total", PREDICTED, replayed, "mJ", note=REPLAYED_ONLY)
    note = "with the observed wait" if balance.time.waiting_ns is not None else None
    note = reason if energy.predicted_mj is None else note
    predicted = found.predicted_low_mj, found.predicted_high_mj
    yield Line("predicted", "total", _total_status(balance), energy.predicted_mj, "mJ", *predicted, note=note)
    measured = workload.energy_low_mj, workload.energy_high_mj
    note = reason if workload.energy_mj is None else None
    yield Line("measured", "measured", "measured", workload.energy_mj, "mJ", *measured, workload.energy_method, note)
    boards = energy.energy_board, workload.board
    other = formatted("replays on another board: {}, not {}", *boards) if boards[0] != boards[1] else None
    yield _error("error", found.energy_error_pct, _ends_of_error(predicted, measured), "valid", reason or other)
    status = "withheld" if found.energy_error_pct is None else "valid"
    yield Line("error, replayed only", "error", status, found.energy_replayed_error_pct, "%", note=reason)


def _dynamic(balance: WorkloadBalance) -> Iterator[Line]:
    """The components of the dynamic energy, which hardly depends on how long the GPU waits."""
    energy, found, method = balance.energy, balance.verdict, balance.workload.energy_method
    predicted, half = energy.dynamic_all_mj, energy.dynamic_half_mj
    known_half = None if below(energy.powered_time_pct, KNOWN_PCT) or energy.powered_time_pct is None else half
    ends = _ends(predicted, known_half)
    yield Line(
        "predicted", "total", _total_status(balance), predicted, "mJ", *ends, REPLAYS, "with unreplayed launches"
    )
    measured = energy.dynamic_measured_mj
    ends = _ends(measured, energy.dynamic_measured_half_mj)
    note = "minus launch-loop power for the wall time"
    yield Line("measured", "measured", "measured", measured, "mJ", *ends, method, note)
    between = _ends_of_error(_ends(predicted, half), ends)
    yield _error("error", found.dynamic_error_pct, between, "valid", found.dynamic_reason)
    if balance.time.status == "host bound":
        value, component = energy.above_waiting_measured_mj, "measured, waiting at context power"
        yield Line(component, "measured, other", "measured", value, "mJ", source=method, note=LESS_BOTH)
        off = found.above_waiting_error_pct
        yield _error("error, waiting at context power", off, (None, None), "valid", found.dynamic_reason)


def _total_status(balance: WorkloadBalance) -> str:
    return "estimate" if below(balance.energy.powered_time_pct, KNOWN_PCT) else PREDICTED


def _ends(value: Figure, half: Figure) -> Ends:
    """`value` ± `half`."""
    return minus(value, half), plus(value, half)


def _error(component: str, value: Figure, ends: Ends, status: str, note: str | None) -> Line:
    """An error in %, between `ends`; without a value, it is withheld and has none."""
    low, high = ends if value is not None else (None, None)
    return Line(component, "error", "withheld" if value is None else status, value, "%", low, high, None, note)


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
