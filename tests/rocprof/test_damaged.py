"""A locked, cut, empty or foreign file: a clear line, nothing half-loaded, the source untouched."""

from __future__ import annotations

import hashlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import NotATraceError, TraceError, UnreadableTraceError
from tests.rocprof.conversion import converted
from tests.rocprof.databases import Kernel, write_rocpd

if TYPE_CHECKING:
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
    assert "cannot read" in refused(path, UnreadableTraceError)


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


GUID = "0000f2c4_8192_7151_8115_1151c0de0001"


def test_a_database_without_the_table_of_launches(tmp_path: Path) -> None:
    path = tmp_path / "half.db"
    connection = sqlite3.connect(path)
    connection.execute(f'CREATE TABLE "rocpd_string_{GUID}" (id INTEGER PRIMARY KEY, string TEXT)')
    connection.commit()
    connection.close()
    refused(path, NotATraceError)


def test_values_of_other_types_are_read_or_refused(database: Path) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(f'UPDATE "rocpd_kernel_dispatch_{GUID}" SET "end" = CAST("end" AS TEXT) WHERE id = 300')
    assert converted(database).launches["duration_ns"].sum() == 400_000
    with connection:
        connection.execute(f'UPDATE "rocpd_kernel_dispatch_{GUID}" SET "end" = \'soon\' WHERE id = 300')
    connection.close()
    assert "soon" in refused(database, UnreadableTraceError)


@pytest.mark.parametrize(
    "text", ['{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [{"start', '{"rocprofiler-sdk-tool": 7}']
)
def test_json_that_is_cut_or_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run_results.json"
    path.write_text(text, encoding="utf-8")
    assert "cut or damaged" in refused(path, UnreadableTraceError)
