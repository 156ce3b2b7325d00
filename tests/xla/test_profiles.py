"""Profiles of XLA as a program wrote them, with figures from the files themselves."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api.planning import Request, feasibility
from kerneldb.ingest.ledger import UNKNOWN
from kerneldb.ingest.xla.diagnostics import diagnostics
from kerneldb.ingest.xla.rows import STATS
from tests.ingest.conversion import Converted
from tests.protobuf import message
from tests.rocprof.conversion import converted, launch_rows
from tests.xla.profiles import (
    KERNEL,
    Event,
    Plane,
    as_json,
    buffered,
    direct,
    instruction,
    kernel,
    module,
    program,
    shape,
    space,
)


def read(tmp_path: Path, data: bytes, name: str = "host.xplane.pb") -> Converted:
    path = tmp_path / name
    path.write_bytes(data)
    return converted(path)


def calls(trace: Converted) -> list[tuple[Any, ...]]:
    """Operation, shapes and way of finding them of each launch in order."""
    return [tuple(row.values()) for row in launch_rows(trace, "name", "op", "input_dims", "link_method")]


def test_a_kernel_says_its_launch(tmp_path: Path) -> None:
    row = launch_rows(
        read(tmp_path, space(direct())),
        *("start_ns", "duration_ns", "grid_x", "grid_y", "block_x", "registers", "static_shared_bytes"),
        *("shared_bytes", "occupancy", "stream", "device", "correlation_id", "graph_id", "context"),
    )[0]
    launch = {"grid_x": 8, "grid_y": 2, "block_x": 128, "registers": 32, "static_shared_bytes": 1024}
    place = {"stream": 7, "device": 0, "correlation_id": 1, "graph_id": 4, "context": 1}
    times = {"start_ns": 10_000, "duration_ns": 500}
    assert row == {**times, **launch, "shared_bytes": 1088, "occupancy": 0.5, **place}


def test_instructions_by_name_and_by_order(tmp_path: Path) -> None:
    operands, sum_ = "[[64, 128], [128, 32], []]", "[[64, 32]]"
    expected = [
        ("gemm_fusion_dot_5", "hlo::dot", operands),
        ("loop_add_fusion_1", "hlo::fusion", sum_),
        ("nvjet_sm90_tst", "hlo::dot", operands),
        ("loop_add_fusion_1", "hlo::fusion", sum_),
    ]
    assert calls(read(tmp_path, space(direct()))) == [(*one, "hlo_op") for one in expected]
    by_order = calls(read(tmp_path, space(buffered()), "buffered.xplane.pb"))
    assert by_order == [(*one, "order in the command buffer") for one in expected]


def test_a_buffer_of_what_a_loop_runs(tmp_path: Path) -> None:
    """Each turn launches the buffer anew; the two products and the two sums share kernels."""
    turns = [
        dataclasses.replace(event, start=event.start + 10_000 * turn, stats={**event.stats, "correlation_id": 2 + turn})
        for turn in range(3)
        for event in buffered()
    ]
    copied = Event("MemcpyD2D", 1_000, 5, {"hlo_op": "@copy.7", "hlo_module": "@jit_step", "program_id": 10})
    found = calls(read(tmp_path, space([copied, *turns], modules={"jit_step(10)": module(in_a_loop=True)})))
    way = "order in the command buffer"
    assert [row[1::2] for row in found] == [
        ("hlo::copy", "hlo_op"),
        *[("hlo::dot", way), ("hlo::fusion", way), ("hlo::dot", way), ("hlo::fusion", way)] * 3,
    ]


def test_counters_over_time(tmp_path: Path) -> None:
    name = "sm__cycles_active.sum"
    lines = {"Stream #7(Compute)": direct(), "_counters_": [Event(name, at, 0, {name: at / 2}) for at in (500, 1_000)]}
    trace = read(tmp_path, Plane("/device:GPU:1", lines).encoded())
    assert trace.rows("samples", "counter", "device", "ts_ns", "value") == [
        (name, 1, 500, 250.0),
        (name, 1, 1000, 500.0),
    ]
    assert trace.launches.height == len(direct())


def test_a_product_says_its_sizes(tmp_path: Path) -> None:
    rows = launch_rows(read(tmp_path, space(direct())), "op", "scalars")
    said = "bf16[64,128] x bf16[128,32] -> bf16[64,32], lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    assert [row["scalars"] for row in rows if row["op"] == "hlo::dot"] == [f'["", "", "{said}"]'] * 2


def test_a_buffer_with_a_collective(tmp_path: Path) -> None:
    """As two H100 recorded it (jax 0.11.2): NCCL runs between the fusions, and its instruction is in the schedule."""
    listed = [
        instruction(1, "x", "parameter", shape(64, 32)),
        instruction(2, "wrapped_tanh", "fusion", shape(64, 32), (1,)),
        instruction(3, "reduce_scatter.1", "reduce-scatter", shape(32, 32), (2,)),
        instruction(4, "loop_add_fusion", "fusion", shape(32, 32), (3,)),
        instruction(5, "all-gather.2", "all-gather-start", shape(64, 32), (4,)),
        instruction(6, "all-gather-done.2", "all-gather-done", shape(64, 32), (5,)),
    ]
    names = (
        "wrapped_tanh",
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
        "loop_add_fusion",
        "ncclDevKernel_AllGather",
    )
    ran = [kernel(name, 1_000 * n, "command_buffer_1", cuda_graph_id=4) for n, name in enumerate(names, 1)]
    found = calls(read(tmp_path, space(ran, modules={"jit_step(10)": program(*listed)})))
    ops = ("hlo::fusion", "hlo::reduce-scatter", "hlo::fusion", "hlo::all-gather")
    assert [row[1::2] for row in found] == [(op, "order in the command buffer") for op in ops]


def test_where_the_order_does_not_fit_names_count(tmp_path: Path) -> None:
    events = [*buffered(), kernel("loop_add_fusion_1", 20_000, "command_buffer_1")]
    found = calls(read(tmp_path, space(events)))
    assert [row[3] for row in found] == ["kernel name", "kernel name", None, "kernel name", "kernel name"]
    assert found[2][1] is None  # cuBLAS' kernel: which product it was is not known


def test_source_and_traced_function(tmp_path: Path) -> None:
    row = launch_rows(read(tmp_path, space(direct())), "module", "python_line")[0]
    assert row == {"module": "jit(step)/jvp()/dot_general", "python_line": "train.py:12"}


def test_the_annotation_of_the_program_is_the_phase(tmp_path: Path) -> None:
    trace = read(tmp_path, space(buffered()))
    row = launch_rows(trace, "phase", "range_path", "api_call")[0]
    assert row == {"phase": "forward", "range_path": "train/forward", "api_call": "cuGraphLaunch"}
    kinds = dict(trace.rows("ranges", "name", "kind"))
    assert kinds["inside"] == "xla"  # lies in a span of XLA
    assert kinds["$train.py:12 step"] == "python_function"
    assert trace.rows("memory_events", "bytes", "total_allocated_bytes", "device_type", "device", "address") == [
        (4096, 8192, "cuda", 0, "0x100")
    ]


def test_device_and_facts(tmp_path: Path) -> None:
    trace = read(tmp_path, space(direct()))
    (device,) = trace.rows("devices", "name", "arch", "multiprocessors", "clock_mhz")
    assert device == ("NVIDIA H200", "sm_90", 132, 1980.0)
    row = trace.trace
    assert (row["base_ns"], row["clock"], row["host"]) == (1_700_000_000_000_000_000, "epoch", "node1")


def test_lines_that_repeat_the_streams_do_not_count(tmp_path: Path) -> None:
    trace = read(tmp_path, space(direct()))
    assert trace.launches.height == 4
    assert trace.report("skipped")["line of a GPU XLA Ops: says again what the streams say"] == 4


def test_copies_and_fills(tmp_path: Path) -> None:
    details = {"memcpy_details": "kind_src:pinned kind_dst:device size:64 dest:0 async:1"}
    fill = {"Memset_details": "kind:device num_bytes:16 async:0"}
    events = [Event("MemcpyH2D", 1, 5, details), Event("MemcpyOther", 7, 5, details), Event("Memset 0", 13, 5, fill)]
    found = [tuple(row.values()) for row in launch_rows(read(tmp_path, space(events)), "kind", "bytes", "copy_kind")]
    assert found == [("memcpy", 64, "HtoD"), ("memcpy", 64, "HtoD"), ("memset", 16, None)]


SAME = (
    *("kind", "name", "start_ns", "duration_ns", "grid_x", "grid_y", "grid_z", "block_x", "registers", "shared_bytes"),
    *("static_shared_bytes", "occupancy", "stream", "device", "correlation_id", "graph_id", "bytes", "api_call"),
)


def test_both_files_say_the_same(tmp_path: Path) -> None:
    plain = read(tmp_path, as_json(buffered()), "host.trace.json")
    assert launch_rows(plain, *SAME) == launch_rows(read(tmp_path, space(buffered())), *SAME)
    assert plain.trace["era"] == "trace.json"


def test_a_json_names_instructions_only(tmp_path: Path) -> None:
    trace = read(tmp_path, as_json([kernel("loop_add_fusion_1", 1, "loop_add_fusion.2")]), "host.trace.json")
    assert calls(trace) == [("loop_add_fusion_1", "hlo::loop_add_fusion", None, "hlo_op")]


@pytest.mark.parametrize("first", ["host.xplane.pb", "host.trace.json"])
def test_a_session_counts_once(tmp_path: Path, first: str) -> None:
    files = {"host.xplane.pb": space(buffered()), "host.trace.json": as_json(buffered())}
    with kerneldb.open(tmp_path / "kernels.duckdb") as database:
        for name in (first, *(files.keys() - {first})):
            (tmp_path / name).write_bytes(files[name])
            database.ingest(tmp_path / name)
        assert database.sql("SELECT count(*) AS n, sum(duration_ns)::BIGINT AS ns FROM kernels").rows() == [
            {"n": 4, "ns": 2000}
        ]
        assert database.sql("SELECT era FROM traces WHERE is_primary").rows() == [{"era": "xplane"}]


@pytest.mark.parametrize("first", ["host.xplane.pb", "host.trace.json"])
def test_the_file_with_shapes_is_primary(tmp_path: Path, first: str) -> None:
    """Instructions that share a kernel have names of their own in the JSON, which then has more names."""
    ran = [kernel("loop_add_fusion_1", 1_000 * n, f"loop_add_fusion_with_a_long_name.{n}") for n in (1, 2)]
    json_too = [kernel("loop_add_fusion_1", 1_000 * n, f"another_name_{'of_a_fusion_' * n}.{n}") for n in (1, 2)]
    known = kernel("loop_add_fusion_1", 3_000, "loop_add_fusion.1")
    files = {"host.xplane.pb": space([*ran, known]), "host.trace.json": as_json([*json_too, known])}
    with kerneldb.open(tmp_path / "kernels.duckdb") as database:
        for name in (first, *(files.keys() - {first})):
            (tmp_path / name).write_bytes(files[name])
            database.ingest(tmp_path / name)
        assert database.sql("SELECT era FROM traces WHERE is_primary").rows() == [{"era": "xplane"}]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["host.xplane.pb", "host.trace.json"])
def test_replay_says_that_the_code_is_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(space(direct()) if name.endswith(".pb") else as_json(direct()))
    with kerneldb.open(tmp_path / "kernels.duckdb") as database:
        database.ingest(tmp_path / name)
        lines = feasibility(database.plan_replay(Request()).routes)
    reasons = {line["reason"] for line in lines[:-1]}
    assert all((reason or "").startswith("code that XLA generated or called") for reason in reasons)
    assert lines[-1]["replayable_pct"] == 0


def test_several_gpus(tmp_path: Path) -> None:
    second = Plane("/device:GPU:1", {"Stream #7(Compute)": direct()}).encoded()
    trace = read(tmp_path, space(direct(), second))
    assert trace.launches.group_by("device").len().sort("device").rows() == [(0, 4), (1, 4)]


@pytest.mark.parametrize("name", ["host.xplane.pb", "host.trace.json"])
def test_nothing_is_unknown(tmp_path: Path, name: str) -> None:
    trace = read(tmp_path, space(direct()) if name.endswith(".pb") else as_json(direct()), name)
    assert not [reason for reason in trace.report("skipped") if UNKNOWN in reason]


def of_hosts(*hosts: str) -> dict[str, Any]:
    """The JSON that a viewer writes of several machines: each GPU and thread is named with its machine."""
    document: dict[str, Any] = {"displayTimeUnit": "ns", "metadata": {}, "traceEvents": []}
    for number, host in enumerate(hosts):
        for row in json.loads(as_json(buffered()))["traceEvents"]:
            if row.get("name") == "process_name":
                row["args"] = {"name": f"{host} {row['args']['name']}"}
            if row.get("name") == "cuGraphLaunch (CudaGraph:4)":
                row["ts"] += number / 10
            if row:
                row["pid"] += 1000 * number
            document["traceEvents"].append(row)
    return document


def test_machines_named_before_their_gpus(tmp_path: Path) -> None:
    data = json.dumps(of_hosts("node-1.example", "node-2.example")).encode()
    trace = read(tmp_path, data, "trace.json")
    assert trace.trace["host"] == "node-1.example, node-2.example"
    rows = launch_rows(trace, "device", "start_ns", "launch_start_ns")
    assert Counter(row["device"] for row in rows) == {0: 4, 1: 4}  # both are GPU 0 of their machine
    assert {(row["device"], row["launch_start_ns"]) for row in rows} == {(0, 4_000), (1, 4_100)}
    assert sorted(trace.rows("memory_events", "device")) == [(0,), (1,)]
    assert trace.report("note")["GPUs with another number: several have the same one, or none can have it"] == 1


def test_a_single_machine_is_as_without_its_name(tmp_path: Path) -> None:
    plain, named = tmp_path / "plain", tmp_path / "named"
    plain.mkdir(), named.mkdir()
    one = read(plain, as_json(buffered()), "trace.json")
    sorted_keys = json.dumps(of_hosts("localhost"), sort_keys=True, indent=1).encode()
    other = read(named, sorted_keys, "trace.json")
    columns = ("name", "device", "start_ns", "launch_start_ns", "grid_x", "phase", "launch_status")
    assert launch_rows(other, *columns) == launch_rows(one, *columns)
    assert not [reason for reason in other.report("note") if "another number" in reason]


def test_what_a_copy_is_called_on_other_gpus(tmp_path: Path) -> None:
    details = {"memcpy_details": "kind_src:device kind_dst:pinned size:64 dest:0 async:1"}
    events = [Event("CopyDeviceToHost", 1, 5, details), Event("FillBuffer", 7, 5, {"memset_details": "num_bytes:8"})]
    found = [tuple(row.values()) for row in launch_rows(read(tmp_path, space(events)), "kind", "bytes", "copy_kind")]
    assert found == [("memcpy", 64, "DtoH"), ("memset", 8, None)]


def test_times_that_a_program_made_texts(tmp_path: Path) -> None:
    text = as_json(buffered()).decode()
    texts = re.sub(r'"(ts|dur)":([\d.]+)', r'"\1":"\2"', text)
    columns = ("start_ns", "duration_ns", "launch_start_ns")
    expected = launch_rows(read(tmp_path, text.encode(), "host.trace.json"), *columns)
    assert launch_rows(read(tmp_path, texts.encode(), "host.trace.json"), *columns) == expected


def test_calls_that_are_named_like_their_kernel(tmp_path: Path) -> None:
    """Without command buffers: what is told of a call is its kernel, not its function."""
    names = ("loop_add_fusion_1", "nvjet_sm90_tst", "cuMemsetD8Async", "MemcpyH2D")
    events = [Event(name, 10 * at, 5, {"correlation_id": at}) for at, name in enumerate(names, 1)]
    host_ = Plane("/host:CPU", {"main": events}).encoded()
    gpu = Plane("/device:GPU:0", {"Stream #7(Compute)": [kernel(names[0], 99, "x", correlation_id=1)]}).encoded()
    found = read(tmp_path, gpu + host_)
    assert found.rows("api_calls", "name", "details") == [
        ("LaunchKernel", names[0]),
        ("LaunchKernel", names[1]),
        ("cuMemsetD8Async", None),
        ("MemcpyH2D", None),
    ]
    assert launch_rows(found, "name", "api_call") == [{"name": names[0], "api_call": "LaunchKernel"}]


def test_the_correlation_0_is_none(tmp_path: Path) -> None:
    """What CUPTI does not know has the number 0: many kernels would have one call."""
    calls_ = Plane("/host:CPU", {"main": [Event("cuLaunchKernel", 1, 2, {"correlation_id": 0})]}).encoded()
    gpu = Plane("/device:GPU:0", {"Stream #7(Compute)": [kernel("k", 9, "k", correlation_id=0)]}).encoded()
    row = launch_rows(read(tmp_path, gpu + calls_), "correlation_id", "api_call")[0]
    assert row == {"correlation_id": None, "api_call": None}


def test_a_command_buffer_as_a_whole_is_said(tmp_path: Path) -> None:
    whole = Event("CudaGraphExec:11", 9, 50, {"correlation_id": 1, "cuda_graph_id": 11, "cuda_graph_exec_id": 11})
    trace = read(tmp_path, Plane("/device:GPU:0", {"Stream #7(CudaGraph)": [whole]}).encoded())
    assert [tuple(row.values()) for row in launch_rows(trace, "kind", "duration_ns")] == [("graph", 50)]
    assert trace.report("note")["CUDA graph recorded as a whole: its kernels are not in the file"] == 1
    said = {one.topic: (one.level, one.message) for one in diagnostics(trace.manifest)}
    assert said["command buffers"][0] == "warning"
    assert "HLO" not in said  # nothing can be said of kernels that are not there


def test_new_fields_are_named(tmp_path: Path) -> None:
    event = message((1, 1), (2, 0), (3, 7_000), (77, 1))
    line = message((2, "Stream #9(Compute)"), (4, event), (78, 1))
    trace = read(tmp_path, space(direct(), message((1, message((2, "/device:GPU:1"), (3, line), (79, 1))))))
    new = [reason for reason in trace.report("skipped") if reason.endswith(UNKNOWN)]
    assert sorted(new) == [
        f"field {number} of a {what}: {UNKNOWN}" for number, what in ((77, "event"), (78, "line"), (79, "plane"))
    ]


def test_new_planes_lines_and_values_are_named(tmp_path: Path) -> None:
    new = [kernel("k", 1, "loop_add_fusion.1", qubits=4)]
    gpu = Plane("/device:GPU:1", {"Stream #9(Compute)": new, "Moods": new, "XLA Ops": new})
    trace = read(tmp_path, space(direct(), gpu.encoded(), Plane("Quantum", {"a": new}).encoded()))
    found = {reason for reason in (*trace.report("skipped"), *trace.report("unread")) if UNKNOWN in reason}
    parts = ("plane Quantum", "line of a GPU Moods", f"{STATS.part} qubits")
    assert found == {f"{part}: {UNKNOWN}" for part in parts}


def test_new_entries_and_phases_of_json_are_named(tmp_path: Path) -> None:
    document = json.loads(as_json(direct()))
    document["moods"] = [1]
    document["traceEvents"].append({"ph": "b", "pid": 1, "name": "later"})
    skipped = read(tmp_path, json.dumps(document).encode(), "host.trace.json").report("skipped")
    assert {reason for reason in skipped if UNKNOWN in reason} == {
        f"entry moods: {UNKNOWN}",
        f"events of phase b: {UNKNOWN}",
    }


def test_new_keys_of_json_are_named(tmp_path: Path) -> None:
    document = json.loads(as_json(direct()))
    document["traceEvents"][5]["tts"] = 5
    trace = read(tmp_path, json.dumps(document).encode(), "host.trace.json")
    assert trace.report("unread")[f"key of events tts: {UNKNOWN}"] == 1
    assert len(launch_rows(trace, "duration_ns")) == 4


def test_texts_that_are_packed(tmp_path: Path) -> None:
    packed = gzip.compress(KERNEL.encode())
    event = message((1, 1), (2, 0), (3, 7_000), (4, message((1, 1), (8, packed))))
    names = [(4, message((1, 1), (2, message((2, "k"))))), (5, message((1, 1), (2, message((2, "kernel_details")))))]
    plane = message((2, "/device:GPU:1"), (3, message((2, "Stream #9(Compute)"), (4, event))), *names)
    found = launch_rows(read(tmp_path, space(direct(), message((1, plane)))), "device", "registers")
    assert [row["registers"] for row in found if row["device"] == 1] == [32]
