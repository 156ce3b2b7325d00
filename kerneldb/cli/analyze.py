"""Commands that answer one question each about the selected launches: idle time, overlap, collectives and more."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kerneldb.cli.console import emit_rows, note, note_nothing, note_repeated
from kerneldb.cli.lacking import note_unknown, note_unsplit
from kerneldb.cli.options import (
    READ_WAIT_S,
    Grouping,
    draw,
    limit_option,
    open_database,
    output_options,
    plot_option,
    selection_options,
    trace_argument,
    trace_option,
)
from kerneldb.cli.root import analyze, refuse
from kerneldb.output.units import size

if TYPE_CHECKING:
    from kerneldb.api import Result
    from kerneldb.output import Output

ROWS: Final = 20
SHOWN: Final = (
    "trace", "device", "kernel", "dtype", "op", "n", "total_ns", "intensity", "flops_per_second", "bytes_per_second",
    "ridge", "pct_peak_flops", "pct_peak_bandwidth", "pct_attainable", "bound", "method", "gemm_m", "gemm_n", "gemm_k",
    "gemm_batch", "grid_x", "grid_y", "grid_z",
)  # fmt: skip
CLOCK_TIMES: Final = ("gap_start_ns", "gap_end_ns", "launch_start_ns")

NO_IDLE: Final = "no idle time: no selected launch has times (counter profiles and sums have none), or no gaps"
NOTHING: Final = {
    "idle": NO_IDLE,
    "idle_gaps": NO_IDLE,
    "critical_path": "no critical path: no selected launch has times (counter profiles and sums have none)",
    "modules": "no GPU time by module: no selected launch has times (counter profiles and sums have none)",
    "overlap": "nothing to overlap: no selected launch has times (counter profiles and sums have none)",
    "collectives": "no collectives: no selected launch is one of NCCL or RCCL",
    "collective_waits": "no waits: they need the traces of several ranks of one run (kerneldb ingest --run NAME)",
    "collective_stragglers": "no waits: they need the traces of several ranks of one run (kerneldb ingest --run NAME)",
    "collective_replays": "no replayed collectives: replay some with --where \"category = 'COMMUNICATION'\"",
    "iterations": (
        "no iterations: the traces have no profiler steps (torch.profiler: prof.step() after each), and no sequence of "
        "kernels repeats"
    ),
    "launch_overhead": (
        "no launch calls: the traces hold none of the host's; record these, too (torch.profiler: activities CPU and "
        "CUDA; nsys: --trace=cuda; rocprofv3: --runtime-trace)"
    ),
    "fusion_candidates": "no runs of small kernels that only move data",
    "precision_conversions": "no launch only converts types",
    "roofline": "no roofline: no selected launch is a kernel with a duration",
    "work_errors": "no selected kernel has both a model of its work and counters: kerneldb replay --counters roofline",
}
"""Why an answer may have no rows though launches are selected; phases of launches have some always."""

UNMATCHED: Final = {"collective_waits": "matched", "collective_replays": "replay_grade"}
"""Columns without which an answer has rows and says nothing: the reason is that for no rows."""

TOTALS: Final = {
    "idle": ("n", "idle_ns"),
    "collectives": ("n", "total_ns"),
    "phases": ("n", "total_ns", "share_pct"),
    "launch_overhead": ("n", "call_ns", "calls"),
    "precision_conversions": ("n", "total_ns", "elements"),
    "roofline": ("n", "total_ns"),
}
"""Columns whose sum over all rows means something."""

NO_MEMORY: Final = (
    "no allocations: none was recorded (torch: profile_memory=True; rocprofv3: --memory-allocation-trace)"
)
NO_WORK: Final = (
    "no counters, no annotations, and no operators whose work follows from their shapes "
    "(kerneldb db annotate gives work to launches)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What a command was asked about, and how to show what comes out."""

    where: str | None
    traces: tuple[str, ...]
    limit: int | None
    output: Output
    plot: Path | None = None

    def show(self, name: str, shown: tuple[str, ...] | None = None, hidden: tuple[str, ...] = ()) -> Result:
        """Print the rows of the table macro `name` over the selected launches, and return them.

        Tables have the columns `shown` only; those that are `hidden` unless they are wide.
        """
        database = open_database(lock_timeout=READ_WAIT_S)
        result = found = database.analyze(name, where=self.where, traces=self.traces)
        note_repeated(database, self.traces)
        if not len(result):
            if not note_nothing(database, self.where, self.traces):
                note(NOTHING[name])
        elif name == "roofline":
            _note_lacks(result.rows())
        elif name in UNMATCHED and not any(row[UNMATCHED[name]] for row in result.rows()):
            note(NOTHING[name])
        note_unknown({"phases": "phase"}.get(name), result)
        if self.plot is not None:
            draw(name, result.rows(), self.plot)
        if self.output.format == "table" and shown is not None:
            result = result.without(*(column for column in result.columns if column not in shown))
        if self.output.format == "table" and not self.output.wide:
            result = result.without(*hidden)
        emit_rows(result, self.output, self.limit, ROWS, *TOTALS.get(name, ()))
        return found


def _note_lacks(rows: Sequence[Mapping[str, Any]]) -> None:
    """Say why a roofline has no rates, and of which devices no peaks are known."""
    rated = [row for row in rows if row["flops_per_second"] or row["bytes_per_second"]]
    known, total = (sum(row["total_ns"] or 0 for row in some) for some in (rated, rows))
    if not rated:
        note(f"no rate is known: {NO_WORK}")
    elif known < total / 2:
        note(f"of {100 * (1 - known / total):.0f} % of the time no rate is known: {NO_WORK}")
    unknown = {(row["trace"], row["device"]) for row in rated if row["peak_bytes_per_second"] is None}
    for trace, device in sorted(unknown, key=str):
        where = "" if device is None else f" (device {device})"
        note(
            f"no peaks: the GPU of {trace}{where} is not known, or has no data sheet; `kerneldb db doctor` says what is"
        )
    _note_types(rated, total)


def _note_types(rated: Sequence[Mapping[str, Any]], total: int) -> None:
    """Say of which data types a GPU that is known has no peak of arithmetic."""
    bare = [row for row in rated if row["peak_flops_per_second"] is None and row["peak_bytes_per_second"] is not None]
    if bare:
        types = sorted({_typed(row) for row in bare})
        share = 100 * sum(row["total_ns"] or 0 for row in bare) / total
        note(
            f"no peak of arithmetic is known for {', '.join(types)} ({share:.1f} % of the time): "
            "of these only the share of the memory bandwidth is shown"
        )


def _typed(row: Mapping[str, Any]) -> str:
    """The data type of a kernel that has no peak."""
    if row["dtype"] == "fp32":
        return "fp32 (it may run as TF32)"  # the peak of fp32 itself is on every data sheet
    return row["dtype"] or "kernels of unknown type"


def analysis(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments and options of an analysis; the command receives them as one `asked: Asked`."""

    @functools.wraps(command)
    def wrapper(
        where: str | None,
        traces: tuple[str, ...],
        limit: int | None,
        output: Output,
        plot: Path | None = None,
        **more: Any,
    ) -> None:
        command(Asked(where, traces, limit, output, plot), **more)

    return trace_argument(selection_options(limit_option(ROWS)(output_options(wrapper))))


@analyze.command(short_help="Why the GPU was idle.")
@click.option("--gaps", is_flag=True, help="List single gaps, longest first, instead of sums by cause.")
@plot_option
@analysis
def idle(asked: Asked, *, gaps: bool) -> None:
    """Show how long the GPU was idle, by what the host did meanwhile.

    Parts and causes are those of the wall time (kerneldb why --budget; docs/why.md has the rules): host (the GPU waited
    for it: launching, synchronisation, allocation …), queue (the next launch had been made: dependency, launch latency,
    between launches) and unattributed (the trace does not tell). waiting_call is the call of the host that is the cause
    for most of the time; n counts pieces, as a gap is cut at each call that held up the host. host_late (with --gaps)
    is how long the GPU had been idle when the host began the next launch call, no_call how long of that the thread was
    in no recorded call, in all: in Python or other work. call_after is the launch call, call_before the last before it.
    is_carried says that waiting_call had ended: its cause is carried over. With --where, launches that do not meet the
    condition count as idle. at is the start of the gap, counted from the first launch of the trace as in `kerneldb
    tui`; --wide and formats for programs also have times by the clock of the trace.

    \b
      kerneldb analyze idle
      kerneldb analyze idle --gaps --where "phase = 'decode'"
    """
    asked.show("idle_gaps" if gaps else "idle", hidden=CLOCK_TIMES)


@analyze.command(short_help="What ran at the same time.")
@analysis
def overlap(asked: Asked) -> None:
    """Show for each device how much of its computation, communication and copies ran at the same time.

    \b
      kerneldb analyze overlap
    """
    asked.show("overlap")


@analyze.command("critical-path", short_help="What decided when the last launch ended.")
@click.option(
    "--by",
    type=Grouping(("cause", "kernel", "op", "module", "line", "trace", "steps")),
    default="cause",
    show_default=True,
    help="Sum by this, or list the steps in order.",
)
@click.option(
    "--without", multiple=True, metavar="KEY=NAME", help="What would be saved if this took no time: kernel=*gemm*."
)
@analysis
def critical_path(asked: Asked, *, by: str, without: tuple[str, ...]) -> None:
    """Show the chain of work on host threads, streams and ranks that is as long as the trace.

    The traces of a job have one path together. path is the time on it; saved is how much sooner the last launch would
    end if all of the row took no time (and no call waited, no stream depended on another for it): less than path where
    other work is then what everything waits for, more where it was waited for beside the path. A host row of a kernel,
    operator or line is the time that the host took until it launched that. docs/why.md has the rules.

    \b
      kerneldb analyze critical-path --trace decoder-h200
      kerneldb analyze critical-path --by steps --csv
      kerneldb analyze critical-path --without "op=aten::mm" --without cause=launching
    """
    database = open_database(lock_timeout=READ_WAIT_S)
    if without:
        found = database.what_if(*without, where=asked.where, traces=asked.traces)
        emit_rows(found, asked.output, asked.limit, ROWS)
        return
    most = asked.limit or (None if asked.limit == 0 or by == "steps" else ROWS)
    result = database.critical_path(by, where=asked.where, traces=asked.traces, most=most)
    if not len(result) and not note_nothing(database, asked.where, asked.traces):
        note(NOTHING["critical_path"])
    note_unknown(by, result)
    note_unsplit(result, "cause")
    if asked.output.format == "table" and len(set(result.to_arrow()["job"].to_pylist())) == 1:
        result = result.without("job")
    emit_rows(result, asked.output, asked.limit if by == "steps" else 0, ROWS)


@analyze.command(short_help="Sizes, times and bandwidths of collectives.")
@click.option("--waits", is_flag=True, help="Show waiting and transfer of each rank apart.")
@click.option("--replays", is_flag=True, help="Compare recorded transfer and waiting with replays.")
@plot_option
@analysis
def collectives(asked: Asked, *, waits: bool, replays: bool) -> None:
    """Show collective operations by kind, size and group, with the bus bandwidth as nccl-tests computes it.

    A collective lasts until the slowest rank has joined. With the traces of several ranks of one job, --waits separates
    waiting from transfer and counts how often each rank joined last, and --replays compares the transfer with replays.
    wait is all of that time, also what computation hides; `kerneldb why` counts what it does not. A chosen rank is
    compared with all ranks of its job. algorithm_gbs is bytes / time; bus_gbs is what each link carries of it,
    comparable across numbers of ranks.

    \b
      kerneldb analyze collectives
      kerneldb analyze collectives --waits
    """
    if replays and (waits or asked.plot is not None):
        refuse("--replays goes with neither --waits nor --plot")
    name = "collective_replays" if replays else "collective_waits" if waits else "collectives"
    asked.show(name)


@analyze.command(short_help="Which rank waits for which, and why it is late.")
@analysis
def stragglers(asked: Asked) -> None:
    """Show which ranks of a job waited for which in collectives, how long, and what the late one did until it joined.

    late_rank joined last, and rank waited for it, n times. After a collective the ranks of its group go on together:
    computed_longer is how much longer the GPU of the late rank was busy since the one before (slower kernels, more
    data), idle_longer how much longer it stood idle (its host was late); negative: shorter. longest_at is when the
    waiting rank began the collective of its longest wait, from its first launch on. share is of the time from its first
    launch to its last. Waits are all of that time, also what computation hides; `kerneldb why` counts what it does not.
    A broadcast, reduce, gather or scatter may end on one rank before others join: of these it is likely only.

    \b
      kerneldb analyze stragglers
      kerneldb analyze stragglers --csv
    """
    from kerneldb.report import ranks

    found = asked.show("collective_stragglers", hidden=("trace", "late_trace", "longest_bytes"))
    for sentence in ranks.sentences(found.rows()):
        note(sentence)


@analyze.command(short_help="What allocated memory, and what held it at the peak.")
@click.option(
    "--by",
    type=Grouping(("root_op", "op", "module", "python_line")),
    default="root_op",
    show_default=True,
    help="Sum by the outermost operator, the innermost one, the module or the Python line.",
)
@trace_argument
@trace_option
@limit_option(ROWS)
@output_options
def memory(by: str, *, traces: tuple[str, ...], limit: int | None, output: Output) -> None:
    """Show what allocated memory and what held it when most was in use, for each process and device.

    at_peak is what a row held at that moment; peak is the most that it held alone at any time. What had been allocated
    before the recording has a row of its own. The trace must be recorded with memory (torch: profile_memory=True).

    \b
      kerneldb analyze memory
      kerneldb analyze memory --by module
      kerneldb query "SELECT ts_ns, allocated_bytes, reserved_bytes FROM memory_timeline WHERE device = 0"
    """
    result = open_database(lock_timeout=READ_WAIT_S).memory(by, traces=traces)
    if not len(result):
        note(NO_MEMORY)
    note_unknown(by, result, "name")
    for line in dict.fromkeys(map(_at_peak, result.rows())):
        note(line)
    if output.format == "table":
        result = result.without("process", "peak_ns", "device_peak_bytes", "reserved_bytes")
    emit_rows(result, output, limit, ROWS)


def _at_peak(row: Mapping[str, Any]) -> str:
    """How much was in use at the peak, of how much that the allocator had."""
    used, reserved = row["device_peak_bytes"], row["reserved_bytes"]
    number = "" if row["device"] is None else f" {row['device']}"  # memory of the host has none
    place = f"{row['trace']}, {row['device_type']}{number}"
    if not reserved or used is None:
        return f"{place}: peak {'not known' if used is None else size(used)}"
    unused = f"{100 * (reserved - used) / reserved:.0f} % of that cached or fragmented"
    return f"{place}: peak {size(used)} in use, of {size(reserved)} reserved; {unused}"


@analyze.command(short_help="GPU time by module, as a tree.")
@click.option("--depth", type=click.IntRange(0), help="Modules with more around them count in those above only.")
@analysis
def modules(asked: Asked, *, depth: int | None) -> None:
    """Show GPU time by module of the network, as a tree: its own (self), and with all below (total).

    Of total, forward is what modules launched in their call, and operators that have a backward call; backward what
    automatic differentiation launched; the rest is not known, and so are all three where they are empty. Modules need
    Python stacks (torch: with_stack=True).

    \b
      kerneldb analyze modules --depth 3
    """
    from kerneldb.api import Result

    database = open_database(lock_timeout=READ_WAIT_S)
    table = database.analyze("modules", where=asked.where, traces=asked.traces).to_arrow()
    note_repeated(database, asked.traces)
    if not table.num_rows and not note_nothing(database, asked.where, asked.traces):
        note(NOTHING["modules"])
    note_unknown("module", Result(table))
    rows = [row for row in table.to_pylist() if depth is None or row["depth"] <= depth]
    hidden: tuple[str, ...] = ()
    if asked.output.format == "table":
        rows = [{**row, "module": "  " * row["depth"] + row["module"]} for row in rows]
        hidden = ("path", "depth", *("trace" for _ in rows[:1] if len({row["trace"] for row in rows}) == 1))
    emit_rows(Result(table.from_pylist(rows, table.schema)).without(*hidden), asked.output, asked.limit, ROWS)


@analyze.command(short_help="GPU time by phase.")
@plot_option
@analysis
def phases(asked: Asked) -> None:
    """Show launches and GPU time by phase.

    A phase is the outermost annotation inside the profiler's step, or the name that --phase gave at ingest.

    \b
      kerneldb analyze phases --trace decoder-h200
    """
    asked.show("phases")


@analyze.command(short_help="The iterations of a program.")
@analysis
def iterations(asked: Asked) -> None:
    """Show the iterations of a program: the profiler's steps, else repeats found in the sequence of kernels.

    What is outside of the repeats is labelled `before` (warm-up, tuning, a prefill) or `after`.

    \b
      kerneldb analyze iterations
      kerneldb query "SELECT avg(total_ns) FROM iterations() WHERE steady_state"
    """
    asked.show("iterations")


@analyze.command(short_help="What launching costs the host.")
@analysis
def overhead(asked: Asked) -> None:
    """Show how long launch calls take and how long kernels wait after them, and count calls longer than their kernels.

    The call that launches a graph counts once, with all kernels of the graph.

    \b
      kerneldb analyze overhead
    """
    asked.show("launch_overhead")


@analyze.command(short_help="Runs of small kernels that could be fused.")
@analysis
def fusion(asked: Asked) -> None:
    """Show runs of small memory-bound kernels that one kernel could replace, with an upper bound of the time saved.

    at_stake is all but the longest kernel of each run, and the pauses; kernel_at_stake is the same without the pauses.

    \b
      kerneldb analyze fusion --where "phase = 'decode'"
    """
    asked.show("fusion_candidates")


@analyze.command(short_help="Launches that only convert data types.")
@analysis
def conversions(asked: Asked) -> None:
    """Show launches that only convert numbers from one data type to another.

    \b
      kerneldb analyze conversions
    """
    asked.show("precision_conversions")


@analyze.command(short_help="Achieved and attainable rates.")
@plot_option
@analysis
def roofline(asked: Asked) -> None:
    """Show arithmetic intensity, achieved rates and attainable rates of each signature, most time first.

    FLOPs and bytes come from hardware counters of the signature where there are any, else from input shapes or
    annotations; `method` says which. Peaks are those of the data sheet for the data type of the kernel. `bound` is
    latency below 5 % of what the roof allows at this intensity (attainable), else memory below the ridge and compute
    above it. The ridge is the intensity from which on arithmetic, and not the memory, is the roof.

    \b
      kerneldb analyze roofline --where "category = 'GEMM'"
      kerneldb query "SELECT bound, sum(total_ns) FROM roofline() GROUP BY 1"
    """
    asked.show("roofline", SHOWN)


@analyze.command("work-errors", short_help="How good the models of work are.")
@analysis
def work_errors(asked: Asked) -> None:
    """Compare modelled operations and bytes with counted ones, by category and model, over kernels that have both.

    Counters come from Nsight Compute, or from a replay: kerneldb replay --counters roofline.

    \b
      kerneldb analyze work-errors
      kerneldb analyze work-errors --where "category = 'GEMM'" --csv
    """
    asked.show("work_errors")
