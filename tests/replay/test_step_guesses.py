"""Calls of a replayed graph: those of its capture, else of the eager trace; where that has none they are proposed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api.planning import Request
from kerneldb.api.recorded import Recorded
from kerneldb.recordings import NAME, Part, Recording, Traced
from kerneldb.replay.wire import plan as wire
from kerneldb.replay.wire.steps import Step

FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<bool>, std::array<char*, 1ul> >"
    "(int, at::native::FillFunctor<bool>, std::array<char*, 1ul>)"
)
GEMM = "ampere_sgemm_128x64_nn"
STEPS = 3


def event(kind: str, name: str, at: float, lasts: float, **said: Any) -> dict[str, Any]:
    place = {"pid": 0 if kind == "kernel" else 1, "tid": 7 if kind == "kernel" else 1}
    return {"ph": "X", "cat": kind, "name": name, **place, "ts": at, "dur": lasts, "args": said}


def kernel(name: str, at: float, correlation: int, **said: Any) -> dict[str, Any]:
    grid = {"grid": [1, 1, 1], "block": [128, 1, 1], "shared memory": 0, "registers per thread": 32}
    return event("kernel", name, at, 2.0, device=0, stream=7, correlation=correlation, **grid, **said)


def node(number: int) -> dict[str, Any]:
    def tensors(ids: list[int]) -> dict[str, Any]:
        values = [[one, one, 0, 4096, 4, "cuda:0"] for one in ids]
        return {"values": values, "shapes": [[64, 64]] * len(ids), "types": ["Tensor(float)"] * len(ids),
                "strides": [[64, 1]] * len(ids)}  # fmt: skip

    attributes = [{"name": "rf_id", "type": "uint64", "value": number}]
    sides = {"inputs": tensors([11, 12]), "outputs": tensors([13])}
    return {"id": number + 100, "name": "aten::mm", "ctrl_deps": 2, "attrs": attributes, **sides}


def eager(at: float, number: int) -> list[dict[str, Any]]:
    ids = {"External id": number, "Record function id": number}
    dims = {"Input Dims": [[64, 64]] * 2, "Input Strides": [[64, 1]] * 2, "Input type": ["float"] * 2}
    call = event("cpu_op", "aten::mm", at, 8, **ids, **dims, **{"Concrete Inputs": ["", ""]})
    launch = event("cuda_runtime", "cudaLaunchKernel", at + 2, 3, correlation=number, **ids)
    return [call, launch, kernel(GEMM, at + 10, number, **{"External id": number})]


def graph(at: float, number: int) -> list[dict[str, Any]]:
    launch = event("cuda_runtime", "cudaGraphLaunch", at, 3, correlation=number)
    nodes = [{"graph id": 2, "graph node id": one} for one in (1, 2)]
    return [launch, kernel(FILL, at + 10, number, **nodes[0]), kernel(GEMM, at + 14, number, **nodes[1])]


def written(folder: Path, mode: Any, made: Any, execution: str | None, steps: int = STEPS, base: int = 0) -> Part:
    events = []
    for number in range(1, steps + 1):
        events += made(1000.0 * number, number)
        events.append(event("user_annotation", f"ProfilerStep#{number}", 1000.0 * number - 5, 100))
    gpu = {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    text = json.dumps(
        {"schemaVersion": 1, "baseTimeNanoseconds": base, "deviceProperties": [gpu], "traceEvents": events}
    )
    path = folder / f"step.{mode}.pt.trace.json"
    path.write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Part(
        "step",
        mode,
        {"workload": "step", "mode": mode},
        measurements=[],
        trace=Traced(path.name, digest, len(text), steps, 1.0, None, execution),
    )


def captured(at: float, number: int) -> list[dict[str, Any]]:
    """The calls of the graph, the second on a thread of its own, and a fill of no bytes, which runs nothing."""
    fill, mm = {"External id": number, "Record function id": number}, {"External id": 1, "Record function id": 1}
    dims = {"Input Dims": [[64, 64], []], "Input Strides": [[64, 1], []], "Input type": ["bool", "Scalar"]}
    filling = event("cpu_op", "aten::fill_", at + 2, 8, **fill, **dims, **{"Concrete Inputs": ["", "True"]})
    product, launch, _ = eager(at + 20, 1)
    for one in (product, launch):
        one["tid"] = 2
    return [
        event("cuda_runtime", "cudaStreamBeginCapture", at, 1, correlation=900),
        filling, event("cuda_runtime", "cudaLaunchKernel", at + 4, 3, correlation=901, **fill),
        event("cuda_runtime", "cudaMemsetAsync", at + 12, 3, correlation=902),
        product, launch | {"args": {**launch["args"], "correlation": 903, **mm}},
        event("cuda_runtime", "cudaStreamEndCapture", at + 60, 1, correlation=904),
    ]  # fmt: skip


def planned(folder: Path, *, capture: bool = False, made: Any = graph, base: int = 0) -> tuple[dict[str, Any], Step]:
    """The items of the plan of the graph, and its step."""
    folder.mkdir()
    said = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [node(one) for one in range(1, STEPS + 1)]}
    (folder / "step.et.json").write_text(json.dumps(said))
    parts = [
        written(folder, "eager", eager, "step.et.json", base=base),
        written(folder, "cuda_graph", made, None, base=base),
    ]
    if capture:
        (folder / "capture.et.json").write_text(json.dumps({**said, "nodes": [node(1)]}))
        parts.append(written(folder, "cuda_graph_capture", captured, "capture.et.json", 1, base))
    (folder / NAME).write_text(Recording("one", parts=parts).text())
    with kerneldb.open(folder / "k.duckdb") as opened:
        opened.ingest([folder], run="one")
        plan = opened.plan_replay(Request(in_context=True, where="trace = 'one-step-cuda-graph'")).plan
    (step,) = plan.steps
    return {item.id: item for item in plan.items}, step


def test_what_only_the_graph_has_is_proposed_calls_for(tmp_path: Path) -> None:
    items, step = planned(tmp_path / "recording")
    assert step.recorded_as == "cuda_graph"
    filling, product = (items[call.item] for call in step.calls)
    assert (filling.route, filling.spec) == ("inferred", None)
    assert {one.spec.call.op for one in filling.candidates} == {"aten::fill_"}
    assert (product.route, product.candidates) == ("aten", ())
    assert step.unplanned == 0


def test_the_calls_of_a_graph_are_those_of_its_capture(tmp_path: Path) -> None:
    items, step = planned(tmp_path / "recording", capture=True)
    assert (step.recorded_as, step.captured, step.calls_from) == ("cuda_graph", True, "one-step-cuda-graph-capture")
    filling, product = (items[call.item] for call in step.calls)
    assert [one.spec and one.spec.call.op for one in (filling, product)] == ["aten::fill_", "aten::mm"]
    assert (filling.candidates, product.candidates, step.unplanned) == ((), (), 0)
    assert step.method == "execution trace"
    assert [list(step.tensors[one].dims) for listed in step.calls[1].inputs for one in listed] == [[64, 64]] * 2


def test_a_plan_of_calls_alone_takes_those_of_the_capture_and_can_be_read(tmp_path: Path) -> None:
    """Kernels of a capture did not run: its calls have no launch to name."""
    planned(tmp_path / "recording", capture=True)
    with kerneldb.open(tmp_path / "recording" / "k.duckdb") as opened:
        made = opened.plan_replay(Request(traces=("one-step-cuda-graph",))).plan
    wire.write(made, tmp_path / "alone.plan")
    items = wire.read(tmp_path / "alone.plan").items
    donors = [one.donor for item in items for one in item.candidates]
    assert {(one.trace, one.launch_index) for one in donors if one} == {("one-step-cuda-graph-capture", None)}
    assert [len(item.reuse) for item in items if item.spec and item.spec.call.op == "aten::mm"] == [2]


@pytest.mark.parametrize("iteration", range(STEPS))
def test_calls_of_any_iteration_of_a_graph_know_when_their_inputs_were_used(tmp_path: Path, iteration: int) -> None:
    planned(tmp_path / "recording", capture=True)
    with kerneldb.open(tmp_path / "recording" / "k.duckdb") as opened:
        asked = Request(traces=("one-step-cuda-graph",), where=f"iteration = {iteration} AND name LIKE '%gemm%'")
        (item,) = opened.plan_replay(asked).plan.items
    assert len(item.reuse) == 2


def nested(at: float, number: int) -> list[dict[str, Any]]:
    """A sum whose input is copied inside of it: both launch a kernel."""
    outer, inner = ({"External id": 2 * number + more, "Record function id": 2 * number + more} for more in (0, 1))
    dims = {"Input Dims": [[64, 64], []], "Input Strides": [[64, 1], []], "Input type": ["float", "Scalar"]}
    copied = {**dims, "Input Dims": [[64, 64]] * 2, "Input Strides": [[64, 1]] * 2, "Input type": ["float"] * 2}
    return [
        event("cpu_op", "aten::cumsum", at, 9, **outer, **dims, **{"Concrete Inputs": ["", "0"]}),
        event("cpu_op", "aten::copy_", at + 1, 3, **inner, **copied, **{"Concrete Inputs": ["", ""]}),
        event("cuda_runtime", "cudaLaunchKernel", at + 2, 1, correlation=2 * number + 1, **inner),
        event("cuda_runtime", "cudaLaunchKernel", at + 6, 1, correlation=2 * number, **outer),
        kernel("copying", at + 10, 2 * number + 1, **{"External id": 2 * number + 1}),
        kernel("adding", at + 14, 2 * number, **{"External id": 2 * number}),
    ]


def test_what_calls_inside_of_a_call_launch_is_planned_beside_its_own_kernels(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    written(tmp_path / "one", "eager", nested, None)
    with kerneldb.open(tmp_path / "k.duckdb") as opened:
        opened.ingest([tmp_path / "one" / "step.eager.pt.trace.json"])
        items = opened.plan_replay(Request()).plan.items
        opened.sql("UPDATE ops SET start_ns = NULL", write=True)  # of a copy, say: it is in no plan
        with opened.warehouse.connection() as con:
            assert Recorded(con).inside(opened.sql("SELECT trace_id FROM traces").rows()[0]["trace_id"], 1) == []
    named = {item.spec.call.op: item for item in items if item.spec}
    own, below = named["aten::cumsum"].kernels, named["aten::cumsum"].below
    assert [[(one.name, one.grid, one.shared_bytes) for one in some] for some in (own, below)] == [
        [("adding", (1, 1, 1), 0)],
        [("copying", (1, 1, 1), 0)],
    ]
    assert named["aten::copy_"].below == ()


def captured_nested(at: float, number: int) -> list[dict[str, Any]]:
    """The nested call, captured: its fill of the graph is the copy, its product the sum."""
    calls = [one for one in nested(at + 10, number) if one["cat"] != "kernel"]
    begin = event("cuda_runtime", "cudaStreamBeginCapture", at, 1, correlation=900)
    return [begin, *calls, event("cuda_runtime", "cudaStreamEndCapture", at + 60, 1, correlation=904)]


def test_what_captured_calls_inside_of_a_call_launched_is_planned_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    folder.mkdir()
    modes = {"cuda_graph": (graph, STEPS), "cuda_graph_capture": (captured_nested, 1)}
    parts = [written(folder, mode, made, None, steps) for mode, (made, steps) in modes.items()]
    (folder / NAME).write_text(Recording("one", parts=parts).text())
    with kerneldb.open(tmp_path / "k.duckdb") as opened:
        opened.ingest([folder], run="one")
        items = opened.plan_replay(Request(traces=("one-step-cuda-graph",))).plan.items
    named = {item.spec.call.op: item for item in items if item.spec}
    assert {op: [one.name for one in item.below] for op, item in named.items()} == {
        "aten::cumsum": [FILL],
        "aten::copy_": [],
    }


def test_calls_alone_know_when_their_inputs_were_used(tmp_path: Path) -> None:
    """Three steps of one product on the same tensors: 16 KB each, between two of these one call."""
    planned(tmp_path / "recording")
    with kerneldb.open(tmp_path / "recording" / "k.duckdb") as opened:
        (item,) = opened.plan_replay(Request(traces=("one-step",))).plan.items
        (listed,) = opened.plan_replay(Request(traces=("one-step",), shown=True)).plan.items
    assert item.reuse == ((3 * 16384,), (3 * 16384,))
    assert listed.reuse == ()


def test_a_graph_that_is_launched_twice_in_a_step_is_not_one_capture(tmp_path: Path) -> None:
    """Each captured call would stand for two launches, and the step would be half of what ran."""

    def twice(at: float, number: int) -> list[dict[str, Any]]:
        return [*graph(at, number), *graph(at + 30, number + 500)]

    _, step = planned(tmp_path / "recording", capture=True, made=twice)
    assert not step.captured
    assert sum(len(call.recorded_ns) for call in step.calls) == 4


def test_two_recordings_of_one_run_have_their_own_captures(tmp_path: Path) -> None:
    with kerneldb.open(tmp_path / "k.duckdb") as opened:
        for number in range(2):
            planned(tmp_path / str(number), capture=True, base=number * 10**9)
            opened.ingest([tmp_path / str(number)], run="one")
        owners = opened.sql("SELECT trace, capture_trace, captures, op_id FROM graph_owners ORDER BY ALL").rows()
        plans = [opened.plan_replay(Request(in_context=True, traces=(row["trace"],))).plan for row in owners[::6]]
    assert {(row["trace"], row["capture_trace"], row["captures"]) for row in owners} == {
        ("one-step-cuda-graph", "one-step-cuda-graph-capture", 1),
        ("one-step-cuda-graph (2)", "one-step-cuda-graph-capture (2)", 1),
    }
    assert [plan.steps[0].captured for plan in plans] == [True, True]
