"""`kerneldb traces`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from kerneldb.cli import working
from kerneldb.cli.console import emit, note, plural
from kerneldb.cli.options import lock_timeout_option, open_database, output_options, pairs, trace_names
from kerneldb.cli.root import cli, refuse
from kerneldb.output.text import escape

NOTES: Final = ("label", "framework_version", "rank", "world_size", "tags", "default_phase")
EXAMPLE: Final = 80
"""Characters of an example of the report in a table; --wide and formats for programs have all."""

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerneldb.api import Database, Result
    from kerneldb.output import Output


@cli.command(short_help="List, name, annotate and remove traces.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=trace_names)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Note on the named traces (precision, batch, …)."
)
@click.option("--unset", multiple=True, metavar="KEY", help="Remove a note from the named traces.")
@click.option("--run", metavar="RUN", help="State the program run of the named traces ('' takes it back).")
@click.option("--rename", nargs=2, metavar="OLD NEW", shell_complete=trace_names, help="Give a trace another name.")
@click.option("--remove", is_flag=True, help="Remove the named traces with all their rows.")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
@click.option("--report", is_flag=True, help="Show what ingest read, repaired and skipped.")
@lock_timeout_option
@output_options
def traces(
    names: tuple[str, ...],
    *,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    run: str | None,
    rename: tuple[str, str] | None,
    remove: bool,
    yes: bool,
    report: bool,
    lock_timeout: float,
    output: Output,
) -> None:
    """List the traces of the database, or change their names, notes and runs.

    Without an option that changes something, all traces (or the named ones) are listed with their notes. is_primary is
    false for a trace of which another one of its run holds all launches, so that sums leave it out.

    \b
      kerneldb traces
      kerneldb traces decoder-h200 --report
      kerneldb traces decoder-h200 --set precision=fp16 --set batch=1
      kerneldb traces --rename decoder-h200 decoder
      kerneldb traces --remove decoder
    """
    changes = pairs(settings)
    noted = bool(changes or unset or run is not None)
    _check(names, needs_names=noted or remove)
    _exclusive({"--remove": remove, "--rename": rename is not None, "--set/--unset/--run": noted, "--report": report})
    if rename is not None and names:
        refuse(f"--rename OLD NEW names its trace itself; leave {' '.join(names)} out")
    database = open_database(lock_timeout=lock_timeout)
    if remove:
        _remove(database, names, yes=yes)
        return
    if rename is not None:
        database.rename(*rename)
    if changes or unset:
        database.tag(names, changes, unset=unset)
    if run is not None:
        database.set_run(names, run or None)
    if not (changes or unset or rename or run is not None):
        found = _reports(database, names, output) if report else _overview(database, names, output)
        emit(found.to_reader(), output)


def _overview(database: Database, names: tuple[str, ...], output: Output) -> Result:
    """The traces; a table leaves out columns that say nothing: runs of one trace each, notes that nobody made."""
    found = database.traces(names)
    if output.format != "table" or output.wide:
        return found
    rows = found.rows()
    usual: dict[str, Callable[[dict[str, Any]], object]] = {
        "run": lambda row: row["trace"],
        "is_primary": lambda _: True,
        **{name: lambda _: None for name in NOTES},
    }
    return found.without(*(name for name, value in usual.items() if all(row[name] == value(row) for row in rows)))


def _reports(database: Database, names: tuple[str, ...], output: Output) -> Result:
    """What ingest said; a table has no paths where each trace is one file, so that reasons have room."""
    found = database.ingest_reports(names)
    if output.format != "table" or output.wide:
        return found
    found = _with_short_examples(found)
    files = {(row["trace"], row["path"]) for row in found.rows()}
    return found if len(files) > len({trace for trace, _ in files}) else found.without("path")


def _with_short_examples(found: Result) -> Result:
    """The report with the beginning of each example: some are whole events, and make lines of thousands of columns."""
    import pyarrow as pa

    from kerneldb.api.result import Result

    table = found.to_arrow()
    place = table.schema.get_field_index("example")
    texts = [text and (text if len(text) <= EXAMPLE else f"{text[:EXAMPLE]}…") for text in table["example"].to_pylist()]
    return Result(table.set_column(place, "example", pa.array(texts, pa.string())))


def _check(names: tuple[str, ...], *, needs_names: bool) -> None:
    if needs_names and not names:
        refuse("name the traces to change: kerneldb traces NAME... (kerneldb traces lists them)")


def _exclusive(actions: dict[str, bool]) -> None:
    wanted = [name for name, given in actions.items() if given]
    if len(wanted) > 1:
        refuse(f"one thing at a time: {' or '.join(wanted)}")


def _remove(database: Database, names: tuple[str, ...], *, yes: bool) -> None:
    found = database.traces(names).rows()
    if not yes:
        listed = escape(", ".join(str(row["trace"]) for row in found))
        # Ask on stderr. Raises click.ClickException for no, click.UsageError where nobody can answer.
        try:
            working.end()
            agreed = click.confirm(f"Remove {plural(len(found), 'trace')} ({listed}) and all their rows?", err=True)
        except click.Abort:
            if sys.stdin.isatty():
                raise
            raise click.UsageError("standard input is not a terminal, so nobody can confirm; add --yes") from None
        if not agreed:
            raise click.ClickException("nothing removed")
    database.remove(names)
    note(f"removed {plural(len(found), 'trace')}")
