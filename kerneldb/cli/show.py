"""`kerneldb show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli.console import emit_text
from kerneldb.cli.options import READ_WAIT_S, open_database, output_options
from kerneldb.cli.root import cli

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerneldb.api import SignaturePage
    from kerneldb.output import Output

LAYOUTS = ("table", "json")


@cli.command(short_help="Everything known about one kernel signature.")
@click.argument("signature")
@output_options
def show(signature: str, *, output: Output) -> None:
    """Show one signature: identity, decoded name, operator call, launch configuration, times, counters, matches.

    SIGNATURE is the id, or a prefix of it that only one signature has. Counters and what bounds the kernel come from
    profiled launches of this signature, or of matches in other traces; then the method says how they match.

    \b
      kerneldb show 3fa2
      kerneldb show 3fa2 --json
    """
    if output.format not in LAYOUTS:
        message = f"show prints {' or '.join(LAYOUTS)}"
        raise click.UsageError(message)
    page = open_database(lock_timeout=READ_WAIT_S).show(signature)
    if output.format == "json":
        from kerneldb.output.records import encode

        emit_text(encode(page.as_dict()).decode() + "\n", output)
    else:
        emit_text("".join(line.rstrip() + "\n" for line in lines(page)), output)


def lines(page: SignaturePage) -> Iterator[str]:
    """The page for people: a section per subject; what is not known is left out."""
    yield f"signature {page.signature_id}"
    for title, fields in page.sections.items():
        known = {key: value for key, value in fields.items() if value is not None}
        if known:
            yield from ["", title, *_fields(known)]
    for title, rows in page.tables.items():
        if rows:
            yield from ["", title, *_table(rows)]


def _fields(fields: Mapping[str, Any]) -> Iterator[str]:
    from kerneldb.output.text import format_column

    size = max(len(key) for key in fields)
    for key, value in fields.items():
        yield f"  {key:<{size}}  {format_column(key, [value])[0]}"


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    from kerneldb.output.text import format_column, lines

    names = list(rows[0])
    columns = [[row[name] for row in rows] for name in names]
    right = [any(isinstance(value, int | float) for value in column) for column in columns]
    cells = [format_column(name, column) for name, column in zip(names, columns, strict=True)]
    return ("  " + line for line in lines(names, cells, right))
