"""`kerneldb bounds`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import emit, note
from kerneldb.cli.options import (
    READ_WAIT_S,
    database_option,
    limited,
    open_database,
    output_options,
    selection_options,
)

if TYPE_CHECKING:
    from kerneldb.output import Output

DEFAULT_RULE = "ncu"


@click.command(short_help="What limits profiled kernels, by a rule of your choice.")
@click.option("--rule", default=DEFAULT_RULE, show_default=True, metavar="NAME", help="Rule that decides.")
@click.option("--kernels", is_flag=True, help="A row per profiled launch instead of one per verdict.")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules with their thresholds and sources.")
@selection_options
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Rows, in every format (0 and default: all).")
@output_options
@database_option
def bounds(
    *, rule: str, kernels: bool, list_rules: bool, where: str | None, traces: tuple[str, ...], limit: int | None,
    output: Output,
) -> None:  # fmt: skip
    """Show what limits the profiled launches: compute, memory, latency, …, with means per class.

    Needs counters: a report of Nsight Compute in the database. A rule gives no verdict (unknown) where it lacks an
    input. Rules and thresholds are the table bound_rules; the view bounds has the verdicts of all of them.

    \b
      kerneldb bounds
      kerneldb bounds --rule sm_dram --trace deepseek
      kerneldb bounds --rule roofline --kernels --where "category = 'GEMM'"
      kerneldb bounds --rules
    """
    database = open_database(lock_timeout=READ_WAIT_S)
    if list_rules:
        emit(database.bound_rules().to_reader(), output)
        return
    result = database.bounds(rule, where=where, traces=traces, kernels=kernels)
    if repeated := database.repeated_prints(traces):
        note(f"another print of a report is in the same run, and counts: not {', '.join(repeated)}")
    if not len(result):
        note("no launches with counters of Nsight Compute are selected; kerneldb ncu-command prints a line for them")
    if limit and output.format != "table":
        result = result.head(limit)
    emit(result.to_reader(), limited(output, limit, None))
