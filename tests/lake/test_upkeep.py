"""Making and migrating lakes, and what happens when that, or a server, is cut short."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kerneldb.errors import KerneldbError, UsageError, WarehouseError, WarehouseMissingError, WarehouseVersionError
from kerneldb.schemas import loader
from kerneldb.schemas.loader import Migration
from kerneldb.warehouse import Warehouse, lakes, migrate, upkeep
from kerneldb.warehouse.engine import transaction
from kerneldb.warehouse.place import Place

COUNTS = "SELECT (SELECT count(*) FROM traces) AS traces, (SELECT count(*) FROM annotations) AS annotations"
LATER = """
    ALTER TABLE traces ADD COLUMN weather VARCHAR;
    CREATE TABLE moons (name VARCHAR NOT NULL, orbit MAP(SMALLINT, BIGINT));
"""


def rows(place: Place, sql: str) -> list[dict[str, Any]]:
    return list(Warehouse(place).query(sql).to_pylist())


def test_new_lake_is_empty_and_current(lake: Place) -> None:
    assert rows(lake, COUNTS) == [{"traces": 0, "annotations": 0}]
    assert rows(lake, "SELECT commits FROM commit_lock") == [{"commits": 0}]
    assert Warehouse.open(lake).version() == f"schema {migrate.newest()}, DuckLake with {lake.catalog}"
    upkeep.init(lake, None, 30)
    assert upkeep.migrate_to_newest(lake, 30) == (migrate.newest(),) * 2


def test_every_table_has_figures_in_the_catalog(sqlite_lake: Place) -> None:
    with lakes.owner(sqlite_lake) as con:
        tables = [table for (table,) in con.execute(loader.statement("lake", "tables")).fetchall()]
        assert upkeep._never_filled(con, tables) == []
        filled = {table for table in tables if con.execute(f"SELECT count(*) FROM {table}").fetchone() != (0,)}
    own = {"schema_version", "schema_info", "schema_docs", "commit_lock"}
    assert filled == own | set(loader.reference())


def test_migration_brings_new_tables_and_columns(
    sqlite_lake: Place, monkeypatch: pytest.MonkeyPatch, many_traces: Path
) -> None:
    from kerneldb.warehouse import transfer

    transfer.publish(sqlite_lake, 30, many_traces, ["trace-1"])
    number = migrate.newest() + 1
    steps = (*loader.migrations(), Migration(number, "more", LATER))
    monkeypatch.setattr(loader, "migrations", lambda: steps)
    with pytest.raises(WarehouseVersionError, match="migrate"):
        Warehouse.open(sqlite_lake)
    assert upkeep.migrate_to_newest(sqlite_lake, 30) == (number - 1, number)
    assert rows(sqlite_lake, "SELECT name, weather FROM traces") == [{"name": "t1", "weather": None}]
    assert rows(sqlite_lake, "FROM moons") == []
    monkeypatch.undo()
    with pytest.raises(WarehouseVersionError, match="newer kerneldb"):
        Warehouse.open(sqlite_lake)


def test_lake_whose_making_was_cut_short(
    sqlite_lake: Place, monkeypatch: pytest.MonkeyPatch, many_traces: Path
) -> None:
    with lakes.owner(sqlite_lake) as con, transaction(con):
        con.execute(loader.statement("lake", "mark_unfinished"), {"tables": "traces annotations"})
        for fill, _ in con.execute(
            loader.statement("lake", "fillers"), {"tables": ["traces", "annotations"]}
        ).fetchall():
            con.execute(fill)
    with pytest.raises(WarehouseVersionError, match="init"):
        Warehouse.open(sqlite_lake)
    upkeep.init(sqlite_lake, None, 30)
    Warehouse.open(sqlite_lake)
    assert rows(sqlite_lake, COUNTS) == [{"traces": 0, "annotations": 0}]


def test_server_that_goes_away_and_comes_back(postgres: Any, postgres_lake: Place) -> None:
    assert rows(postgres_lake, COUNTS)
    postgres.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'lake%'")
    with contextlib.suppress(KerneldbError, duckdb.Error):  # whoever was connected may lose one query, and no more
        rows(postgres_lake, COUNTS)
    assert rows(postgres_lake, COUNTS) == [{"traces": 0, "annotations": 0}]


def test_no_password_is_told_when_the_server_goes_away(postgres: Any, postgres_lake: Place) -> None:
    place = Place.of(f"{postgres_lake.uri} password=hidden")
    name = place.path.stem

    def write() -> None:
        Warehouse(place).write(lambda con: con.execute("DELETE FROM annotations"))

    def lost(work: Callable[[], object]) -> str:
        postgres.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'lake%'")
        with pytest.raises(KerneldbError) as caught:
            work()
        return str(caught.value)

    assert rows(place, COUNTS)
    write()
    postgres.ask(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    told = [lost(lambda: rows(place, COUNTS)), lost(write), lost(lambda: rows(place, COUNTS))]
    postgres.ask(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert ["hidden" in one for one in told] == [False] * 3
    assert all(f"dbname={name}" in one for one in told)
    assert rows(place, COUNTS)


def _data(place: Place) -> str:
    with lakes.reading(place) as con:
        return lakes.data_path(con)


def test_files_of_a_lake_are_shared_with_nobody(tmp_path: Path, sqlite_lake: Place) -> None:
    """Each lake would take the files of the other one for left behind."""
    other = Place.of(f"ducklake:sqlite:{tmp_path / 'other.sqlite'}")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").touch()
    for data in (_data(sqlite_lake), f"{_data(sqlite_lake)}below/more", str(mine)):
        with pytest.raises(UsageError, match="of its own"):
            upkeep.init(other, data, 30)
        assert not other.exists()
    assert not Path(_data(sqlite_lake), "below").exists(), "what is refused leaves nothing in the lake"
    upkeep.init(other, str(tmp_path / "empty"), 30)
    upkeep.init(other, str(tmp_path / "empty"), 30)
    assert rows(other, COUNTS) == [{"traces": 0, "annotations": 0}]


def test_prefix_of_a_lake_in_s3_is_shared_with_nobody(tmp_path: Path, s3_lake: Place, s3: str) -> None:
    other = Place.of(f"ducklake:sqlite:{tmp_path / 'other.sqlite'}")
    for data in (_data(s3_lake), f"{_data(s3_lake)}below", s3):
        with pytest.raises(UsageError, match="of its own"):
            upkeep.init(other, data, 30)
    with pytest.raises(WarehouseError, match="s3://nowhere/ cannot be listed"):
        upkeep.init(other, "s3://nowhere", 30)
    assert not other.exists()


def test_catalog_without_a_lake(postgres: Any, new_lake: Any) -> None:
    with pytest.raises(WarehouseError, match="cannot be opened") as caught:
        Warehouse.open(f"ducklake:postgres:{postgres.address('nowhere')} password=hidden")
    assert "hidden" not in str(caught.value)
    postgres.ask("CREATE DATABASE bare")
    with pytest.raises(WarehouseMissingError, match="init --data"):
        Warehouse.open(f"ducklake:postgres:{postgres.address('bare')}")
    assert postgres.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", "bare") == "0"


def test_another_lake_is_no_warehouse(tmp_path: Path, sqlite_lake: Place) -> None:
    place = Place.of(f"ducklake:sqlite:{tmp_path / 'other.sqlite'}")
    lakes.create(place, f"{tmp_path}/other/")
    with lakes.owner(place) as con:
        con.execute("CREATE TABLE mine (x INTEGER)")
    with pytest.raises(WarehouseVersionError, match="not a kerneldb database"):
        Warehouse.open(place)


KILLED = """
import os, sqlite3, sys
con = sqlite3.connect(sys.argv[1], isolation_level=None)
con.execute("PRAGMA cache_size = 1")
con.execute("BEGIN IMMEDIATE")
con.execute("UPDATE ducklake_column SET column_name = column_name || 'x'")
os._exit(0)
"""


def test_a_commit_killed_in_the_catalog_is_undone_by_who_reads_next(sqlite_lake: Place) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(sqlite_lake.path)], check=True)
    assert sqlite_lake.path.with_name(f"{sqlite_lake.path.name}-journal").exists()
    assert Warehouse.open(sqlite_lake).query("SELECT count(*) AS n FROM traces").to_pylist() == [{"n": 0}]
