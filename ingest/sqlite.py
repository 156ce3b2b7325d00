"""SQLite files of profilers, read only: small results through the standard library, columns streamed through ADBC.

No DuckDB extension is involved. Nothing is written to the file nor beside it: it is opened as immutable, so SQLite
makes no `-wal` or `-shm`; where a `-wal` left there holds part of the content, a private copy of both is read. Before,
the locks are looked at: what another program is writing is refused. The SQL that readers pass in is SQLite's, made of
constants and of names from `quoted`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import sqlite3
import struct
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest.endless import Column, Definitions, Master
from kerneldb.ingest.logs import log_of, merged, refuse_locked
from kerneldb.ingest.pages import require_trees
from kerneldb.ingest.source import Source, local_file

if TYPE_CHECKING:
    import polars as pl

    from kerneldb.ingest.readers import Head

    Schema = Mapping[str, type[pl.DataType]]

T = TypeVar("T")
Odd = dict[str, tuple[int, str]]
"""Why values were left empty → how many, and the first."""
Span = tuple[int, int]
"""First and last row number of a part of a table."""

MAGIC: Final = b"SQLite format 3\x00"
HEADER_BYTES: Final = 100
BATCH_ROWS: Final = 1 << 16
AHEAD: Final = 4
TOGETHER: Final = 4
MOST_SPANS: Final = 4096
CREATED: Final = re.compile(rb'CREATE (?:TABLE|VIEW) (?:IF NOT EXISTS )?["\[`]?(\w+)', re.IGNORECASE)
TYPED: Final = {"Int64": "0", "Float64": "0.0", "String": "''"}
MISMATCH: Final = "Type mismatch"
TRY: Final = "SELECT 1 FROM sqlite_master LIMIT 1"
COLUMNS: Final = "SELECT name, dflt_value, hidden FROM pragma_table_xinfo(?)"
MASTERS: Final = """
SELECT CAST(type AS TEXT), coalesce(CAST(name AS TEXT), ''), CAST(rootpage AS INTEGER), CAST(sql AS TEXT)
FROM sqlite_master ORDER BY rowid
"""
STEPS: Final = 1_000_000
STEPS_PER_BYTE: Final = 10
"""Steps of SQLite's machine to read the list of tables: far more than one of as many bytes takes."""
LOCKED: Final = re.compile("locked|busy")
ABSENT: Final = re.compile("no such|^error in (view|virtual table)")
"""What SQLite says of a definition whose parts are not there; damage and locks have other messages."""
"""In the plan of a query. Source: https://www.sqlite.org/eqp.html."""
LOCK_S: Final = 0.2
WAL_AT: Final = 18
WAL_MODE: Final = 2
EXPORT_AGAIN: Final = "Copy it again, or export it again with the profiler."


class UncleanColumnError(Exception):
    """A column holds values of more than one type; the standard library then reads them one by one."""


def quoted(name: str) -> str:
    """An identifier of SQLite's SQL."""
    return '"' + name.replace('"', '""') + '"'


def is_database(head: bytes) -> bool:
    """Whether the first bytes of a file are those of an SQLite database."""
    return head.startswith(MAGIC)


def table_names(head: Head) -> frozenset[str]:
    """Tables and views of the database whose head this is; empty for other files and for damaged ones.

    Of a compressed file, those whose definitions are among the first bytes, which is where SQLite puts them.
    """
    return names_in(head.path, head.data)


def names_in(path: Path, data: bytes) -> frozenset[str]:
    """As `table_names`, of the file at `path` that begins, decompressed, with `data`."""
    if not is_database(data):
        return frozenset()
    with contextlib.suppress(NotATraceError, UnreadableTraceError, OSError):
        files = (path, log_of(path))
        states = [file.stat() if file.exists() else None for file in files]
        return _names_of(path, *(None if state is None else (state.st_size, state.st_mtime_ns) for state in states))
    return frozenset(name.decode() for name in CREATED.findall(data))


@functools.lru_cache(maxsize=64)
def _names_of(path: Path, *_stamps: tuple[int, int] | None) -> frozenset[str]:
    """Kept for the readers that ask next, until a file changes."""
    with open_database(path) as database:
        return frozenset(database.tables())


def refuse_damaged(path: Path, head: bytes) -> None:
    """Raise UnreadableTraceError where a database with this decompressed head is cut, locked or unfinished."""
    if not is_database(head):
        return
    if len(head) < HEADER_BYTES:
        raise _cut_short(path, len(head))
    with path.open("rb") as file:
        plain = is_database(file.read(len(MAGIC)))
    if plain:
        with open_database(path):
            pass


@contextlib.contextmanager
def open_database(path: Path, room: Path | None = None) -> Iterator[Database]:
    """The database at `path` (uncompressed), open for reading; where it needs a copy, that is in the folder `room`.

    Raises NotATraceError for a file that is not an SQLite database, UnreadableTraceError for one that is cut, locked or
    left behind by a writer that died.
    """
    header = _check(path)
    try:
        with (
            _readable(path, header, room) as real,
            _connected(uri := real.as_uri() + "?immutable=1", real.stat().st_size) as connection,
        ):
            connection.text_factory = _text
            masters = connection.execute(MASTERS).fetchall()
            require_trees(path, real, [root for _, _, root, _ in masters if root])
            connection.set_progress_handler(None, 0)
            yield Database(path, connection, uri, masters)
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


@contextlib.contextmanager
def opened(one: Source, near: Path) -> Iterator[Database]:
    """The database in a source; a compressed one is unpacked beside the folder `near`. Raises as `open_database`.

    The source counts what was left empty. Whoever removes the folder that `near` is in removes what a killed process
    unpacked, too.
    """
    near.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="kerneldb-unpacked-", dir=near.parent) as folder,
        open_database(local_file(one, Path(folder)), Path(folder)) as database,
    ):
        database.odd = one.odd
        yield database


@contextlib.contextmanager
def _connected(uri: str, size: int) -> Iterator[sqlite3.Connection]:
    """A connection for any thread, as batches are read on a thread of their own, to a file of `size` bytes.

    It ends a list of tables, or statistics of them, that go on without end: SQLite reads both before anything else.
    """
    left = itertools.repeat(0, 1 + STEPS_PER_BYTE * size // STEPS)
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=LOCK_S, check_same_thread=False)) as connection:
        connection.set_progress_handler(lambda: next(left, 1), STEPS)
        yield connection


@contextlib.contextmanager
def _readable(path: Path, header: bytes, room: Path | None) -> Iterator[Path]:
    """What to open as immutable: the file, or a copy of it with the write-ahead log that was left beside it."""
    log = log_of(path)
    unfinished = log.exists() and log.stat().st_size > 0
    if header[WAL_AT] != WAL_MODE:
        _refuse_written(path)
    elif unfinished and sys.platform == "linux":
        refuse_locked(path, log)
    if not unfinished:
        yield path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="kerneldb-sqlite-", dir=room) as folder:
        yield merged(path, Path(folder))


def _refuse_written(path: Path) -> None:
    """Raise UnreadableTraceError where a writer holds the file: SQLite's own locks, for one read.

    Not for write-ahead logs: SQLite would make files beside it.
    """
    with _connected(path.resolve().as_uri() + "?mode=ro", path.stat().st_size) as probe:
        try:
            probe.execute(TRY).fetchone()
        except sqlite3.OperationalError as error:
            if LOCKED.search(str(error)):
                raise _unreadable(path, error) from error


class Database:
    """An open database. `frames` reads on a connection of its own, to `uri`; `path` is how messages name it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, uri: str, masters: Sequence[Master]) -> None:
        self.path = path
        self._connection = connection
        self._uri = uri
        self._tables: dict[str, tuple[str, ...]] | None = None
        self.odd: Odd = {}
        self._masters = masters
        self._definitions = Definitions(path, masters, self._columns)

    def tables(self) -> dict[str, tuple[str, ...]]:
        """Name of each table and view → names of its columns. Raises UnreadableTraceError.

        A view of a table that is not there, or a virtual table of a module that is not, is none.
        """
        if self._tables is None:
            names = self._names("table", "view")
            found = {name: columns for name in names if (columns := self._columns(name)) is not None}
            self._tables = {
                name: tuple(one for one, _, hidden in columns if not hidden) for name, columns in found.items()
            }
        return self._tables

    def views(self) -> frozenset[str]:
        """Names of the views. Raises UnreadableTraceError."""
        return frozenset(self._names("view"))

    def count(self, table: str) -> int:
        """Rows of a table. Raises UnreadableTraceError."""
        ((number,),) = self.rows(" ".join(("SELECT count(*) FROM", quoted(table))))
        return int(number)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a small result. Invalid UTF-8 in texts is replaced. Raises UnreadableTraceError."""
        try:
            self._definitions.require_stored(sql)
            return self._connection.execute(sql, params).fetchall()
        except sqlite3.Error as error:
            raise _unreadable(self.path, error) from error

    def spans(self, table: str) -> list[Span]:
        """Ranges of row numbers that hold `table` in order; none for an empty table, a view, and numbers far apart."""
        name = quoted(table)
        try:
            self._definitions.require_stored(" ".join(("FROM", name)))
            found = self._connection.execute(
                " ".join(("SELECT (SELECT min(_rowid_) FROM", name, "), (SELECT max(_rowid_) FROM", name, ")"))
            )
            ((low, high),) = found
        except sqlite3.Error:  # no row numbers; reading the rows reports damage
            return []
        step = BATCH_ROWS - 1  # the first row of a batch sets the types
        if low is None or high - low >= MOST_SPANS * step:
            return []
        return [(first, first + step - 1) for first in range(low, high + 1, step)]

    def frames(
        self, sql: str, schema: Schema, params: Sequence[Any] = (), spans: Sequence[Span] = ()
    ) -> Iterator[pl.DataFrame]:
        """The result of `sql` in order, in batches of at most 65,536 rows, with the columns and types of `schema`.

        `schema` names the columns of the result in their order; Int64, Float64 and String are read as such and other
        types cast from the nearest of them. A whole number stored as text or REAL is read as a number; a value that
        the type of its column cannot hold becomes NULL, counted in `odd` by why. Raises UnreadableTraceError for a
        damaged file.

        With `spans`, `sql` ends in `BETWEEN ? AND ?` and is asked for each of them, for several at once: a connection
        decodes on one core only.
        """
        self._definitions.require_stored(sql)
        if spans:
            reads: Iterator[Callable[[], list[pl.DataFrame]]] = (
                functools.partial(list, self._read(sql, schema, (*params, *span))) for span in spans
            )
            return itertools.chain.from_iterable(_in_turn(reads, min(AHEAD, os.cpu_count() or 1)))
        return _ahead(self._read(sql, schema, params))

    def _read(self, sql: str, schema: Schema, params: Sequence[Any]) -> Iterator[pl.DataFrame]:
        done = 0
        try:
            for frame in self._through_adbc(sql, schema, params):
                done += frame.height
                yield frame
        except (UncleanColumnError, ModuleNotFoundError):
            yield from self._through_sqlite3(sql, schema, params, done)

    def _names(self, *types: str) -> list[str]:
        return [name for kind, name, *_ in self._masters if kind in types and not name.startswith("sqlite_")]

    def _columns(self, table: str) -> list[Column] | None:
        try:
            return self._connection.execute(COLUMNS, (table,)).fetchall()
        except sqlite3.Error as error:
            if ABSENT.search(str(error)):
                return None
            raise _unreadable(self.path, error) from error

    def _through_adbc(self, sql: str, schema: Schema, params: Sequence[Any]) -> Iterator[pl.DataFrame]:
        from adbc_driver_manager import Error
        from adbc_driver_sqlite import dbapi

        options = {"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)}
        try:
            with (
                dbapi.connect(self._uri, autocommit=True) as connection,
                connection.cursor(adbc_stmt_kwargs=options) as cursor,
            ):
                cursor.execute(_typed(sql, schema), tuple(params) or None)
                yield from _without_first(cursor.fetch_record_batch(), schema)
        except (Error, OSError) as error:
            if MISMATCH in str(error):
                raise UncleanColumnError from error
            raise _unreadable(self.path, error) from error

    def _through_sqlite3(self, sql: str, schema: Schema, params: Sequence[Any], done: int) -> Iterator[pl.DataFrame]:
        import polars as pl

        try:
            cursor = self._connection.execute(sql, params)
            for _ in itertools.islice(cursor, done):
                pass
            while rows := cursor.fetchmany(BATCH_ROWS):
                columns = zip(schema.items(), zip(*rows, strict=True), strict=True)
                yield pl.DataFrame([self._series(name, kind, values) for (name, kind), values in columns])
        except sqlite3.Error as error:
            raise _unreadable(self.path, error) from error

    def _series(self, name: str, kind: type[pl.DataType], values: tuple[Any, ...]) -> pl.Series:
        import polars as pl

        nearest = _nearest(kind)
        converted = [_converted(CONVERTERS[nearest.__name__], value) for value in values]
        series = pl.Series(name, converted, dtype=nearest).cast(kind, strict=False)
        odd = [value for value, kept in zip(values, series, strict=True) if kept is None and value is not None]
        if odd:
            count_odd(self.odd, name, kind, odd)
        return series


def count_odd(found: Odd, name: str, kind: type[pl.DataType], odd: Sequence[Any]) -> None:
    """Count values of the column `name` that its type does not hold, in `found`."""
    reason = f"value of column {name} that is not of type {kind.__name__}: left empty"
    before, example = found.get(reason, (0, f"{odd[0]!r:.60}"))
    found[reason] = before + len(odd), example


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """The items, up to AHEAD of them read on a background thread while one is worked on."""
    for item in _in_turn(itertools.repeat(lambda: next(items, None)), 1):
        if item is None:
            return
        yield item


def _in_turn(reads: Iterator[Callable[[], T]], threads: int) -> Iterator[T]:
    """What the functions return, in their order; up to AHEAD of them run or have run while one result is worked on."""
    with ThreadPoolExecutor(threads, thread_name_prefix="kerneldb-sqlite") as pool:
        coming = deque(pool.submit(read) for read in itertools.islice(reads, AHEAD))
        try:
            while coming:
                found = coming.popleft().result()
                coming.extend(pool.submit(read) for read in itertools.islice(reads, 1))
                yield found
        finally:
            for later in coming:
                later.cancel()


def gathered(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Several batches at once: work on a slice costs the same whatever its size."""
    import polars as pl

    while several := list(itertools.islice(frames, TOGETHER)):
        yield pl.concat(several)


def _typed(sql: str, schema: Schema) -> str:
    """`sql` below a row that says the type of each column: ADBC infers types from the first rows, NULL as integer."""
    first = ", ".join(" ".join((TYPED[_nearest(kind).__name__], "AS", quoted(name))) for name, kind in schema.items())
    return " ".join(("SELECT", first, "UNION ALL SELECT * FROM (", sql, ")"))


def _without_first(batches: Any, schema: Schema) -> Iterator[pl.DataFrame]:
    import polars as pl
    import pyarrow as pa

    nearest = {name: _nearest(kind) for name, kind in schema.items()}
    texts = pl.String in nearest.values()
    for number, batch in enumerate(batches):
        try:
            batch.validate(full=texts)
        except pa.ArrowInvalid as error:
            raise UncleanColumnError from error
        kept = batch if number else batch.slice(1)
        if not kept.num_rows:
            continue
        frame = pl.DataFrame(kept)
        if frame.schema != nearest:  # mixed among the first rows: ADBC widened a column
            raise UncleanColumnError
        try:
            narrow = frame.cast({name: kind for name, kind in schema.items() if kind != nearest[name]})
        except pl.exceptions.InvalidOperationError as error:  # a number that the type cannot hold
            raise UncleanColumnError from error
        yield narrow


def _nearest(kind: type[pl.DataType]) -> type[pl.DataType]:
    import polars as pl

    if kind.is_integer():
        return pl.Int64
    return pl.Float64 if kind.is_numeric() else pl.String


def _converted(convert: Callable[[Any], Any], value: Any) -> Any:
    """The value as the type of its column; None where that cannot hold it."""
    try:
        return None if value is None else convert(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _whole(value: Any) -> int:
    number = int(value)
    if (isinstance(value, float) and number != value) or not -(2**63) <= number < 2**63:
        raise ValueError
    return number


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")


CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "Int64": _whole,
    "Float64": float,
    "String": lambda value: _text(value) if isinstance(value, bytes) else str(value),
}


def _check(path: Path) -> bytes:
    """The header of the file."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
        size = path.stat().st_size
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror or error}). Check the path and its permissions."
        raise UnreadableTraceError(message) from error
    if not header:
        message = f"{path}: an empty file: the export did not finish. Export it again with the profiler."
        raise UnreadableTraceError(message)
    if not is_database(header):
        message = f"{path}: not an SQLite database. Give the file that the profiler exported."
        raise NotATraceError(message)
    if len(header) < HEADER_BYTES:
        raise _cut_short(path, size)
    # The header counts the pages; the count is valid where two change counters agree.
    # Source: https://www.sqlite.org/fileformat2.html, "In-header database size".
    page = struct.unpack_from(">H", header, 16)[0]
    counter, pages, valid_for = (struct.unpack_from(">I", header, at)[0] for at in (24, 28, 92))
    wanted = (65536 if page == 1 else page) * pages
    if counter == valid_for and size < wanted:
        message = f"{path}: the file is cut: {size:,} of {wanted:,} bytes are there. {EXPORT_AGAIN}"
        raise UnreadableTraceError(message)
    journal = log_of(path, "-journal")
    if journal.exists() and journal.stat().st_size:
        message = (
            f"{path}: another program is writing it, or did not finish ({journal.name} beside it). "
            f"Wait until it has finished. {EXPORT_AGAIN}"
        )
        raise UnreadableTraceError(message)
    return header


def _cut_short(path: Path, size: int) -> UnreadableTraceError:
    return UnreadableTraceError(f"{path}: the file is cut after {size:,} bytes. {EXPORT_AGAIN}")


def _unreadable(path: Path, error: Exception) -> UnreadableTraceError:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if LOCKED.search(text):
        return UnreadableTraceError(f"{path}: another program is writing it ({text}). Wait until it has finished.")
    if text == "interrupted":
        text = "its list of tables does not end"
    return UnreadableTraceError(f"{path}: SQLite cannot read it ({text}). {EXPORT_AGAIN}")
