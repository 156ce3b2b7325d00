"""What is said of calls that held up the GPU, against the calls: none counts for more than it took."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.report import why
from tests.answers.plain_traces import Recording

Row = dict[str, Any]

COPY, MALLOC, SYNC = "cudaMemcpy", "cudaMalloc", "cudaStreamSynchronize"
SAMPLES: Final = (
    "nsys/lighttransport_gemm.sqlite",
    "nsys/nsightful_power_iteration.sqlite",
    "nsys/nsysai_h100_2gpu_1s.sqlite",
    "pytorch/bloom-560m.json.gz",
    "pytorch/gpt2-train.json.gz",
    "pytorch/kineto-tb-resnet50-workers0.json.gz",
    "pytorch/tracelens-h100-qwen1.5-0.5b.json.gz",
    "pytorch/tracelens-mi300-qwen1.5-0.5b.json.gz",
    "rocprof/rpd_matmul_result.rpd",
    "rocprof/synthetic_gfx1151_full.db",
)
APART_NS: Final = 50_000
"""Waits that are less than this apart are one."""


def too_much(database: Database) -> list[Row]:
    """Calls for which more time counts than they and those right beside them took, by the calls alone."""
    charged = database.sql(
        "SELECT trace_id, device, wait_number, any_value(call) AS call, sum(duration_ns)::BIGINT AS ns "
        "FROM _wall_pieces('kernels') WHERE wait_number IS NOT NULL GROUP BY ALL"
    ).rows()
    waits = database.sql("FROM _host_waits('kernels')").rows()
    took = {wait["number"]: together(wait, waits) for wait in waits}
    return [row for row in charged if row["ns"] > took[row["wait_number"]]]


def together(wait: Row, waits: list[Row]) -> int:
    """How long a wait and those of its process within 50 us of each other took."""
    beside = [
        (one["start_ns"], one["end_ns"])
        for one in waits
        if one is wait
        or (one["is_blocking"] and (one["trace_id"], one["process"]) == (wait["trace_id"], wait["process"]))
    ]
    if not wait["is_blocking"]:
        return int(wait["end_ns"] - wait["start_ns"])
    first, last, took = min(beside), 0, 0
    found: list[tuple[int, int, int]] = []
    begun = first[0]
    for start, end in sorted(beside):
        if last and start > last + APART_NS:
            found.append((begun, last, took))
            begun, took = start, 0
        took += max(0, end - max(start, last))
        last = max(last, end)
    found.append((begun, last, took))
    return next(took for begun, last, took in found if begun <= wait["start_ns"] <= last)


@pytest.fixture(scope="module")
def samples(root: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = kerneldb.open(tmp_path_factory.mktemp("said") / "k.duckdb")
    database.ingest([*(shared_data / name for name in SAMPLES), *sorted((root / "tests/fixtures").glob("*.json.gz"))])
    return database


def test_no_gap_counts_for_a_call_that_was_shorter(samples: Database) -> None:
    assert too_much(samples) == []


def test_a_first_use_is_a_call_that_took_as_long(samples: Database) -> None:
    """hipMalloc took 83 us at most; the copy before it 346 ms, of which the GPU copied 155 ms."""
    (verdict,) = why.verdicts(samples, ["rpd_matmul"])
    assert "hipMalloc" not in " ".join(one.sentence for one in verdict.advice)
    idle = {row["cause"]: row for row in samples.sql("FROM idle() WHERE trace = 'rpd_matmul'").rows()}
    assert idle["allocation"]["max_ns"] <= 82_734
    blocking = idle["blocking copy"]
    assert (blocking["waiting_call"], round(blocking["max_ns"], -6)) == ("hipMemcpyWithStream", 155_000_000)


@pytest.fixture
def carried(tmp_path: Path) -> Database:
    """A copy holds up the host for 400 us, 300 of them after the first launch began; then two short allocations."""
    recording = Recording()
    recording.kernel("first", 0, 300_000, call=-120_000)
    recording.waits(COPY, -100_000, 400_000)
    recording.waits(MALLOC, 360_000, 20_000)
    recording.waits(MALLOC, 440_000, 10_000)
    recording.kernel("second", 1_000_000, 10_000, call=990_000)
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(recording.write(tmp_path / "made.json"))
    return database


def test_what_is_left_of_a_short_call_counts_for_the_one_before(carried: Database) -> None:
    """The gap from 300 to 992 us: 30 us in allocations, 300 for the copy, none for what it took before the launch."""
    (gap,) = carried.sql("FROM idle_gaps()").rows()
    assert (gap["cause"], gap["gap_ns"], gap["no_call_ns"]) == ("launching", 700_000, 660_000)
    found = {row["cause"]: row["ns"] for row in carried.sql(SUMS).rows()}
    assert found == {"allocation": 30_000, "blocking copy": 300_000, "launching": 362_000, "launch latency": 8_000}


SUMS: Final = (
    "SELECT cause, sum(duration_ns) AS ns FROM _wall_pieces('kernels') WHERE part <> 'computation' GROUP BY ALL"
)
