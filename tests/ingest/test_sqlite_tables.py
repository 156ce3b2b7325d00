"""No table of a profiler's SQLite file may stop its reader, whether it has no row, one or many."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import TraceError, UnreadableTraceError
from tests.fuzz import corpus, mutations
from tests.ingest import sizes
from tests.ingest.conversion import convert_file
from tests.nvprof.test_nvprof import nvvp

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "nsys": "field/nsight/nsys-2025.5.2-two-graph-launches.sqlite",
    "nsys with samples of the CPU": "data/nsys/nsightful_power_iteration.sqlite",
    "rocpd": "data/rocprof/synthetic_gfx1151_full.db",
    "rpd": "data/rocprof/rpd_matmul_result.rpd",
    "nvprof": None,
}

GROUPS = 4
"""Conversions per file: tables that are changed together are far apart in the order of their names."""


def _marks(kind: str, rows: int) -> list[pytest.MarkDecorator]:
    """Every reader has empty tables and tables of many rows; one row is seldom another case."""
    return [pytest.mark.volume] if rows == 1 or (rows and "samples" in kind) else []


EACH = [pytest.param(kind, rows, marks=_marks(kind, rows)) for kind in FILES for rows in (0, 1, sizes.MANY)]


@pytest.mark.parametrize(("kind", "rows"), EACH)
def test_any_table_may_have_any_number_of_rows(field: Path, tmp_path: Path, kind: str, rows: int) -> None:
    place = FILES[kind]
    path = nvvp(tmp_path / "given.nvvp") if place is None else field.parent / place
    tables = sizes.tables(path)
    read = False
    for start in range(GROUPS):
        together = tables[start::GROUPS]
        if _is_read(path, tmp_path / f"{start}", together, rows):
            read = True
        elif len(together) > 1:
            for table in together:  # what one table stops says nothing of those beside it
                read |= _is_read(path, tmp_path / table, [table], rows)
    assert read


def _is_read(path: Path, folder: Path, tables: list[str], rows: int) -> bool:
    """Whether a copy with so many rows in some tables is read. A table may be missed: the error then says so."""
    folder.mkdir()
    changed = sizes.resized(path, folder / path.name, tables, rows)
    try:
        converted = convert_file(changed, folder / "spool")
    except TraceError:
        return False
    assert converted.accounted > 0, tables
    assert not any("new to this version" in reason for reason in converted.report("skipped")), tables
    return True


def test_a_view_without_end_is_refused(field: Path, tmp_path: Path) -> None:
    path = field / "hostile" / "endless-view.sqlite"
    with pytest.raises(UnreadableTraceError, match="view NVTX_EVENTS is recursive and may never end"):
        convert_file(path, tmp_path / "spool")


ENDLESS = [name for name, one in corpus.FORMATS.items() if one.mutate is mutations.sqlite]
PAIRED = "SELECT {} FROM numbers AS p JOIN numbers AS q JOIN numbers AS r JOIN numbers AS s LEFT JOIN moved AS n"
FEWER = "SELECT {} FROM numbers AS p JOIN numbers AS q JOIN (SELECT * FROM numbers LIMIT 16) AS r LEFT JOIN moved AS n"
"""Counted in few steps, and yet more rows than the file has bytes."""
VIEWS = {
    mutations.ENDLESS: "is recursive and may never end",
    PAIRED: "pairs or repeats rows of tables, far more than the file has",
    FEWER: "pairs or repeats rows of tables, far more than the file has",
}


def _behind_view(path: Path, table: str, view: str) -> None:
    """Have `table` be a view of itself."""
    with contextlib.closing(sqlite3.connect(path)) as con:
        one = "n" if view == mutations.ENDLESS else 'n."{}"'
        named = con.execute("SELECT name FROM pragma_table_info(?)", (table,))
        columns = [f'{one.format(column)} AS "{column}"' for (column,) in named]
        con.execute(f'ALTER TABLE "{table}" RENAME TO moved')
        con.execute("CREATE TABLE numbers (number)")
        con.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(400)])
        con.execute(f'CREATE VIEW "{table}" AS ' + view.format(", ".join(columns)))
        con.commit()


def _refusal(path: Path, folder: Path) -> str:
    """What is said of a file that is refused; nothing of one that is read."""
    try:
        convert_file(path, folder)
    except UnreadableTraceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ENDLESS)
def test_no_reader_asks_a_view_without_end(tmp_path: Path, kind: str, view: str) -> None:
    """A recursive one is refused wherever it is, one that pairs rows where it stands for a table that is read."""
    ((name, content),) = corpus.FORMATS[kind].all()[0].items()
    (tmp_path / name).write_bytes(content)
    said = []
    for table in sizes.tables(tmp_path / name):
        changed = tmp_path / table / name
        changed.parent.mkdir()
        changed.write_bytes(content)
        _behind_view(changed, table, view)
        said.append(f"its view {table} {VIEWS[view]}" in _refusal(changed, tmp_path / table / "spool"))
    assert all(said) if view == mutations.ENDLESS else any(said)


@pytest.mark.parametrize("kind", ENDLESS)
def test_views_that_end_are_read(tmp_path: Path, kind: str) -> None:
    """Such as the sums of a device beside the span of the whole, which is a join of all rows of two queries."""
    ((name, content),) = corpus.FORMATS[kind].all()[0].items()
    (tmp_path / name).write_bytes(content)
    whole = convert_file(tmp_path / name, tmp_path / "spool")
    table = sizes.tables(tmp_path / name)[0]
    with contextlib.closing(sqlite3.connect(tmp_path / name)) as con:
        con.execute(f'CREATE VIEW busy AS SELECT * FROM (SELECT count(*) FROM "{table}"), "{table}"')
        con.execute(f'CREATE VIEW unasked AS SELECT 1 FROM "{table}", "{table}", "{table}", "{table}", "{table}"')
    assert convert_file(tmp_path / name, tmp_path / "again").accounted == whole.accounted
