"""Collectives against the text of the trace, and waiting apart from transfer on traces made for it."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database

ELEMENT_BYTES = {"Float": 4, "Long": 8}
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
LAUNCH = {"device": 0, "context": 1, "stream": 7, "grid": [8, 1, 1], "block": [544, 1, 1]}


def test_sizes_times_and_bandwidth_of_a_real_trace(shared_data: Path, nccl: Database) -> None:
    path = shared_data / "pytorch" / "hta-nccl.json.gz"
    plain: dict[tuple[str, int], list[float]] = defaultdict(list)
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if event.get("cat") == "kernel" and "nccl" in event["name"]:
            args = event["args"]
            size = max(args["In msg nelems"], args["Out msg nelems"]) * ELEMENT_BYTES[args["dtype"]]
            plain[args["Collective name"], size].append(event["dur"] * 1000)
    rows = nccl.sql("FROM collectives('kernels')").rows()
    assert {(row["operation"], row["bytes"]): row["n"] for row in rows} == {
        key: len(value) for key, value in plain.items()
    }
    for row in rows:
        durations = sorted(plain[row["operation"], row["bytes"]])
        assert row["total_ns"] == pytest.approx(sum(durations), abs=len(durations))
        factor = {"allreduce": 2 * (2 - 1) / 2, "broadcast": 1}[row["operation"]]
        assert row["max_bus_gbs"] == pytest.approx(row["bytes"] / durations[0] * factor, rel=1e-3)
        assert (row["algorithm"], row["protocol"], row["group_size"]) == ("RING", "LL", 2)


def rank_trace(rank: int, durations: list[float]) -> dict[str, Any]:
    """A trace of one rank with one all-reduce of 1 MB after the other."""
    collective = {
        "Collective name": "allreduce", "In msg nelems": 262_144, "Out msg nelems": 262_144, "dtype": "Float",
        "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
    }  # fmt: skip
    events = [
        {
            "ph": "X", "cat": "kernel", "name": KERNEL,
            "pid": 0, "tid": 7, "ts": 1000.0 * number, "dur": duration,
            "args": {**LAUNCH, **collective, "correlation": number},
        }
        for number, duration in enumerate(durations, 1)
    ]  # fmt: skip
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}


@pytest.mark.again
def test_waiting_is_told_from_transfer(tmp_path: Path) -> None:
    durations = {0: [100.0, 30.0, 90.0], 1: [20.0, 60.0, 25.0]}
    for rank, times in durations.items():
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(rank_trace(rank, times)), encoding="utf-8")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(sorted(tmp_path.glob("rank*.json")), run="job")
    rows = {row["rank"]: row for row in database.sql("FROM collective_waits('kernels')")}
    assert {row["transfer_ns"] for row in rows.values()} == {(20 + 30 + 25) * 1000}
    assert rows[0]["wait_ns"] == (80 + 65) * 1000
    assert rows[1]["wait_ns"] == 30 * 1000
    assert (rows[0]["came_last"], rows[1]["came_last"]) == (1, 2)
    assert rows[0]["longest_wait_ns"] == 80_000
    assert all((row["run"], row["traced_ranks"], row["matched"]) == ("job", 2, 3) for row in rows.values())
    for alone in ({"traces": ["rank0"]}, {"where": "rank = 0"}):
        assert database.analyze("collective_waits", **alone).rows() == [rows[0]]


def test_one_rank_alone_tells_no_waiting(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps(rank_trace(0, [50.0])), encoding="utf-8")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path / "rank0.json")
    (row,) = database.sql("FROM collective_waits('kernels')").rows()
    assert (row["n"], row["matched"], row["wait_ns"], row["transfer_ns"]) == (1, 0, None, None)
    assert row["came_last"] is None, "nobody knows, and not never"
