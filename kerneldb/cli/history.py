"""`kerneldb history`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kerneldb.cli.console import emit_rows, emit_text, note, plural
from kerneldb.cli.diff import Percent
from kerneldb.cli.options import limit_option, lock_timeout_option, open_database, output_options
from kerneldb.cli.root import cli

if TYPE_CHECKING:
    from kerneldb.api import Database, Result
    from kerneldb.api.history import History
    from kerneldb.output import Output

ROWS: Final = 20
SHOWN: Final = (
    "happened_at", "commits", "subject", "name", "change_pct", "low_pct", "high_pct", "before_value", "after_value",
    "impact_ns", "cause", "culprit", "detail", "workload", "branch", "device_name", "runs_before", "runs_after",
)  # fmt: skip
DIGITS: Final = 9


@cli.command(short_help="What changed for good over the commits of a program, and why.")
@click.option("--workload", metavar="NAME", help="Only runs of this workload (their tag, label or name).")
@click.option("--branch", metavar="NAME", help="Only runs of commits of this branch.")
@click.option("--subject", metavar="NAME", help="Only kernel, operator, module, budget, total, energy or measured.")
@click.option("--since", metavar="COMMIT|TIME", help="Only what happened at or after it.")
@click.option(
    "--fail-on", type=Percent(), metavar="PERCENT", help="Exit with code 5 where the program got slower by it."
)
@click.option("--update", is_flag=True, help="First take traces in that got a commit other than by ingest.")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page (HTML).")
@limit_option(ROWS)
@lock_timeout_option
@output_options
def history(
    workload: str | None,
    *,
    branch: str | None,
    subject: str | None,
    since: str | None,
    fail_on: float | None,
    update: bool,
    page: Path | None,
    limit: int | None,
    lock_timeout: float,
    output: Output,
) -> None:
    """Show what changed for good over the commits of a program, newest first.

    Traces enter the history by `kerneldb ingest --commit`. Compared are runs of one workload on one branch and kind of
    GPU, in the order of their commits: each kernel (mean of a launch), operator, module, cause of wall time and energy.
    A change needs five runs on either side, and is reported where noise makes less than one such in 10,000 series. The
    shift that all kernels of a run have in common is taken out. `cause` is code or launches (other numbers of them) for
    the program's own changes; clocks, driver, software, machine or same commit for the others, which --fail-on passes
    over.

    \b
      kerneldb history
      kerneldb history --subject kernel --since 2026-11-01
      kerneldb history --workload decode --branch main --fail-on 2%
      kerneldb history --page history.html
    """
    database = open_database(lock_timeout=lock_timeout)
    if update:
        database.update_history()
    found = database.history(workload, branch=branch, subject=subject, since=since)
    _say(found)
    if page is not None:
        _write_page(database, found, page)
    emit_rows(_result(found, output), output, limit, ROWS)
    if fail_on is not None:
        found.check(fail_on)


def _write_page(database: Database, found: History, path: Path) -> None:
    from kerneldb import report as reports

    reports.require()
    from kerneldb.output import Output
    from kerneldb.report import history as pages
    from kerneldb.report import html

    emit_text(html.page(pages.report(database.warehouse, found)), Output(path=path))
    note(f"wrote {path}")


def _result(found: History, output: Output) -> Result:
    """The rows; a table has what people look at, and the commits as a range."""
    from kerneldb.api import Result

    if output.format != "table":
        return Result(found.changes)
    import pyarrow as pa

    ends = zip(*(found.changes[name].to_pylist() for name in ("first_commit", "last_commit")), strict=True)
    ranges = [f"{first[:DIGITS]}..{last[:DIGITS]}" for first, last in ends]
    return Result(found.changes.append_column("commits", pa.array(ranges, pa.string())).select(SHOWN))


def _say(found: History) -> None:
    """Which series there are, and what was not looked at."""
    from kerneldb.api.history import remedy

    for row in found.series:
        where = ", ".join(str(row[key]) for key in ("branch", "device_name") if row[key] is not None)
        rank = "" if row["rank"] is None else f", rank {row['rank']}"
        since = f"since {row['first_at']:%Y-%m-%d}" if row["first_at"].date() != row["last_at"].date() else "on one day"
        note(f"{row['workload']} ({where}{rank}): {plural(row['runs'], 'run')} {since}")
    if found.due:
        note(f"{plural(found.due, 'run was', 'runs were')} not looked at: {remedy()}")
    if not found.series:
        note("no trace has a commit: kerneldb ingest TRACE --commit auto, or kerneldb traces NAME --set commit=SHA")
