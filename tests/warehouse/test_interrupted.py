"""Whatever moment ends a command that writes: giving it again completes it, and the file can be read before that."""

from __future__ import annotations

import errno
import fcntl
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.errors import WarehouseError, WarehouseLockedError, WarehouseVersionError
from kerneldb.warehouse import Warehouse, engine
from tests.conftest import made_once
from tests.ingest.traces import everything, kineto

pytestmark = pytest.mark.slow
SNAPPING = Path(__file__).with_name("snapping.py")
NOT_COMPARED = ("ingested_at", "applied_at", "archived_at", "seconds", "path")
"""When a row was written, and from where."""
HELD = """
import fcntl, sys
with open(sys.argv[1], "ab") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""
LOG = b"of a file that is gone"
Contents = dict[str, list[str]]


def contents(path: Path) -> Contents:
    """The rows of all tables, whenever they were written."""
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS w (TYPE duckdb, READ_ONLY)")
        con.execute("USE w")
        tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'w'").fetchall()
        kept = f"COLUMNS(lambda c: c NOT IN {NOT_COMPARED})"
        return {table: sorted(map(repr, con.execute(f"SELECT {kept} FROM {table}").fetchall())) for (table,) in tables}


def run(database: Path, *command: str) -> str:
    done = CliRunner().invoke(cli, ["--db", str(database), *command])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    path.write_text(kineto(everything()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def filled(trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with that trace in it."""
    return made_once(tmp_path_factory, "interrupted.duckdb", lambda path: kerneldb.open(path).ingest(trace))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A DuckDB file without tables."""
    path = tmp_path_factory.mktemp("empty") / "empty.duckdb"
    duckdb.connect(str(path), config={"storage_compatibility_version": "v1.5.0"}).close()
    return path.read_bytes()


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "command"),
    [
        (False, ["ingest", "TRACE"]),
        (True, ["ingest", "--replace", "TRACE"]),
        pytest.param(False, ["db", "init"], marks=pytest.mark.thorough),
        pytest.param(False, ["db", "lake", "pull", "--from", "FILLED"], marks=pytest.mark.thorough),
        pytest.param(True, ["traces", "trace", "--remove", "--yes"], marks=pytest.mark.thorough),
    ],
)
def test_a_command_is_completed_from_whatever_a_kill_leaves(
    tmp_path: Path, trace: Path, filled: Path, old: bool, command: list[str]
) -> None:
    names = {"TRACE": str(trace), "FILLED": str(filled)}
    given = [names.get(word, word) for word in command]
    database, states = tmp_path / "home" / "k.duckdb", tmp_path / "states"
    database.parent.mkdir()
    if old:
        shutil.copyfile(filled, database)
    subprocess.run([sys.executable, SNAPPING, database, states, *given], check=True, stdout=subprocess.DEVNULL)
    before, after = contents(filled) if old else {}, contents(database)
    found = sorted(states.iterdir())
    assert len(found) >= (2 if command == ["db", "init"] else 3)
    for state in found:
        path = state / database.name
        if path.exists():
            run(path, "traces")
        now = contents(path) if path.exists() else {}
        if old:
            assert now in (before, after)
        is_done = now == after
        if not (is_done and "--remove" in given):  # what is gone is no trace to remove
            run(path, *given)
            assert contents(path) == after
        # What finds everything done writes nothing, and leaves a log of the engine to the next command that writes.
        left = {file.name for file in state.iterdir()} - ({f"{database.name}.wal"} if is_done else set())
        assert left == {database.name}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "ending"),
    [
        (["db", "init"], signal.SIGTERM),
        (["ingest", "--replace"], signal.SIGINT),
        pytest.param(["db", "init"], signal.SIGKILL, marks=pytest.mark.thorough),
        pytest.param(["ingest", "--replace"], signal.SIGKILL, marks=pytest.mark.thorough),
        pytest.param(["ingest", "--replace"], signal.SIGTERM, marks=pytest.mark.thorough),
    ],
)
def test_a_signal_leaves_what_the_command_completes(
    tmp_path: Path, trace: Path, filled: Path, command: list[str], ending: signal.Signals
) -> None:
    path, given = tmp_path / "k.duckdb", [*command, *([str(trace)] if "ingest" in command else [])]
    with subprocess.Popen([sys.executable, "-m", "kerneldb", "--db", path, *given], stdout=subprocess.DEVNULL) as done:
        while not list(tmp_path.iterdir()) and done.poll() is None:
            time.sleep(0.001)
        done.send_signal(ending)
    assert done.returncode in (-ending, 130)
    run(path, *given)
    assert [left.name for left in tmp_path.iterdir()] == [path.name]
    if "ingest" in command:
        assert contents(path) == contents(filled)


@pytest.mark.parametrize(
    "size", [4096, *(pytest.param(size, marks=pytest.mark.thorough) for size in (0, engine.HEADERS))]
)
def test_a_file_that_was_cut_short_in_the_making_is_an_empty_database(tmp_path: Path, empty: bytes, size: int) -> None:
    path = tmp_path / "k.duckdb"
    assert len(empty) == engine.HEADERS
    path.write_bytes(empty[:size])
    if size < engine.HEADERS:
        path.with_name("k.duckdb.wal").write_bytes(LOG)
    run(path, "db", "init")
    assert run(path, "traces", "--csv").count("\n") == 1
    assert [old.read_bytes() for old in tmp_path.iterdir() if old != path] == [LOG] * (size < engine.HEADERS)


def test_who_only_reads_leaves_a_cut_copy_as_it_is(tmp_path: Path, filled: Path) -> None:
    path = tmp_path / "k.duckdb"
    path.write_bytes(filled.read_bytes()[:8192])
    with pytest.raises(WarehouseError, match=r"was cut short.* Copy it again, or make it anew"):
        Warehouse.open(path)
    assert path.read_bytes() == filled.read_bytes()[:8192]


def test_a_new_file_is_not_read_with_the_log_of_another_one(tmp_path: Path) -> None:
    """A killed commit leaves a log; whoever removes the database alone begins anew, and may still want the log."""
    path = tmp_path / "k.duckdb"
    path.with_name("k.duckdb.wal").write_bytes(LOG)
    run(path, "db", "init")
    assert [old.read_bytes() for old in tmp_path.iterdir() if old != path] == [LOG]


def test_who_makes_a_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "k.duckdb"
    command = [sys.executable, "-c", HELD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(WarehouseLockedError, match="being made"):
            Warehouse.open(path, lock_timeout=0)
        assert path.stat().st_size == 0
        holder.communicate("")
    assert Warehouse.open(path).traces().num_rows == 0


@pytest.mark.parametrize("size", [0, engine.HEADERS])
def test_an_empty_file_that_cannot_be_written_is_told(
    tmp_path: Path, empty: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_arguments: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = tmp_path / "k.duckdb"
    path.write_bytes(empty[:size])
    monkeypatch.setattr(fcntl, "lockf", refused)
    if size:
        monkeypatch.setattr(Warehouse, "_upgrade", _no_write_access)
    with pytest.raises(WarehouseError, match=r"(holds no|is an empty) database.*Permission denied"):
        Warehouse.open(path)
    assert path.read_bytes() == empty[:size]


def _no_write_access(warehouse: Warehouse, _timeout: float, **_: object) -> None:
    message = f"{warehouse.path} cannot be opened: Permission denied"
    raise WarehouseError(message)


@pytest.mark.parametrize("what", ["TABLE raw.x (a INTEGER)", "VIEW raw.x AS SELECT 1 AS a"])
def test_a_database_with_relations_in_another_schema_is_not_empty(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE SCHEMA raw")
        con.execute(f"CREATE {what}")
    before = path.read_bytes()
    with pytest.raises(WarehouseVersionError, match="not a kerneldb database"):
        Warehouse.open(path)
    assert path.read_bytes() == before
