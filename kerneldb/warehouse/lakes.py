"""Connections to lakes: DuckLake attached as `warehouse`, where a file would stand.

A lake has no lock: everybody reads a snapshot, and commits that would collide are tried again (`retried`). Attaching
takes half a second, so the connections of this process stay open and leases are cursors of them.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb

from kerneldb.errors import WarehouseError, WarehouseLockedError, WarehouseMissingError
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import extensions
from kerneldb.warehouse.attach import interrupts, literal, transaction
from kerneldb.warehouse.place import Place, masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Connection = duckdb.DuckDBPyConnection
    Key = tuple[str, str, tuple[Path, ...], int]

T = TypeVar("T")

CONFLICTS: Final = (
    "Transaction conflict",
    "maximum retry count",
    "could not serialize access",
    "deadlock detected",
    "database is locked",
    "duplicate key value violates",
)
"""What the engine says where another commit was faster. A second try sees its rows."""
LOST: Final = ("connection", "SSL", "database has been invalidated", "server closed", "terminating")
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
INLINED: Final = (
    "annotations",
    "commit_lock",
    "devices",
    "ingest_reports",
    "process_groups",
    "replay_runs",
    "trace_files",
    "trace_tags",
    "traces",
)
"""Tables to which a commit adds a row or few. Those wait in the catalog until `compact`, instead of in a file each."""
REMOTE: Final = ("s3://", "gs://", "gcs://", "r2://", "http://", "https://")
SPOOLS: Final = Path(tempfile.gettempdir()).resolve()
"""Where conversions for a lake lie until they are committed: local to the node, and gone with it."""

_OPEN: dict[Key, Connection] = {}
_OPENING = threading.RLock()


@contextlib.contextmanager
def read_lease(place: Place) -> Iterator[Connection]:
    """A read-only connection with the lake attached as `warehouse` and in use; it reaches no files but the lake's."""
    with _lease(place, "attach", ()) as con:
        yield con


@contextlib.contextmanager
def write_lease(place: Place, folders: Sequence[Path] = ()) -> Iterator[Connection]:
    """A connection that may write the lake, and read and write files in `folders`."""
    with _lease(place, "attach_for_writing", tuple(sorted(folder.resolve() for folder in folders))) as con:
        yield con


@contextlib.contextmanager
def _lease(place: Place, way: str, folders: tuple[Path, ...]) -> Iterator[Connection]:
    key = (place.uri, way, folders, os.getpid())
    with _OPENING:
        if key not in _OPEN:
            _OPEN[key] = _connected(place, way, folders)
        con = _OPEN[key].cursor()
    try:
        con.execute(statement("session", "use"))
        if way == "attach":
            # One snapshot for all that is asked under this lease: else every statement looks for the newest one twice.
            con.begin()
        yield con
    except duckdb.Error as error:
        if any(sign in str(error) for sign in LOST):
            _forget(key)
        raise
    finally:
        con.close()


def _forget(key: Key) -> None:
    """Drop a connection whose server is gone, so that the next lease makes a new one."""
    with _OPENING:
        _OPEN.pop(key, None)


@atexit.register
def close_all() -> None:
    """Close the connections of this process to all lakes; the next lease opens anew."""
    with _OPENING:
        for key in [key for key in _OPEN if key[-1] == os.getpid()]:
            _OPEN.pop(key).close()


def create(place: Place, data: str) -> None:
    """Make the catalog of a new lake whose rows go to Parquet files under `data`. A lake that is there stays."""
    with contextlib.closing(_plain(place, "create", data)) as con, _attach_errors(place):
        con.execute(statement("lake", "settings"))


@contextlib.contextmanager
def owner(place: Place) -> Iterator[Connection]:
    """A connection for statements of kerneldb alone: definitions, fillers, upkeep. It is not confined to folders."""
    with contextlib.closing(_plain(place, "attach_for_writing")) as con:
        _make_folders(con, data_path(con))
        yield con


@interrupts()
def _connected(place: Place, way: str, folders: tuple[Path, ...]) -> Connection:
    con = _plain(place, way)
    try:
        data = data_path(con)
        if way == "attach_for_writing":
            _make_folders(con, data)
            if place.catalog == "postgres":
                con.execute(statement("lake", "attach_queue").format(address=literal(place.address)))
            con.execute(statement("lake", "bounded_memory").format(folder=literal(SPOOLS / f"kerneldb-{os.getpid()}")))
        listed = ", ".join([literal(data), *map(literal, folders)])
        con.execute(statement("session", "allow_folders").format(folders=f"[{listed}]"))
        con.execute(statement("session", "no_external_access"))
        con.execute(statement("session", "lock"))
    except BaseException:
        con.close()
        raise
    return con


def _plain(place: Place, way: str, data: str = "") -> Connection:
    """A connection with the lake attached as `warehouse`, and everything loaded that it and its files need."""
    con = duckdb.connect()
    try:
        con.execute(statement("session", "no_extensions"))
        attach(con, place, way, data)
        con.execute(statement("session", "use"))
        con.execute(statement("lake", "metadata_cache"))
        con.execute(statement("session", "time_zone"))
        if not duckdb.__version__.startswith("1."):
            con.execute(statement("session", "no_aggregate_pushdown"))
    except BaseException:
        con.close()
        raise
    return con


def attach(con: Connection, place: Place, way: str, data: str = "") -> None:
    """Attach a lake to `con` by the statement `way` of store/lake.sql, with the extensions that this takes.

    Raises WarehouseMissingError where there is none, WarehouseError where the catalog cannot be opened.
    """
    if way != "create" and not place.exists():
        raise _no_lake(place)
    for name in ("ducklake", f"{place.catalog}_scanner"):
        extensions.load(con, name)
    con.execute(statement("lake", "retries"))
    sql = statement("lake", way).format(uri=literal(place.uri), data=literal(data))
    with _attach_errors(place):
        try:
            con.execute(sql)
        except duckdb.Error as error:
            # Only the catalog knows that the files are in S3, and it cannot be attached without httpfs then.
            if "httpfs" not in str(error):
                raise
            extensions.load(con, "httpfs")
            _use_credentials(con)
            con.execute(sql)


def data_path(con: Connection, database: str = "warehouse") -> str:
    """The folder or S3 prefix of the files of an attached lake."""
    (path,) = con.execute(statement("lake", "data_path"), {"database": database}).fetchone() or ("",)
    return str(path)


def _make_folders(con: Connection, data: str) -> None:
    """Make the folders of all tables: confined to `data`, the engine cannot make the ones above its files."""
    if not data.startswith(REMOTE):
        for (table,) in con.execute(statement("lake", "tables")).fetchall():
            Path(data, "main", table).mkdir(parents=True, exist_ok=True)


def _use_credentials(con: Connection) -> None:
    """Take keys, region and endpoint of S3 from the variables that the AWS tools use."""
    found = {
        "KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID"),
        "SECRET": os.environ.get("AWS_SECRET_ACCESS_KEY"),
        "SESSION_TOKEN": os.environ.get("AWS_SESSION_TOKEN"),
        "REGION": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
    }
    settings = [f"{name} {literal(value)}" for name, value in found.items() if value]
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        settings += [f"ENDPOINT {literal(host.rstrip('/'))}", f"USE_SSL {scheme != 'http'}", "URL_STYLE 'path'"]
    if settings:
        con.execute(statement("lake", "secret").format(settings=", ".join(settings)))


@contextlib.contextmanager
def _attach_errors(place: Place) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        text = masked(str(error))
        if "explicitly disabled" in text:
            raise _no_lake(place) from error
        message = f"{place}: the catalog cannot be opened: {text}"
        raise WarehouseError(message) from error


def _no_lake(place: Place) -> WarehouseMissingError:
    return WarehouseMissingError(
        f"there is no lake at {place}; make it with: kerneldb --db '{place}' init --data FOLDER_OR_S3_PREFIX"
    )


def is_conflict(error: duckdb.Error) -> bool:
    """Whether a transaction failed only because another commit was faster."""
    return any(sign in str(error) for sign in CONFLICTS)


def retried(con: Connection, place: Place, timeout: float, work: Callable[[Connection], T]) -> T:
    """Run `work` in one transaction that no other commit of kerneldb overlaps; its result.

    It is run again where another commit came first, for up to `timeout` seconds; so it must look anew at what is
    there. Raises WarehouseLockedError where that was too long.
    """

    def attempt() -> T:
        with _turn(place, con), transaction(con):
            con.execute(statement("lake", "lock"))
            return work(con)

    return repeated(place, timeout, attempt)


def repeated(place: Place, timeout: float, attempt: Callable[[], T]) -> T:
    """The result of `attempt`, made again where another commit came first, for up to `timeout` seconds."""
    ends, pause = time.monotonic() + timeout, FIRST_PAUSE_S
    while True:
        try:
            return attempt()
        except duckdb.Error as error:
            if not is_conflict(error):
                raise
            if time.monotonic() > ends:
                message = f"{place}: other programs kept committing for {timeout:g} s; try again"
                raise WarehouseLockedError(message) from error
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 (apart in time, not secret)
        pause = min(2 * pause, LONGEST_PAUSE_S)


@contextlib.contextmanager
def _turn(place: Place, con: Connection) -> Iterator[None]:
    """Wait for other committers before the transaction looks at the lake.

    This saves work that would be in vain, no more: what makes commits safe is the row that each of them changes. With
    PostgreSQL the server queues them, and lets go of a killed one; with SQLite, a file lock on this machine does.
    """
    if place.catalog == "postgres":
        queue: Any = con.cursor()
        with contextlib.closing(queue), transaction(queue):
            queue.execute(statement("lake", "queue")).fetchall()
            yield
    else:
        with place.path.with_name(f"{place.path.name}.commit").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
