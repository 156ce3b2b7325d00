"""Events that the format allows, or that damaged writers make, where a reader may store a wrong number: none does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.ingest.doctor import diagnose_manifest, of_pytorch
from tests.ingest.traces import LAYOUTS, T0, Raw, Trace, kineto

if TYPE_CHECKING:
    from tests.ingest.conftest import Convert

SYNC = {"cuda_sync_kind": "Stream Wait Event", "device": 0, "context": 1, "correlation": 5}
LAID_OUT = pytest.mark.parametrize("layout", ["kineto", "kineto_2026", "compact", "indented"])


@LAID_OUT
def test_streams_that_are_none(convert: Convert, layout: str) -> None:
    """kineto casts CUPTI_SYNCHRONIZATION_INVALID_VALUE to -1, older versions to 4294967295."""
    trace = Trace()
    for stream in (-1, 2**32 - 1, 2**32, 0, 7, "nan", 1.5, Raw("18446744073709551615")):
        trace.span("cuda_sync", "Stream Wait Event", T0, 1_000, {**SYNC, "stream": stream, "wait_on_stream": stream})
    trace.span("cuda_sync", "Stream Wait Event", T0, 1_000, None)
    found = convert(LAYOUTS[layout](trace)).table("sync_events").sort("sync_index")
    known = found["stream"].to_list()
    assert found.height == 9
    assert known[:5] == [None, None, None, 0, 7]
    assert [known[place] for place in (5, 7, 8)] == [None, None, None]
    assert known == found["waits_on_stream"].to_list()


@pytest.mark.parametrize(("tid", "stream"), [(-1, None), (9, 9), ("stream 9", 9), ("GPU", None), (-9, None)])
def test_the_lane_of_a_kernel_without_a_stream(convert: Convert, tid: int | str, stream: int | None) -> None:
    """ONNX Runtime prints all kernels on lane -1, which is not stream 1."""
    trace = Trace()
    trace.span("kernel", "k", T0, 1_000, {"device": 0}, pid=0, tid=tid)
    assert convert(kineto(trace)).launches["stream"].to_list() == [stream]


def test_kinds_of_other_tools_keep_their_names(convert: Convert) -> None:
    trace = Trace()
    trace.span("cuda_sync", "Unknown Sync", T0, 1_000, {"cuda_sync_kind": "Unknown Sync"})
    trace.span("xpu_sync", "zeEventHostSynchronize", T0, 1_000, {})
    trace.span(
        "cuda_event", "cudaEvent", T0, 1, {"event_id": 3, "stream": 7, "correlation": 9, "device": 0, "context": 1}
    )
    rows = convert(trace).rows("sync_events", "kind", "name", "event_id", "stream")
    assert rows == [
        ("Unknown Sync", "Unknown Sync", None, None),
        ("zeEventHostSynchronize", "zeEventHostSynchronize", None, None),
        ("event_record", "cudaEvent", 3, 7),
    ]


@LAID_OUT
def test_numbers_that_are_texts_or_none(convert: Convert, layout: str) -> None:
    trace = Trace()
    shape = {
        "warps per SM": "4.5",
        "blocks per SM": "inf",
        "registers per thread": "many",
        "grid": "[1, 2]",
        "bytes": -1,
    }
    trace.kernel("odd", T0, 10, 1, shape)
    (row,) = convert(LAYOUTS[layout](trace)).launches.to_dicts()
    assert (row["warps_per_multiprocessor"], row["registers"], row["grid_x"]) == (4.5, None, None)
    assert row["blocks_per_multiprocessor"] in (None, float("inf"))
    assert row["bytes"] is None


def test_a_million_argument_names_in_one_event(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::add", T0, 10, {f"k{number}": number for number in range(20_000)})
    found = convert(trace)
    assert len(found.report("unread")) < 60
    assert found.table("ops").height == 1


@pytest.mark.parametrize("key", ['a"b', "a\\b", "a\nb", "é", "\u202e", "x" * 5_000, "", "[", "args"])
def test_any_argument_name(convert: Convert, key: str) -> None:
    trace = Trace()
    for _ in range(3):
        trace.op("aten::add", T0, 10, {key: 1, "Input Dims": [[2]]})
    found = convert(trace)
    said = [
        n for reason, n in found.report("unread").items() if reason.startswith("argument cpu_op") and "new" in reason
    ]
    assert said == [3] or (said and key in ('a"b', "a\\b", "a\nb"))
    assert found.table("op_calls")["input_dims"].to_list() == ["[[2]]"]


@pytest.mark.parametrize("layout", ["dumped", "compact", "indented"])
def test_arguments_that_are_no_object(convert: Convert, layout: str) -> None:
    trace = Trace()
    for value in ([1, 2], "text", 3, True):
        trace.add("X", "cpu_op", "aten::add", T0, dur=10, args=value)
    trace.add("X", "cpu_op", "aten::add", T0, dur=10)
    found = convert(LAYOUTS[layout](trace))
    assert found.table("ops").height == 5
    assert found.accounted == 5


@pytest.mark.parametrize(
    "groups", [[], {}, None, 3, "x", [3], [{"ranks": {}}], [{"pg_size": "8", "ranks": "[0, ...]"}]]
)
def test_any_process_groups(convert: Convert, groups: Any) -> None:
    job = {"rank": "1", "world_size": 2.0, "pg_config": groups, "backend": ["nccl"], "nccl_version": {"a": 1}}
    trace = Trace(metadata={"distributedInfo": job})
    trace.kernel("k", T0, 10, 1)
    found = convert(trace)
    assert (found.trace["rank"], found.trace["world_size"]) == (1, 2)
    assert "nccl" not in found.trace["metadata"]


def test_memory_events_that_contradict_each_other(convert: Convert) -> None:
    trace = Trace()
    trace.memory(T0, 64, 2**64 - 1, {"Total Allocated": -5, "Device Id": -1, "Device Type": 99})
    trace.memory(T0, -64, 0, {"Total Allocated": Raw("99999999999999999999"), "Device Id": 2**40})
    trace.add("i", "cpu_instant_event", "[OutOfMemory]", T0, s="t", args={"Bytes": 2**50, "Device Type": 1})
    found = convert(trace)
    rows = found.rows("memory_events", "bytes", "address", "device", "device_type")
    assert rows[0] == (64, str(2**64 - 1), None, "99")
    assert (rows[1][0], rows[1][2]) == (-64, None)
    assert any("OutOfMemory" in reason for reason in found.report("skipped"))


def test_captures_that_never_end_or_never_began(convert: Convert) -> None:
    trace = Trace()
    trace.api("cudaStreamEndCapture", T0, 10, 1)
    trace.api("cudaLaunchKernel", T0 + 100, 10, 2)
    trace.api("cudaStreamBeginCapture", T0 + 200, 10, 3)
    trace.api("cudaLaunchKernel", T0 + 300, 10, 4, tid=9)
    trace.api("cudaLaunchKernel", T0 + 400, 10, 5)
    found = convert(trace)
    said = [one for one in diagnose_manifest(found.manifest, of_pytorch).diagnostics if one.topic == "graph capture"]
    assert [one.message.split()[0] for one in said] in (["1"], [])
    assert all("no GPU" not in one.topic for one in said)


def test_counter_ranges_are_no_missing_activity(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::mm", T0, 10, {"Input Dims": [[2, 2]], "Input type": ["float"]})
    trace.span("cuda_profiler_range", "__profile__", T0, 100, {"smsp__inst_executed.sum": 5}, pid=0, tid=0)
    found = diagnose_manifest(convert(trace).manifest, of_pytorch).diagnostics
    assert {one.level for one in found if one.topic in ("no GPU events", "counters")} == {"ok"}


def test_devices_that_the_file_does_not_describe_are_named(convert: Convert) -> None:
    trace = Trace(metadata={"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]})
    trace.kernel("k", T0, 10, 1, {"device": 2})
    (said,) = [
        one for one in diagnose_manifest(convert(trace).manifest, of_pytorch).diagnostics if one.topic == "devices"
    ]
    assert "device 2" in said.message
    assert "`deviceProperties` lists 0" in said.message


@LAID_OUT
@pytest.mark.parametrize("cat", ["kernel", "cpu_op", "cuda_runtime", "user_annotation", "cuda_sync", "new_one"])
def test_events_that_say_nothing(convert: Convert, cat: str, layout: str) -> None:
    trace = Trace()
    trace.kernel("known", T0, 10, 1)
    trace.events.append({"ph": "X", "cat": cat, "name": "bare"})
    found = convert(LAYOUTS[layout](trace))
    assert "known" in found.launches["name"].to_list()
    assert sum(n for reason, n in found.report("note").items() if "without a time" in reason) == 1


def test_a_diagnosis_without_calls(convert: Convert) -> None:
    """Columns of a table that has no rows have their own types: a trace of kernels alone has no `api_calls`."""
    trace = Trace()
    trace.kernel("k", T0, 10, 1)
    assert diagnose_manifest(convert(trace).manifest, of_pytorch).diagnostics


def test_sizes_below_zero_are_none(convert: Convert) -> None:
    trace = Trace()
    trace.memcpy(T0, 10, 1, -1)
    trace.memset(T0 + 100, 10, 2, 0)
    assert convert(trace).launches.sort("launch_index")["bytes"].to_list() == [None, 0]


def test_a_second_array_of_events_is_counted(convert: Convert) -> None:
    trace = Trace()
    trace.kernel("k", T0, 10, 1)
    text = LAYOUTS["compact"](trace).rstrip().removesuffix("}") + ',"traceEvents":[{"ph":"X"},{"ph":"X"}]}'
    assert convert(text).report("lost") == {"event of a second `traceEvents`": 2}


def test_many_distinct_names_cost_time_in_proportion(convert: Convert) -> None:
    def seconds(count: int) -> float:
        trace = Trace()
        for number in range(count):
            trace.kernel(f"kernel_{number}<float, {number}>(int)", T0 + 1_000 * number, 500, number)
        text = LAYOUTS["compact"](trace)
        began = time.process_time()
        convert(text)
        return time.process_time() - began

    seconds(1_000)  # what is compiled and imported once
    assert seconds(8_000) < max(2.0, 12 * seconds(1_000))
