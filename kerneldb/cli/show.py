"""`kerneldb show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli.console import emit, emit_text, note, note_left_out, table
from kerneldb.cli.options import READ_WAIT_S, kernel_names, open_database, output_options, trace_option
from kerneldb.cli.root import cli, refuse
from kerneldb.output.tables import NARROWEST, for_people, terminal_width
from kerneldb.output.text import format_column, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kerneldb.api import SignaturePage
    from kerneldb.output import Output

LAYOUTS = ("table", "json")
CANDIDATES = 20


@cli.command(short_help="Everything known about one kernel.")
@click.argument("kernel", shell_complete=kernel_names)
@trace_option
@output_options
def show(kernel: str, *, traces: tuple[str, ...], output: Output) -> None:
    """Show one kernel: its decoded name, operator call, launch configuration, work, times and counters.

    KERNEL is a name (whole, short, or a part of it) or the beginning of a signature id. A signature is a kernel name
    with one grid, block and operator call; where KERNEL fits several, they are listed with their ids, most time first.
    Counters come from profiled launches of the signature, or of the same launch in another trace, which the page names.
    matches are signatures of other traces that are the same launch, by what (method), and of how many candidates.

    \b
      kerneldb show MeanOps
      kerneldb show MeanOps --trace decoder-h200
      kerneldb show f532157da82d6f27 --json
    """
    if output.format not in LAYOUTS:
        refuse(f"show prints {' or '.join(LAYOUTS)}")
    database = open_database(lock_timeout=READ_WAIT_S)
    found = database.signatures(kernel, traces=traces)
    if output.format == "table" and len(found) > 1 and "name" in {row["matched"] for row in found}:
        most = f", the {CANDIDATES} with most time are listed" if len(found) > CANDIDATES else ""
        note(f"{len(found):,} signatures match {kernel!r}{most}; kerneldb show ID shows one")
        emit(found.without("matched").head(CANDIDATES).to_reader(), output)
        return
    page = database.show(kernel, traces=traces)
    if output.format == "json":
        from kerneldb.output.records import encode

        emit_text(encode(page.as_dict()).decode() + "\n", output)
    else:
        left_out: list[str] = []
        emit_text("".join(line.rstrip() + "\n" for line in lines(page, output, left_out)), output, drawn=True)
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
        for place, part in enumerate(wrapped(text, room) or [""]):
            yield f"  {'' if place else key:<{size}}  {part}"
