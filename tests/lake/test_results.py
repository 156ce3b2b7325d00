"""What was learned of traces goes with them, once, and what was learned later goes with a later push."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api.upkeep import Copied
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.warehouse import Warehouse, lakes
from kerneldb.warehouse.place import Place

TABLES = (
    "replay_runs",
    "replay_routes",
    "replay_calls",
    "replay_attempts",
    "replays",
    "power_samples",
    "annotations",
    "inferred_calls",
)
COUNTS = "SELECT " + ", ".join(f"(SELECT count(*) FROM {table}) AS {table}" for table in TABLES)
RUN: dict[str, Any] = {"run_id": "r1", "finished": False}
FOUND = """
    INSERT INTO inferred_calls BY NAME
    SELECT 'trace-1' AS trace_id, 4 AS launch_index, 's5' AS signature_id, 's6' AS inferred_id, 'replay' AS inferred_by,
        TIMESTAMP '2026-01-01' AS found_at
"""
NOTE = """
    INSERT INTO annotations BY NAME
    SELECT 's1' AS signature_id, 'role' AS key, $value AS value, 'me' AS author, $at::TIMESTAMP AS noted_at
"""


def rows(place: Path | Place, sql: str) -> list[dict[str, Any]]:
    return list(Warehouse(place).query(sql).to_pylist())


def replayed(
    path: Path, items: dict[str, str], *, run: str = "r1", status: str = "ok", energy: float | None = None, **facts: Any
) -> None:
    """Store a replay of `items` (id → signature), as `kerneldb replay` does."""
    same = {"run_id": run, "route": "toy", "status": status, "energy_mj": energy}
    calls = [{**same, "item_id": item, "call_id": None} for item in items]
    routes = [{"route": "toy", "about": "plays", "waits": False}]
    tries = [{"run_id": run, "item_id": item, "attempt_index": 0, "op": "aten::mm"} for item in items]
    kernels = [
        {"run_id": run, "item_id": item, "ordinal": 0, "signature_id": signature, "grade": "L0", "energy_mj": energy}
        for item, signature in items.items()
    ]
    power = [{"run_id": run, "source": "replay", "power_w": 100.0 + n, "ts_ns": n} for n in range(len(items))]
    found = {"replay_runs": [RUN | {"run_id": run} | facts], "replay_calls": calls, "replay_attempts": tries}
    found |= {"replays": kernels, "power_samples": power, "replay_routes": routes}
    Warehouse(path).store_replay(run, list(items), found)


def push(source: Path, target: Path | Place, *names: str) -> Copied:
    place = target.uri if isinstance(target, Place) else target
    return kerneldb.open(place).copy_from(kerneldb.open(source), names)


@pytest.fixture
def file(many_traces: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(many_traces, tmp_path / "k.duckdb"))


@pytest.fixture(params=["sqlite", pytest.param("file", marks=pytest.mark.again)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path | Place:
    if request.param == "sqlite":
        found = request.getfixturevalue("sqlite_lake")
        assert isinstance(found, Place)
        return found
    Warehouse.create_or_open(tmp_path / "target.duckdb")
    return tmp_path / "target.duckdb"


def test_results_go_with_their_traces_and_once(file: Path, target: Path | Place) -> None:
    replayed(file, {"a": "s1", "b": "s2"}, finished=True, energy=2.5)
    Warehouse(file).query(NOTE, {"value": "projection", "at": "2026-01-01"}, write=True)
    copied = push(file, target, "t1")
    assert (copied.traces, copied.calls, copied.notes) == (["t1"], 2, 1)
    assert rows(target, COUNTS) == rows(file, COUNTS)
    for table in TABLES:
        assert sorted(map(repr, rows(target, f"FROM {table}"))) == sorted(map(repr, rows(file, f"FROM {table}"))), table
    sql = "SELECT count(*) AS n FROM kernels WHERE replay_grade = 'L0' AND energy_mj = 2.5"
    assert rows(target, sql) == [{"n": 4}]
    before = rows(target, "SELECT commits FROM commit_lock")
    assert not push(file, target, "t1")
    assert rows(target, COUNTS) == rows(file, COUNTS)
    assert rows(target, "SELECT commits FROM commit_lock") == before or not isinstance(target, Place)


def test_results_of_other_traces_stay(file: Path, target: Path | Place) -> None:
    lone = "SELECT 'lone' AS signature_id, 'kernel' AS kind, 'n1' AS name_id, 'launch' AS level"
    Warehouse(file).query(f"INSERT INTO signatures BY NAME {lone}", write=True)
    replayed(file, {"a": "lone"})
    assert push(file, target, "t1").calls == 0
    assert rows(target, "SELECT count(*) AS n FROM replay_runs") == [{"n": 0}]


def test_later_replays_follow(file: Path, target: Path | Place) -> None:
    push(file, target, "t1")
    replayed(file, {"a": "s1"})
    assert push(file, target, "t1") == Copied([], calls=1)
    replayed(file, {"a": "s1", "b": "s2"}, finished=True)
    assert push(file, target, "t1") == Copied([], calls=1)
    replayed(file, {"c": "s3"}, run="r2")
    assert push(file, target, "t1") == Copied([], calls=1)
    assert rows(target, "SELECT run_id, finished FROM replay_runs ORDER BY 1") == [
        {"run_id": "r1", "finished": True},
        {"run_id": "r2", "finished": False},
    ]
    assert rows(target, COUNTS) == rows(file, COUNTS)


def test_what_got_further_stands(file: Path, target: Path | Place) -> None:
    replayed(file, {"a": "s1", "b": "s2"}, status="failed")
    push(file, target, "t1")
    replayed(file, {"a": "s1"}, energy=3.0, finished=True, launch_loop_power_w=90.0)
    assert push(file, target, "t1").calls == 1
    sql = "SELECT item_id, status, energy_mj FROM replay_calls ORDER BY 1"
    best = [
        {"item_id": "a", "status": "ok", "energy_mj": 3.0},
        {"item_id": "b", "status": "failed", "energy_mj": None},
    ]
    assert rows(target, sql) == best
    replayed(file, {"a": "s1"}, status="failed")
    assert not push(file, target, "t1")
    assert rows(target, sql) == best
    assert rows(target, "SELECT finished, launch_loop_power_w FROM replay_runs") == [
        {"finished": True, "launch_loop_power_w": 90.0}
    ]


def test_the_later_note_of_an_author_stands(file: Path, target: Path | Place) -> None:
    notes = Warehouse(file)
    notes.query(NOTE, {"value": "old", "at": "2026-01-01"}, write=True)
    push(file, target, "t1")
    notes.query("DELETE FROM annotations", write=True)
    notes.query(NOTE, {"value": "new", "at": "2026-02-01"}, write=True)
    assert push(file, target, "t1") == Copied([], notes=1)
    notes.query("DELETE FROM annotations", write=True)
    notes.query(NOTE, {"value": "older", "at": "2025-01-01"}, write=True)
    assert not push(file, target, "t1")
    assert rows(target, "SELECT value FROM annotations") == [{"value": "new"}]


def test_inferred_calls_reach_launches_and_rollups(file: Path, target: Path | Place) -> None:
    push(file, target, "t1")
    Warehouse(file).query(FOUND, write=True)
    assert push(file, target, "t1") == Copied([], finds=1)
    sql = "SELECT launch_index, inferred_id, inferred_by FROM launches WHERE inferred_id IS NOT NULL"
    assert rows(target, sql) == [{"launch_index": 4, "inferred_id": "s6", "inferred_by": "replay"}]
    assert rows(target, "SELECT n FROM rollups WHERE inferred_id = 's6' AND trace_id = 'trace-1'") == [{"n": 1}]
    assert rows(target, "SELECT sum(n)::BIGINT AS n FROM rollups WHERE trace_id = 'trace-1'") == [{"n": 600}]
    assert not push(file, target, "t1")


def test_a_trace_named_twice_goes_once(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.duckdb"
    Warehouse.create_or_open(target)
    assert push(file, target, "t1", "t1").traces == ["t1"]
    assert rows(target, "SELECT count(*) AS n FROM launches") == [{"n": 600}]


def test_a_database_is_not_copied_into_itself(file: Path) -> None:
    (file.parent / "folder").mkdir()
    (file.parent / "link.duckdb").symlink_to(file)
    for same in (file, file.parent / "folder" / ".." / file.name, file.parent / "link.duckdb"):
        with pytest.raises(UsageError, match="source and target are the same database"):
            push(file, same)


def test_two_people_push_parts_of_one_run(file: Path, sqlite_lake: Place, tmp_path: Path) -> None:
    """Each has stored another part of the journal; the lake ends with both, whoever comes first."""
    other = Path(shutil.copy(file, tmp_path / "other.duckdb"))
    replayed(file, {"a": "s1", "b": "s2"})
    replayed(other, {"b": "s2", "c": "s3"})
    push(file, sqlite_lake, "t1")
    assert push(other, sqlite_lake, "t1").calls == 1
    assert not push(file, sqlite_lake, "t1")
    items = rows(sqlite_lake, "SELECT item_id, count(*) AS n FROM replays GROUP BY 1 ORDER BY 1")
    assert items == [{"item_id": item, "n": 1} for item in "abc"]
    lakes.close_all()


def test_commands_say_what_went_over(file: Path, sqlite_lake: Place, tmp_path: Path) -> None:
    replayed(file, {"a": "s1"})
    back = str(tmp_path / "back.duckdb")
    said = [
        CliRunner().invoke(cli, ["--db", str(file), "db", "lake", "push", "t1", "--to", sqlite_lake.uri]).stderr,
        CliRunner().invoke(cli, ["--db", back, "db", "lake", "pull", "--from", sqlite_lake.uri]).stderr,
        CliRunner().invoke(cli, ["--db", back, "db", "lake", "pull", "--from", sqlite_lake.uri]).stderr,
    ]
    assert "pushed 1 trace, 1 replayed call" in said[0]
    assert "pulled 1 trace, 1 replayed call" in said[1]
    assert "nothing to do" in said[2]
    assert rows(Path(back), COUNTS) == rows(file, COUNTS)


MEASURED = """
    INSERT INTO measurements BY NAME
    SELECT 'trace-1' AS trace_id, 'r' AS run, 'script' AS workload, 'eager' AS mode, 'wall_ns' AS quantity, 1e6 AS value
"""


def test_the_balance_of_measured_and_predicted_is_the_same(file: Path, target: Path | Place) -> None:
    Warehouse(file).query(MEASURED, write=True)
    replayed(file, {"a": "s1", "b": "s2"}, finished=True, energy=2.5)
    push(file, target, "t1")
    for table in ("reconciliation", "reconciliation_components", "reconciliation_kernels", "reconciliation_jobs"):
        assert sorted(map(repr, rows(target, f"FROM {table}"))) == sorted(map(repr, rows(file, f"FROM {table}"))), table
    assert [row["trace"] for row in rows(target, "FROM reconciliation")] == ["t1"]
    Warehouse(target).rename("t1", "renamed")
    assert [row["trace"] for row in rows(target, "FROM reconciliation")] == ["renamed"]
    Warehouse(target).remove("renamed")
    assert rows(target, "FROM reconciliation") == rows(target, "FROM reconciliation_components") == []
