"""The page on what changed: what else differs, which problem a kernel had, signs, and orders that people expect."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.report import changes, html, markdown
from kerneldb.report.changes import MODULES
from kerneldb.report.model import Column, Report, Table, shown

FIXTURES = Path(__file__).parents[1] / "fixtures"


def renamed(text: str) -> str:
    """The modules Linear_0, ReLU_0 and Linear_1 are called Layer_2, Layer_10 and Layer_1."""
    for name, other in (("Linear_0", "Layer_2"), ("ReLU_0", "Layer_10"), ("Linear_1", "Layer_1")):
        text = text.replace(f"nn.Module: {name}", f"nn.Module: {other}")
    return text


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Every kernel of the second trace takes twice as long, but for products, which take half; on another GPU."""
    folder = tmp_path_factory.mktemp("comparison")
    database = kerneldb.open(folder / "k.duckdb")
    trace = json.loads(renamed(gzip.decompress((FIXTURES / "stacks-memory-h200.json.gz").read_bytes()).decode()))
    for name, gpu in (("one", "NVIDIA H200"), ("other", "NVIDIA B200")):
        trace["deviceProperties"][0]["name"] = gpu
        (folder / f"{name}.json").write_text(json.dumps(trace))
        database.ingest(folder / f"{name}.json", run=name)
        for event in trace["traceEvents"]:
            if event.get("cat") == "kernel":
                event["dur"] *= 0.5 if "gemm" in event["name"] else 2
    return changes.comparison(database, "one", "other")


def table(report: Report, caption: str) -> Table:
    (found,) = (b for s in report.sections for b in s.blocks if isinstance(b, Table) and b.caption == caption)
    return found


def test_different_gpus_are_told_at_the_top(report: Report, database: Database) -> None:
    words = "Different GPUs (NVIDIA H200 -> NVIDIA B200): what is slower or faster may be the GPU, not the program"
    assert report.sections[0].text.startswith(f"{words}; kernels have other names on each")
    assert words.split("(", maxsplit=1)[0] in html.page(report)
    same = changes.comparison(database, "stacks-memory-h200", "stacks-memory-h200")
    assert same.sections[0].text == ""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    found = kerneldb.open(tmp_path_factory.mktemp("same") / "k.duckdb")
    found.ingest(FIXTURES / "stacks-memory-h200.json.gz")
    return found


def test_kernels_have_their_operator_and_problem(report: Report) -> None:
    found = [
        row for caption in ("Changes, largest first", "Largest of the others") for row in table(report, caption).rows
    ]
    products = {row["problem"] for row in found if row["op"] == "aten::addmm"}
    assert any(re.fullmatch(r"gemm \d+×\d+×\d+", one or "") for one in products)
    assert any((row["problem"] or "").startswith("grid ") for row in found)
    assert [column.title for column in table(report, "Changes, largest first").columns][:3] == [
        "kernel", "operator", "problem",
    ]  # fmt: skip


def test_modules_are_in_the_order_of_their_numbers(report: Report) -> None:
    names = [row["module"].lstrip("· ") for row in table(report, MODULES.caption).rows]
    assert [name for name in names if name.startswith("Layer")] == ["Layer_1", "Layer_2", "Layer_10"]
    assert names.index("Sequential_0") < names.index("Layer_1")


def test_what_lost_most_time_comes_first(report: Report) -> None:
    rows = table(report, "Kernels by verdict, most time lost first").rows
    deltas = [row["delta_ns"] for row in rows]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[0] > 0
    all_rows = table(report, "Changes, largest first").rows + table(report, "Largest of the others").rows
    assert sum(row["n"] for row in rows) == len(all_rows)
    assert sum(deltas) == sum(row["delta_ns"] for row in all_rows)


def test_growth_has_a_sign(report: Report) -> None:
    assert [shown(Column("delta_ns", "Δ", "ns"), value) for value in (1500, 0, -1500, None)] == [
        "+1.50 µs", "0 ns", "-1.50 µs", "–",
    ]  # fmt: skip
    assert shown(Column("delta_pct", "Δ", "percent"), 12.5) == "+12.5 %"
    assert shown(Column("total_ns", "time", "ns"), 1500) == "1.50 µs"
    assert re.search(r"\| \+[\d.]+ µs \|", markdown.page(report))
