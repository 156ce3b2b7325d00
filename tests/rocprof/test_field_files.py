"""Files of other projects from AMD GPUs, against what plain Python finds in them."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.ingest.amd.diagnostics import diagnostics
from kerneldb.ingest.doctor import of_pytorch
from kerneldb.ingest.ledger import UNKNOWN
from tests.rocprof.conversion import converted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ingest.conversion import Converted

CAPTURE = "sglang-graph-capture.json.gz"


def events_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        found: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return found


@pytest.fixture(scope="module")
def capture(field: Path) -> Converted:
    return converted(field / "pytorch" / CAPTURE)


def test_a_rocm_node_is_the_gpu_that_is_described(field: Path) -> None:
    path = field / "pytorch" / "mi300-device-ids.json.gz"
    found = converted(path)
    assert found.rows("devices", "device", "name", "arch") == [(0, "AMD Instinct MI300X VF", "gfx942")]
    assert set(found.launches["device"]) == {0}
    assert set(found.table("ranges")["device"].drop_nulls()) <= {0}
    calls = {event["args"]["correlation"]: event for event in events_of(path) if event.get("cat") == "cuda_runtime"}
    blocks = 0
    for event in events_of(path):
        if event.get("cat") == "kernel":
            (x, y, z), (a, b, c) = event["args"]["grid"], event["args"]["block"]
            divided = calls[event["args"]["correlation"]]["name"] == "hipExtModuleLaunchKernel"
            blocks += -(-x // a) * -(-y // b) * -(-z // c) if divided else x * y * z
    kernels = found.launches.filter(kind="kernel")
    assert (kernels["grid_x"].cast(int) * kernels["grid_y"] * kernels["grid_z"]).sum() == blocks
    assert kernels["quality"].count() == 1_515


def test_work_items_of_tensile_are_not_blocks(shared_data: Path) -> None:
    kernels = converted(shared_data / "pytorch" / "tracelens-mi300-qwen1.5-0.5b.json.gz").launches
    assert kernels.filter(reported_grid_x=225_280)["grid_x"].unique().to_list() == [880]


def test_the_kernels_of_a_capture_have_names_and_operators(field: Path, capture: Converted) -> None:
    launching = [event for event in events_of(field / "pytorch" / CAPTURE) if "Launch" in str(event["name"])]
    launching = [event for event in launching if event.get("cat") == "cuda_runtime"]
    calls = [row for row in capture.rows("api_calls", "name", "details", "op_id") if "Launch" in row[0]]
    assert len(calls) == len(launching) == 546
    assert sorted(row[1] for row in calls) == sorted(event["args"]["kernel"] for event in launching)
    assert sum(row[2] is None for row in calls) == sum("External id" not in event["args"] for event in launching)
    assert {row[1] for row in calls} <= set(capture.table("kernel_names")["name"])


def test_a_capture_is_no_execution(capture: Converted) -> None:
    said = {one.topic: one for one in of_pytorch(capture.manifest)}
    assert said["graph capture"].level == "warning"
    assert re.search(r"\d+ launch calls were recorded into .*, which ran nothing then", said["graph capture"].message)


def test_sums_of_rocprof_are_one_trace(field: Path) -> None:
    found = converted(*sorted((field / "rocprof").glob("v1.results.*_stats.csv")))
    with (field / "rocprof" / "v1.results.hip_stats.csv").open(newline="") as file:
        rows = [(row["Name"], int(row["Calls"]), int(row["TotalDurationNs"])) for row in csv.DictReader(file)]
    assert sorted(found.rows("call_sums", "name", "n", "total_ns")) == sorted(rows)
    assert set(found.table("call_sums")["kind"]) == {"hip"}
    assert (found.trace["source"], found.trace["name"], found.trace["kind"]) == ("rocprof", "v1", "summary")
    copies = found.table("rollups").join(found.table("signatures"), on="signature_id").sort("total_ns")
    assert copies.select("kind", "copy_kind", "n", "total_ns").rows() == [
        ("memcpy", "HtoD", 2, 13_600),
        ("memcpy", "DtoH", 4, 848_930),
    ]


def test_an_empty_text_for_a_number_is_unknown(field: Path) -> None:
    found = converted(field / "rocprof" / "empty-size.rpd")
    assert found.launches.height == 85
    assert found.total("unread") == 2  # in the call and in the copy that it launched
    with sqlite3.connect(f"file:{field}/rocprof/empty-size.rpd?immutable=1", uri=True) as plain:
        rows = plain.execute("SELECT size FROM rocpd_copyapi WHERE typeof(size) = 'integer'").fetchall()
    copies = found.launches.filter(kind="memcpy")
    assert copies["bytes"].null_count() == 1
    assert copies["bytes"].sum() == sum(size for (size,) in rows)


@pytest.fixture(scope="module")
def samples(shared_data: Path, field: Path) -> dict[Path, Converted]:
    """Every sample from an AMD GPU."""
    folders = (shared_data / "rocprof", field / "rocprof")
    found = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".csv", ".db", ".rpd")]
    on_rocm = ("tracelens-mi210-gpu-only", "tracelens-mi300-qwen1.5-0.5b", "tracelens-vllm-decode-graph")
    found += [shared_data / "pytorch" / f"{name}.json.gz" for name in on_rocm]
    found += [field / "pytorch" / name for name in ("mi300-device-ids.json.gz", CAPTURE)]
    return {path: converted(path) for path in found}


@pytest.mark.thorough(alone=True)
def test_nothing_of_the_samples_is_new(samples: dict[Path, Converted]) -> None:
    """Every table, column and section of every sample is read, or skipped for a reason."""
    for path, found in samples.items():
        reasons = found.table("ingest_reports")["reason"].to_list()
        assert not [reason for reason in reasons if UNKNOWN in reason], path


HELD = {
    "ops": "Record CPU activity",
    "api_calls": "Add `--hip-trace`",
    "devices": "agent_info",
    "launches": "rocprofv3 --kernel-trace --hip-trace",
}
"""Table → what asks for it in a remedy."""


def test_no_advice_asks_for_what_is_there(samples: dict[Path, Converted]) -> None:
    """A remedy must not name what the trace has, nor files that a format does not write."""
    for path, found in samples.items():
        for one in (of_pytorch if path.suffix == ".gz" else diagnostics)(found.manifest):
            there = [table for table, words in HELD.items() if words in one.remedy and table in found.manifest.parts]
            only_counted = set(found.launches["timing"]) == {"profiled"} if "launches" in there else False
            assert not there or only_counted, (path, one)
            assert path.suffix == ".csv" or "agent_info" not in one.remedy, (path, one)
