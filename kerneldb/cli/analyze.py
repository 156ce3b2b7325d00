"""Commands that answer one question each about the selected launches: idle time, overlap, collectives and more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kerneldb.cli.console import emit, note, note_nothing, note_repeated
from kerneldb.cli.options import READ_WAIT_S, limited, open_database, output_options, selection_options
from kerneldb.cli.plotting import draw, plot_option
from kerneldb.cli.root import analyze

if TYPE_CHECKING:
    from kerneldb.output import Output

ROWS: Final = 20
SHOWN: Final = (
    "trace", "kernel", "dtype", "op", "n", "total_ns", "intensity", "flops_per_second", "bytes_per_second", "ridge",
    "pct_peak_flops", "pct_peak_bandwidth", "pct_attainable", "bound", "method",
)  # fmt: skip

NO_IDLE: Final = "no idle time: no selected launch has times (counter profiles and sums have none), or no gaps"
NOTHING: Final = {
    "idle": NO_IDLE,
    "idle_gaps": NO_IDLE,
    "overlap": "nothing to overlap: no selected launch has times (counter profiles and sums have none)",
    "collectives": "no collectives: no selected launch is one of NCCL or RCCL",
    "collective_waits": "no waits: they need collectives of several ranks in one run (kerneldb ingest --run)",
    "collective_replays": "no replayed collectives: replay some with --where \"category = 'COMMUNICATION'\"",
    "iterations": "no iterations: the traces have no profiler steps, and no sequence of kernels repeats",
    "launch_overhead": "no launch calls: the traces hold none of the host's",
    "fusion_candidates": "no runs of small kernels that only move data",
    "precision_conversions": "no launch only converts types",
    "roofline": "no roofline: no selected launch is a kernel with a duration",
}
"""Why an answer may have no rows though launches are selected; phases of launches have some always."""

NO_RATES: Final = (
    "no rate is known: no counters, no input shapes, no annotations (kerneldb db annotate gives work to launches)"
)


def _answer(
    name: str,
    where: str | None,
    traces: tuple[str, ...],
    limit: int | None,
    output: Output,
    shown: tuple[str, ...] | None = None,
    plot: Path | None = None,
) -> None:
    """Print the answer, and draw it to `plot`; a table has the columns `shown` only."""
    database = open_database(lock_timeout=READ_WAIT_S)
    result = database.answer(name, where=where, traces=traces)
    note_repeated(database, traces)
    if not len(result):
        if not note_nothing(database, where, traces):
            note(NOTHING[name])
    elif name == "roofline" and not any(row["flops_per_second"] or row["bytes_per_second"] for row in result):
        note(NO_RATES)
    if plot is not None:
        draw(name, result.rows(), plot)
    if output.format == "table" and shown is not None:
        result = result.without(*(column for column in result.columns if column not in shown))
    elif limit and output.format != "table":
        result = result.head(limit)
    emit(result.to_reader(), limited(output, limit, ROWS))


_limit = click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help=f"Rows of a table (default {ROWS}; 0: all)."
)


@analyze.command(short_help="Why the GPU was idle.")
@click.option("--gaps", is_flag=True, help="The single gaps, longest first, instead of sums by cause.")
@plot_option
@selection_options
@_limit
@output_options
def idle(
    *, gaps: bool, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output, plot: Path | None
) -> None:
    """Show the time in which no launch ran, by what the host did meanwhile.

    Causes: launch (the GPU waited for the host to launch), sync (for the host to come back from a synchronising call),
    allocation (from cudaMalloc or cudaFree), copy (for the host to begin a copy), queued (the launch had been made),
    unknown (no launch call in the trace). With --where, launches that do not meet the condition count as idle.

    \b
      kerneldb analyze idle
      kerneldb analyze idle --gaps --where "phase = 'decode'"
    """
    _answer("idle_gaps" if gaps else "idle", where, traces, limit, output, plot=plot)


@analyze.command(short_help="What ran at the same time.")
@selection_options
@_limit
@output_options
def overlap(*, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output) -> None:
    """Show how much of computation, communication and copies ran at the same time, per device."""
    _answer("overlap", where, traces, limit, output)


@analyze.command(short_help="Sizes, times and bandwidths of collectives.")
@click.option("--waits", is_flag=True, help="Waiting apart from transfer, over the ranks of each run.")
@click.option("--replays", is_flag=True, help="Recorded transfer and waiting against replays, by kind and size.")
@plot_option
@selection_options
@_limit
@output_options
def collectives(
    *,
    waits: bool,
    replays: bool,
    where: str | None,
    traces: tuple[str, ...],
    limit: int | None,
    output: Output,
    plot: Path | None,
) -> None:
    """Show collective operations by kind, size and group, with the bus bandwidth as nccl-tests computes it.

    A launch lasts until the slowest rank has come. With the traces of several ranks in one run (kerneldb ingest --run),
    --waits tells waiting and transfer apart, and which rank comes last, and --replays holds what was replayed against
    the transfer.

    \b
      kerneldb analyze collectives
      kerneldb analyze collectives --waits
    """
    if replays and (waits or plot is not None):
        message = "--replays goes with neither --waits nor --plot"
        raise click.UsageError(message)
    name = "collective_replays" if replays else "collective_waits" if waits else "collectives"
    _answer(name, where, traces, limit, output, plot=plot)


@analyze.command(short_help="GPU time by phase.")
@plot_option
@selection_options
@_limit
@output_options
def phases(*, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output, plot: Path | None) -> None:
    """Show launches and GPU time by phase: the outermost annotation below the step, or what --phase named at ingest."""
    _answer("phases", where, traces, limit, output, plot=plot)


@analyze.command(short_help="The repeats of a program.")
@selection_options
@_limit
@output_options
def iterations(*, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output) -> None:
    """Show iterations: the profiler's steps, else repeats found in the sequence of kernels.

    What stands outside of the repeats is labelled before (warm-up, tuning, a prefill) or after. Sums over steady
    iterations are one query away:

    \b
      kerneldb query "SELECT avg(total_ns) FROM iterations() WHERE steady"
    """
    _answer("iterations", where, traces, limit, output)


@analyze.command(short_help="What launching costs the host.")
@selection_options
@_limit
@output_options
def overhead(*, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output) -> None:
    """Show how long launch calls take, how long kernels wait for them, and how many kernels are shorter."""
    _answer("launch_overhead", where, traces, limit, output)


@analyze.command(short_help="Runs of small kernels that could be one.")
@selection_options
@_limit
@output_options
def fusion(*, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output) -> None:
    """Show runs of small kernels that only move data, with an upper bound of the time that fusing them saves."""
    _answer("fusion_candidates", where, traces, limit, output)


@analyze.command(short_help="Launches that only change types.")
@selection_options
@_limit
@output_options
def conversions(*, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output) -> None:
    """Show launches that only convert numbers from one type to another."""
    _answer("precision_conversions", where, traces, limit, output)


@analyze.command(short_help="Achieved against attainable rates.")
@plot_option
@selection_options
@_limit
@output_options
def roofline(
    *, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output, plot: Path | None
) -> None:
    """Show intensity, achieved rates and roofs of each signature, most time first.

    Work comes from counters where those of the signature are known, else from shapes or annotations; `method` says
    which. Peaks are those of the data sheet for the type of the kernel.

    \b
      kerneldb analyze roofline --where "category = 'GEMM'"
      kerneldb query "SELECT bound, sum(total_ns) FROM roofline() GROUP BY 1"
    """
    _answer("roofline", where, traces, limit, output, SHOWN, plot)
