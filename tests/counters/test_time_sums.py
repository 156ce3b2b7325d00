"""Durations under a counter profiler are in no sum over time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse
from tests.counters.captures import GEMM, MUL_NCU, MUL_NSYS, SM, Captures, Launch

TIMELINE = (Launch(GEMM, 700, start=0), Launch(MUL_NSYS, 300, start=900, phase="decode"))
PROFILED = (Launch(GEMM, 5_000_000, counters={SM: 40.0}), Launch(MUL_NCU, 9_000_000, counters={SM: 10.0}))
SHOWING = {
    "all_launches",
    "all_rollups",
    "trace_overview",
    "launch_counters",
    "ncu_roofline",
    "normalized_roofline",
    "bounds",
    "counter_coverage",
    "power_logs",
}
"""What lists all that is stored, or counters; everything else with times must not move."""


def asked() -> list[str]:
    """Views, and macros over everything, that have times."""
    timed = {
        doc.object for doc in loader.docs() if doc.kind in ("view", "macro") and (doc.column_name or "")[-3:] == "_ns"
    }
    headers = [loader.headers()[name] for name in sorted(timed - SHOWING)]
    plain = [one for one in headers if all(argument.default is not None for argument in one.arguments)]
    return [one.name if one.kind == "view" else f"{one.name}()" for one in plain] + ["time_by('category')"]


def content(warehouse: Warehouse, name: str) -> list[str]:
    return sorted(repr(row) for row in warehouse.query(f"FROM {name}").to_pylist())


Contents = dict[str, list[str]]


@pytest.fixture(scope="module")
def contents(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Contents, Contents]:
    """What each shows of a timeline, and with a profiled run of the same job beside it."""
    folder = tmp_path_factory.mktemp("sums")
    warehouse, capture = Warehouse(shutil.copy(empty_file, folder)), Captures(folder / "spools")
    warehouse.commit(capture("running", TIMELINE, stated_run="job"))
    before = {name: content(warehouse, name) for name in asked()}
    warehouse.commit(capture("profiled", PROFILED, stated_run="job", source="ncu"))
    return before, {name: content(warehouse, name) for name in asked()}


@pytest.mark.again
@pytest.mark.parametrize("name", asked())
def test_profiled_times_change_no_answer(contents: tuple[Contents, Contents], name: str) -> None:
    before, after = contents
    assert after[name] == before[name]


def summed(warehouse: Warehouse) -> list[dict[str, Any]]:
    rows = warehouse.query("SELECT trace, timing, total_ns FROM top_kernels()").to_pylist()
    same = "WITH s AS (FROM kernels) SELECT trace, timing, total_ns FROM top_kernels('s')"
    assert rows == warehouse.query(same).to_pylist()
    return list(rows)


def test_profiled_times_analysis_where_nothing_else_does(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("profiled", PROFILED, source="ncu", stated_run="job"))
    assert summed(warehouse) == [
        {"trace": "profiled", "timing": "profiled", "total_ns": 9_000_000},
        {"trace": "profiled", "timing": "profiled", "total_ns": 5_000_000},
    ]
    warehouse.commit(capture("running", TIMELINE, stated_run="job"))
    assert summed(warehouse) == [
        {"trace": "running", "timing": "timeline", "total_ns": 700},
        {"trace": "running", "timing": "timeline", "total_ns": 300},
    ]
    primary = warehouse.query("SELECT DISTINCT timing, is_primary FROM all_rollups ORDER BY ALL").to_pylist()
    assert primary == [{"timing": "profiled", "is_primary": False}, {"timing": "timeline", "is_primary": True}]
    warehouse.remove("running")
    assert [row["timing"] for row in summed(warehouse)] == ["profiled", "profiled"]
