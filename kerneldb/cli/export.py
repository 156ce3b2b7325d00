"""`kerneldb db export`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import note, note_nothing, plural
from kerneldb.cli.options import READ_WAIT_S, format_given, objects, open_database, output_options, selection_options
from kerneldb.cli.root import db, refuse
from kerneldb.output import write

if TYPE_CHECKING:
    from kerneldb.output import Output


@db.command(short_help="Write launches or a table to a file.")
@click.option(
    "--table",
    default="kernels",
    show_default=True,
    metavar="NAME",
    shell_complete=objects,
    help="Table, view or macro (see `kerneldb db schema`).",
)
@click.option("--perfetto", is_flag=True, help="Write a trace that ui.perfetto.dev and chrome://tracing open.")
@selection_options
@functools.partial(output_options, default="parquet")
def export(table: str, *, perfetto: bool, where: str | None, traces: tuple[str, ...], output: Output) -> None:
    """Write the selected launches, or any table, view or macro, to a file or stdout, with all columns.

    The format is parquet unless the file name or --format says otherwise. Rows are streamed, so that any number fits.
    With --table, --where is a condition over the columns of that table.

    \b
      kerneldb db export -o kernels.parquet
      kerneldb db export --where "category = 'GEMM'" --format csv | head
      kerneldb db export --table ops --trace decoder-h200 -o ops.parquet
      kerneldb db export --perfetto --trace decoder-h200 -o timeline.json
    """
    if perfetto:
        _export_timeline(table, where, traces, output)
        return
    database = open_database(lock_timeout=READ_WAIT_S)
    with database.stream(table, where=where, traces=traces) as reader:
        written = write(reader, output)
    if table == "kernels" and not written.total:
        note_nothing(database, where, traces)
    if output.path is not None:
        note(f"wrote {plural(written.shown, 'row')} to {output.path}")


def _export_timeline(table: str, where: str | None, traces: tuple[str, ...], output: Output) -> None:
    if table != "kernels" or (format_given() and output.format != "json"):
        refuse("--perfetto writes launches with their host side as JSON; leave --table and --format out")
    written = open_database(lock_timeout=READ_WAIT_S).export_timeline(output.path, where=where, traces=traces)
    if output.path is not None:
        note(f"wrote {plural(written, 'event')} to {output.path}; open it at ui.perfetto.dev")
