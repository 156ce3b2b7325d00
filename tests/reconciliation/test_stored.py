"""The tables of the balance follow measurements, traces and replays, and cost nothing where nothing was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from kerneldb.errors import WarehouseError
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse, reconciliation, transfer
from tests.reconciliation.conftest import GPU, LAUNCHES, Row, insert, measurement, replay, settle
from tests.warehouse.conftest import Traces

TABLES = ("reconciliation", "reconciliation_components", "reconciliation_kernels", "reconciliation_jobs")
STALE = "UPDATE reconciliation SET model = 'stale'"


def rows(warehouse: Warehouse, sql: str) -> list[Row]:
    return list(warehouse.query(sql).to_pylist())


def values(warehouse: Warehouse, sql: str) -> list[Any]:
    return [value for row in rows(warehouse, sql) for value in row.values()]


def test_only_what_a_trace_tells_of_is_balanced_anew(closed: Warehouse, tmp_path: Path) -> None:
    closed.query(STALE, write=True)
    make = Traces(tmp_path)
    closed.commit(make("apart", LAUNCHES))
    assert values(closed, "SELECT model FROM reconciliation") == ["stale"]
    closed.commit(make("third", LAUNCHES, stated_run="r"))
    assert values(closed, "SELECT model FROM reconciliation") == ["tiny"]


def test_other_measured_runs_stay_as_they_are(closed: Warehouse, tmp_path: Path) -> None:
    closed.commit(Traces(tmp_path)("apart", LAUNCHES))
    settle(closed, "measurements", [measurement("wall_ns", 900.0, trace_id="t:apart", run="another")])
    closed.query(STALE, write=True)
    closed.rename("apart", "away")
    assert rows(closed, "SELECT trace, model FROM reconciliation ORDER BY trace") == [
        {"trace": "away", "model": "tiny"},
        {"trace": "eager", "model": "stale"},
    ]


def test_a_new_name_is_everywhere(closed: Warehouse) -> None:
    closed.rename("eager", "renamed")
    for table in TABLES[:3]:
        assert set(values(closed, f"SELECT trace FROM {table}")) == {"renamed"}
    assert "trace renamed" in values(closed, "SELECT source FROM reconciliation_components WHERE component = 'overlap'")


def test_what_is_removed_has_no_balance(closed: Warehouse) -> None:
    closed.remove("eager")
    assert [rows(closed, f"FROM {table}") for table in TABLES] == [[], [], [], []]


def test_a_stated_run_parts_workloads(closed: Warehouse) -> None:
    graph = measurement("wall_ns", 520.0, mode="cuda_graph", trace_id="t:graph", run=None)
    settle(closed, "measurements", [graph])
    sql = "SELECT kernels_trace FROM reconciliation WHERE trace = 'graph'"
    assert values(closed, sql) == ["eager"]
    closed.set_run("graph", "another")
    assert values(closed, sql) == ["graph"]


def test_replays_are_in_the_balance_at_once(closed: Warehouse) -> None:
    run = {"run_id": "run2", "started": "2026-11-22 10:00:00", "gpu": GPU, "device": "cuda"}
    result = replay("s:gemm:1:aten::mm", 220.0, 4.0, run_id="run2")
    given = ("run2", [result["item_id"]], {"replay_runs": [run], "replays": [result]})
    closed.store_replay(*given, balance=False)
    assert values(closed, "SELECT kernels_ns FROM reconciliation") == [2 * 210 + 90]
    closed.store_replay(*given)
    assert values(closed, "SELECT kernels_ns FROM reconciliation") == [2 * 220 + 90]


def test_a_copy_has_the_same_balance(closed: Warehouse, tmp_path: Path) -> None:
    other = Warehouse.create_or_open(tmp_path / "other.duckdb")
    transfer.transfer(other, closed.place, ["t:eager", "t:graph"])
    for table in TABLES:
        assert rows(other, f"FROM {table}") == rows(closed, f"FROM {table}")
    assert rows(other, "FROM reconciliation")


def test_a_database_of_another_version_is_balanced_anew(closed: Warehouse) -> None:
    before = [rows(closed, f"FROM {table}") for table in TABLES]
    closed.query("UPDATE schema_info SET value = 'of another version' WHERE key = 'objects_hash'", write=True)
    closed.query("ALTER TABLE reconciliation DROP COLUMN predicted_ns", write=True)
    closed.query("DELETE FROM reconciliation_components", write=True)
    Warehouse.open(closed.path)
    assert [rows(closed, f"FROM {table}") for table in TABLES] == before


BUSY = "UPDATE Measurements SET value = 900 WHERE quantity = 'busy_ns'"


def test_what_sql_changes_is_in_the_balance_at_once(closed: Warehouse) -> None:
    assert values(closed, "SELECT status FROM reconciliation") == ["host bound"]
    closed.query(BUSY, write=True)
    assert values(closed, "SELECT status FROM reconciliation") == ["GPU bound"]


def test_sql_whose_balance_fails_changes_nothing(closed: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise duckdb.Error

    monkeypatch.setattr(reconciliation, "_reconciled", fail)
    with pytest.raises(WarehouseError):
        closed.query(BUSY, write=True)
    assert values(closed, "SELECT value FROM measurements WHERE quantity = 'busy_ns'") == [450.0]


def test_sql_about_anything_else_balances_nothing(closed: Warehouse) -> None:
    closed.query(STALE, write=True)
    closed.query("INSERT INTO trace_tags SELECT 't:eager', 'key', 'value'", write=True)
    assert values(closed, "SELECT model FROM reconciliation") == ["stale"]


def test_refresh_balances_what_another_program_changed(closed: Warehouse) -> None:
    closed.write(lambda con: con.execute(BUSY))
    assert values(closed, "SELECT status FROM reconciliation") == ["host bound"]
    closed.refresh()
    assert values(closed, "SELECT status FROM reconciliation") == ["GPU bound"]


def test_a_trace_that_is_not_measured_any_more_has_no_balance(closed: Warehouse, tmp_path: Path) -> None:
    closed.commit(Traces(tmp_path)("eager", LAUNCHES, stated_run="r"), replace=True)
    assert [rows(closed, f"FROM {table}") for table in TABLES] == [[], [], [], []]


def test_who_was_measured_with_a_trace_that_is_gone_is_balanced_anew(closed: Warehouse) -> None:
    graph = measurement("wall_ns", 520.0, mode="cuda_graph", trace_id="t:graph")
    insert(closed, "measurements", [graph])
    closed.set_run("graph", "another")
    sql = "SELECT kernels_trace FROM reconciliation WHERE trace = 'graph'"
    assert values(closed, sql) == ["eager"]
    closed.remove("eager")
    assert values(closed, sql) == ["graph"]


def test_the_arithmetic_tells_versions_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def told() -> str:
        loader.objects_hash.cache_clear()
        return loader.objects_hash()

    other = tmp_path / "other.py"
    other.write_text("# other arithmetic")
    before, files = told(), loader._arithmetic()
    names = {file.name for file in files}
    assert {"__init__.py", "balances.py", "components.py", "reconciliation.py", "reconciliation.sql"} <= names
    monkeypatch.setattr(loader, "_arithmetic", lambda: [*files, other])
    assert told() != before
    monkeypatch.undo()
    assert told() == before


def test_without_measurements_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        pytest.fail("workloads were listed")

    monkeypatch.setattr(reconciliation, "_workloads", fail)
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    warehouse.commit(Traces(tmp_path)("one"))
    warehouse.rename("one", "first")
    warehouse.remove("first")
    settle(warehouse)


def test_times_of_replayed_steps_go_before_those_of_kernels_alone(closed: Warehouse) -> None:
    [before] = rows(closed, "FROM reconciliation_kernels WHERE trace = 'eager' AND kernel = 'gemm'")
    place: Row = {"run_id": "run2", "step_id": "s", "mode": "eager"}
    insert(closed, "replay_runs", [{"run_id": "run2", "gpu": GPU, "started": "2026-11-21 11:00:00"}])
    insert(closed, "step_replays", [{**place, "recorded_trace": "t:eager", "recorded_as": "eager"}])
    kernel: Row = {**place, "item_id": "i", "ordinal": 0, "signature_id": before["signature_id"], "launches": 2}
    settle(closed, "step_kernels", [{**kernel, "grade": "L0", "replay_ns": 500.0, "low_ns": 490.0, "high_ns": 510.0}])
    [after] = rows(closed, "FROM reconciliation_kernels WHERE trace = 'eager' AND kernel = 'gemm'")
    assert (after["replayed_ns"], after["replayed_half_ns"]) == (250.0 * before["n"], 5.0 * before["n"])
    assert (after["cache"], after["dynamic_mj"]) == ("in context", before["dynamic_mj"])
    settle(closed, "step_kernels", [{**kernel, "ordinal": 1, "grade": "L4"}])
    [again] = rows(closed, "FROM reconciliation_kernels WHERE trace = 'eager' AND kernel = 'gemm'")
    assert again["replayed_ns"] == before["replayed_ns"]
