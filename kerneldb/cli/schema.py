"""`kerneldb schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kerneldb.cli.console import emit, note
from kerneldb.cli.options import READ_WAIT_S, database_option, open_database, output_options

if TYPE_CHECKING:
    from kerneldb.output import Output


@click.command(short_help="Tables, views, macros and their columns.")
@click.argument("name", required=False, metavar="[OBJECT]")
@output_options
@database_option
def schema(name: str | None, *, output: Output) -> None:
    """List tables, views and macros with their meaning; with OBJECT, how to ask it, and its columns with type and unit.

    \b
      kerneldb schema
      kerneldb schema kernels
    """
    database = open_database(lock_timeout=READ_WAIT_S)
    if name is not None:
        about = database.schema_about(name)
        note(f"{about['kind']} {name}: {about['meaning']}")
        for lead, part in (("", about["notes"]), ("example: ", about["example"])):
            if part:
                note(lead + part)
    emit(database.schema(name).to_reader(), output)
