"""Rules that say what limits a kernel: their edges, and the DeepSeek-OCR report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.errors import UsageError
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse
from tests.counters.captures import DRAM, DURATION, GEMM, MEMORY, SM, WAVES, Captures, Launch

L1, L2 = "l1tex__throughput.avg.pct_of_peak_sustained_active", "lts__throughput.avg.pct_of_peak_sustained_elapsed"
TENSOR = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
EDGES = {
    "ncu": [
        ({SM: 80, MEMORY: 10}, "high"),
        ({SM: 10, MEMORY: 80}, "high"),
        ({SM: 79.9, MEMORY: 60}, "compute"),
        ({SM: 60, MEMORY: 70}, "memory"),
        ({SM: 60, MEMORY: 69.9}, "balanced"),
        ({SM: 59.9, MEMORY: 59.9}, "latency"),
        ({SM: 59.9}, None),
    ],
    "sm_dram": [
        ({SM: 15.01, DRAM: 10}, "compute"),
        ({SM: 15, DRAM: 10}, "balanced"),
        ({SM: 10, DRAM: 15.01}, "memory"),
        ({SM: 10}, None),
    ],
    "report": [
        ({SM: 19, MEMORY: 19}, "balanced"),
        ({SM: 30, MEMORY: 35}, "memory"),
        ({SM: 30, MEMORY: 34}, "balanced"),
        ({SM: 40, MEMORY: 30}, "balanced"),
        ({SM: 40, MEMORY: 30, TENSOR: 8000, "dram__bytes.sum": 100, DURATION: 1000}, "compute"),
        ({SM: 30, MEMORY: 40, TENSOR: 8000, "dram__bytes.sum": 100, DURATION: 1000}, "balanced"),
        ({SM: 30, MEMORY: 40, TENSOR: 7990, "dram__bytes.sum": 100, DURATION: 1000}, "memory"),
    ],
    "olcf": [
        ({SM: 60, MEMORY: 60}, "latency"),
        ({SM: 61, MEMORY: 10}, "compute"),
        ({SM: 61, MEMORY: 62}, "memory"),
        ({MEMORY: 62}, None),
    ],
    "hotkernel": [
        ({SM: 59.9, DRAM: 59.9}, "latency"),
        ({SM: 60, DRAM: 59}, "compute"),
        ({SM: 60, DRAM: 60}, "memory"),
        ({SM: 90}, None),
    ],
    "dhrv": [
        ({SM: 29, MEMORY: 61}, "memory"),
        ({SM: 30, MEMORY: 61}, "balanced"),
        ({SM: 61, MEMORY: 61}, "compute"),
        ({SM: 29, MEMORY: 29}, "latency"),
    ],
    "roofline": [({SM: 50, TENSOR: 10, "dram__bytes.sum": 1, DURATION: 1}, None)],
}
CASES = [(rule, counters, verdict) for rule, cases in EDGES.items() for counters, verdict in cases]


DETAILS = (
    ({SM: 10, MEMORY: 75, DRAM: 75, L2: 30, L1: 20}, "DRAM"),
    ({SM: 10, MEMORY: 75, DRAM: 20, L2: 75, L1: 20}, "L2"),
    ({SM: 10, MEMORY: 95, DRAM: 20, L2: 30, L1: 95}, "L1"),
    ({SM: 10, MEMORY: 75, DRAM: 75}, None),
    ({SM: 95, MEMORY: 20, DRAM: 20, L2: 20, L1: 20}, "compute"),
    ({SM: 10, MEMORY: 20, WAVES: 0.5}, "small grid"),
    ({SM: 10, MEMORY: 20, WAVES: 2.0}, None),
)


@pytest.fixture(scope="module")
def judged(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, Any]]:
    """What each rule says of the launch of each case, first of CASES, then of DETAILS."""
    folder = tmp_path_factory.mktemp("edges")
    warehouse = Warehouse(shutil.copy(empty_file, folder))
    counters = [counters for _, counters, _ in CASES] + [counters for counters, _ in DETAILS]
    launches = tuple(Launch(GEMM, counters=dict(one)) for one in counters)
    warehouse.commit(Captures(folder / "spools")("profiled", launches, source="ncu"))
    rows = warehouse.query("SELECT rule, launch_index, verdict, version, detail FROM bounds").to_pylist()
    assert len(rows) == len(EDGES) * len(launches)
    return {(row["rule"], row["launch_index"]): row for row in rows}


@pytest.mark.parametrize(("number", "rule", "verdict"), [(n, rule, said) for n, (rule, _, said) in enumerate(CASES)])
def test_edges_of_the_rules(
    judged: dict[tuple[str, int], dict[str, Any]], number: int, rule: str, verdict: str | None
) -> None:
    assert (judged[rule, number]["verdict"], judged[rule, number]["version"]) == (verdict, 1)


def test_every_rule_has_edges_tested() -> None:
    assert set(loader.reference()["bound_rules"]["rule"]) == set(EDGES)


def test_thresholds_are_the_tables(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("profiled", (Launch(GEMM, counters={SM: 50.0, DRAM: 42.0}),), source="ncu"))
    sql = "SELECT verdict, thresholds['margin'] AS margin FROM bounds WHERE rule = 'sm_dram'"
    assert warehouse.query(sql).to_pylist() == [{"verdict": "compute", "margin": 5}]
    warehouse.query("UPDATE bound_rules SET value = 10 WHERE rule = 'sm_dram' AND parameter = 'margin'", write=True)
    assert warehouse.query(sql).to_pylist() == [{"verdict": "balanced", "margin": 10}]


@pytest.mark.parametrize(("number", "detail"), [(len(CASES) + n, said) for n, (_, said) in enumerate(DETAILS)])
def test_what_nvidias_rule_puts_it_down_to(
    judged: dict[tuple[str, int], dict[str, Any]], number: int, detail: str | None
) -> None:
    assert judged["ncu", number]["detail"] == detail


def test_instances_and_rules_of_ncu_are_no_values(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("profiled", (Launch(GEMM, counters={SM: 50.0, DRAM: 42.0}),), source="ncu"))
    sql = "INSERT INTO metrics BY NAME SELECT trace_id, launch_index, metric, 1 AS value, '0' AS instance FROM metrics"
    warehouse.query(sql, write=True)
    assert warehouse.query("SELECT compute_pct FROM launch_counters").to_pylist() == [{"compute_pct": 50}]


DEEPSEEK = "run = 'deepseek-ncu'"
COUNTS = {
    "sm_dram": {"memory": 9, "balanced": 7, "compute": 4},
    "report": {"memory": 9, "balanced": 10, "compute": 1},
    "ncu": {"latency": 17, "memory": 2, "high": 1},
}
CLASS_MEANS = {
    "compute": (36.21, 9.89, 32.23, 31.51, 6.54, 71.93, 137.44),
    "memory": (9.38, 34.23, 41.20, 43.22, 9.51, 16.40, 9.67),
    "balanced": (12.25, 12.62, 27.52, 39.32, 9.65, 51.97, 39.75),
    "(all)": (15.75, 21.80, 34.62, 39.51, 8.96, 39.95, 45.75),
}
"""As the report prints them: SM, DRAM and memory throughput, occupancy, L1 and L2 hit rate in %, duration in us."""


@pytest.mark.parametrize("rule", COUNTS)
def test_classes_of_the_report(samples: Database, rule: str) -> None:
    found = {row["verdict"]: row["launches"] for row in samples.bounds(rule, where=DEEPSEEK)}
    assert found == COUNTS[rule] | {"(all)": 20}


@pytest.mark.again
@pytest.mark.parametrize("verdict", CLASS_MEANS)
def test_class_means_of_the_report(samples: Database, verdict: str) -> None:
    (row,) = [row for row in samples.bounds("sm_dram", where=DEEPSEEK) if row["verdict"] == verdict]
    means = ("compute_pct", "dram_pct", "memory_pct", "occupancy_pct", "l1_hit_pct", "l2_hit_pct")
    assert (*(round(row[name], 2) for name in means), round(row["mean_ns"] / 1000, 2)) == CLASS_MEANS[verdict]


def test_the_kernel_bound_by_l2(samples: Database) -> None:
    """Its memory throughput is 93.99 %, of DRAM 10.29 %: the script of the report calls it balanced."""
    rows: list[dict[str, Any]] = samples.bounds("ncu", where=DEEPSEEK, kernels=True).rows()
    assert [(row["trace"], row["detail"]) for row in rows if row["verdict"] == "high"] == [
        ("kernel_0010.details", "L2")
    ]


def test_unknown_rule(warehouse: Warehouse) -> None:
    with pytest.raises(UsageError, match="no rule 'nvu'; near: ncu"):
        kerneldb.open(warehouse.path).bounds("nvu")
