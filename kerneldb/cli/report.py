"""`kerneldb report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kerneldb.cli.console import note
from kerneldb.cli.diff import Percent
from kerneldb.cli.options import READ_WAIT_S, open_database, trace_names
from kerneldb.cli.root import chosen_database, cli, program, refuse
from kerneldb.output import is_terminal, opened
from kerneldb.shell import Name, file

if TYPE_CHECKING:
    from kerneldb.api import Database
    from kerneldb.report.model import Report

MOST_NAMED: Final = 16
"""Ranks that a command names."""


@cli.command(short_help="A report as one HTML or Markdown file.")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", shell_complete=trace_names)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Default: stdout."
)
@click.option(
    "--format", "layout", type=click.Choice(("html", "md")), help="Default: by the name of -o FILE, else html."
)
@click.option("--compare", is_flag=True, help="What changed from the first TRACE to the second.")
@click.option("--threshold", type=Percent(), default="3%", show_default=True, help="With --compare: see kerneldb diff.")
@click.option("--rule", metavar="NAME", help="Rule that classifies counters (see kerneldb ncu bounds).")
def report(
    traces: tuple[str, ...],
    *,
    output: Path | None,
    layout: str | None,
    compare: bool,
    threshold: float,
    rule: str | None,
) -> None:
    """Write a report: what the trace lacks, advice, where the time goes, timeline, counters, roofline.

    The file opens without a network. Below each table and chart is the query that it comes from.

    \b
      kerneldb report decoder-h200 -o decoder.html
      kerneldb report monday tuesday --compare -o change.html
    """
    from kerneldb import report as reports

    chosen = layout or reports.format_of(output) or "html"
    reports.require()
    if output is None and chosen == "html" and is_terminal():
        refuse("a page is not for a terminal: write it to a file with -o report.html")
    if compare and len(traces) != 2:  # noqa: PLR2004 (before and after)
        refuse(f"--compare takes two traces or runs, not {len(traces)}")
    from kerneldb.report import html, markdown

    text = (markdown if chosen == "md" else html).page(_gathered(traces, rule, threshold if compare else None)).encode()
    with opened(output) as sink:
        sink.write(text)
    if output is not None:
        note(f"wrote {output} ({len(text) / 1e6:,.1f} MB)")


def _gathered(traces: tuple[str, ...], rule: str | None, threshold: float | None) -> Report:
    from kerneldb.report import changes, gather

    if isinstance(place := chosen_database(), Path) and not place.exists():
        _refuse_files(traces)
    database = open_database(lock_timeout=READ_WAIT_S)
    if threshold is None:
        for trace, _, other in database.repeated_by(traces):
            note(f"{trace} holds the same launches as {other}, on which the report is")
        _note_run(database, traces)
        return gather.single(database, traces, rule)
    return changes.comparison(database, traces[0], traces[1], threshold / 100, rule)


def _note_run(database: Database, traces: tuple[str, ...]) -> None:
    """Say of a name that is of a trace and of its run of several ranks that the report is on the trace."""
    rows = database.traces().rows()
    for name in traces:
        ranks = [row["trace"] for row in rows if row["run"] == name and row["rank"] is not None]
        if len(ranks) > 1 and name in ranks and not set(ranks) <= set(traces):
            every = program("report", *map(Name, ranks[:MOST_NAMED]), *["…"] * (len(ranks) > MOST_NAMED))
            note(f"{name} is the trace; all {len(ranks)} ranks of the run of that name: {every}")


def _refuse_files(traces: tuple[str, ...]) -> None:
    """Where traces are files, and there is no database, say which commands make the report."""
    from kerneldb.ingest.source import Source

    if all(Path(one).is_file() for one in traces):
        names = [Name(Source(Path(one)).stem) for one in traces]
        stored, shown = program("ingest", *map(file, traces)), program("report", *names, "-o", "report.html")
        refuse(f"a report is on traces of a database, and there is none: {stored} && {shown}")
