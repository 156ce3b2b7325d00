"""Of several exports of one run, one counts."""

from __future__ import annotations

from typing import Any

import pytest

import kerneldb
from kerneldb.warehouse import Warehouse
from tests.counters.captures import GEMM, MUL_NSYS, Captures, Launch

WORK = (Launch(GEMM, 700, start=0), Launch(MUL_NSYS, 300, start=900))
TOTAL = 1000
MORE = (*WORK, Launch("[CUDA memset]", 50, start=2000, kind="memset"))
CAPTURE = {"stated_run": "job", "era": "sqlite 3.20.2"}
TABLE = {"stated_run": "job", "era": "cuda_gpu_trace csv"}


def counted(warehouse: Warehouse) -> dict[str, bool]:
    rows = warehouse.query("SELECT trace, is_primary FROM trace_overview").to_pylist()
    return {row["trace"]: row["is_primary"] for row in rows}


def total(warehouse: Warehouse) -> dict[str, Any]:
    """Sums of kernel time over the run, from rollups and from launches."""
    rollups = warehouse.query("SELECT sum(total_ns)::BIGINT AS ns FROM kernel_rollups WHERE kind = 'kernel'")
    launches = warehouse.query("SELECT sum(duration_ns)::BIGINT AS ns FROM kernels WHERE kind = 'kernel'")
    return {"rollups": rollups.to_pylist()[0]["ns"], "launches": launches.to_pylist()[0]["ns"]}


@pytest.mark.thorough
def test_the_fuller_export_of_a_run_counts(warehouse: Warehouse, capture: Captures) -> None:
    """Whatever is added, moved to another run and back, replaced or removed, its run is judged anew."""
    warehouse.commit(capture("table", WORK, **TABLE))
    assert counted(warehouse) == {"table": True}
    warehouse.commit(capture("sqlite", MORE, **CAPTURE))
    assert counted(warehouse) == {"table": False, "sqlite": True}
    assert total(warehouse) == {"rollups": TOTAL, "launches": TOTAL}
    warehouse.set_run("table", "another")
    assert counted(warehouse) == {"table": True, "sqlite": True}
    assert total(warehouse) == {"rollups": 2 * TOTAL, "launches": 2 * TOTAL}
    warehouse.set_run("table", None)
    assert counted(warehouse) == {"table": False, "sqlite": True}
    warehouse.commit(capture("sqlite", WORK[:1], **CAPTURE), replace=True)
    assert counted(warehouse) == {"table": True, "sqlite": False}
    warehouse.remove("sqlite")
    assert counted(warehouse) == {"table": True}
    assert total(warehouse) == {"rollups": TOTAL, "launches": TOTAL}


def test_pytorch_counts_before_others(warehouse: Warehouse, capture: Captures) -> None:
    """It knows the operators. What it missed stays: a launch that only the other has ran, too."""
    warehouse.commit(capture("sqlite", MORE, **CAPTURE))
    warehouse.commit(capture("pytorch", WORK, stated_run="job", source="pytorch"))
    found = warehouse.query("SELECT DISTINCT kind, trace FROM kernels ORDER BY ALL").to_pylist()
    assert found == [{"kind": "kernel", "trace": "pytorch"}, {"kind": "memset", "trace": "sqlite"}]
    warehouse.commit(capture("sqlite", WORK, **CAPTURE), replace=True)
    assert counted(warehouse) == {"sqlite": False, "pytorch": True}
    assert total(warehouse) == {"rollups": TOTAL, "launches": TOTAL}


def test_stages_of_a_pytorch_run_all_count(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("prefill", WORK, stated_run="job", source="pytorch", era="a"))
    warehouse.commit(capture("decode", (Launch(GEMM, 650, start=5000),), stated_run="job", source="pytorch", era="b"))
    assert counted(warehouse) == {"prefill": True, "decode": True}


@pytest.mark.again
def test_other_ranks_and_phases_are_other_work(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("one", WORK, **TABLE, rank=0, default_phase="prefill"))
    warehouse.commit(capture("rank", WORK, **CAPTURE, rank=1, default_phase="prefill"))
    warehouse.commit(capture("phase", WORK, **CAPTURE, rank=0, default_phase="decode"))
    assert counted(warehouse) == {"one": True, "rank": True, "phase": True}


@pytest.mark.thorough
def test_two_captures_in_one_form_count_unless_they_are_equal(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("first", WORK, **CAPTURE))
    warehouse.commit(capture("second", (Launch(GEMM, 650), *WORK[1:]), **CAPTURE))
    assert counted(warehouse) == {"first": True, "second": True}
    warehouse.commit(capture("third", WORK, **CAPTURE))
    assert sum(counted(warehouse).values()) == 2


def test_names_in_full_before_cut_ones(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("a-base", (WORK[0], Launch("elementwise_kernel", 300, start=900)), **TABLE))
    warehouse.commit(capture("full", WORK, **TABLE))
    assert counted(warehouse) == {"a-base": False, "full": True}


@pytest.mark.again
def test_top_counts_a_run_once(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("table", WORK, **TABLE))
    warehouse.commit(capture("sqlite", WORK, **CAPTURE))
    for where in (None, "kind = 'kernel'"):
        rows = kerneldb.open(warehouse.path).top("kind", where=where).rows()
        assert [(row["kind"], row["n"], row["total_ns"]) for row in rows] == [("kernel", 2, TOTAL)]


def reports(warehouse: Warehouse) -> set[tuple[str, str, str]]:
    sql = "SELECT DISTINCT trace, origin, kind FROM kernel_rollups"
    return {(row["trace"], row["origin"], row["kind"]) for row in warehouse.query(sql).to_pylist()}


@pytest.mark.thorough
@pytest.mark.again
def test_the_finest_report_counts_and_sums_per_phase_never(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("phases", sums={"report_phase": WORK * 3}, stated_run="job"))
    assert reports(warehouse) == set()
    warehouse.commit(capture("names", sums={"report": MORE}, stated_run="job"))
    assert reports(warehouse) == {("names", "report", "kernel"), ("names", "report", "memset")}
    warehouse.commit(capture("grids", sums={"report_grid": WORK}, stated_run="job"))
    assert reports(warehouse) == {("grids", "report_grid", "kernel"), ("names", "report", "memset")}
    assert total(warehouse)["rollups"] == TOTAL
    warehouse.commit(capture("launches", MORE, stated_run="job"))
    assert reports(warehouse) == {("launches", "launches", "kernel"), ("launches", "launches", "memset")}
    assert total(warehouse) == {"rollups": TOTAL, "launches": TOTAL}


def test_several_reports_of_one_file(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("console", sums={"report": WORK, "report_grid": WORK, "report_phase": WORK * 2}))
    assert reports(warehouse) == {("console", "report_grid", "kernel")}


@pytest.mark.again
def test_a_report_printed_twice_counts_once(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("csv", sums={"report": WORK}, stated_run="job"))
    warehouse.commit(capture("json", sums={"report": WORK}, stated_run="job"))
    warehouse.commit(capture("rank-1", sums={"report": MORE[:1]}, stated_run="job"))
    assert total(warehouse)["rollups"] == TOTAL + 700


def test_exports_of_the_samples(samples_of_nsys: Warehouse) -> None:
    """Ten files of one report: trace, trace with cut names, launches with their API, sums of three kinds, copies."""
    assert {name for name, counts in counted(samples_of_nsys).items() if not counts} == {
        "nsightful_cuda_gpu_trace-base",
        "nsightful_cuda_kern_exec_trace",
        "nsightful_cuda_gpu_kern_gb_sum",
        "nsightful_cuda_gpu_kern_sum",
        "nsightful_cuda_gpu_mem_time_sum",
        "nsightful_nvtx_kern_sum",
    }
    assert total(samples_of_nsys) == {"rollups": 1_131_742_684, "launches": 1_131_742_684}
