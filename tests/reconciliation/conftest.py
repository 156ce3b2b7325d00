"""A model of four launches a step, traced twice and measured whole, whose balances can be closed with a pencil."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kerneldb.warehouse import Warehouse, reconciliation
from tests.conftest import made_once
from tests.warehouse.conftest import Launch, Traces

Row = dict[str, Any]
GPU = "GPU sm_90"

STEP_NS = 1000
LAUNCHES = (
    Launch("gemm", -500, 200, op="aten::mm", phase="decode"),
    *(
        launch
        for base in (0, STEP_NS)
        for launch in (
            Launch("gemm", base + 100, 200, op="aten::mm", phase="decode"),
            Launch("add", base + 250, 100, stream=8, op="aten::add", phase="decode"),
            Launch("gemm", base + 360, 200, op="aten::mm", phase="decode"),
            Launch("Memset", base + 560, 10, phase="decode"),
        )
    ),
)
"""A launch before the first step, and two steps of the host, each 1000 ns."""

GRAPH_LAUNCHES = tuple(Launch("gemm", 300 * number, 290, grid=9, phase="decode") for number in range(4))
"""The same under CUDA graphs: no operator is known."""


def insert(warehouse: Warehouse, table: str, rows: Iterable[Row]) -> None:
    """Add rows to a table, and nothing else; see `settle`."""
    warehouse.write(lambda con: _add(con, table, rows))


def _add(con: duckdb.DuckDBPyConnection, table: str, rows: Iterable[Row]) -> None:
    for row in rows:
        columns = ", ".join(f"${name} AS {name}" for name in row)
        con.execute(f"INSERT INTO {table} BY NAME SELECT {columns}", row)


def settle(warehouse: Warehouse, table: str = "", rows: Iterable[Row] = ()) -> None:
    """Add rows to a table, if any, and reconcile anew, as kerneldb does itself where they come by its own ways."""

    def add(con: duckdb.DuckDBPyConnection) -> None:
        _add(con, table, rows)
        reconciliation.refresh(con)

    warehouse.write(add)


def measurement(
    quantity: str, value: float | None, low: float | None = None, high: float | None = None, **more: Any
) -> Row:
    """A row of `measurements` of the workload decode."""
    common = {
        "trace_id": "t:eager",
        "run": "r",
        "model": "tiny",
        "workload": "decode",
        "mode": "eager",
        "method": "clock",
    }
    return {**common, "quantity": quantity, "value": value, "low": low, "high": high, **more}


MEASURED = (
    measurement("wall_ns", 1000.0, 990.0, 1010.0),
    measurement("wall_ns", 7.0, repetition=1),
    measurement("energy_mj", 0.14, 0.13, 0.15),
    measurement("busy_ns", 450.0),
)

REPLAY_RUN = {
    "run_id": "run1",
    "started": "2026-11-21 10:00:00",
    "gpu": GPU,
    "gap_ns": 8.0,
    "launch_loop_power_w": 100.0,
    "launch_loop_power_error_w": 2.0,
    "context_power_w": 60.0,
}


def replay(signature: str, mean: float | None, half: float = 0.0, above: float | None = None, **more: Any) -> Row:
    """A row of `replays` of the run run1; the error of the energy is a tenth."""
    row: Row = {
        "run_id": "run1",
        "item_id": signature,
        "ordinal": 0,
        "signature_id": signature,
        "cache": "mixed",
        "route": "aten",
        "grade": "L0" if mean is not None else "L4",
        "mean_ns": mean,
        "launches": 1,
    }
    if mean is not None:
        row |= {"low_ns": mean - half, "high_ns": mean + half}
    if above is not None:
        row |= {"dynamic_mj": above, "dynamic_low_mj": 0.9 * above, "dynamic_high_mj": 1.1 * above}
    return row | more


REPLAYS = (
    replay("s:gemm:1:aten::mm", 210.0, 5.0, 0.02),
    replay("s:add:1:aten::add", 90.0, 3.0, 0.01),
    replay("s:Memset:1:", None, reason="no device"),
)


@pytest.fixture(scope="session")
def closed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(path: Path) -> None:
        warehouse, make_trace = Warehouse.create_or_open(path), Traces(tmp_path_factory.mktemp("reconciliation"))
        warehouse.commit(make_trace("eager", LAUNCHES, stated_run="r"))
        warehouse.commit(make_trace("graph", GRAPH_LAUNCHES, stated_run="r"))
        steps = [
            {"range_id": n, "name": f"ProfilerStep#{n}", "start_ns": n * STEP_NS, "duration_ns": STEP_NS}
            for n in range(2)
        ]
        insert(warehouse, "ranges", ({"trace_id": "t:eager", "kind": "user_annotation", **step} for step in steps))
        insert(warehouse, "measurements", MEASURED)
        insert(warehouse, "replay_runs", [REPLAY_RUN])
        insert(warehouse, "replays", REPLAYS)
        settle(warehouse)

    return made_once(tmp_path_factory, "closed.duckdb", make)


@pytest.fixture
def closed(closed_file: Path, tmp_path: Path) -> Warehouse:
    """A measured, traced and replayed workload."""
    return Warehouse(shutil.copy(closed_file, tmp_path), lock_timeout=0.5)
