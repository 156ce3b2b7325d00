"""`kerneldb show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli.console import emit, emit_text, note
from kerneldb.cli.options import READ_WAIT_S, kernel_names, open_database, output_options
from kerneldb.cli.root import cli

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerneldb.api import SignaturePage
    from kerneldb.output import Output

LAYOUTS = ("table", "json")
CANDIDATES = 20


@cli.command(short_help="Everything known about one kernel.")
@click.argument("kernel", shell_complete=kernel_names)
@output_options
def show(kernel: str, *, output: Output) -> None:
    """Show one kernel: its decoded name, operator call, launch configuration, work, times and counters.

    KERNEL is a name (whole, short, or a part of it) or the beginning of a signature id. A signature is a kernel name
    with one grid, block and operator call; where KERNEL fits several, they are listed with their ids, most time first.
    Counters come from profiled launches of the signature, or of the same launch in another trace, which the page names.

    \b
      kerneldb show MeanOps
      kerneldb show f532157da82d6f27 --json
    """
    if output.format not in LAYOUTS:
        message = f"show prints {' or '.join(LAYOUTS)}"
        raise click.UsageError(message)
    database = open_database(lock_timeout=READ_WAIT_S)
    found = database.signatures(kernel)
    if output.format == "table" and len(found) > 1 and "name" in {row["matched"] for row in found}:
        most = f", the {CANDIDATES} with most time are listed" if len(found) > CANDIDATES else ""
        note(f"{len(found):,} signatures match {kernel!r}{most}; kerneldb show ID shows one")
        emit(found.without("matched").head(CANDIDATES).to_reader(), output)
        return
    page = database.show(kernel)
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
