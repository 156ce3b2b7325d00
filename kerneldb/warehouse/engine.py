"""The engine: how a database file is attached to one, what it may reach then, and what its errors mean."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import re
import tempfile
import time
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import duckdb

from kerneldb import files
from kerneldb.errors import WarehouseError, WarehouseLockedError, WarehouseMissingError, WarehouseVersionError
from kerneldb.schemas.loader import statement
from kerneldb.shell import kerneldb
from kerneldb.warehouse.place import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerneldb.warehouse.place import Place

    Connection = duckdb.DuckDBPyConnection

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.1
SILENT_S: Final = 1.0
"""Who waits longer for another process says so, once."""
LOG: Final = logging.getLogger(__name__)
INTERRUPTED: Final = "Query interrupted"
FAILED: Final = "Failed to "
"""How DuckLake begins to say what it could not write."""
HOLDER: Final = re.compile(r"\(PID (\d+)\)")
UNKNOWN_COLUMN: Final = re.compile(r'Referenced column "([^"]+)" (?:was )?not found', re.IGNORECASE)
VALUE: Final = r"""(?:=|<>|LIKE|\bIN\s*\([^()]*)\s*"?({}[\w:%]*)(?![.(])"""
"""What a condition compares something with."""
LOGS: Final = (".wal", ".wal.checkpoint", ".wal.recovery")
"""What DuckDB reads, writes, empties and removes beside a file."""
LEAST_MEMORY: Final = 1 << 30
"""Bytes that questions may take, however little memory is free."""
HEADERS: Final = 3 * 4096
"""Bytes of a DuckDB file before its first block: the main header and two about the newest checkpoint."""
MARK: Final = b"DUCK"
MARK_AT: Final = 8


class _NotFilledError(Exception):
    """The file cannot be written; the cause is BlockingIOError where another process holds it."""


def literal(value: str | Path) -> str:
    """`value` as an SQL string literal, for statements that take no parameters."""
    return "'" + str(value).replace("'", "''") + "'"


def opened(
    path: Path,
    attach: str,
    timeout: float,
    folders: Sequence[Path] = (),
    prepare: Callable[[Connection], None] | None = None,
) -> Connection:
    """A new engine with the file attached as `warehouse`, confined to that file and to `folders`.

    `attach` is a statement of store/session.sql. `prepare` may attach more before the engine is confined. While another
    process holds the file it is tried again, up to `timeout` seconds, and touched (its time of change is set to now):
    so those see it who only keep it open for further questions. A blank file becomes a database without tables.
    """
    if attach != "create" and not path.exists():
        raise _missing(path)
    if path.is_fifo() or path.is_socket() or path.is_char_device() or path.is_block_device():
        raise WarehouseError(f"{path} cannot be opened: it is no file, but a pipe or a device")
    files.require_own(*(path.with_name(f"{path.name}{ending}") for ending in LOGS))
    con = bare()
    try:
        _attach_patiently(con, path, attach, timeout, prepare)
        settle(con)
        resolved = [folder.resolve() for folder in folders]
        if resolved:
            con.execute(statement("session", "unordered"))
            con.execute(statement("session", "bounded_memory").format(folder=literal(resolved[0] / "spilled")))
        else:
            _bound(con)
        confine(con, resolved)
    except BaseException:
        con.close()
        raise
    return con


def _bound(con: Connection) -> None:
    """Let questions take half of the memory that is free now; the folder for the rest is made at need and removed."""
    megabytes = max(files.free_memory() // 2, LEAST_MEMORY) // 10**6
    folder = Path(tempfile.gettempdir(), f"kerneldb-spilled-{uuid.uuid4().hex}")
    con.execute(statement("session", "bounded_questions").format(megabytes=megabytes, folder=literal(folder)))


def _attach_patiently(
    con: Connection, path: Path, attach: str, timeout: float, prepare: Callable[[Connection], None] | None
) -> None:
    began, pause, told = time.monotonic(), FIRST_PAUSE_S, False
    ends = began + timeout
    while True:
        try:
            with interrupts():
                if attach == "create" and not path.exists():
                    _fill(path)
                elif is_cut(path):
                    _fill(path, writes=attach != "attach")
                return _attach(con, path, attach, prepare)
        except (duckdb.Error, _NotFilledError, OSError) as error:
            problem = _problem(path, error)
            if not isinstance(problem, WarehouseLockedError) or time.monotonic() + pause > ends:
                raise problem from error
            if problem.pid != os.getpid() and isinstance(error, duckdb.Error):
                with contextlib.suppress(OSError):  # who may only read the file waits without a sign
                    os.utime(path)
            if not told and time.monotonic() - began >= SILENT_S:
                told = True
                LOG.warning("%s. Trying again for up to %.0f s.", problem, timeout)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _attach(con: Connection, path: Path, attach: str, prepare: Callable[[Connection], None] | None) -> None:
    con.execute(statement("session", attach).format(path=literal(path.absolute())))
    if prepare is not None:
        try:
            prepare(con)
        except BaseException:
            con.execute(statement("session", "detach"))
            raise


def is_cut(path: Path) -> bool:
    """Whether the file at `path` ends before its first block."""
    if path.stat().st_size >= HEADERS:
        return False
    with path.open("rb") as file:
        return _is_blank(file)


def _is_blank(file: IO[bytes]) -> bool:
    """Whether the file ends before its first block: it has no bytes, or not all headers of a DuckDB file.

    DuckDB writes the headers of a new file one after the other, and refuses a file that lacks some of them, be it
    empty. The making of such a file was cut short; it never held a row, so it is made anew, in its place.
    """
    file.seek(0)
    found = file.read(HEADERS)
    return not found or (len(found) < HEADERS and found[MARK_AT:].startswith(MARK))


def _fill(path: Path, *, writes: bool = True) -> None:
    """Make the file, missing or blank, a database without tables.

    It is looked at again under the lock that DuckDB itself takes, so programs that begin with one file at a time do not
    write over each other. A write-ahead log beside it is of another file, which may be sought: it gets another name.
    Raises _NotFilledError, and WarehouseError where the caller only reads (not `writes`) and the file has some bytes:
    they may be of a copy that was cut short.
    """
    try:
        with path.open("ab+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_blank(file):
                if not writes and path.stat().st_size:
                    raise _cut(path)
                with tempfile.TemporaryDirectory(prefix="kerneldb-") as folder:
                    new = Path(folder, path.name)
                    with contextlib.closing(bare()) as con:
                        _attach(con, new, "create", None)
                    headers = new.read_bytes()
                log = path.with_name(f"{path.name}.wal")
                if log.exists():
                    names = (log.with_name(f"{log.name}.old{number or ''}") for number in itertools.count())
                    log.rename(next(name for name in names if not name.exists()))
                file.truncate(0)
                file.write(headers)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise _NotFilledError(error.strerror) from error


def bare() -> Connection:
    """A new engine without a database, which loads no extension by itself."""
    con = duckdb.connect()
    con.execute(statement("session", "no_extensions"))
    return con


def settle(con: Connection) -> None:
    """Set what every connection has: the time zone, and plans that DuckDB 2 gets right."""
    con.execute(statement("session", "time_zone"))
    if not duckdb.__version__.startswith("1."):
        con.execute(statement("session", "no_aggregate_pushdown"))


def confine(con: Connection, folders: Sequence[str | Path]) -> None:
    """Allow access to the attached database and to files in `folders` only, for good."""
    if folders:
        allow(con, folders)
    con.execute(statement("session", "no_external_access"))
    con.execute(statement("session", "lock"))


def allow(con: Connection, folders: Sequence[str | Path]) -> None:
    """Allow access to files in `folders`, also when the engine is confined later."""
    con.execute(statement("session", "allow_folders").format(folders=f"[{', '.join(map(literal, folders))}]"))


def _problem(path: Path, error: duckdb.Error | _NotFilledError | OSError) -> WarehouseError:
    """What a failure to attach means."""
    if isinstance(error, FileNotFoundError):
        return _missing(path)
    if (of_disk := files.of_disk(error, path.parent)) is not None:
        return of_disk
    if isinstance(error, OSError):
        return WarehouseError(f"{path} cannot be opened: {error.strerror}{files.of_rights(str(error))}")
    if isinstance(error, _NotFilledError):
        if isinstance(error.__cause__, BlockingIOError):
            return WarehouseLockedError(f"{path} is being made by another process; wait for it, or end it")
        lacks = files.of_rights(str(error))
        return WarehouseError(f"{path} holds no database yet, and none can be made there: {error}{lacks}")
    return _problem_of_engine(path, str(error))


def _problem_of_engine(path: Path, text: str) -> WarehouseError:
    """What an error of DuckDB means; its errors differ by their text only."""
    if "Unique file handle conflict" in text:
        return held_here(path)
    if "lock" in text and (holder := HOLDER.search(text)):
        pid = int(holder.group(1))
        message = f"{path} is in use by process {pid}; wait for it, or end it"
        return WarehouseLockedError(message, pid)
    if "Could not set lock" in text:
        return WarehouseLockedError(f"{path} is in use by another process: {text}")
    if "not a valid DuckDB database" in text:
        message = f"{path} is not a DuckDB database; give the path of another one, or of a new file, with --db"
        return WarehouseVersionError(message)
    if "version number" in text or "newer version" in text:
        message = (
            f"{path} was written by a newer DuckDB than {duckdb.__version__}: pip install --upgrade duckdb\n{text}"
        )
        return WarehouseVersionError(message)
    if "Corrupt database file" in text:
        return WarehouseError(
            f"{path} is damaged: {text}. Take a copy of it, or read its traces into a new file with --db"
        )
    return WarehouseError(f"{path} cannot be opened: {text}{files.of_rights(text)}")


def unquoted(message: str, sql: str) -> str | None:
    """How to write the text that `sql` compares a column with, where the engine took it for the name of a column."""
    unknown = UNKNOWN_COLUMN.search(message)
    found = unknown and re.search(VALUE.format(re.escape(unknown[1])), sql, re.IGNORECASE)
    return f"a text takes single quotes: '{found[1]}'" if found else None


def _missing(path: Path) -> WarehouseMissingError:
    remedy = kerneldb("ingest", "TRACE", database=path)
    return WarehouseMissingError(f"{path}: no such database; create it with: {remedy}")


def _cut(path: Path) -> WarehouseError:
    return WarehouseError(
        f"{path} ends before its first block: it was cut short when it was made, or copied. "
        f"Copy it again, or make it anew: {kerneldb('ingest', 'TRACE', database=path)}"
    )


def held_here(path: Path) -> WarehouseLockedError:
    """The error of a file that another part of this process has open."""
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
        of_disk = files.of_disk(error, (path if isinstance(path, Path) else path.path).parent)
        if of_disk is None and not isinstance(path, Path) and path.catalog == "sqlite" and FAILED in str(error):
            of_disk = files.refusing(path.path.parent)  # a lake says of a full disk what its catalog could not do then
        message = f"{path}: {masked(str(error))}{files.of_rights(str(error))}"
        raise of_disk or WarehouseError(message) from error
