"""Durations under a counter profiler are in no sum over time."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse
from tests.counters.captures import GEMM, MUL_NCU, MUL_NSYS, SM, Captures, Launch

TIMELINE = (Launch(GEMM, 700, start=0), Launch(MUL_NSYS, 300, start=900, phase="decode"))
PROFILED = (Launch(GEMM, 5_000_000, counters={SM: 40.0}), Launch(MUL_NCU, 9_000_000, counters={SM: 10.0}))
SHOWING = {
    "kernels",
    "kernel_rollups",
    "signature_calls",
    "trace_overview",
    "launch_counters",
    "ncu_roofline",
    "normalized_roofline",
    "bounds",
    "counter_coverage",
    "power_logs",
}
"""Views that list what is stored, or counters; every other one with times must not move."""


def views() -> list[str]:
    columns = [doc for doc in loader.docs() if doc.column_name is not None and doc.kind.startswith("view")]
    timed = {doc.object for doc in columns if (doc.column_name or "").endswith("_ns")}
    return sorted(timed - SHOWING)


def content(warehouse: Warehouse, name: str) -> list[str]:
    return sorted(repr(row) for row in warehouse.query(f"FROM {name}").to_pylist())


@pytest.mark.parametrize("name", views())
def test_profiled_times_change_no_view(warehouse: Warehouse, capture: Captures, name: str) -> None:
    warehouse.commit(capture("running", TIMELINE, run="job"))
    before = content(warehouse, name)
    warehouse.commit(capture("profiled", PROFILED, run="job", source="ncu"))
    assert content(warehouse, name) == before


def test_profiled_rollups_do_not_count(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("profiled", PROFILED, source="ncu"))
    rows: list[dict[str, Any]] = warehouse.query("SELECT DISTINCT counted, timing FROM kernel_rollups").to_pylist()
    assert rows == [{"counted": False, "timing": "profiled"}]
    assert warehouse.query("FROM top_kernels('kernels')").num_rows == 0
