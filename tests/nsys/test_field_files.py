"""Public files of Nsight Systems that earlier versions read wrong, in part or not at all: `field/README.md`."""

from __future__ import annotations

import contextlib
import csv
import re
import sqlite3
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import NotATraceError
from kerneldb.ingest.ledger import UNKNOWN
from tests.ingest.conversion import convert_file

if TYPE_CHECKING:
    from pathlib import Path


def test_every_launch_of_a_graph_is_a_launch(field: Path, tmp_path: Path) -> None:
    path = field / "nsight" / "nsys-2025.5.2-two-graph-launches.sqlite"
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
        asked = connection.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE ORDER BY start")
        expected = asked.fetchall()
    graphs = convert_file(path, tmp_path / "spool").launches.filter(kind="graph").sort("start_ns")
    assert graphs.select("start_ns", "end_ns").rows() == expected
    assert set(graphs["name"]) == {"[CUDA graph]"}
    assert set(graphs["api_call"]) == {"cudaGraphLaunch"}


def printed(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_api_calls_in_a_sum_are_no_kernels(field: Path, tmp_path: Path) -> None:
    path = field / "nsight" / "report_cuda_api_gpu_sum.csv"
    converted = convert_file(path, tmp_path / "spool")
    sums = converted.table("rollups").join(converted.table("signatures"), on="signature_id")
    assert sums.filter(kind="kernel")["total_ns"].sum() == 62_493
    calls = [row for row in printed(path) if row["Category"] == "CUDA_API"]
    expected = {(re.sub(r"_v\d+$", "", row["Operation"]), float(row["Total Time (ns)"])) for row in calls}
    totals = converted.table("metrics").filter(metric="cuda_api__time.sum")
    assert set(totals.select("instance", "value").rows()) == expected


def test_ranges_of_a_printed_trace(field: Path, tmp_path: Path) -> None:
    path = field / "nsight" / "report_nvtx_pushpop_trace.csv"
    ranges = convert_file(path, tmp_path / "spool")
    assert ranges.rows("ranges", "range_id", "name", "start_ns", "duration_ns", "parent_id", "depth") == [
        (
            *(int(row["RangeId"]), row["Name"], int(row["Start (ns)"]), int(row["Duration (ns)"])),
            *(int(row["ParentId"]) if row["ParentId"] else None, int(row["Lvl"])),
        )
        for row in printed(path)
    ]
    assert not [reason for reason in ranges.report("unread") if UNKNOWN in reason]


def test_how_long_kernels_wait_to_start(field: Path, tmp_path: Path) -> None:
    path = field / "nsight" / "report_cuda_kern_exec_sum.csv"
    converted = convert_file(path, tmp_path / "spool")
    assert converted.table("rollups")["total_ns"].sum() == 62_493
    assert converted.report("unread") == {}
    rows = printed(path)
    metrics = converted.table("metrics")
    for metric, column in {
        "total_time.max": "TMax",
        "api_time.avg": "AAvg",
        "queue_time.avg": "QAvg",
    }.items():
        values = metrics.filter(metric=f"kernel_launch__{metric}")["value"].to_list()
        assert values == [float(row[f"{column} (ns)"]) for row in rows if row[f"{column} (ns)"]]
    assert metrics.filter(metric="kernel_launch__launches.count")["value"].sum() == sum(
        int(row["Count"]) for row in rows
    )


def test_a_console_of_nsys_is_no_power_log(field: Path, tmp_path: Path) -> None:
    path = field / "nsight" / "nsys-console-print.txt.gz"
    with pytest.raises(NotATraceError, match=r"nsys profile.*printed.*nsys export --type sqlite") as caught:
        convert_file(path, tmp_path / "spool")
    assert "nvidia-smi" not in str(caught.value)
