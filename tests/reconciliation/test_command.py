"""`kerneldb analyze reconciliation`: pages, a document, a row per component, and what is said where figures lack."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kerneldb import api
from kerneldb.api.reconciliation import WorkloadReconciliation
from kerneldb.cli import cli
from kerneldb.errors import KerneldbError, SelectionError, UsageError
from kerneldb.warehouse import Warehouse
from tests.reconciliation.conftest import insert, measurement, settle


def run(warehouse: Warehouse, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(warehouse.path), "analyze", "reconciliation", *arguments])


@pytest.fixture(scope="module")
def unchanged(closed_file: Path) -> WorkloadReconciliation:
    """The only measured workload, as it was measured: closed once for all tests that only look at it."""
    (balances,) = api.open(closed_file).reconciliation().balances
    return balances


def test_page_for_people(closed: Warehouse) -> None:
    done = run(closed, "eager", "--top", "1")
    assert done.exit_code == 0, done.output
    text = done.stdout
    for part in (
        "eager, decode, eager",
        "model tiny",
        "time, per iteration",
        "by tier",
        "by route",
        "GPU bound",
        "waiting for the host",
    ):
        assert part in text
    kernels = text.partition("kernels with most time")[2]
    assert "gemm" in kernels
    assert "add" not in kernels


def test_one_document(closed: Warehouse) -> None:
    document = json.loads(run(closed, "--json").stdout)
    (workload,) = document["workloads"]
    assert (workload["trace"], workload["mode"], workload["model"]) == ("eager", "eager", "tiny")
    components = {(row["section"], row["component"]): row["value"] for row in workload["components"]}
    addends = [row for row in workload["components"] if row["section"] == "time" and row["role"].startswith("addend")]
    sums = {row["role"]: row["value"] or 0 for row in addends if row["role"] != "addend"}
    predicted = (
        math.fsum(row["value"] or 0 for row in addends if row["role"] == "addend") + sums["addend, not replayed"]
    )
    assert predicted == pytest.approx(components["time", "predicted, GPU bound"], rel=1e-12)
    assert predicted + sums["addend, observed"] == pytest.approx(components["time", "measured"], rel=1e-12)
    assert {(row["component"], row["status"]) for row in addends} >= {("idle", "left out"), ("unreplayed", "recorded")}
    tiers = {row["part"]: row["error_pct"] for row in workload["groups"]["tier"]}
    assert tiers["2 BLAS matrix products"] == pytest.approx(5)
    assert tiers["1 copies and fills"] is None
    assert {row["part"] for row in workload["groups"]["category"]} == {"GEMM", "ELEMENTWISE", "MEMSET"}
    assert [row["kernel"] for row in workload["kernels"]] == ["gemm", "add", "Memset"]


@pytest.mark.again
def test_groups_hold_everything_once(unchanged: WorkloadReconciliation) -> None:
    for by in ("tier", "category", "route"):
        rows = [row for row in unchanged.groups if row["grouped_by"] == by]
        assert math.fsum(row["recorded_ns"] for row in rows) == 510
        assert math.fsum(row["share_pct"] for row in rows) == pytest.approx(100)


@pytest.mark.again
def test_one_row_per_component(closed: Warehouse) -> None:
    rows = list(csv.DictReader(io.StringIO(run(closed, "--csv").stdout)))
    assert {"component", "value", "unit", "low", "high", "source"} <= set(rows[0])
    found = {(row["section"], row["component"]): row for row in rows}
    assert float(found["time", "measured"]["value"]) == 1000
    assert found["energy", "gap"]["unit"] == "mJ"


@pytest.mark.again
def test_named_by_trace_or_run(closed: Warehouse) -> None:
    insert(closed, "measurements", [measurement("wall_ns", 520.0, mode="cuda_graph", trace_id="t:graph")])
    both = {("eager", "eager"), ("graph", "cuda_graph")}
    settle(closed)
    for name, expected in (("r", both), ("graph", {("graph", "cuda_graph")})):
        assert {(one.trace, one.mode) for one in api.open(closed.path).reconciliation(name).balances} == expected


@pytest.mark.again
def test_term_by_name(unchanged: WorkloadReconciliation) -> None:
    assert unchanged.component("time", "measured")["value"] == 1000
    with pytest.raises(KeyError):
        unchanged.component("time", "luck")


@pytest.mark.again
def test_where_selects_kernels(closed: Warehouse) -> None:
    done = run(closed, "--where", "category = 'GEMM'", "--json")
    (workload,) = json.loads(done.stdout)["workloads"]
    assert [row["kernel"] for row in workload["kernels"]] == ["gemm"]
    assert "only the selected launches" in done.stderr
    with pytest.raises(SelectionError, match="near columns: category"):
        api.open(closed.path).reconciliation(where="categori = 'GEMM'")
    with pytest.raises(KerneldbError, match="no launch of the measured workloads is selected"):
        api.open(closed.path).reconciliation(where="false")
    closed.query("DELETE FROM launches", write=True)
    with pytest.raises(KerneldbError, match="no GPU activity"):
        api.open(closed.path).reconciliation()


def test_nothing_measured_names_the_remedy(closed: Warehouse) -> None:
    with pytest.raises(KerneldbError, match=r"nothing was measured whole of graph.*kerneldb record MODEL"):
        api.open(closed.path).reconciliation("graph")
    closed.query("DELETE FROM measurements", write=True)
    done = run(closed)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "kerneldb record MODEL" in done.stderr


@pytest.mark.again
def test_nothing_replayed_names_the_remedy(closed: Warehouse) -> None:
    closed.query("DELETE FROM replays", write=True)
    done = run(closed, "eager", "--json")
    assert done.exit_code == 0
    assert "replay them with: kerneldb replay --trace eager" in done.stderr
    assert "not replayed" in done.stdout


def test_unknown_trace(closed: Warehouse) -> None:
    with pytest.raises(UsageError, match="there is no trace 'egaer'; near: eager"):
        api.open(closed.path).reconciliation("egaer")
