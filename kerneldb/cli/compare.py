"""`kerneldb analyze compare` and `kerneldb analyze same-code`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kerneldb.cli.console import emit_rows, note
from kerneldb.cli.options import (
    READ_WAIT_S,
    conditions,
    kernel_names,
    limit_option,
    open_database,
    output_options,
    trace_names,
)
from kerneldb.cli.root import analyze

if TYPE_CHECKING:
    from kerneldb.api import Result
    from kerneldb.output import Output

SHOWN: Final = (
    "kernel", "short_name", "trace", "n", "mean_ns", "min_ns", "max_ns", "iteration_ns", "ratio", "registers",
    "shared_bytes", "grid", "work_items", "block", "theoretical_occupancy", "tflops", "pct_peak_flops", "gbs",
    "pct_peak_bandwidth",
)  # fmt: skip
OF_CODE: Final = ("launches", "n_differences", "differences", "registers_reported", "static_shared_bytes")
ROWS: Final = 40


@analyze.command(short_help="Kernels of any number of traces side by side; of two: kerneldb diff.")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", shell_complete=trace_names)
@click.option(
    "--where", metavar="TEXT", shell_complete=conditions, help="Compare only launches that meet this condition."
)
@click.option("--match", "matches", multiple=True, metavar="A=B", help="Match kernels named with A to those with B.")
@click.option("--iterations", type=click.IntRange(min=1), metavar="N", help="How many iterations each trace has.")
@limit_option(ROWS)
@output_options
def compare(
    traces: tuple[str, ...],
    *,
    where: str | None,
    matches: tuple[str, ...],
    iterations: int | None,
    limit: int | None,
    output: Output,
) -> None:
    """Compare time, resources and throughput of kernels over any number of traces.

    It lists, and judges nothing; `kerneldb diff` says what became slower or faster between two, and by chance or not.

    Kernels match that have the same role (kerneldb db annotate --role) or the same name; --match pairs names that
    differ. Matched kernels come first, then the others, then the sums of one iteration: of the matched kernels and of
    all. Without --iterations, their number is the greatest common divisor of the launch counts of matched kernels.
    `ratio` compares with the first trace that has the kernel. Sums of FLOPs include the known ones only.

    \b
      kerneldb analyze compare decoder-h200
      kerneldb analyze compare torch8192 hip8192 --match Cijk_=scaled_mm
    """
    result = open_database(lock_timeout=READ_WAIT_S).compare(
        traces, where=where, matches=matches, iterations=iterations
    )
    if output.format == "table":
        result = result.without(*(name for name in result.columns if name not in SHOWN), *_empty(result))
    emit_rows(result, output, limit, ROWS)


@analyze.command("same-code", short_help="Other kernels of the same code object.")
@click.argument("signature", shell_complete=kernel_names)
@limit_option(ROWS)
@output_options
def same_code(signature: str, *, limit: int | None, output: Output) -> None:
    """Show the other kernels of the code object that a kernel was loaded from, launched or not, most similar first.

    Code objects are known of traces of AMD's rocprofv3 (rocpd). KERNEL is a name, a part of one, or the beginning of a
    signature id, as for `kerneldb show`. `differences` lists the tokens of a Tensile name with the value in this kernel
    and in the other one.

    \b
      kerneldb analyze same-code Cijk_Alik_Bljk
    """
    result = open_database(lock_timeout=READ_WAIT_S).same_code(signature)
    if not len(result):
        note("no code object of this kernel is known: only databases of rocprofv3 (rocpd) list them")
    if output.format == "table":
        several = len({row["trace"] for row in result}) > 1
        shown = (*OF_CODE, "symbol", *(["trace"] if several else []))
        result = result.without(*(name for name in result.columns if name not in shown))
    emit_rows(result, output, limit, ROWS)


def _empty(result: Result) -> list[str]:
    """Columns that say nothing: without any value, or names that are there already."""
    table = result.to_arrow()
    empty = [name for name in table.column_names if table[name].null_count == table.num_rows]
    is_same = all(row["short_name"] in (None, row["kernel"]) for row in result)
    return [*empty, "short_name"] if is_same else empty
