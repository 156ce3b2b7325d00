"""`kerneldb show`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli.console import emit_text, note_left_out, table
from kerneldb.cli.options import READ_WAIT_S, database_option, open_database, output_options
from kerneldb.output.tables import NARROWEST, for_people, terminal_width
from kerneldb.output.text import format_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kerneldb.api import SignaturePage
    from kerneldb.output import Output

LAYOUTS = ("table", "json")


@click.command(short_help="Everything known about one kernel signature.")
@click.argument("signature")
@output_options
@database_option
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
        left_out: list[str] = []
        emit_text("".join(line.rstrip() + "\n" for line in lines(page, output, left_out)), output)
        note_left_out(left_out)


def lines(page: SignaturePage, output: Output, left_out: list[str]) -> Iterator[str]:
    """The page for people: a section per subject; what is not known is left out."""
    yield f"signature {page.signature_id}"
    for title, fields in page.sections.items():
        known = {key: value for key, value in fields.items() if value is not None}
        if known:
            yield from ["", title, *_fields(known, output)]
    for title, rows in page.tables.items():
        if rows:
            columns = [(name, [row[name] for row in rows]) for name in rows[0]]
            yield from ["", title, *table(columns, output, left_out)]


def _fields(fields: Mapping[str, Any], output: Output) -> Iterator[str]:
    """A line per field, or several where a terminal has no room for its value."""
    known = for_people([(key, [value]) for key, value in fields.items()])
    size = max(len(key) for key, _ in known)
    width = None if output.wide or output.path else terminal_width()
    for key, values in known:
        text = format_column(key, values)[0]
        room = len(text) + 1 if width is None else max(width - size - 4, NARROWEST)
        for place, part in enumerate(textwrap.wrap(text, room) or [""]):
            yield f"  {'' if place else key:<{size}}  {part}"
