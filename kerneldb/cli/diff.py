"""`kerneldb diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kerneldb.cli.console import emit_rows, note
from kerneldb.cli.lacking import FORWARD_ONLY, note_unknown, note_unsplit
from kerneldb.cli.options import (
    READ_WAIT_S,
    conditions,
    draw,
    limit_option,
    open_database,
    output_options,
    plot_option,
    trace_names,
)
from kerneldb.cli.root import cli, refuse
from kerneldb.output.text import shorten
from kerneldb.output.units import duration

if TYPE_CHECKING:
    import pyarrow as pa

    from kerneldb.api.analyses import Difference
    from kerneldb.output import Output

ROWS: Final = 20
SHOWN: Final = (
    "kernel", "op", "verdict", "changed_in", "matched_by", "n_before", "n_after", "total_before_ns", "total_after_ns",
    "delta_ns", "delta_pct", "count_delta_ns", "mean_delta_ns", "mean_before_ns", "mean_after_ns", "own_delta_pct",
    "p_value", "gemm_m", "gemm_n", "gemm_k", "gemm_batch", "grid_x", "grid_y", "grid_z", "bytes",
)  # fmt: skip
BOTH: Final = 2
LIST_CELLS: Final = 72
"""So wide is a list of names in a table, which `--wide` and other formats have whole."""
OF_LAUNCHES: Final = ("change", "n_before", "n_after", "count_delta_ns", "mean_delta_ns")
"""What tells a change of number from one of length: a cause has stretches of time, whose number says nothing."""
BY: Final = ("op", "module", "category", "phase", "dtype", "kernel", "cause", "fusion")


class Percent(click.ParamType[float]):
    """A share in percent, with or without the sign: `3%` or `3`."""

    name = "percent"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number before the sign."""
        try:
            number = float(str(value).strip().removesuffix("%"))
        except ValueError:
            self.fail(f"{value!r} is not a percentage", param, ctx)
        if number < 0:
            self.fail("must not be negative", param, ctx)
        return number


@cli.command(short_help="What changed between two traces or runs.")
@click.argument("before", shell_complete=trace_names)
@click.argument("after", shell_complete=trace_names)
@click.option(
    "--where", metavar="TEXT", shell_complete=conditions, help="Compare only launches that meet this condition."
)
@click.option(
    "--threshold", type=Percent(), default="3%", show_default=True, help="Smaller changes of a mean are `unchanged`."
)
@click.option("--fail-on", type=Percent(), metavar="PERCENT", help="Exit with code 5 where the time grew by as much.")
@click.option("--all", "everything", is_flag=True, help="Tables also show what did not change, and all counters.")
@click.option(
    "--by",
    type=click.Choice(BY),
    help="Sum by this instead; cause: wall time, as `kerneldb why --budget`; fusion: what became what.",
)
@click.option("--metrics", is_flag=True, help="Compare the means of hardware counters.")
@click.option("--classes", is_flag=True, help="Compare what limits each kernel, by its counters.")
@click.option(
    "--rule", default="ncu", show_default=True, metavar="NAME", help="Rule that classifies (kerneldb ncu bounds)."
)
@plot_option
@limit_option(ROWS)
@output_options
def diff(
    before: str, after: str, *, where: str | None, threshold: float, fail_on: float | None, everything: bool,
    by: str | None, metrics: bool, classes: bool, rule: str, plot: Path | None, limit: int | None, output: Output,
) -> None:  # fmt: skip
    """Show what changed from BEFORE to AFTER, kernel by kernel, largest change first.

    Each is the name of a trace, of a run or a label, or a pattern ('nightly-*') for several traces. Kernels are matched
    by signature, then by name, then by operator; the rows add up to the totals of both sides. A change of the time is
    count_delta (other numbers of launches) and mean_delta (other durations). If all kernels became slower by
    the same factor, as with lower clocks, that factor is printed once, and own_delta is what is left. `slower` and
    `faster` are changes over --threshold beyond it which pass two tests at 5 % (Holm's correction for many tests): a
    Mann-Whitney test over the launches, and whether the kernel moved more than kernels do from one recording to the
    next. Each place that launches a kernel (its module, else its position in an iteration) is tested by itself, too:
    changed_in says which changed, where others did not. `noise` is over the threshold and not beyond chance, `too few`
    has too few launches to tell; both are shown where they make the total change by more than the threshold. More
    traces than two are side by side in `kerneldb analyze compare`, with registers, occupancy and throughput.

    With --by, rows are sums, such as of operators; the time that ranks waited for each other has its own row.
    --by fusion is for programs whose kernels differ, such as one and the same compiled: which operators of a typical
    iteration became which kernels, by what lies between the same products, attentions and collectives.

    \b
      kerneldb diff monday tuesday
      kerneldb diff monday tuesday --by cause
      kerneldb diff decoder-h200 decoder-h200 --where "phase = 'decode'" --fail-on 3%
      kerneldb diff 'monday-*' 'tuesday-*' --where steady_state
      kerneldb diff counters-v1 counters-v2 --metrics
    """
    judged = fail_on is not None or plot is not None
    if by is not None and (metrics or classes or judged):
        refuse("--by goes with none of --metrics, --classes, --fail-on and --plot")
    if (metrics or classes) and (where is not None or judged or (metrics and classes)):
        refuse("--metrics and --classes cannot be combined with --where, --fail-on or --plot")
    if by is not None:
        _by(before, after, by, where, threshold, output, limit, everything=everything)
        return
    if metrics or classes:
        _counters(before, after, rule, output, limit, classes=classes, everything=everything)
        return
    from kerneldb.api import Result

    found = open_database(lock_timeout=READ_WAIT_S).diff(before, after, where=where, threshold=threshold / 100)
    note(summary(before, after, found))
    for remark in filter(None, (found.doubt(), *found.remarks())):
        note(remark)
    draw("diff", found.table.to_pylist() if plot else [], plot)
    shown = _shown(found, everything=everything) if output.format == "table" else found.table
    emit_rows(Result(shown), output, limit, ROWS)
    if fail_on is not None:
        found.check(fail_on)


def _by(
    before: str,
    after: str,
    by: str,
    where: str | None,
    threshold: float,
    output: Output,
    limit: int | None,
    *,
    everything: bool,
) -> None:
    """Print the sums of both sides; a table leaves out what did not change, but for what `everything` asks for."""
    from kerneldb.api import Result
    from kerneldb.api.analyses import other_gpus

    database = open_database(lock_timeout=READ_WAIT_S)
    if told := other_gpus(database.gpus_of(before, after), names_differ=by in {"kernel", "fusion"}):
        note(told)
    if by == "fusion":
        found = database.fusions(before, after, where=where).to_arrow()
        shown = _cut(found, "before", "after") if output.format == "table" and not output.wide else found
        emit_rows(Result(shown), output, limit, ROWS, "delta_ns")
        return
    table = database.diff_by(before, after, by, where=where, threshold=threshold / 100).to_arrow()
    totals = [sum(table[f"total_{side}_ns"].to_pylist()) for side in ("before", "after")]
    what = "wall time" if by == "cause" else "GPU time"
    note(f"{before} -> {after}: {what} {duration(totals[0])} -> {duration(totals[1])}")
    if not note_unknown(by, Result(table), "name") and by == "module" and None in table["name"].to_pylist():
        note(f"{FORWARD_ONLY}, kerneldb report --compare")
    if output.format == "table":
        table = (table if everything else _without(table, "change", ("unchanged",))).rename_columns({"name": by})
        if by == "cause":
            table = table.drop_columns([*OF_LAUNCHES])
            note_unsplit(Result(table), by)
    emit_rows(Result(table), output, limit, ROWS, "delta_ns", "count_delta_ns", "mean_delta_ns")


def _cut(table: pa.Table, *columns: str) -> pa.Table:
    """With long texts of some columns shortened in the middle: lists of names, of which nobody reads dozens."""
    import pyarrow as pa

    for name in columns:
        texts = [text and shorten(text, LIST_CELLS) for text in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, pa.array(texts, pa.string()))
    return table


def _counters(
    before: str, after: str, rule: str, output: Output, limit: int | None, *, classes: bool, everything: bool
) -> None:
    """Print what changed between two sets of counters; a table leaves out what `everything` asks for."""
    from kerneldb.api import Result

    found = open_database(lock_timeout=READ_WAIT_S).diff_counters(before, after, rule=rule)
    note(f"{before} -> {after}: {found.sentence()}")
    table = found.classes if classes else found.metrics
    if output.format == "table" and not everything:
        table = _without(table, "change", ("same",)) if classes else _overall(table)
    emit_rows(Result(table), output, limit, ROWS)


def _shown(found: Difference, *, everything: bool) -> pa.Table:
    """What changed: the kernels whose mean or number of launches did, and those that matter to the total."""
    import pyarrow as pa

    table = found.table.select(SHOWN)
    return table if everything else table.filter(pa.array(found.shown(), pa.bool_()))


def _without(table: pa.Table, column: str, values: tuple[str, ...]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    return table.filter(pc.invert(pc.is_in(table[column], pa.array(values))))


def _overall(table: pa.Table) -> pa.Table:
    """The means over all kernels of the counters that reports show."""
    import pyarrow.compute as pc

    return table.filter(pc.and_(pc.is_null(table["kernel"]), pc.is_valid(table["title"]))).drop_columns(
        ["kernel", "matched_by"]
    )


def summary(before: str, after: str, found: Difference) -> str:
    """One line: the totals, the common shift, and how many rows have which verdict."""
    change = "" if found.delta_pct is None else f" ({found.delta_pct:+.2f} %)"
    times = f"{duration(found.before_ns)} -> {duration(found.after_ns)}{change}"
    verdicts = ", ".join(f"{n:,} {verdict}" for verdict, n in found.by_verdict.items())
    untimed = [name for name, ns in ((before, found.before_ns), (after, found.after_ns)) if not ns]
    if found.steady_state is not None and found.iteration_delta_pct is not None:
        one, other = (duration(side.mean_ns) for side in found.steady_state)
        times += f"; a steady-state iteration {one} -> {other} ({found.iteration_delta_pct:+.2f} %)"
    shift = f"; common shift {found.common_shift_pct:+.2f} %" if found.common_shift_pct else ""
    said = [] if len(untimed) == BOTH else [f"GPU time {times}{shift}", *filter(None, [verdicts])]
    if untimed:
        said.append(f"no launches of a timeline in {' and '.join(untimed)}: --metrics compares counters")
    return f"{before} -> {after}: {'; '.join(said)}"
