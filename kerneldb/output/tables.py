"""The `table` format: aligned columns for people.

Numbers stand right, with their units below each other; a header does without the unit that the cells show, unless names
are to be exact. A table of a command may end with totals.

Only on a terminal, and not with `wide`, a table fits the width: sentences go below their row, long text is shortened in
the middle, where kernel names differ least, then the least important columns are left out. Only there, and not with
NO_COLOR, it has colours.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import itertools
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from kerneldb.output import units
from kerneldb.output.text import display_width, escape, format_column, shorten, wrapped
from kerneldb.output.values import python_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kerneldb.output import Output

    Columns = Sequence[tuple[str, Sequence[Any]]]

GAP: Final = "  "
MOST_SHARES: Final = 101
"""Shares that add up to more are shares of several wholes."""
ROOMY: Final = 44
"""Text is not shortened below this many cells while there are columns of little importance to leave out."""
SHORTEST: Final = 22
"""Text is not shortened below this many cells while there are any columns to leave out."""
NARROWEST: Final = 8
"""Text of the columns that always stay is not shortened below this."""

NAMES: Final = (
    *("kernel", "short_name", "kernels", "name", "symbol", "object", "column", "op", "module", "cause", "phase"),
    *("operation", "api_call", "metric"),
)
FIGURES: Final = ("delta_ns", "at_stake_ns", "total_ns", "idle_ns", "gap_ns", "recorded_ns", "launches", "n")
"""Which column names the rows, left of the main figure if one does, and which has that figure: the first of each that
a table has always stays."""
SIZES: Final = ("gemm_m", "gemm_n", "gemm_k", "gemm_batch", "grid_x", "grid_y", "grid_z", "bytes")
"""What stands as one problem: the sizes of a product, else the grid of the launch, else the bytes of a copy."""
SENTENCES: Final = ("message", "meaning")
"""Columns that are read to their end: where a terminal has no room for one, it stands below its row."""
LEAST_IMPORTANT: Final = (
    r"path|source|framework_version|is_primary|tags|label|default_phase|ingested_at|world_size|run",
    r"(\w+_)?(id|index)|(\w+_)?(start|end)_ns",
    r"timing|method|matched(_by)?|library|test|low|high|ridge|candidates|profiled|metrics|has_\w+|algorithm|protocol",
    r"group_\w+|traced_ranks|registers|shared_bytes|grid|block|\w*occupancy",
    r"(min|max|p\d+|stddev|mad)(_\w+)?|p_value|l0_(launches|l1_time)_pct|calls|shorter_than_call",
    r"(mean|median|avg)(_\w+)?",
    r"n_\w+|dtype|intensity|previous|call_(before|after)",
)
EMPTY: Final = -1
"""How important a column without values is: it goes before any text becomes short."""
SELDOM: Final = 1
"""The last of these that is less important than what is the same in all rows."""
LITTLE: Final = 4
"""So many of these, from the first on, go before names become short."""
MOST_IMPORTANT: Final = (
    r"problem|(from|to)_dtype|exposed_communication_ns|at_peak_bytes|next_line",
    r"(share|delta|speedup|at_peak|hidden_communication)_pct|pct_attainable|ratio|verdict\w*|grade|bound|covered|rule",
    r"n|launches",
)
"""Columns by name, the first to be left out first. Those that are not listed go between the two, from the right."""

RED, GREEN, YELLOW, CYAN, BOLD, DIM = "31", "32", "33", "36", "1", "2"
"""Colours that can be read on dark and on light terminals."""
WORDS: Final = {
    **dict.fromkeys(("slower", "failed", "L4"), RED),
    **dict.fromkeys(("faster", "ingested", "L0"), GREEN),
    **dict.fromkeys(("changed", "L2", "L3"), YELLOW),
    **dict.fromkeys(("only before", "only after", "L1"), CYAN),
    **dict.fromkeys(("noise", "unchanged", "same", "unknown"), DIM),
}
HEAT: Final = ((25.0, BOLD), (1.0, ""), (0.0, DIM))
"""How a share looks from so many percent on."""


class Rendered(NamedTuple):
    """The lines of a table, and the columns for which the terminal has no room, with what one says in all its rows."""

    lines: list[str]
    left_out: list[str]


@dataclasses.dataclass(slots=True)
class _Column:
    """A column as text, `size` cells wide, with a style for none or for the first of its cells.

    One without `rank` always stays; others are left out by it, the least first. `same` is the text of all its cells.
    """

    name: str
    title: str
    cells: list[str]
    right: bool
    size: int = 0
    rank: int | None = None
    same: str = ""
    styles: Sequence[str] = ()


def write(sink: BinaryIO, reader: pa.RecordBatchReader, output: Output) -> tuple[int, int, list[str]]:
    """Write the first `output.limit` rows (all where None); returns rows shown, rows there are, columns left out."""
    columns, total = _collect(reader, None if output.totals else output.limit)
    return write_columns(sink, columns, output, total)


def write_columns(
    sink: BinaryIO, columns: Columns, output: Output, total: int | None = None
) -> tuple[int, int, list[str]]:
    """As `write`, of values of Python: a first answer need not wait for Arrow to be loaded."""
    there = max((len(values) for _, values in columns), default=0) if total is None else total
    sums = _sums(columns, output) if there > 1 else {}
    label = f"all {there:,}"
    found = render([(name, values[: output.limit]) for name, values in columns], output, sums=sums, label=label)
    sink.write("".join(line + "\n" for line in found.lines).encode("utf-8", errors="replace"))
    return there if output.limit is None else min(there, output.limit), there, found.left_out


def render(
    columns: Columns,
    output: Output,
    *,
    indent: str = "",
    right: Collection[str] = (),
    sums: Mapping[str, Any] | None = None,
    label: str = "",
) -> Rendered:
    """The table of `columns`, as `output` asks for it and the terminal allows.

    Columns of text named in `right` stand right. `sums` by column make a last line, called `label`.
    """
    columns = columns if output.exact_names else for_people(columns)
    totals = {_naming(columns): label, **sums} if sums else {}
    table = [
        _column(name, [*values, totals.get(name, "")] if totals else values, right=name in right)
        for name, values in columns
    ]
    if not output.exact_names:
        _drop_units(table)
    coloured = output.path is None and has_colours()
    for column, rank, (name, values) in zip(table, _ranks(columns), columns, strict=True):
        cells = [column.title, *column.cells] if output.header else column.cells
        column.size, column.rank = max(map(display_width, cells), default=0), rank
        column.styles = _styles(name, values) if coloured else ()
        column.same = column.cells[0].strip() if len(values) > 1 and values[0] is not None and _alike(values) else ""
    width = terminal_width() if output.path is None and not output.wide else None
    below = None if width is None else _sentences(table, width - len(indent))
    left_out = [] if width is None else _fit(table, width - len(indent))
    lines = _lines(table, header=output.header, totals=bool(totals), coloured=coloured)
    if below and width is not None:
        lines = list(_with_sentences(lines, below.cells, width - len(indent), DIM * coloured))
    return Rendered([indent + line for line in lines], left_out)


def html(columns: Columns, more: int) -> str:
    """The table of `columns` as HTML, all text escaped; `more` rows that it does not show are counted below it."""
    from html import escape as quoted

    table = [_column(name, values, right=False) for name, values in for_people(columns)]
    _drop_units(table)
    sides = [f' style="text-align: {"right" if column.right else "left"}"' for column in table]
    titles = [column.title for column in table]

    def row(tag: str, cells: Sequence[str]) -> str:
        texts = (f"<{tag}{side}>{quoted(cell.rstrip())}</{tag}>" for cell, side in zip(cells, sides, strict=True))
        return f"<tr>{''.join(texts)}</tr>"

    body = "\n".join(row("td", cells) for cells in zip(*(column.cells for column in table), strict=True))
    below = f"\n<p>{more:,} more rows</p>" if more else ""
    return f"<table>\n<thead>{row('th', titles)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>{below}"


def for_people(columns: Columns) -> Columns:
    """Columns with one spelling of element types, times to the second, and the sizes of a product beside its name."""
    found = [(name, _readable(name, values)) for name, values in columns]
    sizes = {name: values for name, values in found if name in SIZES}
    if not {"gemm_m", "gemm_n", "gemm_k"} <= sizes.keys():
        return found
    rows = zip(*(sizes.get(name, itertools.repeat(None)) for name in SIZES), strict=False)
    problems = [product(*row[:4]) or _grid(*row[4:7]) or _bytes(row[7]) for row in rows]
    others = [(name, values) for name, values in found if name not in sizes]
    names = [name for name, _ in others]
    place = names.index(_naming(others)) + 1 if not set(NAMES).isdisjoint(names) else 0
    return [*others[:place], ("problem", problems), *others[place:]]


def _grid(x: int | None, y: int | None, z: int | None) -> str | None:
    """What says most of the size of a launch without a problem: grid 17888, grid 64×1×4."""
    sides = (x, y, z)
    return None if None in sides else f"grid {'×'.join(map(str, sides))}".removesuffix("×1").removesuffix("×1")


def _bytes(count: float | None) -> str | None:
    return None if count is None else units.size(count)


def product(m: int | None, n: int | None, k: int | None, batch: int | None) -> str | None:
    """The sizes of a product, of each of a batch in parentheses: 128×64×32, 16×(128×64×32)."""
    if None in (m, n, k):
        return None
    return f"{m}×{n}×{k}" if batch in (None, 1) else f"{batch}×({m}×{n}×{k})"


def _readable(name: str, values: Sequence[Any]) -> Sequence[Any]:
    if re.search(r"dtypes?$", name):
        return [_dtype(value) if isinstance(value, str) else value for value in values]
    return [value.replace(microsecond=0) if isinstance(value, datetime.datetime) else value for value in values]


def _dtype(text: str) -> str:
    """Names of element types, also in a JSON list, as kernels have them: fp16 for c10::Half."""
    from kerneldb.names.dtypes import element_type
    from kerneldb.work.tensors import DTYPES

    def named(found: re.Match[str]) -> str:
        word = found[0].removeprefix("c10::")
        return element_type(word) or DTYPES.get(word) or element_type(word.lower()) or found[0]

    return re.sub(r'[^"\[\],]+', named, text)


def _sums(columns: Columns, output: Output) -> dict[str, Any]:
    """The sums of the columns that have one; none over times that were taken in different ways."""
    values = dict(columns)
    if not output.header or len(set(values.get("timing", ()))) > 1:
        return {}
    sums = {name: sum(value for value in values[name] if value is not None) for name in output.totals if name in values}
    return {name: value for name, value in sums.items() if not name.endswith("_pct") or value < MOST_SHARES}


def _column(name: str, values: Sequence[Any], *, right: bool) -> _Column:
    unit = units.unit_of(name)
    known = [value for value in values if value not in (None, "")]
    is_number = all(isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool) for value in known)
    right = right or (is_number and bool(known or unit))
    cells = format_column(name, values)
    return _Column(name, escape(name), _aligned(cells) if right and unit else cells, right)


def _aligned(cells: list[str]) -> list[str]:
    """Cells with their units padded to one width, so that digits stand below digits."""
    parts = [cell.rpartition(" ") for cell in cells]
    widest = max((len(unit) for figure, _, unit in parts if figure), default=0)
    return [f"{figure} {unit:<{widest}}" if figure else unit for figure, _, unit in parts]


def _styles(name: str, values: Sequence[Any]) -> list[str]:
    """The style of each value: heat for shares, a colour for verdicts and grades; what is not known is dim."""
    if name == "share_pct":
        return [next((style for least, style in HEAT if (share or 0) >= least), "") for share in values]
    words = WORDS if re.search(r"verdict|grade|status|change", name) else {}
    return [DIM if value is None else words.get(value, "") if isinstance(value, str) else "" for value in values]


def _drop_units(table: Sequence[_Column]) -> None:
    """Take units off the titles where the cells show them and the title remains the only one of its name."""
    taken = {column.name for column in table}
    for column in table:
        unit = units.unit_of(column.name)
        if unit is not None and column.right and unit.title not in taken:
            column.title = unit.title
            taken.add(unit.title)


def _ranks(columns: Columns) -> list[int | None]:
    """How important each column is; None for those that always stay.

    What has no value goes first, then places and numbers, then what is the same in all rows.
    """
    names = [name for name, _ in columns]
    figures = [name for name, values in columns if units.unit_of(name) and any(value is not None for value in values)]
    kept = [_naming(columns), next((name for name in (*FIGURES, *figures) if name in names), None)]
    ranks: list[int | None] = []
    for place, (name, values) in enumerate(columns):
        order = (*LEAST_IMPORTANT, "", *MOST_IMPORTANT)
        places = (place for place, pattern in enumerate(order) if re.fullmatch(pattern, name))
        rank, same = next(places, len(LEAST_IMPORTANT)), len(values) > 1 and _alike(values)
        if same and SELDOM < rank <= len(LEAST_IMPORTANT):
            rank = SELDOM
        if all(value is None for value in values):
            rank = EMPTY
        ranks.append(None if name in kept or (place == 0 and rank >= 0 and not same) else rank)
    return ranks


def _alike(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _naming(columns: Columns) -> str:
    """The column that says what a row is about."""
    names = [name for name, values in columns if not values or any(value is not None for value in values)]
    left = names[: next((names.index(name) for name in FIGURES if name in names), None)]
    return next(
        (name for name in NAMES if name in left), next((name for name in (*NAMES, *names) if name in names), "")
    )


def terminal_width() -> int | None:
    """Columns of the terminal on stdout, or None where stdout is something else."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else None


def has_colours() -> bool:
    """Whether stdout is a terminal with colours, and nobody asked for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _sentences(table: list[_Column], width: int) -> _Column | None:
    """The column of sentences, taken out of a table that is too wide with it."""
    found = next((column for column in table if column.name in SENTENCES and column.rank is not None), None)
    if found is None or sum(column.size for column in table) + len(GAP) * (len(table) - 1) <= width:
        return None
    table.remove(found)
    return found


def _with_sentences(lines: Sequence[str], sentences: Sequence[str], width: int, style: str) -> Iterator[str]:
    """The lines of a table, the last of which are its rows, each followed by its sentences over the whole width."""
    head = len(lines) - len(sentences)
    yield from lines[:head]
    for line, text in zip(lines[head:], sentences, strict=True):
        yield line
        yield from (GAP + _styled(part, style) for part in wrapped(text, width - len(GAP)))


def _fit(table: list[_Column], width: int) -> list[str]:
    """Make the table fit `width`; returns the columns that it takes out: those that say one thing first, with that."""
    whole = list(table)
    for shortest, most in ((width, EMPTY), (ROOMY, LITTLE), (SHORTEST, len(LEAST_IMPORTANT) + len(MOST_IMPORTANT))):
        while sum(_sizes(table, width, shortest)) + len(GAP) * (len(table) - 1) > width:
            ranks = ((column.rank, -place) for place, column in enumerate(table))
            going = [(rank, place) for rank, place in ranks if rank is not None and rank <= most]
            if not going:
                break
            del table[-min(going)[1]]
    for column, size in zip(table, _sizes(table, width, NARROWEST), strict=True):
        column.size = size
    gone = sorted((column for column in whole if all(column is not one for one in table)), key=lambda one: not one.same)
    return [f"{column.title} (all {shorten(column.same, ROOMY)})" if column.same else column.title for column in gone]


def _sizes(table: Sequence[_Column], width: int, floor: int) -> list[int]:
    """Sizes of columns, with text as long as `width` allows but not below `floor`; numbers stay whole."""
    sizes, longest = [column.size for column in table], width
    while sum(sizes) + len(GAP) * (len(sizes) - 1) > width and longest > floor:
        longest -= 1
        sizes = [column.size if column.right else min(column.size, longest) for column in table]
    return sizes


def _lines(table: Sequence[_Column], *, header: bool, totals: bool, coloured: bool) -> list[str]:
    rows = zip(*(itertools.zip_longest(column.cells, column.styles, fillvalue="") for column in table), strict=True)
    lines = [_line([(column, *cell) for column, cell in zip(table, row, strict=True)]) for row in rows]
    rule = _styled(GAP.join("-" * column.size for column in table), DIM * coloured)
    if totals:
        lines.insert(len(lines) - 1, rule)
    if header:
        lines[:0] = [_line([(column, column.title, BOLD * coloured) for column in table]), rule]
    return lines


def _line(cells: Sequence[tuple[_Column, str, str]]) -> str:
    texts = []
    for column, whole, style in cells:
        text = shorten(whole, column.size)
        space = " " * (column.size - display_width(text))
        texts.append(space + _styled(text, style) if column.right else _styled(text, style) + space)
    return GAP.join(texts).rstrip()


def _styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


def _collect(reader: pa.RecordBatchReader, limit: int | None) -> tuple[list[tuple[str, list[Any]]], int]:
    columns: list[tuple[str, list[Any]]] = [(name, []) for name in reader.schema.names]
    shown = total = 0
    for batch in reader:
        wanted = batch.num_rows if limit is None else min(batch.num_rows, limit - shown)
        if wanted > 0:
            for (_, values), column in zip(columns, batch.slice(0, wanted).columns, strict=True):
                values.extend(python_values(column))
            shown += wanted
        total += batch.num_rows
    return columns, total
