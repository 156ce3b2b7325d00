"""Launches without a recorded call count in the balances as the call that was found for each of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kerneldb.warehouse import Warehouse
from tests.reconciliation.conftest import MEASURED, REPLAY_RUN, insert, replay, settle
from tests.warehouse.conftest import Launch, Traces

BARE = "s:gemm:1:"
STEP_NS = 1000


def asked(warehouse: Warehouse, sql: str) -> list[tuple[Any, ...]]:
    """The rows of the answer."""
    return [tuple(row.values()) for row in warehouse.query(sql).to_pylist()]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two steps of three launches of one kernel without a call; calls were found for the first two of each step."""
    tmp_path = tmp_path_factory.mktemp("found")
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    launches = [Launch("gemm", base + at, 200, phase="decode") for base in (0, STEP_NS) for at in (100, 350, 600)]
    warehouse.commit(Traces(tmp_path)("eager", launches, stated_run="r"))
    steps = ({"range_id": n, "name": f"ProfilerStep#{n}", "start_ns": n * STEP_NS} for n in range(2))
    more: dict[str, Any] = {"trace_id": "t:eager", "kind": "user_annotation", "duration_ns": STEP_NS}
    insert(warehouse, "ranges", (more | step for step in steps))
    insert(warehouse, "measurements", MEASURED)
    for place, (inferred_id, inferred_by) in enumerate([("s:large", "inferred"), ("s:small", "inherited")]):
        sql = "UPDATE launches SET inferred_id = $id, inferred_by = $by WHERE launch_index % 3 = $place"
        warehouse.query(sql, {"id": inferred_id, "by": inferred_by, "place": place}, write=True)
    insert(warehouse, "replay_runs", [REPLAY_RUN])
    insert(
        warehouse,
        "replays",
        (
            replay(BARE, mean, item_id=item, route=route, dims_source=route, inferred_id=inferred_id)
            for item, mean, route, inferred_id in (
                ("a", 210.0, "inferred", "s:large"),
                ("b", 150.0, "inherited", "s:small"),
                ("c", 900.0, "inferred", None),
            )
        ),
    )
    settle(warehouse)
    return warehouse


def test_each_launch_takes_the_time_of_its_own_call(found: Warehouse) -> None:
    sql = "SELECT signature_id, route, grade, n, replayed_ns, reason FROM reconciliation_kernels ORDER BY replayed_ns"
    assert asked(found, sql) == [
        ("s:small", "inherited", "L0", 1.0, 150.0, None),
        ("s:large", "inferred", "L0", 1.0, 210.0, None),
        (BARE, "inferred", None, 1.0, None, "no call was found: L0"),
    ]


def test_sums_are_apart_by_how_the_call_of_the_launch_was_found(found: Warehouse) -> None:
    sql = "SELECT inherited_ns, inferred_ns, kernels_ns, compared_ns FROM reconciliation"
    assert asked(found, sql) == [(150.0, 210.0, 360.0, 400.0)]
    own = "SELECT low, high FROM reconciliation_components WHERE section = 'time' AND component = 'kernels'"
    assert asked(found, own) == [(None, None)]


def test_a_recorded_call_stays_one_where_the_same_was_inferred_elsewhere(found: Warehouse, tmp_path: Path) -> None:
    found = Warehouse(shutil.copy(found.path, tmp_path))
    recorded = (
        "UPDATE launches SET signature_id = coalesce(inferred_id, signature_id), inferred_id = NULL, inferred_by = NULL"
    )
    found.query(recorded, write=True)
    sql = (
        "SELECT signature_id, route, replayed_ns FROM reconciliation_kernels WHERE replayed_ns IS NOT NULL ORDER BY ALL"
    )
    settle(found)
    assert asked(found, sql) == [("s:large", "aten", 210.0), ("s:small", "aten", 150.0)]
