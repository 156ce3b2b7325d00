"""What commands say: data through the writers, notes and progress on stderr."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from kerneldb.cli import working
from kerneldb.output import Output, Written, terminal, write, write_columns
from kerneldb.output.tables import render
from kerneldb.output.text import escape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa

    from kerneldb.api import Database, Result

MEGABYTE = 1e6
REDRAW_S = 0.1
NAMED = 3
NAMED_COLUMNS = 6


def note(message: str) -> None:
    """One line on stderr, whatever the names in it hold."""
    working.end()
    click.echo(escape(message), err=True)


def note_repeated(database: Database, traces: tuple[str, ...]) -> None:
    """Say which of the named traces hold launches of another trace: sums over all traces leave them out."""
    for trace, run, other in database.repeated_by(traces):
        note(f"{trace} holds the same launches as {other} (run {run}); without --trace only {other} is summed")


def note_scope(database: Database, traces: tuple[str, ...]) -> None:
    """Say what a sum is over, where it is over several traces."""
    from kerneldb.api.adding_up import mixed, scope

    count, gpus = database.scope(traces)
    if count > 1:
        note(f"{scope(count, gpus)}; --trace NAME takes one")
    if warning := mixed(database.kinds(traces)):
        note(warning)


def note_nothing(database: Database, where: str | None, traces: tuple[str, ...]) -> bool:
    """Say why no launch is selected, with near values for the texts of a condition; False where one is."""
    if len(database.analyze("selected", where=where, traces=traces)):
        return False
    of = f" of {', '.join(traces)}" if traces else ""
    if where is None or not where.strip():
        sums = database.sums_only(traces)
        held = "only sums by kernel, which kerneldb top lists" if sums else "nothing that ran on a GPU was recorded"
        note(f"no launches{of or ' in this database'}: {held}")
        return True
    note(f"no launch{of} meets the condition {where.strip()}")
    for line in database.absent_values(where, traces):
        note(line)
    return True


def note_sums(database: Database, traces: tuple[str, ...]) -> None:
    """Say which of the traces a condition leaves out because they hold sums: an answer would seem to cover them."""
    found = database.sums_only(traces)
    if found:
        more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
        what = f"{plural(len(found), 'trace holds', 'traces hold')} sums by kernel and no launches to select from"
        note(f"{what}: {', '.join(found[:NAMED])}{more}; without --where they are listed")


def emit(reader: pa.RecordBatchReader, output: Output) -> Written:
    """Write the rows; say on stderr which rows the limit and which columns the terminal left out."""
    working.end()
    return _told(write(reader, output))


def limited(output: Output, limit: int | None, default: int | None, *totals: str) -> Output:
    """`output` with the row limit that the user gave (0: none), else `default`; `totals` name columns to sum up."""
    chosen = default if limit is None else limit or None
    return dataclasses.replace(output, limit=chosen, totals=totals)


def emit_rows(result: Result, output: Output, limit: int | None, default: int | None, *totals: str) -> None:
    """Write a result. A limit that the user gave (0: none) holds for every format, `default` for tables.

    Tables say `timing` only where there is another one than that of a timeline.
    """
    if limit and output.format != "table":
        result = result.head(limit)
    if output.format == "table" and not output.wide and _only_timeline(result):
        result = result.without("timing")
    emit(result.to_reader(), limited(output, limit, default, *totals))


def _only_timeline(result: Result) -> bool:
    return "timing" in result.columns and set(result.to_arrow()["timing"].to_pylist()) == {"timeline"}


def emit_columns(columns: Mapping[str, Sequence[Any]], output: Output) -> Written:
    """As `emit`, of columns of values, in the format `table`."""
    working.end()
    return _told(write_columns(columns, output))


def _told(written: Written) -> Written:
    if written.shown < written.total:
        note(f"showing {written.shown:,} of {written.total:,} rows; --limit 0 shows all")
    if written.total:
        note_left_out(written.left_out)
    return written


def table(
    columns: Sequence[tuple[str, Sequence[Any]]], output: Output, left_out: list[str], right: Collection[str] = ()
) -> list[str]:
    """The lines of a table of a page; columns without room are added to `left_out`."""
    found = render(columns, output, indent="  ", right=right)
    left_out += found.left_out
    return found.lines


def note_left_out(columns: Iterable[str]) -> None:
    """Say which columns of a table had no room on the terminal."""
    names = list(dict.fromkeys(columns))
    if names:
        more = f" and {len(names) - NAMED_COLUMNS:,} more columns" if len(names) > NAMED_COLUMNS else ""
        note(f"no room for {', '.join(names[:NAMED_COLUMNS])}{more}; --wide shows all")


def emit_text(text: str, output: Output, *, drawn: bool = False) -> None:
    """Write ready text (a page, or JSON) where `output` says; `drawn`: with tables of `table`, and harmless already."""
    from kerneldb.output import opened

    working.end()
    with opened(output.path, drawn=drawn) as sink:
        sink.write(text.encode("utf-8", errors="replace"))


def plural(count: int, word: str, words: str | None = None) -> str:
    """`count` with `word`, or with its plural `words` (default: an s behind it)."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {words or word + 's'}"


class Progress:
    """A line on stderr that follows an ingest: share, MB/s and time left. Draws nothing unless stderr is a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._active = not quiet and sys.stderr.isatty()
        working.end()
        self._label = ""
        self._began = self._drawn = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __call__(self, label: str, done: int, total: int) -> None:
        """`done` of `total` bytes of the file `label` are read."""
        now = time.monotonic()
        if label != self._label:
            self._label, self._began, self._drawn = label, now, 0.0
        if self._active and now - self._drawn >= REDRAW_S:
            self._drawn = now
            terminal.control(terminal.ERASE_LINE)
            click.echo(escape(progress_line(label, done, total, now - self._began)), err=True, nl=False)

    def clear(self) -> None:
        """Remove the line, so that something else can be written."""
        if self._active and self._drawn:
            terminal.control(terminal.ERASE_LINE)
            self._drawn = 0.0


def progress_line(label: str, done: int, total: int, seconds: float) -> str:
    """The text of the progress line after `seconds` of work on one file."""
    speed = done / seconds if seconds > 0 else 0.0
    share = f"{done / total:4.0%}" if total else "    "
    parts = [share, f"{done / MEGABYTE:,.0f} MB", f"{speed / MEGABYTE:,.0f} MB/s"]
    if total and done >= total:
        parts.append("linking and storing")
    elif done and speed:
        parts.append(f"{(total - done) / speed:,.0f} s left")
    return f"{label}  " + "  ".join(parts)
