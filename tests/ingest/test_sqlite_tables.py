"""No table of a profiler's SQLite file may stop its reader, whether it has no row, one or many."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import TraceError, UnreadableTraceError
from kerneldb.ingest import logs, sqlite
from tests.fuzz import corpus, endless, mutations
from tests.ingest import sizes
from tests.ingest.conversion import convert_file
from tests.nvprof.test_nvprof import nvvp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
    with pytest.raises(UnreadableTraceError, match="view NVTX_EVENTS computes its rows"):
        convert_file(path, tmp_path / "spool")


ENDLESS = [name for name, one in corpus.FORMATS.items() if one.mutate is mutations.sqlite]
PAIRED = "SELECT {} FROM numbers AS p JOIN numbers AS q JOIN numbers AS r JOIN numbers AS s LEFT JOIN moved AS n"
FEWER = "SELECT {} FROM numbers AS p JOIN numbers AS q JOIN (SELECT * FROM numbers LIMIT 16) AS r LEFT JOIN moved AS n"
"""Counted in few steps, and yet more rows than the file has bytes."""
SLOW = "SELECT {} FROM moved AS n WHERE length(replace(hex(zeroblob(90000000)), '0', '11')) > 0"
NESTED = "SELECT {} FROM (SELECT * FROM moved) AS n"
VIEWS = (mutations.ENDLESS, PAIRED, FEWER, SLOW, NESTED)


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
    """Whatever computes its rows is refused where it stands for a table that is read."""
    assert any(
        f"its view {table} computes its rows" in _refusal(changed, changed.parent / "spool")
        for table, changed in _changed(tmp_path, kind, lambda path, table: _behind_view(path, table, view))
    )


@pytest.mark.parametrize("kind", ENDLESS)
def test_no_reader_asks_values_that_are_computed(tmp_path: Path, kind: str) -> None:
    said = [_refusal(changed, changed.parent / "spool") for _, changed in _changed(tmp_path, kind, endless.computed)]
    assert any("computed, which no profiler writes" in one for one in said)


@pytest.mark.parametrize("kind", ENDLESS)
def test_no_reader_follows_pages_that_are_shared(tmp_path: Path, kind: str) -> None:
    """Seven levels of pages, each with hundreds of ways to the next: whichever table it is, and before it is read."""
    for _, changed in _changed(tmp_path, kind, endless.shared_pages):
        assert "is met twice" in _refusal(changed, changed.parent / "spool")


def test_only_what_belongs_to_a_log_is_copied(tmp_path: Path) -> None:
    """A log of nothing but holes, as large as it likes, costs nothing; what was written is read."""
    path = tmp_path / "given.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as con:
        con.execute("PRAGMA journal_mode = wal")
        con.execute("CREATE TABLE numbers (number)")
        con.execute("INSERT INTO numbers VALUES (7)")
        con.commit()
        content, log = path.read_bytes(), logs.log_of(path).read_bytes()
    path.write_bytes(content)
    logs.log_of(path).write_bytes(log)
    with logs.log_of(path).open("r+b") as file:
        file.truncate(1 << 40)
    with sqlite.open_database(path) as database:
        assert database.rows("SELECT number FROM numbers") == [(7,)]


def _changed(folder: Path, kind: str, change: Callable[[Path, str], None]) -> Iterator[tuple[str, Path]]:
    """Each table of the sample, and a copy where that table is changed."""
    ((name, content),) = corpus.FORMATS[kind].all()[0].items()
    (folder / name).write_bytes(content)
    for table in sizes.tables(folder / name):
        changed = folder / table / name
        changed.parent.mkdir()
        changed.write_bytes(content)
        change(changed, table)
        yield table, changed


@pytest.mark.parametrize("kind", ENDLESS)
def test_views_that_end_are_read(tmp_path: Path, kind: str) -> None:
    """Those that no reader asks, such as the sums of a device, and those that show tables as they are."""
    ((name, content),) = corpus.FORMATS[kind].all()[0].items()
    (tmp_path / name).write_bytes(content)
    whole = convert_file(tmp_path / name, tmp_path / "spool")
    table = sizes.tables(tmp_path / name)[0]
    with contextlib.closing(sqlite3.connect(tmp_path / name)) as con:
        con.execute(f'CREATE VIEW busy AS SELECT * FROM (SELECT count(*) FROM "{table}"), "{table}"')
        con.execute(f'CREATE VIEW unasked AS SELECT 1 FROM "{table}", "{table}", "{table}", "{table}", "{table}"')
    assert convert_file(tmp_path / name, tmp_path / "again").accounted == whole.accounted
