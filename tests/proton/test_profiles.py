"""Trees and timelines of Proton: sums against those of the tree itself, scopes, and hostile files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kerneldb
from kerneldb.errors import NotATraceError, TraceError, UnreadableTraceError
from kerneldb.ingest.ledger import UNKNOWN
from kerneldb.ingest.readers import Head, find
from tests.ingest.conversion import Converted
from tests.rocprof.conversion import converted, launch_rows

DEVICES = {"CUDA": {"0": {"arch": "90", "clock_rate": 1_980_000, "memory_clock_rate": 2_619_000, "num_sms": 132}}}


def node(name: str, *children: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    """A frame of a tree."""
    return {"children": list(children), "frame": {"name": name, "type": "function"}, "metrics": metrics}


def kernel(name: str, count: int, total: int, **more: Any) -> dict[str, Any]:
    """A kernel of a tree."""
    return node(name, **{"count": count, "time (ns)": total, "device_id": "0", "device_type": "CUDA", **more})


def tree() -> list[dict[str, Any]]:
    """Two kernels in scopes, one of them also outside, below Python frames."""
    inner = node("mlp", kernel("gemm", 2, 600), kernel("add", 4, 40, num_samples=7), **{"flops": 2.5e9})
    frame = node("/src/run.py:12@main", node("prefill", inner), kernel("gemm", 1, 350))
    return [node("ROOT", frame, **{"count": 0, "time (ns)": 0}), DEVICES]


def timeline(*events: dict[str, Any]) -> str:
    """One stream on a line."""
    return json.dumps({"displayTimeUnit": "us", "traceEvents": list(events)}, separators=(",", ":"))


def event(name: str, ts: Any, dur: Any, stream: Any, *scopes: str) -> dict[str, Any]:
    """A launch of a timeline."""
    stack = {"call_stack": ["ROOT", *scopes, name]}
    return {"args": stack, "cat": "kernel", "dur": dur, "name": name, "ph": "X", "tid": stream, "ts": ts}


def read(tmp_path: Path, text: str | bytes, name: str = "run.hatchet") -> Converted:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return converted(path)


def test_a_tree_is_summed_by_kernel_and_by_scope(tmp_path: Path) -> None:
    trace = read(tmp_path, json.dumps(tree()))
    names = dict(trace.rows("kernel_names", "name_id", "name"))
    ids = {one: names[other] for one, other in trace.rows("signatures", "signature_id", "name_id")}
    found = {
        (ids[one], origin, phase): (n, total)
        for one, origin, phase, n, total in trace.rows("rollups", "signature_id", "origin", "phase", "n", "total_ns")
    }
    assert found == {
        ("gemm", "report", None): (1, 350),
        ("gemm", "report", "prefill"): (2, 600),
        ("add", "report", "prefill"): (4, 40),
    }
    assert trace.rows("devices", "arch", "multiprocessors", "clock_mhz") == [("sm_90", 132, 1980.0)]


def test_kernels_of_one_sum_are_each_counted(tmp_path: Path) -> None:
    scopes = node("a", kernel("gemm", 1, 5)), node("b", kernel("gemm", 2, 6))
    found = read(tmp_path, json.dumps([node("ROOT", node("step", *scopes)), DEVICES]))
    assert found.table("rollups").select("n", "total_ns").rows() == [(3, 11)]
    assert found.accounted == found.report("read")["frames"]


def test_scopes_keep_their_values(tmp_path: Path) -> None:
    trace = read(tmp_path, json.dumps(tree()))
    ranges = {name: (kind, path) for name, kind, path in trace.rows("ranges", "name", "kind", "path")}
    assert ranges == {
        "/src/run.py:12@main": ("python_function", None),
        "prefill": ("scope", "prefill"),
        "mlp": ("scope", "prefill/mlp"),
    }
    values = dict(trace.rows("metrics", "metric", "value"))
    assert values == {"flops": 2.5e9, "num_samples": 7.0}


def test_lists_and_texts_are_counted(tmp_path: Path) -> None:
    """Since 2026 a program may give several numbers, or a text, under one name."""
    scope = node("s", kernel("k", 1, 5, sizes=[1, 2, 3]), **{"label": "x", "tokens": 7})
    trace = read(tmp_path, json.dumps([node("ROOT", scope), DEVICES]))
    assert trace.rows("metrics", "metric", "value") == [("tokens", 7.0)]
    assert trace.report("unread") == {"values of frames that are no numbers: lists and texts": 2}


def test_names_of_older_versions(tmp_path: Path) -> None:
    old = node("k", **{"Count": 3, "Time (ns)": 30, "DeviceId": "1", "DeviceType": "HIP"})
    trace = read(tmp_path, json.dumps([node("ROOT", old), {}]))
    assert trace.rows("rollups", "n", "total_ns", "device") == [(3, 30, 1)]


def test_a_timeline(tmp_path: Path) -> None:
    lines = [
        timeline(event("b", 5.25, 1.5, 7, "step", "mlp"), event("a", 0.0, 2.001, 7)),
        timeline(event("c", 3, 1, 9)),
    ]
    trace = read(tmp_path, "\n".join(lines) + "\n", "run.chrome_trace")
    found = [
        tuple(row.values())
        for row in launch_rows(trace, "name", "start_ns", "duration_ns", "stream", "phase", "range_path")
    ]
    assert found == [
        ("a", 0, 2_001, 7, None, None),
        ("c", 3_000, 1_000, 9, None, None),
        ("b", 5_250, 1_500, 7, "step", "step/mlp"),
    ]
    assert not [reason for reason in trace.report("skipped") if UNKNOWN in reason]


def named(lane: int, name: str) -> dict[str, Any]:
    """What tells the name of a lane."""
    return {"ph": "M", "pid": 0, "tid": lane, "name": "thread_name", "args": {"name": name}}


def test_a_timeline_of_lanes(tmp_path: Path) -> None:
    """Since 2026 `tid` is a lane, with scopes of the host and flows beside the kernels, and values of kernels."""
    scope = {"ph": "X", "cat": "scope", "name": "step", "pid": 0, "tid": 4711, "ts": 0.0, "dur": 9.0}
    flow = {"ph": "s", "cat": "flow", "name": "launch->kernel", "pid": 0, "tid": 4711, "ts": 0.0, "id": 1}
    late, early = event("b", 5.0, 1.0, 200_009, "step"), event("a", 1.0, 2.5, 200_007, "step")
    late["args"]["metrics"] = {"flops": "100.000000", "shape": "[1,2]"}
    lanes = (named(4711, "CPU Thread 4711"), named(200_007, "GPU Stream 7"), named(200_009, "GPU Stream 9"))
    found = read(tmp_path, timeline(*lanes, scope, flow, late, early), "run.chrome_trace")
    rows = [tuple(row.values()) for row in launch_rows(found, "name", "stream", "phase", "duration_ns")]
    assert rows == [("a", 7, "step", 2_500), ("b", 9, "step", 1_000)]
    assert found.rows("metrics", "launch_index", "metric", "value") == [(1, "flops", 100.0)]


def test_a_timeline_that_was_laid_out_over_lines(tmp_path: Path) -> None:
    text = json.dumps(json.loads(timeline(event("a", 1.0, 2.5, 7))), indent=2)
    assert read(tmp_path, text, "run.chrome_trace").launches["duration_ns"].to_list() == [2_500]


def test_sums_count_in_the_database(tmp_path: Path) -> None:
    (tmp_path / "run.hatchet").write_text(json.dumps(tree()))
    with kerneldb.open(tmp_path / "kernels.duckdb") as database:
        database.ingest(tmp_path / "run.hatchet")
        sums = "SELECT sum(n)::BIGINT AS n, sum(total_ns)::BIGINT AS ns FROM kernel_rollups"
        assert database.sql(sums).rows() == [{"n": 7, "ns": 990}]
        phases = {row["phase"]: (row["n"], row["total_ns"]) for row in database.top("phase").rows()}
        assert phases == {"prefill": (6, 640), None: (1, 350)}


def test_a_time_that_is_not_there_is_not_zero(tmp_path: Path) -> None:
    lacking = {"time (ns)": None}
    kernels = [kernel("never", 2, 0, **lacking), kernel("once", 1, 0, **lacking), node("s", kernel("once", 1, 9))]
    found = read(tmp_path, json.dumps([node("ROOT", *kernels), DEVICES]))
    rows = found.table("rollups").sort("timed", "n")
    assert rows.select("n", "timed", "total_ns").rows() == [(1, 0, None), (2, 0, None), (1, 1, 9)]
    assert found.report("note")["sums of kernels without a time"] == len(lacking) + 1


def deep(levels: int) -> str:
    """A tree of so many levels with a kernel at the bottom, beside one at the top."""
    bottom = json.dumps(kernel("deep", 1, 5))
    head = '{"children":[' * levels
    tail = '],"frame":{"name":"s","type":"function"},"metrics":{}}' * levels
    return f"[{json.dumps(node('ROOT', kernel('top', 1, 5)))[:-1]}}},{head}{bottom}{tail}]"


HOSTILE = {
    "negative": [node("ROOT", kernel("back", -3, -5), kernel("good", 1, 7))],
    "texts": [node("ROOT", kernel("good", 1, 7), node("bad", **{"count": "x", "time (ns)": "y"}))],
    "absurd": [node("ROOT", kernel("huge", 2, 10**30), kernel("good", 1, 7))],
    "no frame": [node("ROOT", kernel("good", 1, 7)), {"frame": None, "metrics": [], "children": {}}],
    "odd children": [{**node("ROOT"), "children": [kernel("good", 1, 7), 5, None, "x", []]}],
    "odd device": [node("ROOT", kernel("good", 1, 7, device_id="-9" * 40)), {"CUDA": {"x": {}, "0": 5}, "HIP": 3}],
    "booleans": [node("ROOT", kernel("good", 1, 7), node("bad", **{"count": True, "time (ns)": True}))],
    "infinite": [node("ROOT", kernel("good", 1, 7, flops=1e308))],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_trees(tmp_path: Path, what: str) -> None:
    trace = read(tmp_path, json.dumps(HOSTILE[what]))
    sums = trace.rows("rollups", "n", "total_ns")
    assert (1, 7) in sums
    assert all(n >= 0 and (total is None or total >= 0) for n, total in sums)


LOST = {
    "texts": {"`count` of a frame that is no number": 1},
    "children": {"`children` of a frame that is no list": 1},
    "child": {"child of a frame that is none": 2},
    "no count": {"`time (ns)` of a frame that counts no kernel": 1},
    "metrics": {"`metrics` of a frame that is no object": 1},
    "parts": {"part of the file that is no frame": 2},
}
BROKEN = {
    "texts": [node("ROOT", kernel("good", 1, 7), node("bad", **{"count": "x", "time (ns)": "y"}))],
    "children": [node("ROOT", kernel("good", 1, 7), node("bad") | {"children": "x"})],
    "child": [node("ROOT", kernel("good", 1, 7), node("bad") | {"children": [5, None]})],
    "no count": [node("ROOT", kernel("good", 1, 7), node("bad", **{"time (ns)": 5}))],
    "metrics": [node("ROOT", kernel("good", 1, 7), node("bad") | {"metrics": "x"})],
    "parts": [node("ROOT", kernel("good", 1, 7)), 5, "x"],
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_a_broken_frame_loses_is_counted(tmp_path: Path, what: str) -> None:
    trace = read(tmp_path, json.dumps(BROKEN[what]))
    assert trace.rows("rollups", "n", "total_ns") == [(1, 7)]
    assert trace.report("lost") == LOST[what]


@pytest.mark.parametrize("time", [math.nan, math.inf, "x"])
def test_a_time_that_is_no_number_is_counted(tmp_path: Path, time: object) -> None:
    packed = msgspec.msgpack.encode(
        [
            {
                "frame": {"name": "ROOT", "type": "function"},
                "metrics": {},
                "children": [kernel("good", 1, 7), kernel("bad", 1, time)],
            }
        ]
    )
    trace = read(tmp_path, packed, "run.hatchet_msgpack")
    assert sorted(trace.rows("rollups", "n", "timed", "total_ns")) == [(1, 0, None), (1, 1, 7)]
    assert trace.report("unread") == {"`time (ns)` of a frame that is no number": 1}


def test_odd_events_of_a_timeline_are_counted(tmp_path: Path) -> None:
    good = event("gemm", 1.5, 2.0, 7)
    odd = good | {"ts": "x", "args": {"call_stack": "x", "stream_id": -1}}
    text = json.dumps({"traceEvents": [good, odd, 5, good | {"args": 5}]}) + '\n[1]\n{"traceEvents": 5}'
    trace = read(tmp_path, text, "run.chrome_trace")
    assert trace.launches["start_ns"].to_list() == [1_500, 1_500, None]
    assert trace.report("unread") == {
        "`ts` of a kernel that is no number": 1,
        "`stream_id` of a kernel that is no number": 1,
    }
    assert trace.report("lost") == {
        "event that is no object": 3,
        "`args` of a kernel that is no object": 1,
        "`call_stack` of a kernel that is no list": 1,
    }


def test_a_tree_without_end(tmp_path: Path) -> None:
    trace = read(tmp_path, deep(300))
    assert sorted(trace.rows("rollups", "n", "total_ns")) == [(1, 5), (1, 5)]
    with pytest.raises(UnreadableTraceError, match=r"nest 200,00\d levels deep.*shadow"):
        read(tmp_path, deep(100_000), "endless.hatchet")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_cut_files_are_refused(tmp_path: Path, share: float) -> None:
    text = json.dumps(tree())
    with pytest.raises(UnreadableTraceError, match="cut or damaged"):
        read(tmp_path, text[: int(len(text) * share)])


@pytest.mark.parametrize("data", [b"", b"[]", b"hello", b"\x00\x01", b"[[1, 2]]", b"{}"])
def test_others_are_refused(tmp_path: Path, data: bytes) -> None:
    assert find(Head(tmp_path / "some.json", data)) is None
    with pytest.raises(TraceError):
        read(tmp_path, data)


@pytest.mark.parametrize("value", [None, "x", -5, 1e300, [], {}])
def test_hostile_times(tmp_path: Path, value: Any) -> None:
    text = timeline(event("good", 1, 2, 3), event("odd", value, value, value))
    rows = launch_rows(read(tmp_path, text, "run.chrome_trace"), "name", "duration_ns")
    assert {row["name"]: row["duration_ns"] for row in rows} == {"good": 2_000, "odd": None}


def test_a_timeline_of_warps_is_refused(tmp_path: Path) -> None:
    warp = {**event("load", 1, 2, "warp 0"), "cat": "cta 0", "pid": "kernel SM0"}
    with pytest.raises(NotATraceError, match="events: cta 0"):
        read(tmp_path, timeline(warp), "run.chrome_trace")


def test_a_packed_tree(tmp_path: Path) -> None:
    """As `hatchet_msgpack` has it, in which root and devices stand as in JSON."""
    root, devices = tree()
    ordered = {key: root[key] for key in ("frame", "metrics", "children")}
    packed = msgspec.msgpack.encode([ordered, devices])
    one, other = read(tmp_path, json.dumps(tree())), read(tmp_path, packed, "run.hatchet_msgpack")
    for table in ("rollups", "ranges", "metrics", "devices"):
        assert other.table(table).drop("trace_id").rows() == one.table(table).drop("trace_id").rows()
    assert other.trace["name"] == "run"
    with pytest.raises(UnreadableTraceError, match="cut or damaged"):
        read(tmp_path, packed[:-9], "cut.hatchet_msgpack")


def test_a_tree_of_cycles_inside_kernels_says_so(tmp_path: Path) -> None:
    part = node("load", **{"cycles": 2948, "normalized_cycles": 184.25, "device_id": "0", "device_type": "1"})
    with pytest.raises(NotATraceError, match=r"frames with cycles, normalized_cycles.*instrumentation"):
        read(tmp_path, json.dumps([node("ROOT", node("scope", node("kernel", part))), DEVICES]))


def test_a_tree_without_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="without kernels"):
        read(tmp_path, json.dumps([node("ROOT", node("step"))]))


def test_what_is_new_is_named(tmp_path: Path) -> None:
    given = event("k", 1, 2, 7)
    given["args"] |= {"grid": [1, 2, 3], "metrics": {"flops": "many", "bytes": "4"}}
    text = json.dumps({"displayTimeUnit": "us", "traceEvents": [given | {"id": 4}], "clock": 1})
    trace = read(tmp_path, text, "run.chrome_trace")
    named = {*trace.report("skipped"), *trace.report("unread")}
    new = [f"{part}: {UNKNOWN}" for part in ("argument of kernels grid", "entry clock", "key of events id")]
    assert named == {*new, "values of kernels that are no numbers"}
    root = {**tree()[0], "colour": "red"}
    assert read(tmp_path, json.dumps([root])).report("unread") == {f"key of frames colour: {UNKNOWN}": 1}


def test_newer_events_say_gpu_and_stream(tmp_path: Path) -> None:
    """Their lane is the place of the stream in a viewer."""
    given = event("k", 1, 2, 0)
    given["args"] |= {"device_id": 3, "stream_id": 77, "display_stream_id": 0}
    trace = read(tmp_path, timeline(given), "run.chrome_trace")
    assert trace.rows("launches", "device", "stream") == [(3, 77)]
    assert not [reason for reason in trace.report("unread") if UNKNOWN in reason]
