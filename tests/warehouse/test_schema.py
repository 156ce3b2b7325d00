"""The file: creation, versions, migrations, and the docs of everything in it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from kerneldb.batch import Manifest
from kerneldb.errors import QueryError, WarehouseError, WarehouseMissingError, WarehouseVersionError
from kerneldb.schemas import docs, headers, loader
from kerneldb.schemas.loader import Doc, Migration
from kerneldb.warehouse import Warehouse, migrate

Shape = set[tuple[str, str, str]]
CALLS = {
    "counter_histogram": "'x'",
    "diff": "'a', 'b'",
    "diff_by": "'a', 'b'",
    "diff_classes": "'a', 'b'",
    "diff_metrics": "'a', 'b'",
    "metric_histogram": "'duration_ns'",
    "time_by": "'category'",
    "same_code": "'x'",
}
"""Arguments of the macros that have no default for all of them."""
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
    assert documented("table", "view") == catalog(warehouse)


def test_docs_are_the_macros(warehouse: Warehouse) -> None:
    sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE database_name = 'warehouse' AND NOT internal"
    macros = {row["function_name"] for row in warehouse.query(sql).to_pylist()}
    found: Shape = set()
    for macro in macros:
        if not macro.startswith("_"):
            rows = warehouse.query(f"DESCRIBE FROM {macro}({CALLS.get(macro, '')})").to_pylist()
            found |= {(macro, row["column_name"], row["column_type"]) for row in rows}
    assert found == documented("macro")
    assert macros == {header.name for header in loader.headers().values() if header.kind == "macro"}


def test_columns_are_documented_in_their_order(warehouse: Warehouse) -> None:
    for header in loader.headers().values():
        if header.is_internal:
            continue
        call = f"{header.name}({CALLS.get(header.name, '')})" if header.kind == "macro" else header.name
        rows = warehouse.query(f"DESCRIBE FROM {call}").to_pylist()
        names = [column.name for column in headers.columns_of(loader.headers(), header.name)]
        assert names == [row["column_name"] for row in rows], header.name


PUBLIC = [one for one in loader.headers().values() if one.kind != "table" and not one.is_internal]
LONGEST = 120
"""Lines of a statement without comments: more is not read as one thought."""


def test_public_objects_are_few() -> None:
    # With what a history of commits is asked by (trace_commits, kernel_history), and who waits for whom (stragglers).
    assert len(PUBLIC) <= 60


@pytest.mark.parametrize("header", PUBLIC, ids=lambda header: header.name)
def test_headers_say_what_users_need(header: headers.Header) -> None:
    assert header.example is not None
    assert header.name in header.example
    assert [one.name for one in header.arguments if not one.meaning and one.name != "source"] == []


def test_a_file_is_one_object_of_its_name() -> None:
    for subject in loader.SUBJECTS:
        for file in loader.sql_files(subject):
            text = file.read_text(encoding="utf-8")
            assert re.findall(r"^CREATE .*?(?:TABLE|VIEW|MACRO) (\w+)", text, re.MULTILINE) == [file.name[:-4]]


def test_statements_are_short() -> None:
    for folder in (*loader.SUBJECTS, "queries", "store", "migrations"):
        for file in loader.sql_files(folder):
            bare = re.sub(r"^ *--.*\n|^\s*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert max(part.count("\n") for part in bare.split(";\n")) <= LONGEST, file.name


def test_docs_are_in_the_file(warehouse: Warehouse) -> None:
    rows = warehouse.query("FROM schema_docs").to_pylist()
    assert [Doc(**row) for row in rows] == list(loader.docs())


def test_docs_have_meanings_and_one_row_per_object() -> None:
    objects = [doc.object for doc in loader.docs() if doc.column_name is None]
    assert len(objects) == len(set(objects))
    assert [doc for doc in loader.docs() if not doc.meaning.endswith(".")] == []


def test_comments_repeat_the_docs(warehouse: Warehouse) -> None:
    row = warehouse.query(
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'launches' AND column_name = 'launch_duration_ns'"
    )
    assert row.to_pylist() == [{"comment": "How long that call took on the host. [ns]"}]
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


def test_migrations_are_numbered_in_order() -> None:
    released = migrate.OLDEST
    versions = [step.version for step in loader.migrations()]
    assert versions == sorted(set(versions))  # with gaps, where steps were made at the same time
    assert (versions[0], versions[-1]) == (released + 1, migrate.newest())
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


@pytest.mark.parametrize("way", ["open", pytest.param("create_or_open", marks=pytest.mark.volume)])
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
    filled.query("CREATE OR REPLACE VIEW device_peaks AS SELECT 1 AS one", write=True)
    filled.query("CREATE VIEW retired AS SELECT 1 AS one", write=True)
    filled.query("CREATE VIEW mine AS SELECT 2 AS two", write=True)
    filled.query(
        "INSERT INTO schema_docs VALUES ('retired', 'view', NULL, NULL, NULL, 'Gone.', 'core', NULL, NULL)", write=True
    )
    filled.query("UPDATE schema_info SET value = 'other' WHERE key = 'objects_hash'", write=True)
    opened = Warehouse.open(filled.path)
    assert "gpu" in opened.query("FROM device_peaks").column_names
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
    with pytest.raises(WarehouseVersionError, match=r"not a DuckDB database.*--db"):
        getattr(Warehouse, way)(path)
    assert path.read_bytes() == content


def test_other_duckdb_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE traces (a INTEGER)")
    with pytest.raises(WarehouseVersionError, match="not a kerneldb database"):
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


def test_no_column_is_told_of_twice() -> None:
    """A column of a view or macro that means what another one means says so: as in that one."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for header in loader.headers().values():
        for column in header.columns:
            if isinstance(column, headers.Column) and not header.is_internal:
                told.setdefault((column.name, column.type, column.meaning), []).append(header.name)
    kinds = {name: header.kind for name, header in loader.headers().items()}
    twice = {
        key: names for key, names in told.items() if len(names) > 1 and {kinds[name] for name in names} != {"table"}
    }
    assert twice == {}


WITHIN = re.compile(r"(?:^WITH |^)(\w+) AS (?:MATERIALIZED )?\(", re.MULTILINE)
"""The common table expressions of a statement."""


@pytest.mark.parametrize(
    "name",
    [
        header.name
        for header in loader.headers().values()
        if not header.is_internal and "source" in {argument.name for argument in header.arguments}
    ],
)
def test_relations_of_users_may_have_any_name(name: str) -> None:
    """What a macro calls a step of its own hides a relation of that name: such names begin with `_`."""
    found = WITHIN.findall(re.sub(r"--.*", "", loader.headers()[name].sql))
    assert [step for step in found if not step.startswith("_")] == []


def test_statements_are_printed_in_one_way() -> None:
    """What `REPLACE` lists is printed in any order, and a database whose text is another one is refused as changed."""
    replacing = [one.name for one in loader.headers().values() if re.search(r"\* REPLACE \(", one.sql)]
    assert replacing == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("FROM time_by('nosuch')", "time_by takes columns such as category.*not nosuch"),
        ("FROM time_by('category, device')", "time_by takes columns such as category.*not category, device"),
        ("FROM metric_histogram('duration_ns', bins := 0)", "whole number from 1 on, not 0"),
        ("FROM metric_histogram('duration_ns', bins := 2.5)", "whole number from 1 on, not 2.5"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(filled: Warehouse, sql: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        filled.query(sql)


def test_keys_may_be_written_any_way(filled: Warehouse) -> None:
    asked = [filled.query(f"FROM time_by('{keys}')").to_pylist() for keys in ("category,dtype", "Category, DTYPE")]
    assert asked[0] == asked[1]
    assert asked[0]
