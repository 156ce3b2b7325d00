"""Short leases of the database file.

DuckDB lets one process write a file, or many read it. A lease attaches the file for as long as one query or one commit
takes. Inside one process DuckDB opens a file once only, so read leases share one connection, and a write lease waits
until they have ended.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

from kerneldb.errors import WarehouseError, WarehouseLockedError, WarehouseMissingError, WarehouseVersionError
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import blank
from kerneldb.warehouse.place import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerneldb.warehouse.place import Place

    Connection = duckdb.DuckDBPyConnection

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
INTERRUPTED: Final = "Query interrupted"
HOLDER: Final = re.compile(r"\(PID (\d+)\)")


@dataclasses.dataclass(slots=True)
class _Door:
    """The state of one file in this process."""

    changed: threading.Condition = dataclasses.field(default_factory=threading.Condition)
    readers: int = 0
    writing: bool = False
    shared: Connection | None = None


_DOORS: collections.defaultdict[Path, _Door] = collections.defaultdict(_Door)


def literal(value: str | Path) -> str:
    """`value` as an SQL string literal, for statements that take no parameters."""
    return "'" + str(value).replace("'", "''") + "'"


@contextlib.contextmanager
def read_lease(path: Path, timeout: float) -> Iterator[Connection]:
    """A read-only connection with the file attached as `warehouse` and in use; it can reach no other file.

    Waits up to `timeout` seconds for a writer, which holds the file for one commit.
    Python variables are out of reach too (DuckDB's replacement scans need external access): pass relations and frames
    by `con.register(name, object)`. Raises WarehouseMissingError, WarehouseLockedError, WarehouseVersionError.
    """
    door = _DOORS[path.resolve()]
    with door.changed:
        if not door.changed.wait_for(lambda: not door.writing, timeout):
            raise _held_here(path)
        if door.shared is None:
            door.shared = _connected(path, "attach", timeout, ())
        door.readers += 1
        con = door.shared.cursor()
    try:
        con.execute(statement("session", "use"))
        yield con
    finally:
        con.close()
        _leave(door)


def _leave(door: _Door) -> None:
    with door.changed:
        door.readers -= 1
        if door.readers == 0 and door.shared is not None:
            door.shared.close()
            door.shared = None
        door.changed.notify_all()


@contextlib.contextmanager
def write_lease(
    path: Path,
    timeout: float,
    folders: Sequence[Path] = (),
    *,
    create: bool = False,
    prepare: Callable[[Connection], None] | None = None,
) -> Iterator[Connection]:
    """A connection that may write the file, and read files in `folders` but nowhere else.

    Waits up to `timeout` seconds for other processes and for leases of this one. With `create`, a missing file is made.
    `prepare` may attach more before the connection is confined.
    """
    door = _DOORS[path.resolve()]
    with door.changed:
        if not door.changed.wait_for(lambda: not door.writing and door.readers == 0, timeout):
            raise _held_here(path)
        door.writing = True
    try:
        attach = "create" if create and not path.exists() else "attach_for_writing"
        with contextlib.closing(_connected(path, attach, timeout, folders, prepare)) as con:
            con.execute(statement("session", "use"))
            yield con
    finally:
        with door.changed:
            door.writing = False
            door.changed.notify_all()


def _connected(
    path: Path,
    attach: str,
    timeout: float,
    folders: Sequence[Path],
    prepare: Callable[[Connection], None] | None = None,
) -> Connection:
    """Attach the file, trying again while another process holds it. A blank one becomes a database without tables."""
    if attach != "create" and not path.exists():
        message = f"{path}: no such database; create it with: kerneldb --db {path} ingest TRACE"
        raise WarehouseMissingError(message)
    ends, pause = time.monotonic() + timeout, FIRST_PAUSE_S
    while True:
        try:
            with interrupts():
                if (attach == "create" and not path.exists()) or blank.is_blank(path):
                    blank.fill(path, lambda new: _configured(new, "create", (), None).close())
                return _configured(path, attach, folders, prepare)
        except (duckdb.Error, blank.NotFilledError) as error:
            problem = _problem(path, error)
            if not isinstance(problem, WarehouseLockedError) or time.monotonic() + pause > ends:
                raise problem from error
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _configured(
    path: Path, attach: str, folders: Sequence[Path], prepare: Callable[[Connection], None] | None
) -> Connection:
    con = duckdb.connect()
    try:
        con.execute(statement("session", "no_extensions"))
        con.execute(statement("session", attach).format(path=literal(path.absolute())))
        if prepare is not None:
            prepare(con)
        con.execute(statement("session", "time_zone"))
        if not duckdb.__version__.startswith("1."):
            con.execute(statement("session", "no_aggregate_pushdown"))
        if folders:
            listed = ", ".join(literal(folder.resolve()) for folder in folders)
            con.execute(statement("session", "allow_folders").format(folders=f"[{listed}]"))
            con.execute(statement("session", "unordered"))
            con.execute(statement("session", "bounded_memory").format(folder=literal(folders[0].resolve() / "spilled")))
        con.execute(statement("session", "no_external_access"))
        con.execute(statement("session", "lock"))
    except BaseException:
        con.close()
        raise
    return con


def _problem(path: Path, error: duckdb.Error | blank.NotFilledError) -> WarehouseError:
    """What a failure to attach means. DuckDB tells the cases apart by text only."""
    text = str(error)
    if isinstance(error, blank.NotFilledError):
        if isinstance(error.__cause__, BlockingIOError):
            return WarehouseLockedError(f"{path} is being made by another process; wait for it, or end it")
        return WarehouseError(f"{path} holds no database yet, and none can be made there: {error}")
    if "Unique file handle conflict" in text:
        return _held_here(path)
    if "lock" in text and (holder := HOLDER.search(text)):
        pid = int(holder.group(1))
        message = f"{path} is in use by process {pid}; wait for it, or end it"
        return WarehouseLockedError(message, pid)
    if "Could not set lock" in text:
        return WarehouseLockedError(f"{path} is in use by another process: {text}")
    if "not a valid DuckDB database" in text:
        message = f"{path} is no DuckDB database; give the path of another one, or of a new file, with --db"
        return WarehouseVersionError(message)
    if "version number" in text or "newer version" in text:
        message = (
            f"{path} was written by a newer DuckDB than {duckdb.__version__}: pip install --upgrade duckdb\n{text}"
        )
        return WarehouseVersionError(message)
    return WarehouseError(f"{path} cannot be opened: {text}")


def _held_here(path: Path) -> WarehouseLockedError:
    message = f"{path} is open in this process already; close that connection first"
    return WarehouseLockedError(message, os.getpid())


@contextlib.contextmanager
def transaction(con: Connection) -> Iterator[None]:
    """All or nothing, also for Ctrl-C, which ends in KeyboardInterrupt wherever it meets the engine."""
    with interrupts():
        con.begin()
        try:
            yield
            con.commit()
        except BaseException:
            with contextlib.suppress(duckdb.Error):
                con.rollback()
            raise


@contextlib.contextmanager
def interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt where Ctrl-C cut a statement short.

    DuckDB checks for signals while it executes and then raises RuntimeError (or InterruptException) in its place.
    """
    try:
        yield
    except duckdb.InterruptException as error:
        raise KeyboardInterrupt from error
    except RuntimeError as error:
        if INTERRUPTED not in str(error):
            raise
        raise KeyboardInterrupt from error


@contextlib.contextmanager
def store_errors(path: Path | Place) -> Iterator[None]:
    """Turn errors of the engine in our own statements (disk full, file damaged) into WarehouseError."""
    try:
        with interrupts():
            yield
    except duckdb.Error as error:
        message = f"{path}: {masked(str(error))}"
        raise WarehouseError(message) from error
