"""Kernels of a launched graph have the operators of its capture, where that was recorded.

The fixtures were recorded on an H100: three blocks of layer norm, linear, gelu, linear and add, captured as one graph
(`graph-capture`, which also replays it three times) and replayed twice in a trace of its own (`graph-replays`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from tests.conftest import ROOT
from tests.ingest.traces import T0, Trace, kineto

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb import Database

FIXTURES = [ROOT / "tests" / "fixtures" / f"graph-{name}-h100.json.gz" for name in ("capture", "replays")]
BLOCK = ["aten::native_layer_norm", "aten::addmm", "aten::gelu", "aten::addmm", "aten::addmm", "aten::add"]
NAMED = {"layer_norm": "aten::native_layer_norm", "nvjet": "aten::addmm", "splitK": "aten::addmm", "Gelu": "aten::gelu"}


def ingested(tmp_path: Path, *traces: Trace) -> Database:
    tmp_path.mkdir(exist_ok=True)
    db = kerneldb.open(tmp_path / "k.duckdb")
    for number, trace in enumerate(traces):
        path = tmp_path / f"t{number}.json"
        path.write_text(kineto(trace))
        db.ingest(path)
    return db


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Database:
    db = kerneldb.open(tmp_path_factory.mktemp("captured") / "k.duckdb")
    for path in FIXTURES:
        db.ingest(path)
    return db


def test_every_kernel_of_the_graph_has_its_operator(recorded: Database) -> None:
    rows = recorded.sql(
        "SELECT trace, name, op, module FROM graph_owners ORDER BY trace, graph_launch, position"
    ).rows()
    assert [row["op"] for row in rows] == BLOCK * 3 * 5
    for row in rows:
        assert [op for part, op in NAMED.items() if part in row["name"]][:1] in ([], [row["op"]])
    assert [row["module"] for row in rows[:6]] == [
        "LayerNorm_0",
        "Linear_0",
        "Block_0",
        "Linear_1",
        "Linear_1",
        "Block_0",
    ]


def test_inherit_takes_calls_and_sizes_of_the_capture(recorded: Database) -> None:
    found = recorded.inherit()
    assert {(row["trace"], row["method"], row["launches"]) for row in found.rows()} == {
        ("graph-capture-h100", "capture: order", 54),
        ("graph-replays-h100", "capture: order", 36),
    }
    sizes = "SELECT DISTINCT gemm_m, gemm_n, gemm_k FROM kernels WHERE gemm_m IS NOT NULL ORDER BY gemm_n"
    assert [tuple(row.values()) for row in recorded.sql(sizes).rows()] == [(64, 1024, 4096), (64, 4096, 1024)]
    evidence = recorded.sql("SELECT DISTINCT evidence FROM inferred_calls WHERE launch_index = 0").rows()
    assert all("of the capture in graph-capture-h100" in row["evidence"] for row in evidence)


def captured(*ops: str, replayed: int = 0, streams: tuple[int, ...] = (7,), captures: int = 1) -> Trace:
    """Captures of `ops`, a call each, and launches of a graph of `replayed` kernels."""
    trace = Trace()
    for capture in range(captures):
        at = T0 + capture * 1_000_000
        trace.api("cudaStreamBeginCapture", at, 1_000, 100 + capture)
        for number, op in enumerate(ops):
            trace.op(
                op, at + 2_000 + number * 10_000, 8_000, {"Input Dims": [[capture + 1, 8]], "Input type": ["float"]}
            )
            trace.api("cudaLaunchKernel", at + 3_000 + number * 10_000, 1_000, 1_000 * (capture + 1) + number)
        trace.api("cudaStreamEndCapture", at + 900_000, 1_000, 200 + capture)
    if replayed:
        trace.api("cudaGraphLaunch", T0 + 10_000_000, 5_000, 9_000)
    for number in range(replayed):
        stream = streams[number % len(streams)]
        trace.kernel(f"kernel_{number}", T0 + 10_100_000 + number * 10_000, 5_000, 9_000, stream=stream)
    return trace


def owners(db: Database) -> list[tuple[object, ...]]:
    rows = db.sql("SELECT trace, op, call_id IS NOT NULL AS call, captures FROM graph_owners ORDER BY trace, position")
    return [tuple(row.values()) for row in rows.rows()]


def test_another_number_of_kernels_is_another_graph(tmp_path: Path) -> None:
    assert owners(ingested(tmp_path, captured("aten::mm", "aten::add", replayed=3))) == []


def test_order_says_nothing_across_streams(tmp_path: Path) -> None:
    assert owners(ingested(tmp_path, captured("aten::mm", "aten::add", replayed=2, streams=(7, 8)))) == []


def test_captures_of_several_sizes_agree_in_operators_only(tmp_path: Path) -> None:
    db = ingested(tmp_path, captured("aten::mm", "aten::add", replayed=2, captures=3))
    assert owners(db) == [("t0", "aten::mm", False, 3), ("t0", "aten::add", False, 3)]
    db.inherit()
    rows = db.sql("SELECT op, inferred_by, input_dims FROM kernels ORDER BY start_ns").rows()
    assert [tuple(row.values()) for row in rows] == [("aten::mm", "inherited", None), ("aten::add", "inherited", None)]


def test_a_capture_of_another_program_is_not_taken(tmp_path: Path) -> None:
    other = captured("aten::mm", "aten::add")
    graph = captured(replayed=2, captures=0)
    assert owners(ingested(tmp_path, other, graph)) == []


def test_captures_of_one_run(tmp_path: Path) -> None:
    """As SGLang writes them: a trace per captured batch size, and one of the replays."""
    db = kerneldb.open(tmp_path / "k.duckdb")
    sizes = [captured("aten::mm", "aten::add", captures=1), captured("aten::mm", "aten::mul", captures=1)]
    sizes[1].events[1]["args"]["Input Dims"] = [[64, 8]]
    for number, trace in enumerate([*sizes, captured(replayed=2, captures=0)]):
        (tmp_path / f"t{number}.json").write_text(kineto(trace))
        db.ingest(tmp_path / f"t{number}.json", run="serving")
    assert owners(db) == [("t2", "aten::mm", False, 2), ("t2", None, False, 2)]
    rows = db.sql("SELECT capture_trace, evidence FROM graph_owners ORDER BY position LIMIT 1").rows()
    assert [tuple(row.values()) for row in rows] == [
        (None, "call 1 of 2 of 2 captures in run serving, of the same run")
    ]


def on_rocm(*kernels: str, ran: tuple[str, ...]) -> Trace:
    """A capture whose calls name `kernels`, and a launch of a graph that ran `ran`."""
    trace = captured(*(f"aten::of_{kernel}" for kernel in kernels), replayed=len(ran))
    calls = [event for event in trace.events if event["name"] == "cudaLaunchKernel"]
    for call, kernel in zip(calls, kernels, strict=True):
        call["name"], call["args"]["kernel"] = "hipLaunchKernel", kernel
    for kernel, name in zip([event for event in trace.events if event["cat"] == "kernel"], ran, strict=True):
        kernel["name"] = name
    return trace


def test_calls_that_name_other_kernels_are_of_another_graph(tmp_path: Path) -> None:
    trace = on_rocm("gemm", "relu", ran=("gemm", "relu"))
    assert owners(ingested(tmp_path / "same", trace)) == [
        ("t0", f"aten::of_{one}", True, 1) for one in ("gemm", "relu")
    ]
    assert owners(ingested(tmp_path / "other", on_rocm("gemm", "relu", ran=("gemm", "tanh")))) == []


def test_calls_that_ran_are_not_captured(tmp_path: Path) -> None:
    trace = captured("aten::mm", "aten::add", replayed=1)
    trace.kernel("ran", T0 + 5_000_000, 1_000, 1_000)
    assert owners(ingested(tmp_path, trace)) == [("t0", "aten::add", True, 1)]


def test_calls_of_other_threads_are_of_the_only_open_capture(tmp_path: Path) -> None:
    trace = captured("aten::mm", "aten::add", replayed=2)
    backward = [event for event in trace.events if event["name"] in ("aten::add", "cudaLaunchKernel")][-2:]
    for event in backward:
        event["tid"] = 77
    assert {event["name"] for event in backward} == {"aten::add", "cudaLaunchKernel"}
    assert owners(ingested(tmp_path / "one", trace)) == [
        ("t0", "aten::mm", True, 1), ("t0", "aten::add", True, 1)
    ]  # fmt: skip
    trace.api("cudaStreamBeginCapture", T0 + 1_000, 1_000, 300, tid=99)
    trace.api("cudaStreamEndCapture", T0 + 800_000, 1_000, 301, tid=99)
    assert owners(ingested(tmp_path / "two", trace)) == []


def with_fills(*, captures: int = 1) -> Trace:
    """Two kernels with a fill that ran between them; as many fills were captured behind the second."""
    trace = captured("aten::mm", "aten::fill_", "aten::add", replayed=2, captures=captures)
    for number, event in enumerate(one for one in trace.events if one["name"] == "cudaLaunchKernel"):
        if number % 3 == 1:
            event["name"] = "cudaMemsetAsync"
    for number in range(2 * captures):
        at = T0 + number % captures * 1_000_000 + 500_000 + number * 1_000
        trace.api("cudaMemsetAsync", at, 500, 8_000 + number)
    trace.memset(T0 + 10_106_000, 2_000, 9_000, 64)
    return trace


def test_a_fill_of_no_bytes_is_called_and_does_not_run(tmp_path: Path) -> None:
    """Fills behind the last kernel were called and did not run: kernels and the fill between them have their calls."""
    db = ingested(tmp_path / "one", with_fills())
    ops = ["aten::mm", "aten::fill_", "aten::add"]
    assert owners(db) == [("t0", op, True, 1) for op in ops]
    evidence = [row["evidence"] for row in db.sql("SELECT evidence FROM graph_owners ORDER BY position").rows()]
    assert evidence == [f"call {place} of 5, 3 of which ran, of the capture in t0" for place in (1, 2, 3)]
    assert owners(ingested(tmp_path / "several", with_fills(captures=2))) == []
