"""`kerneldb analyze closure`: pages, one document, one row per term, and what it says where books cannot be closed."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kerneldb import api
from kerneldb.api.closure import Books
from kerneldb.cli import cli
from kerneldb.errors import KerneldbError, SelectionError, UsageError
from kerneldb.warehouse import Warehouse
from tests.closure.conftest import insert, measurement, settle


def run(warehouse: Warehouse, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(warehouse.path), "analyze", "closure", *arguments])


@pytest.fixture(scope="module")
def unchanged(closed_file: Path) -> Books:
    """The only measured stage, as it was measured: closed once for all tests that only look at it."""
    (books,) = api.open(closed_file).closure().books
    return books


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
    (stage,) = document["stages"]
    assert (stage["trace"], stage["mode"], stage["model"]) == ("eager", "eager", "tiny")
    terms = {(row["section"], row["term"]): row["value"] for row in stage["terms"]}
    addends = [row for row in stage["terms"] if row["section"] == "time" and row["role"].startswith("addend")]
    sums = {row["role"]: row["value"] or 0 for row in addends if row["role"] != "addend"}
    predicted = (
        math.fsum(row["value"] or 0 for row in addends if row["role"] == "addend") + sums["addend, not replayed"]
    )
    assert predicted == pytest.approx(terms["time", "predicted, GPU bound"], rel=1e-12)
    assert predicted + sums["addend, observed"] == pytest.approx(terms["time", "measured"], rel=1e-12)
    assert {(row["term"], row["status"]) for row in addends} >= {("idle", "left out"), ("unreplayed", "recorded")}
    tiers = {row["part"]: row["error_pct"] for row in stage["groups"]["tier"]}
    assert tiers["2 BLAS matrix products"] == pytest.approx(5)
    assert tiers["1 copies and fills"] is None
    assert {row["part"] for row in stage["groups"]["category"]} == {"GEMM", "ELEMENTWISE", "MEMSET"}
    assert [row["kernel"] for row in stage["kernels"]] == ["gemm", "add", "Memset"]


@pytest.mark.again
def test_groups_hold_everything_once(unchanged: Books) -> None:
    for by in ("tier", "category", "route"):
        rows = [row for row in unchanged.groups if row["grouped_by"] == by]
        assert math.fsum(row["recorded_ns"] for row in rows) == 510
        assert math.fsum(row["share_pct"] for row in rows) == pytest.approx(100)


@pytest.mark.again
def test_one_row_per_term(closed: Warehouse) -> None:
    rows = list(csv.DictReader(io.StringIO(run(closed, "--csv").stdout)))
    assert {"term", "value", "unit", "low", "high", "source"} <= set(rows[0])
    found = {(row["section"], row["term"]): row for row in rows}
    assert float(found["time", "measured"]["value"]) == 1000
    assert found["energy", "gap"]["unit"] == "mJ"


@pytest.mark.again
def test_named_by_trace_or_run(closed: Warehouse) -> None:
    insert(closed, "measurements", [measurement("wall_ns", 520.0, mode="cuda_graph", trace_id="t:graph")])
    both = {("eager", "eager"), ("graph", "cuda_graph")}
    settle(closed)
    for name, expected in (("r", both), ("graph", {("graph", "cuda_graph")})):
        assert {(one.trace, one.mode) for one in api.open(closed.path).closure(name).books} == expected


@pytest.mark.again
def test_term_by_name(unchanged: Books) -> None:
    assert unchanged.term("time", "measured")["value"] == 1000
    with pytest.raises(KeyError):
        unchanged.term("time", "luck")


@pytest.mark.again
def test_where_selects_kernels(closed: Warehouse) -> None:
    done = run(closed, "--where", "category = 'GEMM'", "--json")
    (stage,) = json.loads(done.stdout)["stages"]
    assert [row["kernel"] for row in stage["kernels"]] == ["gemm"]
    assert "only the selected launches" in done.stderr
    with pytest.raises(SelectionError, match="near columns: category"):
        api.open(closed.path).closure(where="categori = 'GEMM'")
    with pytest.raises(KerneldbError, match="no launch of the measured stages is selected"):
        api.open(closed.path).closure(where="false")
    closed.query("DELETE FROM launches", write=True)
    settle(closed)
    with pytest.raises(KerneldbError, match="no GPU activity"):
        api.open(closed.path).closure()


def test_nothing_measured_names_the_remedy(closed: Warehouse) -> None:
    with pytest.raises(KerneldbError, match=r"nothing was measured whole of graph.*kerneldb record MODEL"):
        api.open(closed.path).closure("graph")
    closed.query("DELETE FROM measurements", write=True)
    settle(closed)
    done = run(closed)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "kerneldb record MODEL" in done.stderr


@pytest.mark.again
def test_nothing_replayed_names_the_remedy(closed: Warehouse) -> None:
    closed.query("DELETE FROM replays", write=True)
    settle(closed)
    done = run(closed, "eager", "--json")
    assert done.exit_code == 0
    assert "replay them with: kerneldb replay --trace eager" in done.stderr
    assert "not replayed" in done.stdout


def test_unknown_trace(closed: Warehouse) -> None:
    with pytest.raises(UsageError, match="there is no trace 'egaer'; near: eager"):
        api.open(closed.path).closure("egaer")
