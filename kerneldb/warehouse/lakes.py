"""Connections to lakes: DuckLake attached as `warehouse`, where a file would stand.

A lake has no lock: everybody reads a snapshot, and commits that would collide are tried again (`retried`). Attaching
takes half a second, so the connections of this process stay open and questions get cursors of them.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib.util
import os
import random
import sqlite3
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import duckdb

from kerneldb.errors import KerneldbError, UsageError, WarehouseError, WarehouseLockedError, WarehouseMissingError
from kerneldb.files import of_disk, refusing, require_own
from kerneldb.schemas.loader import statement
from kerneldb.shell import kerneldb
from kerneldb.warehouse.engine import FAILED, bare, confine, interrupts, literal, settle, store_errors, transaction
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
    "history_changes",
    "history_runs",
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
INSTALL_NAMES: Final = {"postgres_scanner": "postgres", "sqlite_scanner": "sqlite"}

_OPEN: dict[Key, Connection] = {}
_OPENING = threading.RLock()


@contextlib.contextmanager
def reading(place: Place) -> Iterator[Connection]:
    """A read-only connection with the lake attached as `warehouse` and in use; it reaches no files but the lake's."""
    with _connection(place, "attach", ()) as con:
        yield con


@contextlib.contextmanager
def writing(place: Place, folders: Sequence[Path] = ()) -> Iterator[Connection]:
    """A connection that may write the lake, and read and write files in `folders`."""
    with _connection(place, "attach_for_writing", tuple(sorted(folder.resolve() for folder in folders))) as con:
        yield con


@contextlib.contextmanager
def _connection(place: Place, way: str, folders: tuple[Path, ...]) -> Iterator[Connection]:
    key = (place.uri, way, folders, os.getpid())
    with _OPENING:
        if key not in _OPEN:
            _OPEN[key] = _connected(place, way, folders)
        con = _OPEN[key].cursor()
    try:
        with store_errors(place):
            con.execute(statement("session", "use"))
            if way == "attach":
                # One snapshot for all that is asked on this connection: else each statement looks for the newest twice.
                con.begin()
        yield con
    except (duckdb.Error, KerneldbError) as error:
        if any(sign in str(error) for sign in LOST):  # the server is gone: the next question makes a new connection
            with _OPENING:
                _OPEN.pop(key, None)
        raise
    finally:
        con.close()


@atexit.register
def close_all() -> None:
    """Close the connections of this process to all lakes; the next question opens them anew."""
    with _OPENING:
        for key in [key for key in _OPEN if key[-1] == os.getpid()]:
            _OPEN.pop(key).close()


def create(place: Place, data: str) -> None:
    """Make the catalog of a new lake whose rows go to Parquet files under `data`. A lake that is there stays.

    Raises UsageError where a new lake would share `data` with other files: `compact` removes what no table knows.
    """
    try:
        _plain(place, "attach").close()
    except WarehouseMissingError:
        _require_own(data)
        if not data.startswith(REMOTE):
            Path(data).mkdir(parents=True, exist_ok=True)
    with contextlib.closing(_plain(place, "create", data)) as con, _attach_errors(place):
        con.execute(statement("lake", "settings"))


def _require_own(data: str) -> None:
    """Raise UsageError unless `data` is empty, and no part of the files of another lake."""
    with contextlib.closing(bare()) as con:
        if data.startswith(REMOTE):
            load_extension(con, "httpfs")
            _use_credentials(con)
        patterns = [f"{data}**", *(f"{above}/main/schema_version/*.parquet" for above in _above(data))]
        try:
            found = [con.execute(statement("lake", "first_file"), {"pattern": one}).fetchone() for one in patterns]
        except duckdb.Error as error:
            message = f"{data} cannot be listed: {masked(str(error))}"
            raise WarehouseError(message) from error
    if files := [row[0] for row in found if row is not None]:
        message = (
            f"{data}: there are files already ({files[0]}). A lake removes what it does not know, so give it a folder "
            "or prefix of its own, which is empty and not inside that of another lake"
        )
        raise UsageError(message)


def _above(data: str) -> list[str]:
    """The folders, or prefixes of a bucket, that hold `data`."""
    root, _, rest = data.rstrip("/").rpartition("://")
    parts = rest.split("/")
    first = 1 if root else 2
    return [f"{root}{'://' if root else ''}{'/'.join(parts[:count])}" for count in range(first, len(parts))]


@contextlib.contextmanager
def owner(place: Place) -> Iterator[Connection]:
    """A connection for statements of kerneldb alone: definitions, fillers, upkeep. It reaches the files of the lake."""
    with contextlib.closing(_plain(place, "attach_for_writing")) as con:
        data = data_path(con)
        _require_folder(con, place, data)
        _make_folders(con, data)
        confine(con, [data])
        yield con


@interrupts()
def _connected(place: Place, way: str, folders: tuple[Path, ...]) -> Connection:
    con = _plain(place, way)
    try:
        data = data_path(con)
        _require_folder(con, place, data)
        if way == "attach_for_writing":
            _make_folders(con, data)
            if place.catalog == "postgres":
                con.execute(statement("lake", "attach_queue").format(address=literal(place.address)))
            con.execute(statement("lake", "bounded_memory").format(folder=literal(SPOOLS / f"kerneldb-{os.getpid()}")))
        confine(con, [data, *folders])
    except BaseException:
        con.close()
        raise
    return con


def _plain(place: Place, way: str, data: str = "") -> Connection:
    """A connection with the lake attached as `warehouse`, and everything loaded that it and its files need."""
    con = bare()
    try:
        attach(con, place, way, data)
        con.execute(statement("session", "use"))
        con.execute(statement("lake", "metadata_cache"))
        settle(con)
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
        load_extension(con, name)
    con.execute(statement("lake", "retries"))
    if place.catalog == "sqlite":
        _roll_back(place.path)
    sql = statement("lake", way).format(uri=literal(place.uri), data=literal(data))
    with _attach_errors(place):
        try:
            con.execute(sql)
        except duckdb.Error as error:
            # Only the catalog knows that the files are in S3, and it cannot be attached without httpfs then.
            if "httpfs" not in str(error):
                raise
            load_extension(con, "httpfs")
            _use_credentials(con)
            con.execute(sql)


def _roll_back(catalog: Path) -> None:
    """Undo what a killed program left half written in a SQLite catalog: who may only read it could not, and would fail.

    SQLite does that itself at the first look of a connection that may write. The journal of a commit under way is
    locked, and stays. Where the catalog cannot be written, attaching it says so.
    """
    if catalog.with_name(f"{catalog.name}-journal").exists():
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(catalog)) as con:
            con.execute(statement("lake", "look")).fetchone()


def load_extension(con: Connection, name: str) -> None:
    """Load the extension `name` from DuckDB's own folder, else from a wheel `duckdb-extension-…`, never by network.

    Raises WarehouseError, which says how to get it, where it is in neither place.
    """
    try:
        con.execute(statement("lake", "load").format(extension=name))
    except duckdb.Error as error:
        # The binary in the package `duckdb_extension_<name>`, where that is installed.
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        folders = [] if spec is None else spec.submodule_search_locations or []
        files = (file for folder in folders for file in Path(folder).glob("extensions/*/*.duckdb_extension"))
        file = next(files, None)
        if file is None:
            raise no_extension(name) from error
        try:
            con.execute(statement("lake", "load").format(extension=literal(file)))
        except duckdb.Error as unfit:
            raise no_extension(name, unfit) from unfit


def no_extension(name: str, error: duckdb.Error | None = None) -> WarehouseError:
    """The error of a missing or unfit extension: how to get it, with network and without."""
    installed = INSTALL_NAMES.get(name, name)
    why = "is not installed" if error is None else f"cannot be used ({str(error).splitlines()[0]})"
    return WarehouseError(
        f"a lake needs DuckDB's extension {name}, which {why} for DuckDB {duckdb.__version__}. Offline: "
        f"pip install 'kerneldb[lake-offline]' (DuckDB 1.5.5 with its extensions). With network, once: "
        f"python -c \"import duckdb; duckdb.sql('INSTALL {installed}')\""
    )


def data_path(con: Connection, database: str = "warehouse") -> str:
    """The folder or S3 prefix of the files of an attached lake."""
    (path,) = con.execute(statement("lake", "data_path"), {"database": database}).fetchone() or ("",)
    return str(path)


def _require_folder(con: Connection, place: Place, data: str) -> None:
    """Raise WarehouseError where the folder that the catalog names holds other files than those of a lake.

    What the lake defines may read that folder, and `compact` removes files there: a catalog must not name your own.
    """
    if data.startswith(REMOTE) or not Path(data).is_dir():
        return
    schemas = {name for (name,) in con.execute(statement("lake", "folders")).fetchall()}
    for path in _visible(Path(data)):
        odd = path if path.name not in schemas or not path.is_dir() else _first_file(path)
        if odd is not None:
            raise not_of_the_lake(place, data, odd)


def _first_file(folder: Path) -> Path | None:
    return next((path for path in _visible(folder) if not path.is_dir()), None)


def _visible(folder: Path) -> Iterator[Path]:
    """What is in a folder, but for hidden files, which file systems and their browsers leave there."""
    return (path for path in folder.iterdir() if not (path.name.startswith(".") and path.is_file()))


def not_of_the_lake(place: Place, data: str, file: Path | str) -> WarehouseError:
    """The error of a folder of files in which there is one that is no part of the lake."""
    return WarehouseError(
        f"{place}: its catalog says that its files are in {data}, where there is something else: {file}. Whoever made "
        "the catalog could read and remove what is there; if it is yours, move that to another place"
    )


def _make_folders(con: Connection, data: str) -> None:
    """Make the folders of all tables: confined to `data`, the engine cannot make the ones above its files."""
    if not data.startswith(REMOTE):
        for (table,) in con.execute(statement("lake", "tables")).fetchall():
            if Path(table).name == table:  # a name of a stranger could lead elsewhere
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
        full = of_disk(error, place.path.parent)
        if full is None and place.catalog == "sqlite" and FAILED in text:
            full = refusing(place.path.parent)
        raise full or WarehouseError(message) from error


def _no_lake(place: Place) -> WarehouseMissingError:
    remedy = kerneldb("db", "init", "--data", "FOLDER_OR_S3_PREFIX", database=place)
    return WarehouseMissingError(f"there is no lake at {place}; make it with: {remedy}")


def retried(con: Connection, place: Place, timeout: float, work: Callable[[Connection], T]) -> T:
    """Run `work` in one transaction that no other commit of kerneldb overlaps; its result.

    It is run again where another commit came first, for up to `timeout` seconds; so it must look anew at what is
    there. Raises WarehouseLockedError where that was too long.
    """

    def attempt() -> T:
        with _turn(place, con, timeout), transaction(con):
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
            if not any(sign in str(error) for sign in CONFLICTS):
                raise
            if time.monotonic() > ends:
                message = f"{place}: other programs kept committing for {timeout:g} s; try again"
                raise WarehouseLockedError(message) from error
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 (apart in time, not secret)
        pause = min(2 * pause, LONGEST_PAUSE_S)


@contextlib.contextmanager
def _turn(place: Place, con: Connection, timeout: float) -> Iterator[None]:
    """Wait for other committers before the transaction looks at the lake.

    This saves work that would be in vain, no more: what makes commits safe is the row that each of them changes. With
    PostgreSQL the server queues them, and lets go of a killed one; with SQLite, a file lock on this machine does.
    However long the queue, it moves; WarehouseLockedError where one committer has its turn for `timeout` seconds.
    """
    if place.catalog == "postgres":
        queue: Any = con.cursor()
        with contextlib.closing(queue):
            _wait_for(place, timeout, lambda: _queue(queue), lambda: _at_server(queue))
            try:
                yield
            finally:
                with contextlib.suppress(duckdb.Error):  # a server that is gone holds nothing
                    queue.rollback()
    else:
        lock = place.path.with_name(f"{place.path.name}.commit")
        require_own(lock)
        with lock.open("a+", encoding="utf-8") as file:
            _wait_for(place, timeout, lambda: _locked(file), lambda: _written(file))
            file.truncate(0)
            file.write(f"process {os.getpid()}, {time.time_ns()}")
            file.flush()
            yield


def _wait_for(place: Place, timeout: float, taken: Callable[[], bool], holder: Callable[[], str]) -> None:
    """Try until `taken`, as long as `holder` changes within `timeout` seconds: a name, a comma, and since when."""
    seen, since = None, time.monotonic()
    while not taken():
        now = holder()
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since >= timeout:
            who = now.partition(",")[0] or "another program"
            message = f"{place}: {who} has been committing for more than {timeout:g} s; wait for it, or end it"
            raise WarehouseLockedError(message)


@interrupts()
def _queue(queue: Connection) -> bool:
    """Take the turn at the server, in a transaction that holds it; False where that took long, to look for Ctrl-C."""
    queue.begin()
    try:
        queue.execute(statement("lake", "queue")).fetchall()
    except duckdb.Error as error:
        queue.rollback()
        if "lock timeout" not in str(error):
            raise
        return False
    except BaseException:
        queue.rollback()
        raise
    return True


def _at_server(queue: Connection) -> str:
    (found,) = queue.execute(statement("lake", "holder")).fetchone() or ("",)
    return str(found)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(FIRST_PAUSE_S)
        return False
    return True


def _written(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
