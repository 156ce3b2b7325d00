"""Activities are found by correlation and runtime call, not by time on the GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kerneldb.replay import activity
from kerneldb.replay.activity import marked_calls

FIRST, SECOND = "kerneldb replay 0", "kerneldb replay 1"


def event(category: str, name: str, start: float, length: float, thread: Any = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "tid": thread, "args": args}


def launch(start: float, correlation: int, name: str = "cudaLaunchKernel", thread: int = 1) -> dict[str, Any]:
    return event("cuda_runtime", name, start, 1.0, thread, correlation=correlation)


def kernel(name: str, start: float, correlation: int) -> dict[str, Any]:
    args = {"correlation": correlation, "grid": [2, 1, 1], "block": [64, 1, 1], "shared memory": 16}
    return event("kernel", name, start, 2.5, 7, **args)


def names(found: list[activity.Marked]) -> list[list[str]]:
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
    assert activity.read(path) == {}
