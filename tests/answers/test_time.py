"""Idle time, overlap, launch overhead, fusion, conversions, histograms and iterations, against plain computations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.report import why
from tests.why.causes import Program

GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def one(database: Database, sql: str) -> Any:
    (row,) = database.sql(sql).rows()
    return next(iter(row.values())) if len(row) == 1 else row


def test_gaps_add_up_to_the_idle_time(compared: Database) -> None:
    gaps = one(compared, "SELECT sum(gap_ns)::BIGINT AS ns FROM idle_gaps('kernels') WHERE trace = 'base'")
    causes = one(compared, "SELECT sum(idle_ns)::BIGINT AS ns FROM idle('kernels') WHERE trace = 'base'")
    assert gaps == causes == one(compared, "SELECT idle_ns FROM gpu_time() WHERE trace = 'base'")


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
        if event["ts"] > end + 1e-3 and call is not None and call["ts"] + call["dur"] <= end:
            queued += 1
        end = max(end, event["ts"] + event["dur"])
    found = one(compared, "SELECT n FROM idle('kernels') WHERE trace = 'base' AND cause = 'between launches'")
    assert found == pytest.approx(queued, abs=max(2, queued // 100))


Spans = list[tuple[int, int]]


def length(*kinds: Spans) -> int:
    """Length of the union of intervals."""
    total, end = 0, 0
    for start, stop in sorted(span for kind in kinds for span in kind):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def spans(database: Database) -> dict[str, Spans]:
    """What each kind of activity took, from the launches alone: computation, communication, copy, fill."""
    found: dict[str, Spans] = {"computation": [], "communication": [], "copy": [], "fill": []}
    names = {"memcpy": "copy", "memset": "fill"}
    for row in database.sql("SELECT kind, category, start_ns, end_ns FROM kernels").rows():
        kind = "communication" if row["category"] == "COMMUNICATION" else "computation"
        found[names.get(row["kind"], kind)].append((row["start_ns"], row["end_ns"]))
    return found


def test_what_ran_at_the_same_time_is_the_same_in_all_answers(nccl: Database) -> None:
    """Against unions of intervals computed here, in which fills are computation; the wall time has the same sums."""
    found, known = one(nccl, "FROM overlap('kernels')"), one(nccl, "FROM gpu_time()")
    of = spans(nccl)
    assert of["fill"]
    kernels, copies = of["computation"] + of["fill"], of["copy"]
    assert found["computation_ns"] == length(kernels)
    assert found["copy_ns"] == length(copies)
    assert found["computation_copy_ns"] == length(kernels) + length(copies) - length(kernels, copies)
    assert found["exposed_copy_ns"] == length(*of.values()) - length(kernels, of["communication"])
    assert found["exposed_communication_ns"] == length(kernels, of["communication"]) - length(kernels)
    hidden = found["computation_communication_ns"]
    assert hidden == found["communication_ns"] - found["exposed_communication_ns"]
    assert known["computation_ns"] == found["computation_ns"]
    assert known["total_memcpy_ns"] == length(of["copy"])
    assert known["exposed_communication_ns"] == found["exposed_communication_ns"]
    assert known["exposed_memcpy_ns"] == found["exposed_copy_ns"]
    wall = "SELECT part, sum(wall_ns)::BIGINT AS ns FROM wall_time_budget() GROUP BY part"
    parts = {row["part"]: row["ns"] for row in nccl.sql(wall)}
    assert [parts[part] for part in ("computation", "communication", "copy")] == [
        found["computation_ns"], found["exposed_communication_ns"], found["exposed_copy_ns"],
    ]  # fmt: skip
    assert known["busy_ns"] == found["busy_ns"] == length(*of.values())


def test_launch_calls_add_up(compared: Database) -> None:
    sql = "SELECT sum(n)::BIGINT AS n, sum(call_ns)::BIGINT AS ns FROM launch_overhead('kernels') WHERE trace = 'base'"
    expected = one(
        compared,
        "SELECT count(*) AS n, sum(launch_duration_ns)::BIGINT AS ns FROM kernels "
        "WHERE trace = 'base' AND api_call IS NOT NULL",
    )
    assert one(compared, sql) == expected


def test_the_call_of_a_graph_counts_once(tmp_path: Path, shared_data: Path) -> None:
    """One call of 506,691 ns launches a graph of 421 kernels, which together run longer."""
    path = shared_data / "pytorch" / "tracelens-vllm-decode-graph.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    calls = [event for event in events if event.get("name") == "hipGraphLaunch"]
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(path)
    row = one(database, "FROM launch_overhead() WHERE api_call = 'hipGraphLaunch'")
    assert (row["n"], row["calls"], row["shorter_than_call"]) == (421, len(calls), 0)
    assert row["call_ns"] == pytest.approx(1000 * sum(event["dur"] for event in calls), abs=1)


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
    sql = f"FROM metric_histogram('duration_ns', bins := 7, logarithmic := {logarithmic}) WHERE trace = 'base'"
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


def test_the_median_kernel_is_none_of_copies(tmp_path: Path) -> None:
    """Of twenty kernels of 7 µs beside forty copies of 1 µs."""
    program = Program()
    for _ in range(20):
        program.kernel(duration=7_000)
        for _ in range(2):
            program.copy("Memcpy DtoD (Device -> Device)", 1_000, blocks=False)
            program.think(20_000)
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(program.write(tmp_path / "copies.json"))
    (verdict,) = why.verdicts(database, ["copies"])
    assert "the median kernel runs 7.00 µs" in "".join(one.sentence for one in verdict.advice)
