"""The terms of the time of a stage, in ns."""

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
from kerneldb.closure.model import GRAPH, KNOWN_PCT
from kerneldb.closure.unknown import below, minus, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.closure.books import Book

SHARE: Final = "{:.1f} % of the launches, {:.1f} % of their recorded time"
GAPS: Final = "{:.1f} launches with {:.0f} ns each"
NO_GAPS: Final = "few gaps of a full queue in the trace, and no replay measured them"
IDLE_HOST: Final = "the profiler slows the host: its idle time is not that of the run"
NO_GRAPH: Final = "no gaps of a full queue in a trace of the graph"
IDLE_GRAPH: Final = "longer waits from node to node of the graph"
RECORDED: Final = "at their recorded time, less their overlap"
NEVER_WAITS: Final = "if the GPU never waits for the host"
OBSERVED: Final = "measured less predicted: no prediction"
OBSERVED_RANKS: Final = f"{OBSERVED}; what other ranks waited for is in it"
UNWAITED: Final = {
    "GPU bound": "the GPU hardly waits",
    "unknown": "how long collectives waited for other ranks is not known: the traces of all ranks tell",
    "unmeasured": "the wall time was not measured",
}
WAITS: Final = "{:.1f} µs under the profiler, which slows ranks unequally: they are not those of the run"
NO_WAITS: Final = "how long collectives waited for other ranks is not known"
LITTLE_REPLAYED: Final = "only {:.1f} % of the recorded time is replayed"


def lines(book: Book) -> Iterator[Line]:
    """All terms of the time."""
    yield from _kernels(book)
    yield from _between(book)
    yield from _totals(book)
    yield _waiting(book)
    yield from _collectives(book)
    yield from _measured(book)
    yield from _clocks(book)


def _kernels(book: Book) -> Iterator[Line]:
    sums = book.sums
    own = sums.kernels_ns - sums.inherited_ns - sums.inferred_ns
    half = sums.kernels_half_ns if sums.kernels_ns > sums.inherited_ns + sums.inferred_ns else None
    yield Line(
        "kernels", ADDEND, PREDICTED, own, "ns", minus(own, half), None if half is None else own + half,
        f"replays ({sums.caches or 'none'})", told(SHARE, sums.replayed_launches_pct, sums.replayed_time_pct),
    )  # fmt: skip
    if sums.inherited_ns:
        yield Line(
            "kernels, inherited calls", ADDEND, PREDICTED, sums.inherited_ns, "ns", source=REPLAYS, note=INHERITED
        )
    if sums.inferred_ns:
        yield Line("kernels, inferred calls", ADDEND, PREDICTED, sums.inferred_ns, "ns", source=REPLAYS, note=INFERRED)
    note = CAPPED if sums.clock_ns > 0 else None
    yield Line("lower clock", ADDEND, PREDICTED, sums.clock_ns, "ns", source=REPLAYS, note=note)


def _between(book: Book) -> Iterator[Line]:
    """What runs at once, and what lies between launches."""
    time, trace = book.time, f"trace {book.stage.trace}"
    yield Line("overlap", ADDEND, PREDICTED, minus(0, time.overlap_ns), "ns", source=trace)
    note = told(GAPS, time.gap_launches, time.gap_ns) or NO_GAPS
    yield Line("launch gaps", ADDEND, PREDICTED, time.gaps_ns, "ns", source=time.gap_source, note=note)
    if book.stage.mode != GRAPH:
        yield Line("idle", ADDEND, LEFT_OUT, time.idle_ns, "ns", note=IDLE_HOST)
    elif time.idle_ns is None:
        yield Line("idle", ADDEND, PREDICTED, None, "ns", note=NO_GRAPH)
    else:
        yield Line("idle", ADDEND, PREDICTED, time.idle_ns, "ns", source=trace, note=IDLE_GRAPH)
    yield Line("unreplayed", "addend, not replayed", "recorded", time.rest_ns, "ns", source=trace, note=RECORDED)


def _totals(book: Book) -> Iterator[Line]:
    time, found = book.time, book.verdict
    status = "lower bound" if time.status == "host bound" else PREDICTED
    replayed = time.predicted_replayed_ns
    yield Line("predicted, replayed only", "total", status, replayed, "ns", note=REPLAYED_ONLY)
    low, high, note = found.predicted_low_ns, found.predicted_high_ns, time.time_reason or NEVER_WAITS
    yield Line("predicted, GPU bound", "total", status, time.predicted_ns, "ns", low, high, note=note)


def _waiting(book: Book) -> Line:
    time = book.time
    if time.status != "host bound":
        status, note = LEFT_OUT, UNWAITED[time.status]
    elif time.waiting_ns is None:
        status, note = "observed", book.verdict.error_reason or ""
    else:
        status, note = "observed", OBSERVED_RANKS if time.exchanging else OBSERVED
    source = book.stage.wall_method
    return Line("waiting for the host", "addend, observed", status, time.waiting_ns, "ns", source=source, note=note)


def _collectives(book: Book) -> Iterator[Line]:
    """How long collectives waited: told of ranks that exchange anything."""
    if book.time.exchanging:
        waits = book.time.collective_waits_ns
        note = NO_WAITS if waits is None else WAITS.format(1e-3 * waits)
        source = f"trace {book.stage.trace}"
        yield Line("waiting in collectives", ADDEND, LEFT_OUT, None, "ns", source=source, note=note)


def _measured(book: Book) -> Iterator[Line]:
    stage, found, share = book.stage, book.verdict, book.sums.replayed_time_pct
    measured = stage.wall_low_ns, stage.wall_high_ns
    unmeasured = found.error_reason if stage.wall_ns is None else None
    yield Line("measured", "measured", "measured", stage.wall_ns, "ns", *measured, stage.wall_method, unmeasured)
    little = below(share, KNOWN_PCT)
    ends = ends_of_error((found.predicted_low_ns, found.predicted_high_ns), measured)
    note = found.error_reason or (told(LITTLE_REPLAYED, share) if little else None)
    yield error("error", found.error_pct, ends, "recorded" if little else "valid", note)
    status = "withheld" if found.error_pct is None else "valid"
    yield Line("error, replayed only", "error", status, found.replayed_error_pct, "%", note=found.error_reason)


def _clocks(book: Book) -> Iterator[Line]:
    """How busy the GPU was, and its clocks."""
    time, model = book.time, book.stage.sm_mhz
    measured = time.measured_busy_ns is not None
    source = f"trace {book.stage.trace}, without waits for other ranks" if time.exchanging else None
    source = source or ("measurement" if measured else PREDICTED)
    bound = f"{time.status}: less than 80 %" if time.status == "host bound" else time.status
    status = "measured" if measured else PREDICTED
    yield Line("busy share", "share", status, time.busy_share_pct, "%", source=source, note=bound)
    note = "no clock was measured" if model is None else None
    yield Line("clock, model", "clock", "measured", model, "MHz", source="measurement", note=note)
    yield clock(book.sums.replay_mhz, model, book.sums.clock_ns, "replays, while timed")
