"""A lake of a stranger: what its catalog defines is looked at, and it reaches no files but its own."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from kerneldb.errors import WarehouseError, WarehouseVersionError
from kerneldb.warehouse import Warehouse, lakes, transfer, upkeep

if TYPE_CHECKING:
    from kerneldb.warehouse.place import Place

CHANGED = {
    "a view": "CREATE OR REPLACE VIEW kernels AS SELECT 42 AS one",
    "a macro": "CREATE OR REPLACE MACRO top_kernels(source := 'kernels') AS TABLE SELECT 1 AS total_ns, 1 AS n",
}
REFUSED = {
    "a function": "CREATE MACRO sum(x) AS 42",
    "a table for a view": "DROP VIEW kernels; CREATE TABLE kernels (a INT)",
    "a default": "ALTER TABLE traces ALTER label SET DEFAULT 'forged'",
}


def define(lake: Place, sql: str) -> None:
    """As whoever may write to the catalog."""
    with duckdb.connect() as con:
        lakes.attach(con, lake, "attach_for_writing")
        con.execute(f"USE warehouse; {sql}")


def in_catalog(lake: Place, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(lake.path)) as con, con:
        con.execute(sql)


def test_changed_views_and_macros_are_refused_until_they_are_made_anew(sqlite_lake: Place) -> None:
    Warehouse.open(sqlite_lake)
    for sql in CHANGED.values():
        define(sqlite_lake, sql)
        lakes.close_all()
        with pytest.raises(WarehouseVersionError, match="db migrate"):
            Warehouse.open(sqlite_lake)
        upkeep.migrate_to_newest(sqlite_lake, 30)
        lakes.close_all()
        assert "trace" in Warehouse.open(sqlite_lake).query("FROM kernels").column_names


@pytest.mark.parametrize("what", REFUSED)
def test_what_stands_in_for_ours_is_refused(sqlite_lake: Place, what: str) -> None:
    define(sqlite_lake, REFUSED[what])
    for refused in (Warehouse.open, lambda lake: upkeep.migrate_to_newest(lake, 30)):
        with pytest.raises(WarehouseVersionError, match="changed by something else"):
            refused(sqlite_lake)


def test_a_catalog_that_names_your_folder_is_refused(sqlite_lake: Place, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "main").mkdir(parents=True)
    yours = home / "main" / "thesis.parquet"
    in_catalog(sqlite_lake, f"UPDATE ducklake_metadata SET value = '{home}/' WHERE key = 'data_path'")
    for refused in (Warehouse.open, lambda lake: upkeep.compact(lake, 0, 24, 30)):
        yours.touch()
        with pytest.raises(WarehouseError, match=r"something else: .*thesis\.parquet"):
            refused(sqlite_lake)
        yours.rename(home / "diary.txt")
        with pytest.raises(WarehouseError, match=r"something else: .*diary\.txt"):
            refused(sqlite_lake)
        (home / "diary.txt").rename(yours)
    yours.unlink()
    (home / "main" / "traces").mkdir()
    (home / "main" / "traces" / "diary.txt").touch()
    with pytest.raises(WarehouseError, match=r"something else: .*diary\.txt"):
        upkeep.compact(sqlite_lake, 0, 24, 30)


def test_names_of_tables_and_traces_lead_nowhere(sqlite_lake: Place, many_traces: Path, tmp_path: Path) -> None:
    """A table that was never filled gets a row for a moment, and a folder; files of a trace have its id in the name."""
    for name in ("../../elsewhere", 'a" VALUES (1); DELETE FROM schema_docs; --'):
        define(sqlite_lake, f'CREATE TABLE "{name.replace(chr(34), chr(34) * 2)}" (a INTEGER)')
    lakes.close_all()
    before = Warehouse(sqlite_lake).query("SELECT count(*) AS n FROM schema_docs").to_pylist()
    upkeep.init(sqlite_lake, None, 30)
    assert Warehouse(sqlite_lake).query("SELECT count(*) AS n FROM schema_docs").to_pylist() == before
    other, odd = tmp_path / "other.duckdb", "../../../trace; 'x'" + "y" * 300
    shutil.copy(many_traces, other)
    for table in ("traces", "launches", "rollups"):
        sql = f"UPDATE {table} SET trace_id = $odd WHERE trace_id = 'trace-1'"
        Warehouse(other).query(sql, {"odd": odd}, write=True)
    assert transfer.publish(sqlite_lake, 30, other, [odd]) == [odd]
    assert Warehouse(sqlite_lake).query("SELECT DISTINCT trace_id FROM launches").to_pylist() == [{"trace_id": odd}]
    with lakes.reading(sqlite_lake) as con:
        data = Path(lakes.data_path(con))
    assert not list(tmp_path.parent.rglob("elsewhere"))
    assert list((data / "main" / "launches").glob("..-..-..-trace---x-y*.parquet"))


def test_a_link_for_the_lock_is_not_written_through(sqlite_lake: Place, tmp_path: Path) -> None:
    yours = tmp_path / "yours"
    yours.write_text("a diary\n")
    lock = sqlite_lake.path.with_name(f"{sqlite_lake.path.name}.commit")
    lock.unlink(missing_ok=True)
    lock.symlink_to(yours)
    with pytest.raises(WarehouseError, match=r"commit is no file"):
        Warehouse(sqlite_lake).write(lambda con: con.execute("DELETE FROM annotations"))
    assert yours.read_text() == "a diary\n"


def test_compaction_removes_no_file_elsewhere(sqlite_lake: Place, tmp_path: Path) -> None:
    yours = tmp_path / "thesis.txt"
    yours.touch()
    in_catalog(
        sqlite_lake,
        f"INSERT INTO ducklake_files_scheduled_for_deletion VALUES (9999, '{yours}', 0, '2020-01-01 00:00:00+00')",
    )
    with pytest.raises(WarehouseError, match=r"thesis\.txt"):
        upkeep.compact(sqlite_lake, 48, 24, 30)
    assert yours.exists()
