"""Idle time, overlap, launch overhead, fusion, conversions, histograms and iterations, against plain computations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kerneldb.api import Database

GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def one(database: Database, sql: str) -> Any:
    (row,) = database.sql(sql).rows()
    return next(iter(row.values())) if len(row) == 1 else row


def test_gaps_add_up_to_the_idle_time(compared: Database) -> None:
    gaps = one(compared, "SELECT sum(gap_ns)::BIGINT AS ns FROM idle_gaps('kernels') WHERE trace = 'base'")
    causes = one(compared, "SELECT sum(idle_ns)::BIGINT AS ns FROM idle('kernels') WHERE trace = 'base'")
    assert gaps == causes == one(compared, "SELECT idle_ns FROM gpu_time WHERE trace = 'base'")


def test_causes_are_those_of_the_launch_calls(compared: Database, example: Path) -> None:
    """By the text of the trace: where the call of the next launch began before the gap, the launch was queued."""
    events = json.loads(gzip.decompress(example.read_bytes()))["traceEvents"]
    calls = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in {"cuda_runtime", "cuda_driver"} and "correlation" in event.get("args", {})
    }
    launches = sorted((event for event in events if event.get("cat") in GPU), key=lambda event: event["ts"])
    queued, end = 0, launches[0]["ts"] + launches[0]["dur"]
    for event in launches[1:]:
        call = calls.get(event["args"]["correlation"])
        if event["ts"] > end + 1e-3 and call is not None and call["ts"] <= end:
            queued += 1
        end = max(end, event["ts"] + event["dur"])
    found = one(compared, "SELECT n FROM idle('kernels') WHERE trace = 'base' AND cause = 'queued'")
    assert found == pytest.approx(queued, abs=max(2, queued // 100))


def test_overlap_is_that_of_gpu_time(shared_data: Path, tmp_path: Path) -> None:
    import kerneldb

    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "pytorch" / "hta-nccl.json.gz")
    found, known = one(database, "FROM overlap('kernels')"), one(database, "FROM gpu_time")
    assert found["exposed_communication_ns"] == known["exposed_communication_ns"]
    assert found["exposed_copy_ns"] == known["exposed_memcpy_ns"]
    assert found["busy_ns"] == known["busy_ns"]
    hidden = found["computation_communication_ns"]
    assert hidden == found["communication_ns"] - found["exposed_communication_ns"]
    assert found["computation_ns"] == known["computation_ns"]


def test_launch_calls_add_up(compared: Database) -> None:
    sql = "SELECT sum(n)::BIGINT AS n, sum(call_ns)::BIGINT AS ns FROM launch_overhead('kernels') WHERE trace = 'base'"
    expected = one(
        compared,
        "SELECT count(*) AS n, sum(launch_duration_ns)::BIGINT AS ns FROM kernels "
        "WHERE trace = 'base' AND api_call IS NOT NULL",
    )
    assert one(compared, sql) == expected


def test_fusion_never_promises_more_than_there_is(compared: Database) -> None:
    rows = compared.sql("FROM fusion_candidates('kernels') WHERE trace = 'base'").rows()
    assert rows
    for row in rows:
        assert 0 < row["kernel_ns_at_stake"] < row["total_ns"]
        assert row["kernels"].count(" -> ") == row["kernels_in_run"] - 1
        assert row["at_stake_ns"] <= row["kernel_ns_at_stake"] + 10_000 * (row["kernels_in_run"] - 1) * row["runs"]


def test_conversions_name_both_types(compared: Database) -> None:
    rows = compared.sql(
        "FROM precision_conversions('kernels') WHERE trace = 'base' AND method = 'operator call'"
    ).rows()
    assert rows
    assert all(row["from_dtype"] != row["to_dtype"] for row in rows)


@pytest.mark.parametrize("logarithmic", ["true", "false"])
def test_histograms_count_every_launch_once(compared: Database, logarithmic: str) -> None:
    sql = (
        f"FROM metric_histogram('kernels', 'duration_ns', bins := 7, logarithmic := {logarithmic}) WHERE trace = 'base'"
    )
    rows = compared.sql(sql).rows()
    for row in rows:
        low, high = row["from_value"], row["to_value"]
        top = "<=" if row["bin"] == max(one["bin"] for one in rows) else "<"
        inside = one(
            compared,
            f"SELECT count(*) AS n FROM kernels WHERE trace = 'base' AND duration_ns >= {low} - 1e-6 "
            f"AND duration_ns {top} {high} + (CASE WHEN '{top}' = '<=' THEN 1e-6 ELSE -1e-6 END)",
        )
        assert inside == row["n"]
