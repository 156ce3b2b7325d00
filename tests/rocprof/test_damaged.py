"""A locked, cut, empty or foreign file: a clear line, nothing half-loaded, the source untouched."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb import ingest
from kerneldb.errors import NotATraceError, TraceError, UnreadableTraceError
from tests.rocprof.conversion import converted
from tests.rocprof.databases import Kernel, write_rocpd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KERNEL = Kernel("k", (256, 1, 1), (64, 1, 1), [1_000] * 400)
State = dict[str, tuple[str, int]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write_rocpd(tmp_path / "whole.db", [KERNEL])


def state(folder: Path) -> State:
    """Check sum and time of each file beside a database, and the names of them all."""
    files = [path for path in folder.iterdir() if path.is_file()]
    return {path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


def refused(path: Path, error: type[Exception]) -> str:
    """The message, after a look that nothing beside the file has changed."""
    before = state(path.parent)
    with pytest.raises(error) as raised:
        converted(path)
    assert state(path.parent) == before
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_reading_leaves_the_file_and_its_folder_alone(database: Path) -> None:
    before = state(database.parent)
    assert converted(database).launches.height == 400
    assert state(database.parent) == before


@pytest.mark.parametrize("share", [0.6, 0.95])
def test_a_cut_database(database: Path, share: float) -> None:
    whole = database.read_bytes()
    path = database.with_name("cut.db")
    path.write_bytes(whole[: int(len(whole) * share)])
    assert "cut" in refused(path, UnreadableTraceError)


def test_a_database_cut_before_its_schema_ends(database: Path) -> None:
    """What it was, nobody can say any more."""
    path = database.with_name("cut.db")
    path.write_bytes(database.read_bytes()[:5000])
    assert "SQLite" in refused(path, TraceError) or "cut" in refused(path, TraceError)


def test_a_database_with_broken_pages(database: Path) -> None:
    whole = bytearray(database.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 65536] = b"\xff" * 65536
    path = database.with_name("rotten.db")
    path.write_bytes(bytes(whole))
    assert "damaged" in refused(path, UnreadableTraceError)


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    assert "empty" in refused(path, NotATraceError)


def test_a_foreign_database(tmp_path: Path) -> None:
    path = tmp_path / "browser.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE history (url TEXT)")
    connection.commit()
    connection.close()
    assert "SQLite" in refused(path, NotATraceError)


def test_a_database_in_the_middle_of_a_transaction(database: Path) -> None:
    """The journal beside it says that the file is not what it was before, nor what it will be."""
    writer = sqlite3.connect(database, isolation_level=None)
    try:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute(f'UPDATE "rocpd_event_{GUID}" SET stack_id = stack_id + 1')
        message = refused(database, UnreadableTraceError)
    finally:
        writer.execute("ROLLBACK")
        writer.close()
    assert "journal" in message or "another program" in message
    assert converted(database).launches.height == 400


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def writing(path: Path, *statements: str, kill: bool = False) -> Iterator[None]:
    """Another process that ran these statements and still has the file open; `kill` leaves its write-ahead log."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), *statements], **pipes) as writer:  # type: ignore[call-overload]
        assert writer.stdout.readline() == b"ready\n"
        if kill:
            writer.kill()
            writer.wait()
        yield
        writer.kill()


SHIFT = 'UPDATE "rocpd_kernel_dispatch_{guid}" SET "end" = "end" + 1'
LIVING = {
    "exclusive, no journal": ("PRAGMA journal_mode = OFF", "PRAGMA cache_size = 1", "BEGIN EXCLUSIVE", SHIFT),
    "exclusive locking mode": ("PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = MEMORY", SHIFT),
    "write-ahead log": ("PRAGMA journal_mode = WAL", SHIFT),
    "journal": ("PRAGMA cache_size = 1", "BEGIN IMMEDIATE", SHIFT),
}


@pytest.mark.parametrize("way", LIVING)
def test_a_database_that_another_program_is_writing(database: Path, way: str) -> None:
    with writing(database, *(statement.format(guid=GUID) for statement in LIVING[way])):
        message = refused(database, UnreadableTraceError)
    assert "another program is writing it" in message
    assert "Wait" in message


def test_a_write_ahead_log_that_was_left_behind(database: Path) -> None:
    """Its content counts and belongs to the identity; nothing is made beside it."""
    before = converted(database)
    with writing(database, "PRAGMA journal_mode = WAL", SHIFT.format(guid=GUID), kill=True):
        pass
    database.with_name("whole.db-shm").unlink()
    log = database.with_name("whole.db-wal")
    assert log.stat().st_size
    kept = state(database.parent)
    trace = converted(database)
    assert state(database.parent) == kept
    assert trace.launches["duration_ns"].to_list() == [1_001] * 400
    (unit,) = ingest.plan([database])
    assert ingest.trace_keys(unit) == [trace.trace["trace_id"]]
    assert state(database.parent) == kept
    log.unlink()
    alone = converted(database)
    assert alone.launches["duration_ns"].to_list() == [1_000] * 400
    assert len({before.trace["trace_id"], trace.trace["trace_id"], alone.trace["trace_id"]}) == 3


@pytest.mark.parametrize("size", [50, 99])
def test_a_database_cut_within_its_header(database: Path, size: int) -> None:
    path = database.with_name("cut.db")
    path.write_bytes(database.read_bytes()[:size])
    assert f"cut after {size} bytes" in refused(path, UnreadableTraceError)


GUID = "0000f2c4_8192_7151_8115_1151c0de0001"


def test_a_database_without_the_table_of_launches(tmp_path: Path) -> None:
    path = tmp_path / "half.db"
    connection = sqlite3.connect(path)
    connection.execute(f'CREATE TABLE "rocpd_string_{GUID}" (id INTEGER PRIMARY KEY, string TEXT)')
    connection.commit()
    connection.close()
    refused(path, NotATraceError)


def test_values_of_other_types_are_read_or_unknown(database: Path) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(f'UPDATE "rocpd_kernel_dispatch_{GUID}" SET "end" = CAST("end" AS TEXT) WHERE id = 300')
    assert converted(database).launches["duration_ns"].sum() == 400_000
    with connection:
        connection.execute(f'UPDATE "rocpd_kernel_dispatch_{GUID}" SET "end" = \'soon\' WHERE id = 300')
    connection.close()
    found = converted(database)
    assert found.launches["duration_ns"].null_count() == 1
    reports = found.table("ingest_reports").filter(pl.col("reason").str.contains("column end_ns|column end "))
    assert reports.select("outcome", "n", "example").rows() == [("unread", 1, "'soon'")]


@pytest.mark.parametrize(
    "text", ['{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [{"start', '{"rocprofiler-sdk-tool": 7}']
)
def test_json_that_is_cut_or_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run_results.json"
    path.write_text(text, encoding="utf-8")
    assert "cut or damaged" in refused(path, UnreadableTraceError)
