"""Traces as each era of torch wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ingest.conversion import dims
from tests.ingest.traces import BASE_NS, T0, Raw, Trace, kineto, kineto_2021, kineto_2026, quoted_micros, whole_micros

if TYPE_CHECKING:
    from tests.ingest.conftest import Convert

EPOCH = 1_623_143_089_861_000_000
"""An absolute time in ns, as torch <= 2.3 wrote it in whole µs."""


def of_2021() -> Trace:
    """torch 1.8: categories in title case, thread ids as strings, `external id` and `Input dims` in lower case."""
    trace = Trace(clock=whole_micros)
    trace.span(
        "Operator",
        "aten::add",
        EPOCH,
        50_000,
        {"External id": 7, "Input dims": [[2, 3]], "Input type": ["float"]},
        tid="4098 (python)",
    )
    trace.span(
        "Runtime", "cudaLaunchKernel", EPOCH + 10_000, 5_000, {"correlation": 31, "external id": 7}, tid="4098 (python)"
    )
    shape = {"grid": [1, 2, 3], "block": [32, 1, 1], "registers per thread": 16, "theoretical occupancy %": 50}
    trace.span(
        "Kernel",
        "add",
        EPOCH + 70_000,
        0,
        {"stream": 7, "correlation": 31, "external id": 7, "device": 0, **shape},
        pid=0,
        tid="stream 7",
    )
    copied = {"device": 0, "stream": 7, "correlation": 32, "bytes": 4, "memory bandwidth (GB/s)": Raw("inf")}
    trace.span("Memcpy", "Memcpy DtoH (Device -> Pinned)", EPOCH + 80_000, 0, copied, pid=0, tid="stream 7")
    trace.span(
        "Memset",
        "Memset (Device)",
        EPOCH + 81_000,
        2_000,
        {"device": 0, "stream": 7, "correlation": 33, "bytes": 8},
        pid=0,
        tid="stream 7",
    )
    trace.span("Python", "train.py(3): step", EPOCH - 1_000, 90_000, {}, tid="4098 (python)")
    trace.add("s", "async", "launch", EPOCH + 10_000, id=31, tid="4098 (python)")
    return trace


def of_2023() -> Trace:
    """torch 2.0-2.3: `External id` of the GPU side is its own correlation, which may be the id of another operator."""
    trace = Trace(clock=whole_micros)
    for number, op in ((1, "aten::relu"), (2, "aten::mul"), (3, "aten::sum")):
        at = EPOCH + number * 1_000_000
        trace.op(op, at, 100_000, {"External id": 10 + number})
        trace.api("cudaLaunchKernel", at + 10_000, 5_000, number + 11, {"External id": number + 11})
        trace.kernel(f"{op}_kernel", at + 50_000, 7_000, number + 11, {"External id": number + 11})
    trace.kernel("second", EPOCH + 9_000_000, 1_000, 13, {"External id": 13}, stream=9)
    return trace


def of_2024() -> Trace:
    """torch 2.4 and later: times relative to a base, and operators' ids on the GPU side."""
    trace = Trace()
    trace.launch("aten::relu", "relu", T0, 5)
    trace.launch("aten::mul", "mul", T0 + 100_000, 6)
    return trace


def test_2021_categories_and_keys(convert: Convert) -> None:
    found = convert(kineto_2021(of_2021()))
    assert found.launches["kind"].to_list() == ["kernel", "memcpy", "memset"]
    kernel = found.launch("add")
    assert (kernel["stream"], kernel["device"], kernel["grid_x"], kernel["grid_y"], kernel["grid_z"]) == (7, 0, 1, 2, 3)
    assert kernel["launch_status"] == "linked"
    assert dims(kernel["input_dims"]) == [[2, 3]]
    assert found.op("aten::add")["external_id"] == 7
    assert found.rows("api_calls", "external_id", "thread") == [(7, "4098 (python)")]
    assert found.trace["era"] == "torch 1.8-1.10"


def test_2021_times_are_absolute(convert: Convert) -> None:
    found = convert(kineto_2021(of_2021()))
    assert (found.trace["clock"], found.trace["base_ns"]) == ("epoch", 0)
    assert found.launch("add")["start_ns"] == EPOCH + 70_000
    assert found.launch("add")["duration_ns"] == 0


def test_2021_infinite_bandwidth_does_not_cost_the_copy(convert: Convert) -> None:
    found = convert(kineto_2021(of_2021()))
    copy = found.launch("Memcpy DtoH (Device -> Pinned)")
    assert (copy["bytes"], copy["copy_kind"], copy["correlation_id"]) == (4, "DtoH", 32)
    assert found.total("lost") == 0


def test_1_11_links_by_containment_where_external_ids_dangle(convert: Convert) -> None:
    trace = Trace(clock=whole_micros)
    trace.op("aten::relu", EPOCH, 100_000, {"External id": 1})
    trace.api("cudaLaunchKernel", EPOCH + 10_000, 5_000, 77, {"External id": 77})
    trace.kernel("relu", EPOCH + 50_000, 7_000, 77, {"External id": 4_000_000})
    kernel = convert(trace).launch("relu")
    assert (kernel["launch_status"], kernel["link_method"], kernel["op"]) == ("linked", "containment", "aten::relu")


def test_2_0_ignores_external_ids_that_are_correlations(convert: Convert) -> None:
    found = convert(of_2023())
    linked = found.launches.select("name", "op", "link_method").rows()
    assert linked == [
        ("aten::relu_kernel", "aten::relu", "containment"),
        ("aten::mul_kernel", "aten::mul", "containment"),
        ("aten::sum_kernel", "aten::sum", "containment"),
        ("second", "aten::mul", "containment"),
    ]
    assert found.trace["era"] == "torch 2.0-2.3"


def test_2_0_leaves_unlinked_what_only_a_copied_id_would_link(convert: Convert) -> None:
    trace = of_2023()
    trace.kernel("stray", EPOCH + 9_500_000, 1_000, 11, {"External id": 11})
    stray = convert(trace).launch("stray")
    assert (stray["op"], stray["op_id"], stray["launch_status"]) == (None, None, "before_window")


@pytest.mark.parametrize("layout", [kineto, kineto_2026])
@pytest.mark.parametrize("behind", [False, True], ids=["base before the events", "base behind the events"])
def test_base_time_on_either_side(convert: Convert, layout: object, behind: bool) -> None:
    trace = of_2024()
    (trace.behind if behind else trace.metadata)["baseTimeNanoseconds"] = BASE_NS
    assert callable(layout)
    found = convert(layout(trace))
    assert (found.trace["clock"], found.trace["base_ns"]) == ("epoch", BASE_NS)
    assert found.launch("relu")["start_ns"] == T0 + 20_000
    assert found.trace["era"] == "torch >=2.4"


def test_base_before_and_behind_agree_on_everything_else(convert: Convert) -> None:
    before, behind = of_2024(), of_2024()
    before.metadata["baseTimeNanoseconds"] = behind.behind["baseTimeNanoseconds"] = BASE_NS
    assert convert(before).launches.drop("trace_id").equals(convert(behind).launches.drop("trace_id"))


def test_what_stands_behind_the_events_is_none_of_them_however_alike(convert: Convert) -> None:
    trace, plain = of_2024(), of_2024()
    samples = [{"ph": "X", "cat": "kernel", "name": f"sample {n}", "ts": n, "dur": 1} for n in range(9)]
    trace.behind |= {"samples": samples, "baseTimeNanoseconds": BASE_NS}
    plain.behind["baseTimeNanoseconds"] = BASE_NS
    found = convert(trace)
    assert found.trace["base_ns"] == BASE_NS
    assert found.launches.drop("trace_id").equals(convert(plain).launches.drop("trace_id"))


def test_relative_times_without_a_base_are_of_unknown_origin(convert: Convert) -> None:
    found = convert(of_2024())
    assert (found.trace["clock"], found.trace["base_ns"]) == ("capture", None)


def test_2_4_links_by_external_id_where_the_call_is_missing(convert: Convert) -> None:
    trace = of_2024()
    trace.kernel("triton", T0 + 130_000, 4_000, 99, {"External id": 1006})
    kernel = convert(trace).launch("triton")
    assert (kernel["link_method"], kernel["launch_status"], kernel["op"]) == ("external_id", "linked", "aten::mul")


def test_containment_wins_over_external_id(convert: Convert) -> None:
    trace = of_2024()
    trace.op("aten::neg", T0 + 500_000, 9_000, {"External id": 1007})
    trace.api("cudaLaunchKernel", T0 + 501_000, 1_000, 7, {"External id": 1005})
    trace.kernel("neg", T0 + 600_000, 1_000, 7, {"External id": 1005})
    assert convert(trace).launch("neg")["op"] == "aten::neg"


def test_duplicate_external_ids_take_the_first_operator(convert: Convert) -> None:
    trace = of_2024()
    trace.op("aten::again", T0 + 800_000, 1_000, {"External id": 1006})
    trace.kernel("triton", T0 + 900_000, 4_000, 99, {"External id": 1006})
    assert convert(trace).launch("triton")["op"] == "aten::mul"


def test_torch_npu_writes_times_as_strings(convert: Convert) -> None:
    trace = of_2024()
    expected = convert(trace).launches.drop("trace_id")
    trace.clock = quoted_micros
    found = convert(trace)
    assert found.launches.drop("trace_id").equals(expected)
    assert found.total("lost") == 0


def test_first_flow_of_2021_is_skipped_with_a_reason(convert: Convert) -> None:
    found = convert(kineto_2021(of_2021()))
    assert sum(n for reason, n in found.report("skipped").items() if reason.startswith("flow")) == 1


@pytest.mark.parametrize("end", ["]}", ","])
def test_events_behind_a_stray_bracket_are_told_of(convert: Convert, end: str) -> None:
    events = [f'{{"ph":"X","cat":"kernel","name":"k{n}","ts":{n},"dur":1,"args":{{"stream":7}}}}' for n in range(9)]
    found = convert(f'{{"schemaVersion":1,"traceEvents":[{events[0]}],{",".join(events[1:])}{end}')
    assert found.report("read") == {"events": 1}
    assert found.report("lost") == {"text behind the end of the trace": 1}
