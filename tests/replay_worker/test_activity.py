"""Activities are found by correlation and runtime call, not by time on the GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.worker import profiling

FIRST, SECOND = "kerneldb replay 0", "kerneldb replay 1"


def event(category: str, name: str, start: float, length: float, thread: Any = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "tid": thread, "args": args}


def marked_calls(events: list[dict[str, Any]]) -> dict[str, list[profiling.Marked]]:
    return profiling._marked(profiling.Events(events), operators=True)


def launch(start: float, correlation: int, name: str = "cudaLaunchKernel", thread: int = 1) -> dict[str, Any]:
    return event("cuda_runtime", name, start, 1.0, thread, correlation=correlation)


def kernel(name: str, start: float, correlation: int) -> dict[str, Any]:
    args = {"correlation": correlation, "grid": [2, 1, 1], "block": [64, 1, 1], "shared memory": 16}
    return event("kernel", name, start, 2.5, 7, **args)


def names(found: list[profiling.Marked]) -> list[list[str]]:
    return [[one.name for one in marked.activities] for marked in found]


def test_kernels_that_run_late_belong_to_the_marker_that_launched_them() -> None:
    found = marked_calls([
        event("user_annotation", FIRST, 0, 10),
        event("user_annotation", SECOND, 20, 10),
        launch(2, 1), launch(4, 2), launch(22, 3), launch(15, 4),
        kernel("b", 25, 2), kernel("a", 24, 1), kernel("c", 40, 3), kernel("between", 26, 4),
    ])  # fmt: skip
    assert names(found[FIRST]) == [["a", "b"]]
    assert names(found[SECOND]) == [["c"]]


def test_launches_of_other_threads_and_without_correlation_are_left_out() -> None:
    found = marked_calls([
        event("user_annotation", FIRST, 0, 10),
        launch(2, 1, thread=9),
        kernel("other thread", 3, 1),
        event("kernel", "no correlation", 3, 1, 7),
    ])  # fmt: skip
    assert names(found[FIRST]) == [[]]


def test_what_a_kernel_says() -> None:
    found = marked_calls([event("user_annotation", FIRST, 0, 10), launch(2, 1), kernel("a", 3, 1)])
    one = found[FIRST][0].activities[0]
    assert (one.kind, one.duration_ns, one.grid, one.block, one.shared_bytes) == (
        "kernel",
        2500,
        (2, 1, 1),
        (64, 1, 1),
        16,
    )


def test_copies_and_waits() -> None:
    copied = event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 4, 1, 7, correlation=5, bytes=8)
    wait = event("cuda_runtime", "cudaStreamSynchronize", 5, 2)
    found = marked_calls([
        event("user_annotation", FIRST, 0, 3), event("user_annotation", FIRST, 3.5, 6),
        launch(4, 5, "cudaMemcpyAsync"), copied, wait,
    ])  # fmt: skip
    assert [marked.waits for marked in found[FIRST]] == [False, True]
    assert [(one.kind, one.bytes) for one in found[FIRST][1].activities] == [("memcpy", 8)]


def test_operators_keep_order_and_depth() -> None:
    found = marked_calls([
        event("user_annotation", FIRST, 0, 10),
        event("cpu_op", "aten::linear", 1, 5, **{"Input Dims": [[2]], "Input type": ["float"]}),
        event("cpu_op", "aten::addmm", 2, 3),
        event("cpu_op", "aten::relu", 7, 1),
        event("cpu_op", "aten::outside", 11, 1),
    ])  # fmt: skip
    seen = found[FIRST][0].operations
    assert [(one.name, one.depth) for one in seen] == [("aten::linear", 0), ("aten::addmm", 1), ("aten::relu", 0)]
    assert (seen[0].dims, seen[0].dtypes) == ([[2]], ["float"])


def test_annotations_of_others_are_no_markers(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event("user_annotation", "decode", 0, 10), launch(2, 1)]}))
    assert profiling.read(path) == {}


def printed(events: list[dict[str, Any]]) -> str:
    """The events as Kineto prints them: each on lines of its own, with arrows between and a mark at the end."""
    arrow = '    "ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 4.5,\n    "cat": "ac2g", "name": "ac2g", "bp": "e"'
    ends = '    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", "tid": "", "ts": 99.5'
    pieces = [piece for one in events for piece in (_piece(one), arrow)]
    body = "\n  },\n  {\n".join([*pieces, ends])
    return f'{{\n  "schemaVersion": 1,\n  "traceEvents": [\n  {{\n{body}\n  }}\n  ],\n  "traceName": "t"\n}}'


def _piece(event: dict[str, Any]) -> str:
    args = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in event["args"].items())
    head = (
        f'    "ph": "X", "cat": "{event["cat"]}", "name": {json.dumps(event["name"])}, "pid": 0, "tid": {event["tid"]},'
    )
    return f'{head}\n    "ts": {event["ts"]}, "dur": {event["dur"]},\n    "args": {{\n      {args}\n    }}'


CALLED = [
    event("user_annotation", FIRST, 0, 10), event("user_annotation", "others", 11, 10),
    event("cpu_op", "aten::mm", 1, 5), launch(2, 1), launch(3, 12), launch(12, 4),
    kernel("b", 25, 12), kernel('void k<"correlation": 4, 1>', 24, 1), kernel("not marked", 40, 4),
    event("gpu_memset", "Memset (Device)", 60, 1, 7, correlation=12, bytes=8),
]  # fmt: skip


def test_a_trace_as_the_profiler_prints_it_is_read_without_parsing_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(printed(CALLED))
    monkeypatch.setattr(profiling, "whole", None)
    assert profiling.read(path) == marked_calls(CALLED)
    assert names(profiling.read(path)[FIRST]) == [['void k<"correlation": 4, 1>', "b", "Memset (Device)"]]
    assert profiling.read(path, operators=False)[FIRST][0].operations == []


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_a_trace_in_another_layout_says_the_same(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(json.loads(printed(CALLED)), indent=indent))
    assert profiling.read(path) == marked_calls(CALLED)


def test_a_marked_event_at_the_very_end_of_a_trace_counts(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    cut = printed(CALLED).replace(printed([]).split("[\n  {\n")[1].split("\n  }\n")[0], _piece(kernel("last", 90, 1)))
    path.write_text(cut)
    assert names(profiling.read(path)[FIRST])[0][-1] == "Memset (Device)"
    assert "last" in names(profiling.read(path)[FIRST])[0]


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.97])
def test_a_trace_that_is_cut_is_no_trace(tmp_path: Path, share: float) -> None:
    """The disk was full: kernels that are missing from it are not missing from the call."""
    path, text = tmp_path / "trace.json", printed(CALLED)
    for end in (int(share * len(text)), text.rindex("  },", 0, int(share * len(text))) + 3):
        path.write_text(text[:end])
        with pytest.raises(ValueError, match=r"."):
            profiling.read(path)
