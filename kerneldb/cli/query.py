"""`kerneldb query`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import emit, limited, note, note_nothing
from kerneldb.cli.options import conditions, lock_timeout_option, open_database, output_options, statements
from kerneldb.cli.root import cli, refuse
from kerneldb.cli.tui import browse, on_terminal
from kerneldb.output import TABLE_ROWS

if TYPE_CHECKING:
    from kerneldb.output import Output


@cli.command(short_help="Ask anything in SQL.")
@click.argument("sql", required=False, metavar="[SQL]", shell_complete=statements)
@click.option(
    "-f",
    "--file",
    "source",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Read the SQL from FILE (- is stdin).",
)
@click.option(
    "--where",
    metavar="TEXT",
    shell_complete=conditions,
    help="Condition over `kernels`; the SQL reads the result as the table `selection`.",
)
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help=f"Rows of a table (default {TABLE_ROWS}; 0: all)."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Give up, with exit code 4."
)
@click.option("--write", is_flag=True, help="Allow the SQL to change the database.")
@lock_timeout_option
@output_options
def query(
    sql: str | None,
    *,
    source: Path | None,
    where: str | None,
    limit: int | None,
    timeout: float | None,
    write: bool,
    lock_timeout: float,
    output: Output,
) -> None:
    """Run one SQL statement (DuckDB's dialect) on the database; `-` reads it from stdin.

    Without SQL, on a terminal, an editor opens that completes names, keeps what was run, and writes rows to files.

    `FROM kernels` has a row per launch; `kerneldb db schema` lists all tables, views and macros. SQL can change nothing
    unless --write is given.

    \b
      kerneldb query "SELECT category, sum(duration_ns) FROM kernels GROUP BY 1 ORDER BY 2 DESC"
      kerneldb query --where "op = 'aten::mm'" "SELECT count(*) FROM selection"
      kerneldb query "FROM kernels" -o kernels.parquet
    """
    if sql is None and source is None and on_terminal():
        browse((), where or "", "sql")
        return
    from kerneldb.api.adding_up import warnings
    from kerneldb.warehouse.absent import says_nothing

    text = _text(sql, source)
    database = open_database(lock_timeout=lock_timeout)
    result = database.sql(text, where=where, timeout=timeout, write=write)
    if where is not None and not write:
        note_nothing(database, where, ())
    if not write:
        is_nothing = says_nothing(result.to_arrow())
        for line in database.absent_texts(text, where) if is_nothing else warnings(database.warehouse, text, where):
            note(line)
    emit(result.to_reader(), dataclasses.replace(limited(output, limit, TABLE_ROWS), exact_names=True))


def _text(sql: str | None, source: Path | None) -> str:
    if (sql is None) == (source is None):
        refuse("give the SQL, or a file with -f FILE (- is stdin)")
    if sql == "-" or source == Path("-"):
        text = sys.stdin.read()
    elif source is not None:
        text = source.read_text(encoding="utf-8")
    else:
        text = sql or ""
    if not text.strip():
        refuse("the SQL is empty")
    return text
