"""Exact integer nanoseconds, from every spelling of a time."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ingest.reading import collected, event_by_event, frame_of
from tests.ingest.traces import LAYOUTS, T0, Raw, Trace

if TYPE_CHECKING:
    from tests.ingest.conftest import Convert

ABSOLUTE = 1_712_170_235_123_456_000
TIMES = [0, 1, 999, 1_001, T0, T0 + 1, T0 + 17, T0 + 999, 2**43 * 1000 - 1, 2**42 * 1000 + 1]
ABSOLUTE_TIMES = [ABSOLUTE + extra for extra in (0, 1, 5, 17, 250, 501, 998, 999)]


def spaced(times: list[int], **behind: object) -> Trace:
    trace = Trace(behind=dict(behind))
    for number, time in enumerate(times):
        trace.kernel(f"k{number}", time, 1_000 + number, number + 1)
    return trace


def starts(convert: Convert, text: str) -> dict[str, tuple[int, int]]:
    rows = convert(text).launches.select("name", "start_ns", "duration_ns").rows()
    return {name: (start, duration) for name, start, duration in rows}


@pytest.mark.parametrize(
    ("layout", "times"), [*((name, TIMES) for name in LAYOUTS), ("kineto", ABSOLUTE_TIMES), ("dumped", ABSOLUTE_TIMES)]
)
def test_nanoseconds_are_exact(convert: Convert, layout: str, times: list[int]) -> None:
    expected = {f"k{number}": (time, 1_000 + number) for number, time in enumerate(times)}
    assert starts(convert, LAYOUTS[layout](spaced(times))) == expected


def test_absolute_decimals_behind_whole_numbers(convert: Convert) -> None:
    """The first events may have no decimals (metadata at 0); the digits of later ones must survive all the same."""
    trace = Trace()
    for _ in range(900):
        trace.add("M", None, "process_name", Raw("0"), args={"name": "python" * 5})
    trace.kernel("k", ABSOLUTE + 17, 1_000, 1)
    trace.kernel("j", ABSOLUTE + 1_501, 1_000, 1)
    assert convert(trace).launches["start_ns"].to_list() == [ABSOLUTE + 17, ABSOLUTE + 1_501]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5_000),
        ("5.0", 5_000),
        ("12.5", 12_500),
        ("12.05", 12_050),
        ("12.0050", 12_005),
        ('"12.005"', 12_005),
        ('"1712170235123456"', ABSOLUTE),
        ("-0.5", -500),
        ("-1.001", -1_001),
        ("0", 0),
    ],
)
def test_spellings(convert: Convert, text: str, expected: int) -> None:
    trace = Trace()
    trace.kernel("k", Raw(text), Raw("1.500"), 1)
    assert convert(trace).launches.select("start_ns", "duration_ns").rows() == [(expected, 1_500)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e3", 1_000_000),
        ("1.5e3", 1_500_000),
        ("4.401030676000005e12", T0 + 5),
        ("1.712170235123456e15", ABSOLUTE),
    ],
)
def test_exponents(convert: Convert, text: str, expected: int) -> None:
    trace = Trace()
    trace.kernel("k", Raw(text), 1_000, 1)
    trace.kernel("j", Raw('"5.000"'), 1_000, 1)
    assert convert(trace).launch("k")["start_ns"] == expected


def test_missing_duration(convert: Convert) -> None:
    trace = Trace()
    trace.kernel("endless", T0, None, 1)
    trace.kernel("k", T0 + 5, 1_000, 2)
    endless = convert(trace).launch("endless")
    assert (endless["start_ns"], endless["duration_ns"], endless["end_ns"]) == (T0, None, None)


def test_zero_duration(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::a", T0, 10_000)
    trace.api("cudaLaunchKernel", T0 + 1_000, 0, 1)
    trace.kernel("k", T0 + 3_000, 0, 1)
    kernel = convert(trace).launch("k")
    assert (kernel["duration_ns"], kernel["end_ns"], kernel["op"]) == (0, T0 + 3_000, "aten::a")


def test_negative_duration_is_kept_and_encloses_nothing(convert: Convert) -> None:
    trace = Trace()
    trace.op("aten::broken", T0, -5_000)
    trace.op("aten::a", T0 + 1_000, 10_000)
    trace.api("cudaLaunchKernel", T0 + 2_000, 1_000, 1)
    trace.kernel("k", T0 + 3_000, 1_000, 1)
    trace.kernel("unended", T0 + 9_000, -2_147_483_648_000, 2)
    found = convert(trace)
    assert found.launch("k")["op"] == "aten::a"
    assert found.op("aten::a")["parent_id"] is None
    assert found.launch("unended")["start_ns"] == T0 + 9_000
    assert found.trace["window_start_ns"] == T0


def test_events_without_a_time_are_kept_and_counted(convert: Convert) -> None:
    trace = Trace()
    trace.launch("aten::a", "k", T0, 5)
    trace.kernel("timeless", None, 1_000, 5)
    trace.span("cpu_op", "aten::timeless", None, 1_000, {"External id": 9})
    trace.span("cuda_runtime", "cudaFree", None, 1_000, {"correlation": 77})
    found = convert(trace)
    timeless = found.launch("timeless")
    assert (timeless["start_ns"], timeless["duration_ns"], timeless["op"]) == (None, 1_000, "aten::a")
    assert found.op("aten::timeless")["start_ns"] is None
    assert {"gpu event without a time": 1, "op event without a time": 1}.items() <= found.report("note").items()


def test_launches_are_sorted_by_time(convert: Convert) -> None:
    trace = Trace()
    for offset in (50, 10, 40, 10):
        trace.kernel(f"k{offset}", T0 + offset, 1, offset)
    launches = convert(trace).launches
    assert launches["start_ns"].to_list() == [T0 + 10, T0 + 10, T0 + 40, T0 + 50]
    assert launches["launch_index"].to_list() == [0, 1, 2, 3]


def assert_exact_on_both_paths(times: list[int]) -> None:
    trace = spaced([*times, 0])
    for layout in ("kineto", "compact"):
        text = LAYOUTS[layout](trace).encode()
        for way in (contextlib.nullcontext, event_by_event):
            with way():
                frame = frame_of(collected(text), "gpu")
            assert frame is not None
            assert frame["ts"].to_list() == [*times, 0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 2**43 * 1000 - 1), min_size=1, max_size=60))
def test_every_relative_time_is_exact_on_both_paths(times: list[int]) -> None:
    assert_exact_on_both_paths(times)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(10**18, 2 * 10**18), min_size=1, max_size=60))
def test_every_absolute_time_is_exact_on_both_paths(times: list[int]) -> None:
    assert_exact_on_both_paths(times)
