"""Runs the statements of users: one at a time, read to the end, with a time limit."""

from __future__ import annotations

import contextlib
import contextvars
import re
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import duckdb

from kerneldb.errors import QueryError, QueryTimeoutError, SelectionError
from kerneldb.files import TEMPORARY, of_disk
from kerneldb.output.carried import carried
from kerneldb.output.units import size
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import near
from kerneldb.warehouse.engine import interrupts, unquoted
from kerneldb.warehouse.place import masked
from kerneldb.warehouse.statements import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    Connection = duckdb.DuckDBPyConnection
    Params = Mapping[str, Any] | Sequence[Any]

T = TypeVar("T")

BATCH_ROWS: Final = 1_024
"""Rows that are taken out of the engine at once: each may hold a text of a megabyte."""
POLL_S: Final = 0.05
"""How often a waiting main thread looks for signals."""

OF_VALUES: Final = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)
"""What a bound expression raises at some row: a text that is not a number, an overflow, a bad pattern."""
PRIVATE: Final = re.compile(r'\nDid you mean "(_|pg_|duckdb_|sqlite_)\w+"\?')
"""A guess at what was meant that is no object of ours to ask."""
NO_TABLE: Final = re.compile(r"Table with name (\w+) does not exist")


def run(
    con: Connection,
    sql: str,
    params: Params | None,
    timeout: float | None,
    selection: str | None = None,
    most_bytes: int | None = None,
) -> pa.Table:
    """The rows of the one statement `sql`; a table without columns where the engine returns nothing.

    `selection` names the relation of a WHERE text that the statement may read. Raises QueryError with the engine's
    message (which marks the place) or for an answer of more than `most_bytes`, QueryTimeoutError after `timeout`
    seconds, SelectionError where that WHERE text fails at some row, KeyboardInterrupt soon after Ctrl-C.
    """
    with _statement_errors():
        try:
            with time_limit(con, timeout):
                return interruptible(con, lambda: _rows(con, sql, params, most_bytes))
        except duckdb.BinderException as error:
            raise with_near_columns(con, sql, error) from None
        except OF_VALUES as error:
            if selection is not None and _fails(con, selection):
                raise _of_condition(error) from error
            raise


def with_near_columns(con: Connection, sql: str, error: duckdb.BinderException) -> duckdb.BinderException:
    """The error of a statement that does not bind, with the columns that an unknown one may mean.

    These are the documented ones of the objects that the statement names; none in a database that others made.
    """
    if unquoted(str(error), sql):
        return error
    words = (word.lower() for word in re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'", "", sql)))
    names = list(dict.fromkeys("kernels" if word == "selection" else word for word in words))
    found: list[tuple[str, str]] = []
    with contextlib.suppress(duckdb.Error):
        found = con.execute(statement("session", "columns_of"), {"names": names}).fetchall()
    objects = sorted({name for name, _ in found}, key=names.index)
    return type(error)(near.said(str(error), [column for _, column in found], objects))


def answer(con: Connection, sql: str, params: Mapping[str, Any] | None) -> pa.Table:
    """The rows of a statement of `schemas`. Raises QueryError, and KeyboardInterrupt soon after Ctrl-C."""
    with query_errors():
        return interruptible(con, lambda: table_of(con, sql, params))


def _rows(con: Connection, sql: str, params: Params | None, most_bytes: int | None) -> pa.Table:
    count = len(con.extract_statements(sql))
    if count != 1:
        message = f"give one statement at a time; this text has {count}"
        raise QueryError(message)
    # The stubs say that there always is one, but DuckDB 1.5 returns None for statements without rows.
    relation: duckdb.DuckDBPyRelation | None = _bound(con, sql, params)
    if relation is not None and most_bytes is None:
        return carried(relation).to_arrow_table()
    import pyarrow as pa

    if relation is None or most_bytes is None:
        return pa.table({})
    reader = streamed(relation)
    return pa.Table.from_batches(_within(reader, most_bytes), reader.schema)


def streamed(relation: duckdb.DuckDBPyRelation) -> pa.RecordBatchReader:
    """The rows of `relation` as they come. What fails at some row raises the engine's error, as it does elsewhere."""
    import pyarrow as pa

    reader = carried(relation).to_arrow_reader(BATCH_ROWS)
    return pa.RecordBatchReader.from_batches(reader.schema, _batches(reader))


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    try:
        yield from reader
    except (OSError, pa.ArrowException) as error:
        raise _of_stream(str(error)) from error


def _of_stream(text: str) -> duckdb.Error:
    """The error whose message comes out of a stream of Arrow, which has its kind in front: `Conversion Error: …`."""
    if "Arrow Appender" in text:
        text = "Error: texts of a column take more than 2 GB within few rows: leave the column out, or cut it"
    name = text.partition("Error:")[0].title().replace(" ", "") + "Exception"
    kind = getattr(duckdb, name, duckdb.Error)
    return kind(text) if issubclass(kind, duckdb.Error) else duckdb.Error(text)


def _within(reader: pa.RecordBatchReader, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """All batches. Raises QueryError as soon as they take more than `most_bytes`."""
    held = 0
    for batch in reader:
        held += batch.nbytes
        if held > most_bytes:
            raise QueryError(f"the answer takes more than {size(most_bytes)}: add LIMIT, or leave out columns")
        yield batch


def _bound(con: Connection, sql: str, params: Params | None) -> duckdb.DuckDBPyRelation:
    """The relation of a statement. What does not bind is handed to `execute`, whose message marks the place."""
    try:
        return con.sql(sql, params=params)
    except (duckdb.BinderException, duckdb.CatalogException):
        con.execute(sql, params)
        raise


def _fails(con: Connection, selection: str) -> bool:
    """Whether the rows of `selection` cannot be read: the condition fails, not the statement around it."""
    try:
        interruptible(con, lambda: con.table(selection).count("*").fetchall())
    except OF_VALUES:
        return True
    return False


def interruptible(con: Connection, work: Callable[[], T]) -> T:
    """The result of `work`, which uses `con`. On Ctrl-C the statement is cancelled, then KeyboardInterrupt is raised.

    Signals reach the main thread only, and not while it is inside the engine, so `work` runs in a thread of its own.
    Threads other than the main one get no signals and run it themselves.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def worker() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 (handed to the waiting thread, which raises it)
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=worker, daemon=True).start()
    _await(con, done)
    if errors:
        raise errors.pop()  # held nowhere else: its traceback holds this frame
    return results[0]


class Interruptible(Protocol):
    """A connection, or what else works for somebody who may leave."""

    def interrupt(self) -> None:
        """End what runs now; called again until it has ended."""


class Interrupter:
    """Ends the statements of work that runs `with` it in another thread, on whatever connections it opens."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: list[Interruptible] = []
        self._token: contextvars.Token[Interrupter | None] | None = None
        self.used = False

    def interrupt(self) -> None:
        """End what runs now. Between two statements an interrupt is forgotten: again, while there is work."""
        with self._guard:
            self.used = True
            for one in self._held:
                one.interrupt()

    def __enter__(self) -> None:
        self._token = INTERRUPTER.set(self)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            INTERRUPTER.reset(self._token)

    @contextlib.contextmanager
    def holding(self, one: Interruptible) -> Iterator[None]:
        """Let a connection be interrupted until it is closed, or another work until it has ended."""
        with self._guard:
            self._held.append(one)
        try:
            yield
        finally:
            with self._guard:
                self._held.remove(one)


INTERRUPTER: Final = contextvars.ContextVar[Interrupter | None]("INTERRUPTER", default=None)
"""What may end the work of this thread."""


def held(one: Interruptible) -> contextlib.AbstractContextManager[None]:
    """Let a connection that is opened be interrupted by what may end the work of this thread."""
    interrupter = INTERRUPTER.get()
    return contextlib.nullcontext() if interrupter is None else interrupter.holding(one)


def _await(con: Connection, done: threading.Event) -> None:
    """Wait for `done`. An Event, not Thread.join: that one is not to be used again after Ctrl-C (Python 3.11)."""
    try:
        while not done.wait(POLL_S):
            pass
    except KeyboardInterrupt:
        # Once is not enough: an interrupt between two statements is forgotten.
        con.interrupt()
        while not done.wait(POLL_S):
            con.interrupt()
        raise


@contextlib.contextmanager
def query_errors() -> Iterator[None]:
    """Turn errors of the engine in our own statements over a WHERE text into ours.

    What fails at some row is the fault of the WHERE text, and a SelectionError; all else is a QueryError.
    """
    with _statement_errors():
        try:
            yield
        except OF_VALUES as error:
            raise _of_condition(error) from error


def _of_condition(error: duckdb.Error) -> SelectionError:
    return SelectionError(f"the condition does not work on all rows: {error}")


@contextlib.contextmanager
def _statement_errors() -> Iterator[None]:
    """Turn errors of the engine into QueryError, with a hint where the database was only opened for reading."""
    try:
        with interrupts():
            yield
    except duckdb.Error as error:
        text = message_of(error)
        hint = "\nThe database is opened read-only; --write (write=True) allows changes." if "read-only" in text else ""
        raise QueryError(text + hint) from error


def message_of(error: duckdb.Error) -> str:
    """The engine's message, or what to do about a full disk.

    Of a macro asked like a table, and of a text without quotes, it also says how they are written.
    """
    if (full := of_disk(error, Path(tempfile.gettempdir(), TEMPORARY))) is not None:
        return str(full)
    text = PRIVATE.sub("", masked(str(error)))
    missing = NO_TABLE.search(text)
    if missing is None:
        quoted = unquoted(text, text)
        return f"{text}\n{quoted}" if quoted else text
    call = _call_of(missing.group(1))
    how = "kerneldb db schema lists tables, views and macros"
    return f"{text}\n{how if call is None else f'{missing[1]} is a macro: FROM {call}'}"


def _call_of(name: str) -> str | None:
    """How the macro `name` is asked, with the arguments it has to be given; None where there is no such macro."""
    from kerneldb.schemas import loader

    header = loader.headers().get(name)
    if header is None or header.kind != "macro":
        return None
    return f"{name}({', '.join(argument.name for argument in header.arguments if argument.default is None)})"


@contextlib.contextmanager
def time_limit(con: Connection, timeout: float | None) -> Iterator[None]:
    """Interrupt the connection after `timeout` seconds (None: never) and raise QueryTimeoutError then."""
    if timeout is None:
        yield
        return
    timer = threading.Timer(timeout, con.interrupt)
    timer.start()
    try:
        yield
    except duckdb.InterruptException as error:
        message = f"cancelled after {timeout:g} s"
        raise QueryTimeoutError(message) from error
    finally:
        timer.cancel()
