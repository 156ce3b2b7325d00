"""The read-only access to SQLite files that all readers share."""

from __future__ import annotations

import itertools
import sqlite3
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import readers, sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MANY = 3 * sqlite.BATCH_ROWS + 17
NUMBERS = {"a": pl.Int64, "b": pl.Float64, "c": pl.String}


def write(path: Path, rows: Sequence[tuple[Any, ...]], columns: str = "a INTEGER, b REAL, c TEXT") -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE t ({columns})")
        marks = ", ".join("?" for _ in rows[0])
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    connection.close()
    return path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More rows than a few batches."""
    return write(tmp_path_factory.mktemp("many") / "x.db", [(n, 0.0, "") for n in range(MANY)])


@pytest.fixture(params=["adbc", "standard library"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "adbc":
        monkeypatch.setitem(__import__("sys").modules, "adbc_driver_sqlite", None)
    return str(request.param)


def read(path: Path, sql: str, schema: dict[str, type[pl.DataType]], params: Sequence[Any] = ()) -> pl.DataFrame:
    with sqlite.open_database(path) as database:
        return pl.concat(list(database.frames(sql, schema, params)))


def test_rows_and_types_whatever_comes_first(tmp_path: Path, way: str) -> None:
    """The first 70,000 values of two columns are NULL: inference from the first rows would call them integers."""
    rows = [(n, None if n < 70_000 else n / 2, None if n < 70_000 else str(n)) for n in range(MANY)]
    frame = read(write(tmp_path / "x.db", rows), "SELECT a, b, c FROM t", NUMBERS)
    assert frame.schema == NUMBERS
    assert frame.rows() == rows


def test_the_order_of_the_query_is_kept(tmp_path: Path, way: str) -> None:
    rows = [(n * 7919 % 100_003, 0.0, "") for n in range(100_003)]
    frame = read(write(tmp_path / "x.db", rows), "SELECT a FROM t ORDER BY a DESC", {"a": pl.Int64})
    assert frame["a"].to_list() == list(range(100_002, -1, -1))


def test_batches_are_bounded(many: Path, way: str) -> None:
    with sqlite.open_database(many) as database:
        heights = [frame.height for frame in database.frames("SELECT a FROM t", {"a": pl.Int64})]
    assert sum(heights) == MANY
    assert max(heights) <= sqlite.BATCH_ROWS


def read_in_spans(path: Path, table: str = "t") -> tuple[int, pl.DataFrame]:
    with sqlite.open_database(path) as database:
        spans = database.spans(table)
        frames = database.frames("SELECT a, b, c FROM t WHERE _rowid_ BETWEEN ? AND ?", NUMBERS, spans=spans)
        return len(spans), pl.concat(list(frames))


def test_spans_hold_every_row_once_and_in_order(tmp_path: Path, way: str) -> None:
    """Rows are missing, a column turns from NULL to text, and one span holds a number that is stored as text."""
    rows: list[tuple[Any, ...]] = [
        (n, None if n < 70_000 else n / 2, None if n < 70_000 else str(n)) for n in range(MANY)
    ]
    path = write(tmp_path / "x.db", rows, "a, b REAL, c TEXT")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM t WHERE a BETWEEN 60000 AND 150000 OR a < 5")
        connection.execute("UPDATE t SET a = CAST(a AS TEXT) WHERE a = 151000")
    connection.close()
    spans, frame = read_in_spans(path)
    assert spans == 4
    assert frame.rows() == [row for row in rows if 5 <= row[0] < 60_000 or row[0] > 150_000]


def test_what_has_no_spans(tmp_path: Path) -> None:
    path = write(tmp_path / "x.db", [(1, 2.0, "c")])
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE VIEW v AS SELECT * FROM t")
        connection.execute("CREATE TABLE keyed (k TEXT PRIMARY KEY) WITHOUT ROWID")
        connection.execute("CREATE TABLE empty (a)")
        connection.execute("CREATE TABLE sparse (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO sparse VALUES (1), (9000000000000000000)")
    connection.close()
    with sqlite.open_database(path) as database:
        assert [len(database.spans(name)) for name in ("t", "v", "keyed", "empty", "sparse")] == [1, 0, 0, 0, 0]


def test_leaving_spans_early(many: Path, way: str) -> None:
    with sqlite.open_database(many) as database:
        sql = "SELECT a FROM t WHERE _rowid_ BETWEEN ? AND ?"
        first = next(iter(database.frames(sql, {"a": pl.Int64}, spans=database.spans("t"))))
    assert first["a"][0] == 0


def test_leaving_early(many: Path, way: str) -> None:
    with sqlite.open_database(many) as database:
        first = next(iter(itertools.islice(database.frames("SELECT a FROM t", {"a": pl.Int64}), 1)))
    assert first["a"][0] == 0


def test_parameters_other_types_and_no_rows(tmp_path: Path, way: str) -> None:
    path = write(tmp_path / "x.db", [(n, n / 2, "x") for n in range(10)])
    wanted: dict[str, type[pl.DataType]] = {"a": pl.Int32, "b": pl.Float32}
    frame = read(path, "SELECT a, b FROM t WHERE a >= ? AND c = ?", wanted, (7, "x"))
    assert frame.schema == wanted
    assert frame["a"].to_list() == [7, 8, 9]
    with sqlite.open_database(path) as database:
        assert list(database.frames("SELECT a FROM t WHERE a > 99", {"a": pl.Int64})) == []


@pytest.mark.parametrize("place", [3, 150_000])
def test_whole_numbers_in_other_clothes(tmp_path: Path, way: str, place: int) -> None:
    rows = [(float(n) if n == place else n,) for n in range(place + 100)]
    path = write(tmp_path / "x.db", rows, "a")
    assert read(path, "SELECT a FROM t", {"a": pl.Int64})["a"].to_list() == list(range(place + 100))


@pytest.mark.parametrize(("place", "value"), [(3, "abc"), (3, 2.5), (3, b"\x00\x01"), (150_000, "abc")])
def test_a_value_that_is_no_number_is_unknown(tmp_path: Path, way: str, place: int, value: object) -> None:
    path = write(tmp_path / "x.db", [(value if n == place else n,) for n in range(place + 100)], "a")
    with sqlite.open_database(path) as database:
        found = pl.concat(database.frames("SELECT a FROM t", {"a": pl.Int64}))["a"].to_list()
        assert list(database.odd.values()) == [(1, repr(value))]
    assert found == [None if n == place else n for n in range(place + 100)]


def test_numbers_in_a_column_of_text(tmp_path: Path, way: str) -> None:
    path = write(tmp_path / "x.db", [("x",), (5,), (None,)], "c")
    assert read(path, "SELECT c FROM t", {"c": pl.String})["c"].to_list() == ["x", "5", None]


def test_text_that_is_no_utf8(tmp_path: Path, way: str) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (c TEXT)")
        connection.execute("INSERT INTO t VALUES (CAST(x'61ff62' AS TEXT))")
    connection.close()
    assert read(path, "SELECT c FROM t", {"c": pl.String})["c"].to_list() == ["a\ufffdb"]
    with sqlite.open_database(path) as database:
        assert database.rows("SELECT c FROM t") == [("a\ufffdb",)]


def test_tables_and_views(tmp_path: Path) -> None:
    path = write(tmp_path / "x.db", [(1, 2.0, "c")])
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE VIEW "odd name" AS SELECT a AS "first one", b FROM t')
    connection.close()
    with sqlite.open_database(path) as database:
        assert database.tables() == {"t": ("a", "b", "c"), "odd name": ("first one", "b")}
    assert sqlite.table_names(readers.head_of(path)) == {"t", "odd name"}
    assert sqlite.quoted('a"b') == '"a""b"'


def test_odd_characters_in_the_path(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "a ?&#%41 ü"
    folder.mkdir()
    assert read(write(folder / "x;y.db", [(1, 2.0, "c")]), "SELECT a FROM t", {"a": pl.Int64}).rows() == [(1,)]


def test_nothing_is_written_beside_a_write_ahead_database(tmp_path: Path) -> None:
    path = write(tmp_path / "x.db", [(1, 2.0, "c")])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    before = path.read_bytes()
    assert read(path, "SELECT a FROM t", {"a": pl.Int64}).rows() == [(1,)]
    assert [file.name for file in tmp_path.iterdir()] == ["x.db"]
    assert path.read_bytes() == before


def test_content_of_the_write_ahead_log_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "x.db", [(1, 2.0, "c")])
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO t VALUES (2, 3.0, 'd')")
    writer.commit()
    assert (tmp_path / "x.db-wal").stat().st_size
    assert read(path, "SELECT a FROM t", {"a": pl.Int64}).rows() == [(1,), (2,)]
    writer.close()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(write(path, [(n, 0.0, "x" * 50) for n in range(1000)]).read_bytes()[:9_000])


def header_only(path: Path) -> None:
    path.write_bytes(sqlite.MAGIC + bytes(20))


def text(path: Path) -> None:
    path.write_bytes(b"a,b\n1,2\n")


BROKEN: dict[str, tuple[Callable[[Path], None], type[Exception], str]] = {
    "empty": (empty, UnreadableTraceError, "an empty file"),
    "cut": (cut, UnreadableTraceError, r"cut: 9,000 of [\d,]+ bytes"),
    "header only": (header_only, UnreadableTraceError, "cut after 36 bytes"),
    "text": (text, NotATraceError, "not an SQLite database"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files(tmp_path: Path, kind: str) -> None:
    make, error, pattern = BROKEN[kind]
    make(tmp_path / "x.db")
    with pytest.raises(error, match=pattern) as caught, sqlite.open_database(tmp_path / "x.db"):
        pass
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "x.db") in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTraceError, match="cannot be read"), sqlite.open_database(tmp_path / "gone.db"):
        pass


def test_a_query_that_fails(tmp_path: Path, way: str) -> None:
    path = write(tmp_path / "x.db", [(1, 2.0, "c")])
    with sqlite.open_database(path) as database:
        with pytest.raises(UnreadableTraceError, match="no such column"):
            list(database.frames("SELECT nope FROM t", {"nope": pl.Int64}))
        with pytest.raises(UnreadableTraceError, match="no such table"):
            database.rows("SELECT * FROM nope")
