"""`kerneldb ncu …`: collect counters of chosen kernels, see which have them, and what limits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import emit, emit_rows, emit_text, note, note_nothing, note_scope, plural
from kerneldb.cli.options import READ_WAIT_S, limit_option, open_database, output_options, phases, selection_options
from kerneldb.cli.root import ncu
from kerneldb.output import Output
from kerneldb.shell import file, kerneldb

if TYPE_CHECKING:
    from kerneldb.api import Result

TOP = 20
UNKNOWN = frozenset((None, "(unknown)", "(all)"))
"""Shown in place of a verdict where the rule lacks its counters."""
LOG_FILE = "ncu-raw.csv"


@ncu.command(
    "command", short_help="Print the ncu command line for chosen kernels.", context_settings={"show_default": True}
)
@selection_options
@click.option("--top", type=click.IntRange(min=1), default=TOP, metavar="N", help="The N kernels that take most time.")
@click.option(
    "--phase",
    metavar="NAME",
    shell_complete=phases,
    help="Only launches of this phase; the program must push an NVTX range NAME.",
)
@click.option("--nvtx", metavar="EXPRESSION", help="NVTX filter of ncu, instead of the one made from --phase.")
@click.option("--log-file", default=LOG_FILE, metavar="FILE", help="Where ncu writes its raw page.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM [ARGUMENT]...]")
def command(
    *, where: str | None, traces: tuple[str, ...], top: int, phase: str | None, nvtx: str | None, log_file: str,
    program: tuple[str, ...],
) -> None:  # fmt: skip
    """Print a line that runs PROGRAM under Nsight Compute and collects counters of the kernels that take most time.

    A kernel here is a name with its grid and block. The line selects kernels by name, profiles as many launches as
    needed to meet all of them, and collects the sections that `kerneldb ncu bounds` and the view ncu_roofline read.
    Ingest the file that it writes; `kerneldb ncu coverage` then says which kernels have counters.

    \b
      kerneldb ncu command --trace decoder-h200 --top 20 -- python run.py --steps 2
      kerneldb ncu command --where "category = 'GEMM'" --phase decode -- python run.py
    """
    from kerneldb.api.counters import Counting

    wanted = Counting(where, traces, top, phase, nvtx, log_file, program)
    found = open_database(lock_timeout=READ_WAIT_S).ncu_command(wanted)
    emit_text(found.line + "\n", Output(format="table"))
    note(f"{plural(len(found.kernels), 'kernel')}, {found.share_pct:.1f} % of the selected kernel time")
    if found.profiled:
        note(f"profiles {plural(found.profiled, 'launch', 'launches')} if the program runs as recorded")
    if found.from_sums:
        note("sums have no grids and no order: --launch-count covers the worst case; a lower value may miss kernels")
    if not program:
        note("append your program to the line")
    note(f"then: {kerneldb('ingest', file(log_file))}; kerneldb ncu coverage")


@ncu.command(short_help="Which kernels have counters.")
@selection_options
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the N kernels that take most time.")
@limit_option(TOP)
@output_options
def coverage(*, where: str | None, traces: tuple[str, ...], top: int | None, limit: int | None, output: Output) -> None:
    """Say which of the selected kernels have valid counters, their own or those of a matching launch in another trace.

    A kernel is `covered` where compute and memory throughput and DRAM bytes are known. Several candidates mean that the
    counters were collected for several signatures that match equally well.

    \b
      kerneldb ncu coverage --trace decoder-h200 --top 20
      kerneldb ncu coverage --where "category = 'GEMM' AND phase = 'decode'"
    """
    database = open_database(lock_timeout=READ_WAIT_S)
    result = database.coverage(where=where, traces=traces, top=top)
    note_scope(database, traces)
    if len(result):
        note(_summary(result))
    elif not note_nothing(database, where, traces):
        note("no launches of a timeline are selected; kerneldb ncu bounds shows what ncu profiled")
    emit_rows(result, output, limit, TOP, "n", "total_ns", "share_pct")


def _summary(result: Result) -> str:
    found = result.rows()
    total = sum(row["total_ns"] or 0 for row in found)
    covered = [row for row in found if row["covered"]]
    share = 100 * sum(row["total_ns"] or 0 for row in covered) / total if total else 0.0
    others = sum(bool(row["metrics"]) for row in found) - sum(bool(row["metrics"]) for row in covered)
    also = f"; {others:,} with other counters, without throughput or bytes of DRAM" if others else ""
    return f"{len(covered)} of {plural(len(found), 'kernel')} covered, {share:.1f} % of their time{also}"


@ncu.command(short_help="What limits profiled kernels.")
@click.option("--rule", default="ncu", show_default=True, metavar="NAME", help="Rule that decides.")
@click.option("--kernels", is_flag=True, help="A row per profiled launch instead of one per verdict.")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules with their thresholds and sources.")
@selection_options
@limit_option(None)
@output_options
def bounds(
    *, rule: str, kernels: bool, list_rules: bool, where: str | None, traces: tuple[str, ...], limit: int | None,
    output: Output,
) -> None:  # fmt: skip
    """Show what limits the profiled launches (compute, memory, latency …), with means of their counters per class.

    The rules read counters of Nsight Compute; where one lacks a counter, as with those of rocprofv3, its verdict is
    `unknown`; `balanced` is neither compute nor memory alone, a small grid has fewer blocks than the GPU has room for.
    Thresholds are in the table bound_rules; the view bounds has the verdicts of all rules.

    \b
      kerneldb ncu bounds
      kerneldb ncu bounds --rule roofline --kernels --where "category = 'GEMM'"
      kerneldb ncu bounds --rules
    """
    database = open_database(lock_timeout=READ_WAIT_S)
    if list_rules:
        emit(database.bound_rules().to_reader(), output)
        return
    result = database.bounds(rule, where=where, traces=traces, kernels=kernels)
    if repeated := database.repeated_prints(traces):
        note(f"left out, because another print of the same report is in the run: {', '.join(repeated)}")
    if not len(result) and not note_nothing(database, where, traces):
        note("no launches with counters of Nsight Compute are selected; kerneldb ncu command prints a line for them")
    elif len(result) and {row["verdict"] for row in result.rows()} <= UNKNOWN:
        note(f"the counters that the rule {rule} reads are not there (kerneldb ncu bounds --rules lists them)")
    emit_rows(result, output, limit, None)


@ncu.command(short_help="What Nsight Compute's own rules advise.")
@click.option("--all", "everything", is_flag=True, help="Include what is only information.")
@selection_options
@limit_option(TOP)
@output_options
def rules(*, everything: bool, where: str | None, traces: tuple[str, ...], limit: int | None, output: Output) -> None:
    """Show what the rules of Nsight Compute say of the profiled kernels, the largest estimated speedup first.

    A speedup is an estimate of ncu, of the whole kernel (global) or of the part that the rule looks at (local). The
    view ncu_rules has the rules of each launch.

    \b
      kerneldb ncu rules
      kerneldb ncu rules --where "category = 'GEMM'" --all
    """
    database = open_database(lock_timeout=READ_WAIT_S)
    result = database.ncu_rules(where=where, traces=traces, everything=everything)
    if not len(result) and not note_nothing(database, where, traces):
        note("no rules of Nsight Compute are stored for these launches; details pages and reports hold them")
    emit_rows(result, output, limit, TOP)
