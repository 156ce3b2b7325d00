"""Perfetto traces: what rocprofv3, PyTorch conversions and Android's render stages write, with known figures."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any

import pytest

from kerneldb.errors import NotATraceError
from kerneldb.ingest.ledger import UNKNOWN
from tests.ingest.conversion import Converted
from tests.perfetto.traces import BEGIN, COUNTER, annotation, begin, call, dispatch, end, packet, rocprofv3, track
from tests.protobuf import message
from tests.rocprof.conversion import converted, launch_rows


def trace_of(tmp_path: Path, data: bytes, name: str = "run_results.pftrace") -> Converted:
    path = tmp_path / name
    path.write_bytes(data)
    return converted(path)


def rows(trace: Converted, *columns: str) -> list[dict[str, Any]]:
    return launch_rows(trace, *columns)


def test_rocprofv3(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, rocprofv3())
    found = rows(trace, "kind", "name", "start_ns", "duration_ns", "device", "queue", "api_call", "phase", "bytes")
    gemm = {"start_ns": 3_000, "duration_ns": 500, "device": 0, "queue": 1, "api_call": "hipLaunchKernel"}
    assert found[0] == {"kind": "kernel", "name": "gemm_kernel(float*)", **gemm, "phase": "prefill", "bytes": None}
    assert [row["phase"] for row in found] == ["prefill", None, None]
    assert [row["duration_ns"] for row in found] == [500, 250, 800]
    assert found[2]["bytes"] == 4096
    assert found[2]["kind"] == "memcpy"
    sizes = rows(trace, "total_blocks", "threads_per_block", "shared_bytes", "copy_kind")
    assert sizes[0] == {"total_blocks": 16, "threads_per_block": 64, "shared_bytes": 512, "copy_kind": None}
    assert sizes[2]["copy_kind"] == "HtoD"
    assert trace.manifest.trace["source"] == "rocprofv3"
    assert trace.manifest.name == "run"
    assert trace.table("api_calls").height == 2


def test_compressed_packets_hold_the_same(tmp_path: Path) -> None:
    packed = packet((50, zlib.compress(rocprofv3())))
    plain, small = trace_of(tmp_path, rocprofv3()), trace_of(tmp_path, packed, "packed.pftrace")
    columns = ("name", "start_ns", "duration_ns", "api_call", "phase")
    assert rows(plain, *columns) == rows(small, *columns)


def interned(field: int, number: int, text: str) -> tuple[int, bytes]:
    return field, message((1, number), (2, text))


def test_interned_names_and_incremental_clocks(tmp_path: Path) -> None:
    clocks = message((1, [message((1, 6), (2, 50_000)), message((1, 64), (2, 0), (3, 1), (4, 1000))]))
    defaults = message((58, 64), (11, message((11, 7))))
    names = message(interned(1, 1, "kernel"), interned(2, 5, "fused_kernel"), interned(3, 2, "stream"))
    first = packet((6, clocks), (59, defaults), (12, names), (13, 1))
    said = message((1, 2), (3, 13))
    grid = [annotation("grid", [4, 2, 1]), annotation("block", [128, 1, 1]), annotation("device", 1)]
    start = packet((8, 10), (11, message((9, 1), (3, 1), (10, 5), (4, [said, *grid]))))
    stop = packet((8, 3), (11, message((9, 2))))
    (row,) = rows(
        trace_of(tmp_path, first + start + stop),
        *("name", "start_ns", "duration_ns", "stream", "device", "grid_x", "grid_y", "block_x"),
    )
    # The clock ticks in µs from 50,000 ns: 10 ticks later the slice begins, 3 ticks after that it ends.
    times = {"start_ns": 60_000, "duration_ns": 3_000}
    shape = {"grid_x": 4, "grid_y": 2, "block_x": 128}
    assert row == {"name": "fused_kernel", **times, "stream": 13, "device": 1, **shape}


def test_render_stages_and_counters(tmp_path: Path) -> None:
    names = message((24, [message((1, 1), (2, "compute queue")), message((1, 2), (2, "Compute"))]))
    launch = message((1, message((1, 8), (2, 1), (3, 1))), (2, message((1, 64), (2, 1), (3, 1))))
    stage = message((1, 77), (2, 1_500), (13, 1), (14, 2), (11, 0), (21, launch))
    counter = message((1, message((1, message((1, 4), (2, "GPU busy"))))), (2, message((1, 4), (3, 0.5))), (3, 0))
    data = packet((12, names), (8, 100), (53, stage)) + packet((8, 200), (52, counter))
    trace = trace_of(tmp_path, data, "android.perfetto-trace")
    (row,) = rows(trace, "name", "start_ns", "duration_ns", "device", "queue", "grid_x", "block_x")
    place = {"device": 0, "queue": 1, "grid_x": 8, "block_x": 64}
    assert row == {"name": "Compute", "start_ns": 100, "duration_ns": 1_500, **place}
    assert trace.rows("samples", "counter", "value", "ts_ns") == [("GPU busy", 0.5, 200)]


def test_several_gpus_are_numbered_by_their_agents(tmp_path: Path) -> None:
    kernels = [dispatch(1_000 * n, 1_000 * n + 10, "k", n, queue=n, agent=f"Agent-{2 + n}") for n in (1, 2)]
    assert [row["device"] for row in rows(trace_of(tmp_path, b"".join(kernels)), "device")] == [0, 1]
    named = [dispatch(1_000 * n, 1_000 * n + 10, "k", n, queue=n, agent=f"GPU-{n + 3}") for n in (1, 2)]
    assert [row["device"] for row in rows(trace_of(tmp_path, b"".join(named), "named.pftrace"), "device")] == [4, 5]


def test_nothing_of_rocprofv3_is_unknown(tmp_path: Path) -> None:
    reasons = trace_of(tmp_path, rocprofv3()).report("skipped")
    assert not [reason for reason in reasons if UNKNOWN in reason]


def test_a_trace_without_gpu_work_is_refused_by_what_it_holds(tmp_path: Path) -> None:
    data = track(70, "main", 60, 70) + call(10, 20, "open", 1, "syscall") + packet((1, message((1, 0))))
    with pytest.raises(NotATraceError, match=r"without GPU work \(it holds slices of syscall, ftrace_events\)"):
        trace_of(tmp_path, data)


def test_unfinished_slices_have_no_duration(tmp_path: Path) -> None:
    data = track(1001, "COMPUTE") + begin(5_000, "k", "kernel_dispatch", 1001)
    (row,) = rows(trace_of(tmp_path, data), "start_ns", "duration_ns")
    assert row == {"start_ns": 5_000, "duration_ns": None}


def test_spans_of_the_host_are_counted(tmp_path: Path) -> None:
    data = rocprofv3() + begin(10, "aten::mm", "cpu_op", 70) + end(20, 70)
    reason = "slices of category cpu_op: a span of the host that is neither call nor marker"
    assert trace_of(tmp_path, data).report("skipped")[reason] == 1


def test_rocprof_sys(tmp_path: Path) -> None:
    said = {"begin_ns": 10, "end_ns": 30, "grid_size": "(1024,2,1)", "workgroup_size": "(64,1,1)", "corr_id": 4}
    copy = {"begin_ns": 40, "end_ns": 50}
    data = begin(10, "k", "rocm_kernel_dispatch", 9, **said) + end(30, 9)
    data += begin(40, "CopyHostToDevice", "device_hip", 9, **copy) + end(50, 9)
    first, second = rows(trace_of(tmp_path, data), "kind", "grid_x", "grid_y", "block_x", "copy_kind")
    assert first == {"kind": "kernel", "grid_x": 16, "grid_y": 2, "block_x": 64, "copy_kind": None}
    assert (second["kind"], second["copy_kind"]) == ("memcpy", "HtoD")


@pytest.mark.parametrize("field", [2, 10, 13])
def test_a_counter_has_the_name_of_its_track(tmp_path: Path, field: int) -> None:
    """The SDK writes names that are constants as `static_name`."""
    known = packet((60, message((1, 500), (field, "Power"), (8, message((4, 1000))))))
    data = rocprofv3() + known + packet((8, 10), (11, message((9, COUNTER), (11, 500), (30, 7))))
    assert trace_of(tmp_path, data).rows("samples", "counter", "value") == [("Power", 7_000.0)]


def test_counters_that_count_on(tmp_path: Path) -> None:
    known = packet((60, message((1, 500), (2, "Energy"), (8, message((5, 1))))))
    steps = [
        packet((8, at), (11, message((9, COUNTER), (11, 500), (44, step))))
        for at, step in ((10, 0.5), (11, 0.75), (12, math.nan))
    ]
    values = [value for (value,) in trace_of(tmp_path, rocprofv3() + known + b"".join(steps)).rows("samples", "value")]
    assert values[:2] == [0.5, 1.25]
    assert math.isnan(values[2])


def test_what_is_new_in_an_event_is_named(tmp_path: Path) -> None:
    event = message((9, BEGIN), (11, 5), (22, "kernel"), (23, "k"), (31, 500), (12, 88), (99, b"x"))
    unread = trace_of(tmp_path, packet((8, 5), (11, event)) + end(9, 5)).report("unread")
    wanted = ("99", "extra_counter_track_uuids", "extra_counter_values")
    assert sorted(reason.partition(":")[0] for reason in unread) == [f"field of events {name}" for name in wanted]


def test_a_new_argument_of_a_kernel_is_named(tmp_path: Path) -> None:
    """Those of the host are not: a program annotates its own spans with what it likes."""
    data = begin(1, "k", "kernel", 5, qubits=3, queue=1) + end(2, 5) + begin(3, "span", "nvtx", 6, mood=4) + end(4, 6)
    assert trace_of(tmp_path, data).report("unread") == {f"argument of GPU slices qubits: {UNKNOWN}": 1}


def test_packets_packed_twice_are_counted(tmp_path: Path) -> None:
    once = message((1, message((50, zlib.compress(begin(1, "k", "kernel", 5) + end(2, 5))))))
    data = rocprofv3() + message((1, message((50, zlib.compress(once)))))
    assert (
        trace_of(tmp_path, data).report("skipped")["packets packed packets in packed packets: no tool writes them"] == 1
    )
