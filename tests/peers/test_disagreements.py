"""Where a peer's figure is not what the trace says: shown with the plain JSON, next to what the warehouse answers."""

from __future__ import annotations

import functools
import gzip
import json
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., list[dict[str, Any]]]
Event = dict[str, Any]
Load = Callable[[str], list[Event]]

GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
STEPS = [f"ProfilerStep#{number}" for number in (101, 102, 103, 104)]


@pytest.fixture(scope="module")
def load(shared_data: Path) -> Load:
    """The complete events of a trace, times as exact decimals in µs."""

    @functools.cache
    def read(name: str) -> list[Event]:
        text = gzip.decompress((shared_data / "pytorch" / f"{name}.json.gz").read_bytes())
        return [event for event in json.loads(text, parse_float=Decimal)["traceEvents"] if event["ph"] == "X"]

    return read


def on_gpu(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.get("cat") in GPU_CATEGORIES]


def end(event: Event) -> Any:
    return event["ts"] + event["dur"]


def within(event: Event, outer: Event) -> bool:
    return bool(outer["ts"] <= event["ts"] < end(outer))


def union(intervals: Iterable[tuple[Any, Any]]) -> Any:
    total, last = 0, -math.inf
    for start, stop in sorted(intervals):
        total += max(0, stop - max(start, last))
        last = max(last, stop)
    return total


def launches_of(events: Iterable[Event]) -> dict[int, Event]:
    """The host call of each correlation id."""
    return {
        event["args"]["correlation"]: event for event in events if event.get("cat") in {"cuda_runtime", "cuda_driver"}
    }


@pytest.mark.volume
def test_hta_rounds_18_percent_of_a_short_run_away(ask: Ask, load: Load) -> None:
    """HTA rounds starts up and ends down to whole µs before it sums."""
    events = on_gpu(load("tracelens-h100-bert-small"))
    rounded = sum(max(0, math.floor(end(event)) - math.ceil(event["ts"])) for event in events)
    assert rounded == 254
    assert ask("gpu_timeline_all", trace="tracelens-h100-bert-small")[0]["total_ns"] == 309_437
    assert 1000 * sum(event["dur"] for event in events) == 309_437


@pytest.mark.parametrize(
    ("trace", "dropped", "busy_ns", "launched_ns"),
    [
        pytest.param(*("tracelens-h100-qwen1.5-0.5b", 509, 45_647_300, 31_905_473), marks=pytest.mark.volume),
        ("tracelens-mi300-qwen1.5-0.5b", 463, 43_062_802, 29_743_938),
    ],
)
def test_tracelens_omits_what_was_launched_before_the_window(
    ask: Ask, load: Load, trace: str, dropped: int, busy_ns: int, launched_ns: int
) -> None:
    events = load(trace)
    launches = launches_of(events)
    gpu = on_gpu(events)
    launched = [event for event in gpu if event["args"]["correlation"] in launches]
    assert len(gpu) - len(launched) == dropped
    assert 1000 * union((event["ts"], end(event)) for event in gpu) == busy_ns
    assert ask("gpu_timeline_all", trace=trace)[0]["busy_ns"] == busy_ns
    assert ask("gpu_timeline_launched", trace=trace)[0]["busy_ns"] == launched_ns
    assert 1000 * union((event["ts"], end(event)) for event in launched) == launched_ns


@pytest.mark.thorough
def test_hta_loses_the_optimizer_of_one_step(ask: Ask, load: Load) -> None:
    """It cuts the last ProfilerStep off by time; what step 104 launched runs on the GPU after that cut."""
    events = load("hta-ns-resolution-rank0")
    annotations = [event for event in events if event.get("cat") == "user_annotation"]
    steps = [event for event in annotations if event["name"] in STEPS]
    [last] = [event for event in annotations if event["name"] == "ProfilerStep#105"]
    optimizers = [event for event in annotations if event["name"] == "Optimizer.step#SGD.step"]
    launches = launches_of(events)
    inside = [
        event
        for event in on_gpu(events)
        if any(within(launches[event["args"]["correlation"]], step) for step in steps)
        and any(within(launches[event["args"]["correlation"]], optimizer) for optimizer in optimizers)
    ]
    assert len(inside) == 36
    assert len([event for event in inside if event["ts"] < last["ts"]]) == 27
    [found] = ask("annotated_in_steps", trace="hta-ns-resolution-rank0", annotation="Optimizer.step#SGD.step")
    assert found["n"] == 36


@pytest.mark.thorough
def test_tb_plugin_merges_an_operator_with_its_only_child_of_the_same_name(ask: Ask, load: Load) -> None:
    events = load("kineto-tb-resnet50-workers0")
    recorded = [event for event in events if event.get("cat") == "Operator" and event["name"] == "aten::div"]
    nested = [
        event
        for event in recorded
        if any(
            outer is not event
            and outer["tid"] == event["tid"]
            and outer["ts"] <= event["ts"]
            and end(event) <= end(outer)
            for outer in recorded
        )
    ]
    assert (len(recorded), len(nested)) == (204, 6)
    [found] = ask("operator_self_time", trace="kineto-tb-resnet50-workers0", op="aten::div")
    assert found["calls"] == len(recorded) - len(nested)


@pytest.mark.parametrize(
    ("trace", "exact_ns", "float_us"),
    [
        pytest.param("bloom-560m", 13_839_689, 13_839.563, marks=pytest.mark.volume),
        ("compiled-fp8-8192", 1_469_145, 1_469.145),
        ("gpt2-train", 31_378_832, 31_378.823),
    ],
)
def test_recorded_busy_times_were_summed_in_float64(
    ask: Ask, load: Load, trace: str, exact_ns: int, float_us: float
) -> None:
    """The spacing of float64 at 4.37e12 µs, where these traces stand, is 0.5 ns; each addition rounds to it."""
    events = on_gpu(load(trace))
    assert 1000 * union((event["ts"], end(event)) for event in events) == exact_ns
    assert ask("gpu_timeline_all", trace=trace)[0]["busy_ns"] == exact_ns
    rounded = union((float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in events)
    assert round(rounded, 3) == float_us


def test_tracelens_adds_times_in_float64(ask: Ask, load: Load) -> None:
    """The spacing of float64 at 7e12 µs, where this trace stands, is 1 ns; each addition rounds to it."""
    events = on_gpu(load("tracelens-mi210-gpu-only"))
    exact = 1000 * union((event["ts"], end(event)) for event in events)
    assert ask("gpu_timeline_all", trace="tracelens-mi210-gpu-only")[0]["busy_ns"] == exact == 5_343_422
    rounded = union((float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in events)
    assert round(rounded, 3) == 5_343.370
