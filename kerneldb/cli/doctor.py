"""`kerneldb db doctor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import emit, emit_text
from kerneldb.cli.options import output_options, trace_names
from kerneldb.cli.root import chosen_database, db, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerneldb.api.health import Check
    from kerneldb.output import Output

TRACE_SUFFIXES = {".json", ".gz", ".zst", ".zip", ".nsys-rep", ".sqlite", ".db", ".csv", ".pftrace", ".ncu-rep"}
"""Texts that end so mean a file, not the name of a trace: names have their suffixes taken off."""

MARKS = {"ok": "ok", "note": "note", "warning": "WARNING", "problem": "PROBLEM"}


@db.command(short_help="Check a trace, or the installation.")
@click.argument("trace", required=False, metavar="[TRACE]", shell_complete=trace_names)
@output_options
def doctor(trace: str | None, *, output: Output) -> None:
    """Say what a trace lacks and how to record a better one; without TRACE, check the installation and the database.

    TRACE is a file, or the name of a trace in the database. The exit code is 1 where something does not work at all.

    \b
      kerneldb db doctor
      kerneldb db doctor examples/decoder-h200.json.gz
    """
    from kerneldb.api import health

    database = chosen_database()
    if trace is not None:
        _require_file(trace)
    checks = health.environment(database) if trace is None else health.trace(trace, database)
    if output.format == "table":
        emit_text("".join(line + "\n" for line in page(checks)), output)
    else:
        emit(health.check_table(checks).to_reader(), output)
    if any(check.level == "problem" for check in checks):
        click.get_current_context().exit(1)


def _require_file(text: str) -> None:
    """Refuse folders, and paths of files that do not exist; any other text may be the name of a trace."""
    path = Path(text)
    if path.is_dir():
        refuse(f"{text} is a folder; give one trace file of it")
    if not path.exists() and (len(path.parts) > 1 or path.suffix in TRACE_SUFFIXES):
        from kerneldb.ingest.source import absent

        refuse(str(absent(path, "file")))


def page(checks: Sequence[Check]) -> Iterator[str]:
    """The diagnostics for people: one line each, with the remedy below."""
    from kerneldb.output.tables import terminal_width
    from kerneldb.output.text import escape

    topics = max((len(check.topic) for check in checks), default=0)
    width, indent = terminal_width() or sys.maxsize, " " * (topics + 11)
    for check in checks:
        lead = f"{MARKS.get(check.level, check.level):<8} {escape(check.topic):<{topics}}  "
        yield click.wrap_text(escape(check.message), width, lead, indent)
        if check.remedy:
            yield click.wrap_text(escape(check.remedy), width, f"{indent}-> ", f"{indent}   ")
