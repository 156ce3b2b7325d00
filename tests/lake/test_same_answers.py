"""Every command says of a lake what it says of a file with the same traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.cli import cli
from kerneldb.errors import QueryError
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse, commit, lakes
from kerneldb.warehouse.place import Place

VIEWS = [doc.object for doc in loader.docs() if doc.column_name is None and doc.kind.startswith("view")]
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("query", "SELECT category, count(*) AS n, sum(duration_ns) AS ns FROM kernels GROUP BY 1 ORDER BY 1"),
    ("query", "SELECT count(*) AS n FROM selection", "--where", "category = 'GEMM' AND tags['lot'] = 'a'"),
    ("query", "WITH s AS (FROM kernels WHERE category = 'GEMM') SELECT sum(n) AS n FROM top_kernels('s')"),
    ("top",),
    ("top", "--by", "op", "--where", "duration_ns > 1000"),
    ("top", "--by", "category", "--trace", "step"),
    ("diff", "step", "again"),
    ("analyze", "compare", "step", "again"),
    (
        "analyze",
        "phases",
    ),
    (
        "analyze",
        "idle",
    ),
    (
        "analyze",
        "overlap",
    ),
    (
        "analyze",
        "iterations",
    ),
    (
        "analyze",
        "roofline",
    ),
    (
        "analyze",
        "fusion",
    ),
    (
        "ncu",
        "bounds",
    ),
    (
        "ncu",
        "coverage",
    ),
    ("traces",),
    ("traces", "step", "--report"),
    (
        "db",
        "export",
    ),
    ("db", "export", "--table", "ops", "--trace", "step"),
    (
        "db",
        "schema",
    ),
    ("db", "schema", "kernels"),
)
TIMES = ("ingested_at", "path", "noted_at")


def call(database: str | Path, *arguments: str, exit_code: int = 0) -> Result:
    done = CliRunner().invoke(cli, ["--db", str(database), *arguments])
    assert done.exit_code == exit_code, done.output
    return done


def answer(database: str | Path, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call(database, *arguments, "--json").stdout)
    rows = [{key: _rounded(value) for key, value in row.items() if key not in TIMES} for row in found]
    return sorted(rows, key=repr)


def _rounded(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def fill(database: str | Path, root: Path) -> None:
    trace = root / "tests" / "fixtures" / "train-step-h200.json.gz"
    call(database, "ingest", str(trace), "--name", "step", "--set", "lot=a", "--run", "job")
    other = root / "examples" / "decoder-h200.json.gz"
    call(database, "ingest", str(other), "--name", "again")
    call(database, "db", "annotate", "--where", "category = 'GEMM'", "--trace", "step", "--role", "projection")


@pytest.fixture(scope="module")
def file(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "k.duckdb"
    fill(path, root)
    return path


@pytest.fixture(scope="module")
def filled(new_lake: Callable[[str], Place], root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    lake = new_lake(str(tmp_path_factory.mktemp("answers"))).uri
    fill(lake, root)
    return lake


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command(file: Path, filled: str, command: tuple[str, ...]) -> None:
    expected = answer(file, *command)
    assert answer(filled, *command) == expected


def test_every_view(file: Path, filled: str) -> None:
    with Warehouse(file).connection() as plain, Warehouse(filled).connection() as lake:
        for view in VIEWS:
            sql = f"SELECT count(*) AS n, count(COLUMNS(*)) FROM {view}"
            assert lake.execute(sql).fetchall() == plain.execute(sql).fetchall(), view


def test_show(file: Path, filled: str) -> None:
    (row,) = kerneldb.open(file).sql("SELECT signature_id FROM signatures ORDER BY 1 LIMIT 1").rows()
    assert call(filled, "show", row["signature_id"]).stdout == call(file, "show", row["signature_id"]).stdout


def test_traces_are_read_once(file: Path, filled: str, root: Path) -> None:
    trace = root / "tests" / "fixtures" / "train-step-h200.json.gz"
    assert "unchanged" in call(filled, "ingest", str(trace)).stderr
    assert [row["launches"] for row in answer(filled, "traces")] == [row["launches"] for row in answer(file, "traces")]


def test_views_work_under_another_name(filled: str) -> None:
    import duckdb

    place = Place.of(filled)
    with duckdb.connect() as con:
        lakes.attach(con, place, "attach_lake_source")
        names = {name for (name,) in con.execute("SELECT name FROM source.traces").fetchall()}
        assert {name for (name,) in con.execute("SELECT DISTINCT trace FROM source.kernels").fetchall()} == names
        con.execute("USE source")
        assert con.execute("SELECT sum(n) FROM top_kernels('kernels')").fetchone() != (None,)


@pytest.mark.parametrize("kind", ["s3"])
def test_changes_of_notes_and_names(
    kind: str, request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "FEWEST_BINNED", 100)
    database = request.getfixturevalue(f"{kind}_lake").uri
    call(database, "ingest", str(root / "tests" / "fixtures" / "train-step-h200.json.gz"), "--name", "step")
    call(database, "traces", "step", "--set", "a=1", "--run", "r")
    call(database, "traces", "--rename", "step", "other")
    call(database, "ingest", str(root / "tests" / "fixtures" / "train-step-h200.json.gz"), "--replace")
    (row,) = answer(database, "traces")
    assert (row["trace"], row["run"], row["tags"], row["launches"]) == ("other", "r", {"a": "1"}, 394)
    call(database, "db", "refresh", "--all")
    assert answer(database, "query", "SELECT count(*) AS n, sum(duration_ns)::BIGINT AS ns FROM kernels")[0]["n"] == 394
    assert answer(database, "query", "SELECT sum(n)::BIGINT AS n FROM timeline_bins")[0]["n"] == 394
    call(database, "traces", "other", "--remove", "--yes")
    for table in ("launches", "timeline_bins", "rollups", "signatures", "kernel_names", "traces", "trace_tags"):
        assert answer(database, "query", f"SELECT count(*) AS n FROM {table}") == [{"n": 0}], table


def test_push_and_pull_keep_everything(file: Path, sqlite_lake: Place, tmp_path: Path) -> None:
    back = tmp_path / "back.duckdb"
    assert "pushed 2 traces" in call(file, "db", "lake", "push", "--to", sqlite_lake.uri).stderr
    assert "all of it is there" in call(file, "db", "lake", "push", "step", "--to", sqlite_lake.uri).stderr
    assert "pulled 2 traces" in call(back, "db", "lake", "pull", "--from", sqlite_lake.uri).stderr
    for sql in (
        "SELECT * EXCLUDE (ingested_at) FROM traces",
        "SELECT * FROM launches",
        "SELECT * FROM signatures",
        "SELECT * FROM kernel_names",
        "SELECT * FROM op_calls",
        "SELECT * FROM ops",
        "SELECT * FROM rollups",
        "SELECT * FROM trace_tags",
        "SELECT * FROM annotations",
    ):
        found = sorted(map(repr, Warehouse(back).query(sql).to_pylist()))
        assert found == sorted(map(repr, Warehouse(file).query(sql).to_pylist())), sql
    assert "there is no trace" in call(file, "db", "lake", "push", "sstep", "--to", sqlite_lake.uri, exit_code=2).stderr
    assert "the same database" in call(file, "db", "lake", "push", "--to", str(file), exit_code=2).stderr


def test_readers_reach_nothing_else(filled: str) -> None:
    with pytest.raises(QueryError, match="disabled"):
        Warehouse(filled).query("FROM read_csv('/etc/passwd')")
    with pytest.raises(QueryError, match="read-only"):
        Warehouse(filled).query("DELETE FROM traces")
