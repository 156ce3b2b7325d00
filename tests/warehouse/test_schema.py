"""The file: creation, versions, migrations, and the docs of everything in it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from kerneldb.batch import Manifest
from kerneldb.errors import WarehouseError, WarehouseMissingError, WarehouseVersionError
from kerneldb.schemas import docs, loader
from kerneldb.schemas.loader import Doc, Migration
from kerneldb.warehouse import Warehouse, migrate

Shape = set[tuple[str, str, str]]
CALLS = {
    "value_histogram": "(WITH v AS (SELECT trace, occupancy AS value FROM kernels) FROM value_histogram('v'))",
    "counter_histogram": "counter_histogram('kernels', 'x')",
    "diff": "diff('a', 'b')",
    "diff_classes": "diff_classes('a', 'b')",
    "diff_metrics": "diff_metrics('a', 'b')",
    "profiled_matches": "profiled_matches('a', 'b')",
    "diff_between": "diff_between('kernel_rollups', 'kernels', 'a', 'b')",
    "metric_histogram": "metric_histogram('kernels', 'duration_ns')",
}
"""Example calls of the macros that take more than the name of a relation."""
PARTS = {"_closure", "_closure_kernels"}
"""Macros of which others are made; they take relations that these make."""
LATER = Migration(2, "more", "ALTER TABLE traces ADD COLUMN weather VARCHAR; CREATE TABLE moons (name VARCHAR);")


def catalog(warehouse: Warehouse) -> Shape:
    sql = """
        SELECT table_name, column_name, data_type FROM information_schema.columns
        WHERE table_catalog = 'warehouse' AND NOT starts_with(table_name, '_')
    """
    return {(row["table_name"], row["column_name"], row["data_type"]) for row in warehouse.query(sql).to_pylist()}


def documented(*kinds: str) -> Shape:
    return {
        (doc.object, doc.column_name, doc.type or "")
        for doc in loader.docs()
        if doc.column_name is not None and doc.kind in kinds
    }


def test_docs_are_the_catalog(warehouse: Warehouse) -> None:
    assert documented("table", "view", "view, macro") == catalog(warehouse)


def test_docs_are_the_macros(warehouse: Warehouse) -> None:
    sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE database_name = 'warehouse' AND NOT internal"
    macros = {row["function_name"] for row in warehouse.query(sql).to_pylist()}
    found: Shape = set()
    for macro in macros - PARTS:
        # `_categories` sums for the view and for the macro of the name.
        source = "kernel_rollups" if macro.startswith("_") else "kernels"
        call = CALLS.get(macro, f"{macro}('{source}')")
        rows = warehouse.query(f"DESCRIBE FROM {call}").to_pylist()
        found |= {(macro.removeprefix("_"), row["column_name"], row["column_type"]) for row in rows}
    assert found == documented("macro", "view, macro")


def test_docs_are_in_the_file(warehouse: Warehouse) -> None:
    rows = warehouse.query("FROM schema_docs").to_pylist()
    assert [Doc(**row) for row in rows] == list(loader.docs())


def test_docs_have_meanings_and_one_row_per_object() -> None:
    objects = [doc.object for doc in loader.docs() if doc.column_name is None]
    assert len(objects) == len(set(objects))
    assert [doc for doc in loader.docs() if not doc.meaning.endswith(".")] == []


def test_comments_repeat_the_docs(warehouse: Warehouse) -> None:
    row = warehouse.query(
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'launches' AND column_name = 'start_ns'"
    )
    assert row.to_pylist() == [{"comment": "Start, relative to base_ns of the trace. [ns]"}]
    sql = """
        SELECT comment FROM duckdb_tables() WHERE table_name = 'launches'
        UNION ALL SELECT comment FROM duckdb_views() WHERE view_name = 'kernels'
        UNION ALL SELECT comment FROM duckdb_functions() WHERE function_name = 'gpu_time'
    """
    comments = [row["comment"] for row in warehouse.query(sql).to_pylist()]
    assert len(comments) == 3
    assert all(comments)


def test_schema_page_is_up_to_date(root: Path) -> None:
    assert (root / "docs" / "schema.md").read_text(encoding="utf-8") == docs.page()


def test_version_names_schema_and_storage(warehouse: Warehouse) -> None:
    assert warehouse.version() == f"schema {migrate.newest()}, DuckDB storage v1.5.0+"


def test_migrations_are_numbered_without_gaps() -> None:
    released = migrate.OLDEST
    assert [step.version for step in loader.migrations()] == list(range(released + 1, migrate.newest() + 1))
    assert loader.tables().version == migrate.newest()


def test_only_the_common_ground_of_duckdb_and_ducklake() -> None:
    sql = " ".join(step.sql for step in (loader.tables(), *loader.migrations()))
    absent = r"PRIMARY KEY|UNIQUE|FOREIGN KEY|\bENUM|CREATE (SEQUENCE|TYPE|\w* ?INDEX)|CHECK \(|GENERATED"
    assert re.findall(absent, re.sub(r"--.*", "", sql), re.IGNORECASE) == []


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the installed kerneldb were one migration further."""
    steps = (*loader.migrations(), dataclasses.replace(LATER, version=migrate.newest() + 1))
    monkeypatch.setattr(loader, "migrations", lambda: steps)


@pytest.mark.parametrize("way", ["open", pytest.param("create_or_open", marks=pytest.mark.thorough)])
def test_older_file_is_migrated(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, way: str
) -> None:
    before = filled.query("SELECT count(*) AS n FROM launches").to_pylist()
    request.getfixturevalue("next_version")
    opened = getattr(Warehouse, way)(filled.path)
    assert opened.version().startswith(f"schema {migrate.newest()},")
    assert opened.query("SELECT weather FROM traces").num_rows == 3
    assert opened.query("SELECT count(*) AS n FROM launches").to_pylist() == before
    names = opened.query("SELECT name FROM schema_version ORDER BY version")["name"].to_pylist()
    assert names == ["tables", LATER.name]


def test_failing_migration_changes_nothing(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = dataclasses.replace(LATER, version=migrate.newest() + 1, sql=LATER.sql + "SELECT * FROM nowhere;")
    before, version = catalog(filled), filled.version()
    with monkeypatch.context() as context:
        steps = (*loader.migrations(), bad)
        context.setattr(loader, "migrations", lambda: steps)
        with pytest.raises(WarehouseError, match="nowhere"):
            Warehouse.open(filled.path)
    assert (catalog(filled), filled.version()) == (before, version)


def test_newer_file_is_refused(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.query("INSERT INTO schema_version VALUES (99, 'future', NULL)", write=True)
    with pytest.raises(WarehouseVersionError, match=r"newer kerneldb \(schema 99.*pip install --upgrade kerneldb"):
        Warehouse.open(filled.path)
    with pytest.raises(WarehouseVersionError, match="schema 99"):
        Warehouse.create_or_open(filled.path)


def test_file_from_before_the_first_release_is_refused(filled: Warehouse) -> None:
    filled.query(f"UPDATE schema_version SET version = {migrate.OLDEST - 1}", write=True)
    with pytest.raises(WarehouseVersionError, match=r"before kerneldb 0\.1\.0 \(schema 5\); read its traces"):
        Warehouse.open(filled.path)


def test_views_of_another_version_are_made_anew(filled: Warehouse) -> None:
    filled.query("CREATE OR REPLACE VIEW categories AS SELECT 1 AS one", write=True)
    filled.query("CREATE VIEW retired AS SELECT 1 AS one", write=True)
    filled.query("CREATE VIEW mine AS SELECT 2 AS two", write=True)
    filled.query("INSERT INTO schema_docs VALUES ('retired', 'view', NULL, NULL, NULL, 'Gone.')", write=True)
    filled.query("UPDATE schema_info SET value = 'other' WHERE key = 'objects_hash'", write=True)
    opened = Warehouse.open(filled.path)
    assert "category" in opened.query("FROM categories").column_names
    views = opened.query("SELECT view_name FROM duckdb_views() WHERE database_name = 'warehouse'")[
        "view_name"
    ].to_pylist()
    assert "mine" in views
    assert "retired" not in views


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(WarehouseMissingError, match="kerneldb --db"):
        Warehouse.open(tmp_path / "none.duckdb")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"hello", b"hello" * 1000, b'{"traceEvents": []}'])
@pytest.mark.parametrize("way", ["open", "create_or_open"])
def test_something_else_is_refused(tmp_path: Path, content: bytes, way: str) -> None:
    path = tmp_path / "x.duckdb"
    path.write_bytes(content)
    with pytest.raises(WarehouseVersionError, match=r"no DuckDB database.*--db"):
        getattr(Warehouse, way)(path)
    assert path.read_bytes() == content


def test_other_duckdb_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE traces (a INTEGER)")
    with pytest.raises(WarehouseVersionError, match="no kerneldb warehouse"):
        Warehouse.create_or_open(path)


@pytest.mark.thorough
def test_creation_that_was_cut_short_is_finished(tmp_path: Path, make_trace: Callable[..., Manifest]) -> None:
    path = tmp_path / "x.duckdb"
    duckdb.connect(str(path), config={"storage_compatibility_version": "v1.5.0"}).close()
    assert Warehouse.open(path).commit(make_trace())


def test_path_is_quoted(tmp_path: Path) -> None:
    folder = tmp_path / "it's a 'folder'; --"
    folder.mkdir()
    assert Warehouse.create_or_open(folder / "k.duckdb").traces().num_rows == 0


def test_objects_that_duckdb_2_stores_are_read_by_duckdb_1() -> None:
    """The file holds their text as DuckDB 2 spells it: 1.5 takes neither its `if` nor its `lag` of three arguments."""
    text = loader.objects()
    assert not re.findall(r"\bif\(", text, flags=re.IGNORECASE)
    assert not re.findall(r"\b(?:lag|lead)\(\w+,[^()]*,", text, flags=re.IGNORECASE)
