"""From the GPU activity to its call, operator, annotation and Python frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.ingest.traces import T0, Trace

if TYPE_CHECKING:
    from tests.ingest.conftest import Convert


def test_graph_kernels_share_a_correlation(convert: Convert) -> None:
    trace = Trace()
    trace.op("CompiledFunction", T0, 90_000, {"External id": 5})
    trace.api("cudaGraphLaunch", T0 + 10_000, 20_000, 50, {"External id": 5})
    for number in range(3):
        nodes = {"graph id": 2, "graph node id": 100 + number}
        trace.kernel(f"node{number}", T0 + 50_000 + number * 5_000, 4_000, 50, nodes)
    found = convert(trace)
    assert found.launches.select("launch_status", "graph_id", "graph_node_id").rows() == [
        ("graph", 2, 100),
        ("graph", 2, 101),
        ("graph", 2, 102),
    ]
    assert found.launches["api_call"].unique().to_list() == ["cudaGraphLaunch"]
    assert found.launches["call_id"].to_list() == [None] * 3, "the operator around the graph is not the kernels' own"


@pytest.mark.parametrize("call", ["hipGraphLaunch", "cudaGraphLaunch", "cuGraphLaunch"])
def test_graph_without_ids_is_told_by_its_call(convert: Convert, call: str) -> None:
    trace = Trace()
    trace.api(call, T0, 20_000, 50)
    trace.kernel("node", T0 + 50_000, 4_000, 50)
    assert convert(trace).launch("node")["launch_status"] == "graph"


def test_what_a_program_says_of_kernels_of_a_graph(convert: Convert) -> None:
    """torch/cuda/_annotate_cuda_graph_trace.py writes all values as text, those of collectives among them."""
    trace = Trace()
    trace.op("aten::relu", T0, 2_000)
    trace.api("cudaGraphLaunch", T0 + 10_000, 5_000, 40)
    node = {"graph id": 2, "graph node id": 8_589_934_592}
    for number, said in enumerate((
        {"str": "attention", "module_fqn": "layers.3.attn"},
        {"annotation": "('mlp', 1)"},
        {"Collective name": "allreduce", "In msg nelems": "1024", "Group size": "8", "dtype": "BFloat16"},
    )):  # fmt: skip
        trace.kernel(f"k{number}", T0 + 20_000 + 5_000 * number, 4_000, 40, {**node, **said})
    found = convert(trace)
    kernels = [found.launch(f"k{number}") for number in range(3)]
    assert [one["phase"] for one in kernels] == ["attention", "('mlp', 1)", None]
    assert [one["range_path"] for one in kernels] == ["attention", "('mlp', 1)", None]
    assert [one["module"] for one in kernels] == ["layers.3.attn", None, None]
    assert (kernels[2]["collective"], kernels[2]["collective_in_elements"], kernels[2]["group_size"]) == (
        "allreduce", 1024, 8,
    )  # fmt: skip


def test_launched_before_the_window(convert: Convert) -> None:
    trace = Trace()
    trace.kernel("early", T0, 4_000, 3)
    trace.launch("aten::relu", "relu", T0 + 10_000, 20)
    found = convert(trace)
    early = found.launch("early")
    assert (early["launch_status"], early["op"], early["api_call"]) == ("before_window", None, None)
    assert found.launch("relu")["launch_status"] == "linked"


def test_no_launch_call_though_within_the_window(convert: Convert) -> None:
    trace = Trace()
    trace.launch("aten::relu", "relu", T0, 20)
    trace.kernel("lost", T0 + 90_000, 4_000, 25)
    assert convert(trace).launch("lost")["launch_status"] == "no_launch"


def test_call_without_operator(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::relu", T0, 10_000)
    trace.api("cudaLaunchKernel", T0 + 20_000, 4_000, 20)
    trace.kernel("bare", T0 + 90_000, 4_000, 20)
    bare = convert(trace).launch("bare")
    assert (bare["launch_status"], bare["op_id"], bare["api_call"]) == ("no_op", None, "cudaLaunchKernel")


def test_missing_correlation(convert: Convert) -> None:
    trace = Trace()
    trace.launch("aten::relu", "relu", T0, 20)
    trace.kernel("none", T0 + 90_000, 4_000, None)
    none = convert(trace).launch("none")
    assert (none["correlation_id"], none["launch_status"]) == (None, "no_launch")


def test_correlation_zero_links_nothing(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::relu", T0, 10_000)
    trace.api("cudaDeviceSynchronize", T0 + 1_000, 1_000, 0)
    trace.kernel("none", T0 + 90_000, 4_000, 0)
    assert convert(trace).launch("none")["api_index"] is None


def test_trace_of_the_gpu_alone(convert: Convert) -> None:
    trace = Trace()
    trace.kernel("one", T0, 4_000, 1)
    found = convert(trace)
    assert found.launch("one")["launch_status"] == "no_launch"
    assert (found.trace["window_start_ns"], found.trace["window_end_ns"]) == (T0, T0 + 4_000)


def test_trace_without_gpu(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::relu", T0, 10_000)
    found = convert(trace)
    assert (found.trace["launches"], "launches" in found.manifest.parts, found.table("ops").height) == (0, False, 1)


def test_one_launch_on_two_streams(convert: Convert) -> None:
    """tb_plugin test_profiler.py:415: one runtime call, two kernels; the operator owns the time of both."""
    trace = Trace()
    trace.op("aten::mat_mul", T0, 200_000_000, {"External id": 2, "Input Dims": [[2, 2]]})
    trace.api("cudaLaunchCooperativeKernelMultiDevice", T0 + 10_000, 5_000, 334, {"External id": 2})
    trace.kernel("cat_kernel", T0 + 400_000, 101_000_000, 334, {"External id": 2}, stream=7)
    trace.kernel("cat_kernel", T0 + 500_000, 152_118_000, 334, {"External id": 2}, stream=8)
    found = convert(trace)
    launches = found.launches
    assert launches["stream"].to_list() == [7, 8]
    assert launches.filter(pl.col("op") == "aten::mat_mul")["duration_ns"].sum() == 253_118_000
    assert launches["call_ordinal"].to_list() == [0, 1]


def test_ordinals_count_the_launches_of_one_call(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::topk", T0, 90_000)
    for number in range(3):
        trace.api("cudaLaunchKernel", T0 + 10_000 + number * 10_000, 5_000, 60 + number)
        trace.kernel(f"stage{number}", T0 + 200_000 + number * 10_000, 5_000, 60 + number)
    trace.launch("aten::relu", "relu", T0 + 300_000, 70)
    found = convert(trace)
    assert found.launches.select("name", "call_ordinal").rows() == [
        ("stage0", 0),
        ("stage1", 1),
        ("stage2", 2),
        ("relu", 0),
    ]


def test_innermost_operator_wins(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::linear", T0, 90_000)
    trace.op("aten::addmm", T0 + 10_000, 50_000)
    trace.api("cudaLaunchKernel", T0 + 20_000, 5_000, 60)
    trace.kernel("gemm", T0 + 200_000, 5_000, 60)
    found = convert(trace)
    assert found.launch("gemm")["op"] == "aten::addmm"
    assert found.op("aten::addmm")["parent_id"] == found.op("aten::linear")["op_id"]
    assert (found.op("aten::linear")["depth"], found.op("aten::addmm")["depth"]) == (0, 1)


def test_operators_of_other_threads_do_not_own_a_call(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::linear", T0, 90_000, tid=2)
    trace.op("aten::linear", T0, 90_000, pid=101)
    trace.api("cudaLaunchKernel", T0 + 20_000, 5_000, 60)
    trace.kernel("gemm", T0 + 200_000, 5_000, 60)
    assert convert(trace).launch("gemm")["launch_status"] == "no_op"


def test_merged_processes_with_the_same_correlations(convert: Convert) -> None:
    trace = Trace()
    for pid, device, op in ((100, 0, "aten::relu"), (200, 1, "aten::mul")):
        external = {"External id": pid + 7}
        trace.op(op, T0, 50_000, external, pid=pid)
        trace.api("cudaLaunchKernel", T0 + 10_000, 5_000, 60, external, pid=pid)
        trace.kernel(f"{op}_kernel", T0 + 100_000, 5_000, 60, external, device=device)
    found = convert(trace)
    assert found.launches.sort("device").select("device", "process", "op").rows() == [
        (0, "100", "aten::relu"),
        (1, "200", "aten::mul"),
    ]


def test_merged_processes_that_nothing_tells_apart(convert: Convert) -> None:
    """The later of two calls is not more likely to be the one: no operator is better than that of another rank."""
    trace = Trace()
    for number, (pid, op) in enumerate(((100, "aten::relu"), (200, "aten::mul"))):
        trace.op(op, T0, 50_000, pid=pid)
        trace.api("cudaLaunchKernel", T0 + 10_000 + number, 5_000, 60, pid=pid)
        trace.kernel(f"{op}_kernel", T0 + 100_000, 5_000, 60, device=number)
    assert convert(trace).launches.select("op", "api_call", "process").unique().rows() == [(None, None, None)]


def test_reused_correlation_takes_the_call_before(convert: Convert) -> None:
    trace = Trace()
    for op, at in (("aten::relu", T0), ("aten::mul", T0 + 1_000_000)):
        trace.op(op, at, 50_000)
        trace.api("cudaLaunchKernel", at + 10_000, 5_000, 60)
        trace.kernel(f"{op}_kernel", at + 100_000, 5_000, 60)
    assert convert(trace).launches["op"].to_list() == ["aten::relu", "aten::mul"]


def test_backward_operator_finds_its_forward_operator(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::mul", T0, 9_000, {"Sequence number": 8, "Fwd thread id": 0})
    trace.op("aten::relu", T0 + 10_000, 9_000, {"Sequence number": 9, "Fwd thread id": 0})
    trace.op("ReluBackward0", T0 + 90_000, 9_000, {"Sequence number": 9, "Fwd thread id": 1}, tid=2)
    trace.op("MulBackward0", T0 + 100_000, 9_000, {"Sequence number": 8, "Fwd thread id": 1}, tid=2)
    found = convert(trace)
    assert found.op("ReluBackward0")["forward_op_id"] == found.op("aten::relu")["op_id"]
    assert found.op("MulBackward0")["forward_op_id"] == found.op("aten::mul")["op_id"]
    assert found.op("aten::mul")["forward_op_id"] is None


def test_the_last_operator_before_the_backward_made_its_node(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::linear", T0, 50_000, {"Sequence number": 8, "Fwd thread id": 0})
    trace.op("aten::addmm", T0 + 10_000, 9_000, {"Sequence number": 8, "Fwd thread id": 0})
    trace.op("AddmmBackward0", T0 + 90_000, 9_000, {"Sequence number": 8, "Fwd thread id": 1}, tid=2)
    trace.op("aten::neg", T0 + 200_000, 9_000, {"Sequence number": 8, "Fwd thread id": 0})
    found = convert(trace)
    assert found.op("AddmmBackward0")["forward_op_id"] == found.op("aten::addmm")["op_id"]


def test_backward_kernels_take_the_annotation_of_the_main_thread(convert: Convert) -> None:
    trace = Trace()
    trace.note("ProfilerStep#1", T0, 900_000)
    trace.note("backward", T0 + 1_000, 500_000)
    trace.op("MulBackward0", T0 + 100_000, 50_000, tid=2)
    trace.api("cudaLaunchKernel", T0 + 110_000, 5_000, 60, tid=2)
    trace.kernel("mul", T0 + 700_000, 5_000, 60)
    mul = convert(trace).launch("mul")
    assert (mul["phase"], mul["range_path"]) == ("backward", "ProfilerStep#1/backward")


def test_annotations_of_another_process_are_not_taken(convert: Convert) -> None:
    trace = Trace()
    trace.note("backward", T0, 900_000, pid=200)
    trace.launch("aten::relu", "relu", T0 + 10_000, 60)
    assert convert(trace).launch("relu")["phase"] is None


def test_phase_is_the_outermost_annotation_below_the_step(convert: Convert) -> None:
    trace = Trace()
    trace.note("ProfilerStep#4", T0, 900_000)
    trace.note("forward", T0 + 1_000, 500_000)
    trace.note("attention", T0 + 2_000, 300_000)
    trace.launch("aten::relu", "inner", T0 + 3_000, 60)
    trace.launch("aten::relu", "outer", T0 + 400_000, 61)
    trace.launch("aten::relu", "step", T0 + 600_000, 62)
    trace.launch("aten::relu", "outside", T0 + 950_000, 63)
    found = convert(trace)
    assert found.launches.select("name", "phase", "range_path").rows() == [
        ("inner", "forward", "ProfilerStep#4/forward/attention"),
        ("outer", "forward", "ProfilerStep#4/forward"),
        ("step", None, "ProfilerStep#4"),
        ("outside", None, None),
    ]
    ranges = found.table("ranges")
    names = dict(ranges.select("range_id", "name").iter_rows())
    assert names[found.launch("inner")["range_id"]] == "attention"


def test_gpu_annotation_around_a_graph_kernel_of_a_lost_call(convert: Convert) -> None:
    trace = Trace()
    trace.note("decode", T0, 90_000, cat="gpu_user_annotation", pid=0, tid=7)
    trace.kernel("inside", T0 + 10_000, 5_000, 60)
    trace.kernel("other_stream", T0 + 10_000, 5_000, 61, stream=8)
    trace.kernel("after", T0 + 95_000, 5_000, 62)
    found = convert(trace)
    assert found.launch("inside")["phase"] == "decode"
    assert found.launch("other_stream")["phase"] is None
    assert found.launch("after")["phase"] is None


def test_module_and_python_frame(convert: Convert) -> None:
    trace = Trace()
    trace.frame("nn.Module: Attention_0", T0, 900_000)
    trace.frame("nn.Module: Linear_3", T0 + 1_000, 500_000)
    trace.frame("torch/nn/modules/linear.py(124): forward", T0 + 2_000, 400_000, {"Python parent id": 1})
    trace.launch("aten::linear", "gemm", T0 + 3_000, 60)
    found = convert(trace)
    gemm = found.launch("gemm")
    assert (gemm["module"], gemm["python_line"]) == ("Linear_3", "torch/nn/modules/linear.py(124): forward")
    assert (found.op("aten::linear")["module"], found.trace["has_stacks"]) == ("Linear_3", True)


def test_the_line_is_of_a_frame_that_has_one(convert: Convert) -> None:
    """Functions that are not Python's have none, also one in another; without a frame around, they are named."""
    trace = Trace()
    trace.frame("model.py(7): forward", T0, 900_000)
    trace.frame("<built-in method apply of type object at 0x7f60>", T0 + 1_000, 500_000)
    trace.frame("<built-in function linear>", T0 + 2_000, 400_000)
    trace.launch("aten::linear", "gemm", T0 + 3_000, 60)
    trace.frame("<built-in method replay of CUDAGraph object at 0x7f61>", T0 + 1_000_000, 500_000)
    trace.launch("aten::relu", "relu", T0 + 1_003_000, 61)
    found = convert(trace)
    assert found.launch("gemm")["python_line"] == found.op("aten::linear")["python_line"] == "model.py(7): forward"
    assert (found.launch("relu")["python_line"] or "").startswith("<built-in method replay")


def test_module_hierarchy_and_call_stack_arguments(convert: Convert) -> None:
    trace = Trace()
    trace.launch(
        "aten::linear",
        "gemm",
        T0,
        60,
        {"Module Hierarchy": "TOP(Net).fc(Linear)", "Call stack": "a.py(3): f;b.py(4): g"},
    )
    found = convert(trace)
    op = found.op("aten::linear")
    assert (op["module"], op["call_stack"]) == ("TOP(Net).fc(Linear)", "a.py(3): f;b.py(4): g")
    assert found.launch("gemm")["module"] == "TOP(Net).fc(Linear)"


def test_unfinished_frame(convert: Convert) -> None:
    trace = Trace()
    trace.frame("a.py(1): f", T0, 900_000, {"finished": False})
    trace.frame("a.py(2): g", T0 + 1_000, 100_000)
    flags = dict(convert(trace).rows("ranges", "name", "finished"))
    assert flags["a.py(1): f"] is False
    assert flags["a.py(2): g"] is not False


def test_memory_event_belongs_to_the_operator_around_it(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::empty", T0, 50_000)
    trace.memory(T0 + 10_000, 512, 2**63 + 5)
    trace.memory(T0 + 90_000, -512, 2**63 + 5)
    found = convert(trace)
    columns = ("bytes", "address", "op_id", "device_type", "device", "total_allocated_bytes")
    op = found.op("aten::empty")["op_id"]
    assert found.rows("memory_events", *columns) == [
        (512, str(2**63 + 5), op, "cuda", 0, 4096),
        (-512, str(2**63 + 5), None, "cuda", 0, 4096),
    ]
