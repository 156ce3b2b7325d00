"""`kerneldb top`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import emit_rows, note, note_nothing, note_repeated, note_scope, note_sums
from kerneldb.cli.lacking import FORWARD_ONLY, note_unknown
from kerneldb.cli.options import READ_WAIT_S, Grouping, limit_option, open_database, output_options, selection_options
from kerneldb.cli.root import cli

if TYPE_CHECKING:
    from kerneldb.output import Output

GROUPS = (
    "kernel", "signature", "category", "family", "library", "operation", "op", "dtype", "phase", "module", "kind",
    "device", "stream", "trace",
)  # fmt: skip
ORDERS = ("total", "n", "mean", "min", "max")
TOP_ROWS = 20


@cli.command(short_help="Where the GPU time goes.")
@click.option(
    "--by",
    type=Grouping(GROUPS),
    default="kernel",
    show_default=True,
    help="What to sum over; signature: kernel, grid and shapes.",
)
@selection_options
@click.option("--sort", type=click.Choice(ORDERS), default="total", show_default=True, help="Largest first.")
@limit_option(TOP_ROWS)
@output_options
def top(by: str, *, where: str | None, traces: tuple[str, ...], sort: str, limit: int | None, output: Output) -> None:
    """Show which kernels take the GPU time, or which operators, categories, phases …, largest sum first.

    share_pct is the share of the summed time of all selected launches. Launches that ran at the same time are all
    summed, so that the sum can exceed the elapsed time. --limit holds for every format; the default limit only for
    tables.

    \b
      kerneldb top
      kerneldb top --by category --trace decoder-h200
      kerneldb top --by signature --where "category = 'GEMM'"
      kerneldb top --by op --where "phase = 'decode'" --sort n
    """
    database = open_database(lock_timeout=READ_WAIT_S)
    result = database.top(by, where=where, traces=traces, sort=sort)
    note_repeated(database, traces)
    if by != "trace":
        note_scope(database, traces)
    if where is not None and where.strip():
        note_sums(database, traces)
    if not len(result):
        note_nothing(database, where, traces)
    if not note_unknown(by, result) and by == "module" and None in result.to_arrow()["module"].to_pylist():
        note(FORWARD_ONLY)
    if output.format == "table":
        result = result.without("name_id")
    emit_rows(result, output, limit, TOP_ROWS, "n", "total_ns", "share_pct")
