"""Every part of a trace is read, or named with the reason why it is not."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.ingest import Options
from kerneldb.ingest.ledger import UNKNOWN
from tests.conftest import ROOT, SHARED_DATA
from tests.ingest.conversion import Converted, convert_file, from_repository
from tests.ingest.traces import LAYOUTS, T0, Trace, everything

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.ingest.conftest import Convert

RECORDED = sorted([*ROOT.glob("tests/fixtures/*.json.gz"), *ROOT.glob("examples/*.json.gz")])
SHARED = sorted(
    path
    for folder in (SHARED_DATA / "pytorch", SHARED_DATA.parent / "field" / "pytorch")
    for path in folder.glob("*.json*")
    if "expected" not in path.name
)
SMALL = [path for path in SHARED if path.stat().st_size < 1_000_000]
LARGE = [path for path in SHARED if path.stat().st_size >= 1_000_000]

ADDED = {"metadata cfg", "metadata my_note"}
"""By `add_metadata` of the programs that were recorded."""


def new(found: Converted) -> dict[str, int]:
    rows = found.table("ingest_reports").select("reason", "n").iter_rows()
    return {reason: n for reason, n in rows if UNKNOWN in reason and reason.partition(":")[0] not in ADDED}


def arguments(found: Converted) -> dict[str, int]:
    """Argument that is not read → events that have it."""
    return {
        reason.removeprefix("argument ").rsplit(": ", 1)[0]: n
        for reason, n in found.report("unread").items()
        if reason.startswith("argument ")
    }


def held(events: Iterable[dict[str, Any]]) -> Counter[str]:
    """The same of plain JSON, read or not."""
    names = {"Operator": "cpu_op", "Runtime": "cuda_runtime", "Kernel": "kernel", "Memcpy": "gpu_memcpy"}
    names["Memset"] = "gpu_memset"
    counted: Counter[str] = Counter()
    for event in events:
        category = event.get("cat") if event["ph"] == "X" else event.get("name")
        counted.update(f"{names.get(str(category), category)}: {key}" for key in event.get("args") or {})
    return counted


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".json")[0])
def test_nothing_of_a_recorded_trace_is_new(path: Path) -> None:
    assert new(from_repository(path)) == {}


@pytest.mark.collection
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name.partition(".json")[0])
def test_nothing_of_a_sample_is_new(path: Path) -> None:
    assert new(from_repository(path)) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("path", LARGE, ids=lambda path: path.name.partition(".json")[0])
def test_nothing_of_a_large_sample_is_new(path: Path, tmp_path: Path) -> None:
    assert new(convert_file(path, tmp_path / "spool")) == {}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".json")[0])
def test_counts_are_those_of_the_file(path: Path) -> None:
    document = json.loads(gzip.decompress(path.read_bytes()))
    said, there = arguments(from_repository(path)), held(document["traceEvents"])
    assert said
    assert said == {name: there[name] for name in said}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_parts_are_named(convert: Convert, layout: str) -> None:
    trace = everything()
    trace.metadata["gpu_mood"] = "fine"
    trace.kernel("k", T0 + 700_000, 10, 77, {"tensor core share": 0.5})
    trace.op("aten::new", T0 + 710_000, 10, {"Input Dims": [], "layout": "NHWC"})
    trace.span("quantum_op", "teleport", T0 + 720_000, 10, {"qubits": 3})
    trace.flow("s", 90, T0, cat="entangled")
    trace.add("i", None, "alarm", T0, s="t")
    trace.add("?", None, "riddle", T0)
    found = new(convert(LAYOUTS[layout](trace)))
    names = {reason.partition(":")[0] if reason[:8] != "argument" else reason.rsplit(":", 1)[0] for reason in found}
    expected = {
        *("argument kernel: tensor core share", "argument cpu_op: layout", "category quantum_op"),
        *("flow arrows entangled", "mark alarm", "phase ?"),
    }
    assert names == expected | ({"metadata gpu_mood"} if layout != "array" else set())
    assert set(found.values()) == {1}


def test_metadata_that_is_kept_is_not_named(convert: Convert) -> None:
    trace = everything()
    trace.metadata.update(gpu_mood="fine", username="me")
    left = [reason for reason in convert(trace).report("unread") if reason.startswith("metadata")]
    assert [reason.partition(":")[0] for reason in sorted(left)] == [
        "metadata gpu_mood", "metadata traceName", "metadata username"
    ]  # fmt: skip
    kept = convert(trace, options=Options(keep_environment=True)).report("unread")
    assert [reason for reason in kept if reason.startswith("metadata")] == []


def test_any_number_of_names_is_few_lines(convert: Convert) -> None:
    trace = Trace()
    for number in range(3_000):
        trace.op("aten::add", T0 + number, 1, {f"key {number}": 1})
        trace.add("i", None, f"mark {number}", T0, s="t")
    found = convert(trace)
    assert len(found.report("unread")) + len(found.report("skipped")) < 150
    assert found.accounted == 6_000
