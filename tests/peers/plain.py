"""What other tools report of a PyTorch trace, computed from its JSON by loops. Nothing of kerneldb is used here.

Times are exact integers in ns: decimal text times 1,000.
"""

from __future__ import annotations

import gzip
import itertools
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Interval = tuple[int, int]

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
CLASSES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec")
TENSOR_CORES = (
    "h884", "s884", "h1688", "s1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel",
    "conv1x1", "conv2d_c1_k1", "direct_group", "xmma_implicit_gemm", "xmma_sparse_conv",
    "xmma_warp_specialized_implicit_gemm", "xmma_gemm", "xmma_sparse_gemm", "c1688",
)  # fmt: skip
"""TC_Allowlist of tb_plugin."""


def ns(microseconds: Decimal | int) -> int:
    return int(Decimal(microseconds) * 1000)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as few intervals as possible, in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in union(intervals))


def is_communication(event: Event) -> bool:
    return event["cat"] == "kernel" and event["name"].lower().startswith("nccl")


class Figures:
    """One trace: its complete events by category, and what can be counted of them."""

    def __init__(self, path: Path) -> None:
        self.trace = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
        self.by_cat: dict[str, list[Event]] = defaultdict(list)
        for event in self.trace["traceEvents"]:
            if event.get("ph") == "X":
                event["start"] = ns(event["ts"])
                event["end"] = event["start"] + ns(event["dur"])
                self.by_cat[event.get("cat", "")].append(event)
        self.gpu = [event for cat in ON_GPU for event in self.by_cat[cat]]
        self.kernels = self.by_cat["kernel"]
        self.calls = {event["args"]["correlation"]: event for cat in CALLS for event in self.by_cat[cat]}
        self.ops = self.by_cat["cpu_op"]
        self.op_of_id = {event["args"]["External id"]: event for event in self.ops}

    def op(self, event: Event) -> Event | None:
        """The operator that launched a GPU event."""
        return self.op_of_id.get(event["args"].get("External id"))

    def launch(self, event: Event) -> Event | None:
        return self.calls.get(event["args"]["correlation"])

    def launched(self) -> list[Event]:
        return [event for event in self.gpu if self.launch(event) is not None]


def spans(events: Iterable[Event], *kinds: Callable[[Event], bool]) -> list[Interval]:
    return [(event["start"], event["end"]) for event in events if any(kind(event) for kind in kinds)]


def is_copy(event: Event) -> bool:
    return event["cat"] == "gpu_memcpy"


def is_fill(event: Event) -> bool:
    return event["cat"] == "gpu_memset"


def is_computation(event: Event) -> bool:
    return event["cat"] == "kernel" and not is_communication(event)


def timeline(events: list[Event]) -> dict[str, int]:
    """TraceLens' gpu_timeline, and sums: fills are computation."""
    busy = union(spans(events, lambda _: True))
    working = spans(events, is_computation, is_fill)
    talking = spans(events, is_communication)
    total = sum(event["end"] - event["start"] for event in events)
    return {
        "n": len(events),
        "busy_ns": length(busy),
        "span_ns": busy[-1][1] - busy[0][0],
        "idle_ns": busy[-1][1] - busy[0][0] - length(busy),
        "total_ns": total,
        "overlap_ns": total - length(busy),
        "kernel_ns": sum(event["end"] - event["start"] for event in events if event["cat"] == "kernel"),
        "computation_ns": length(working),
        "total_communication_ns": length(talking),
        "exposed_communication_ns": length(working + talking) - length(working),
        "total_memcpy_ns": length(spans(events, is_copy)),
        "exposed_memcpy_ns": length(busy) - length(working + talking),
    }


def overlap(events: list[Event]) -> dict[str, int]:
    """What ran beside what: fills are computation."""
    work, talk = spans(events, is_computation, is_fill), spans(events, is_communication)
    move = spans(events, is_copy)

    def both(one: list[Interval], other: list[Interval]) -> int:
        return length(one) + length(other) - length(one + other)

    return {
        "computation_ns": length(work),
        "communication_ns": length(talk),
        "copy_ns": length(move),
        "computation_communication_ns": both(work, talk),
        "computation_copy_ns": both(work, move),
        "communication_copy_ns": both(talk, move),
        "exposed_communication_ns": length(work + talk) - length(work),
        "exposed_copy_ns": length(work + talk + move) - length(work + talk),
    }


def gaps(events: list[Event]) -> list[int]:
    """Lengths of the stretches in which nothing ran."""
    busy = union(spans(events, lambda _: True))
    return [after[0] - before[1] for before, after in itertools.pairwise(busy)]


def sums(events: Iterable[Event], key: Callable[[Event], Any]) -> dict[Any, tuple[int, int, int, int]]:
    """Number, sum, minimum and maximum of durations, by a key."""
    found: dict[Any, list[int]] = defaultdict(list)
    for event in events:
        found[key(event)].append(event["end"] - event["start"])
    return {group: (len(some), sum(some), min(some), max(some)) for group, some in found.items()}


def recorded(trace: Figures) -> dict[str, Any]:
    """Counts and bytes."""
    talking = [event for event in trace.kernels if is_communication(event)]
    launch = {(e["name"], *e["args"]["grid"], *e["args"]["block"]) for e in trace.kernels}
    return {
        "kernels": len(trace.kernels),
        "memcpy": len(trace.by_cat["gpu_memcpy"]),
        "memset": len(trace.by_cat["gpu_memset"]),
        "memcpy_bytes": sum(event["args"]["bytes"] for event in trace.by_cat["gpu_memcpy"]),
        "names": len({event["name"] for event in trace.kernels}),
        "launch_configs": len(launch),
        "nccl": len(talking),
        "nccl_us": sum(event["end"] - event["start"] for event in talking) / 1000,
        "no_external_id": sum(trace.op(event) is None for event in trace.gpu),
        "cpu_ops": len(trace.ops),
    }


def signatures(trace: Figures) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Operator, dims and types → calls that launched something, and the time in which each call's own events ran."""
    own: dict[int, list[Event]] = defaultdict(list)
    for event in trace.gpu:
        if trace.op(event) is not None:
            own[event["args"]["External id"]].append(event)
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for number, events in own.items():
        args = trace.op_of_id[number]["args"]
        key = (trace.op_of_id[number]["name"], json.dumps(args.get("Input Dims")), json.dumps(args.get("Input type")))
        calls, time = found.get(key, (0, 0))
        found[key] = (calls + 1, time + length(spans(events, lambda _: True)))
    return found


def operator_calls(trace: Figures) -> Counter[str]:
    """Calls of each operator as tb_plugin counts them: an only child of its parent's name is no call of its own."""
    threads: dict[tuple[Any, Any], list[Event]] = defaultdict(list)
    for event in trace.ops:
        threads[event["pid"], event["tid"]].append(event)
    counted: Counter[str] = Counter()
    for events in threads.values():
        parents = nested(events)
        children = Counter(id(parent) for parent in parents if parent is not None)
        for event, parent in zip(sorted(events, key=order), parents, strict=True):
            merged = parent is not None and parent["name"] == event["name"] and children[id(parent)] == 1
            counted[event["name"]] += not merged
    return counted


def order(event: Event) -> tuple[int, int]:
    return event["start"], -event["end"]


def nested(events: list[Event]) -> list[Event | None]:
    """The event around each one of a thread, in the order of their starts."""
    open_events: list[Event] = []
    found: list[Event | None] = []
    for event in sorted(events, key=order):
        while open_events and open_events[-1]["end"] <= event["start"]:
            open_events.pop()
        found.append(open_events[-1] if open_events else None)
        open_events.append(event)
    return found


def kernel_table(trace: Figures) -> dict[str, tuple[float, float, bool]]:
    """Name → blocks per multiprocessor and occupancy weighted by duration, and whether tensor cores are used."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in trace.kernels:
        found[event["name"]].append(event)

    def weighted(events: list[Event], figure: str) -> float:
        times = [event["end"] - event["start"] for event in events]
        parts = (float(event["args"][figure]) * time for event, time in zip(events, times, strict=True))
        return sum(parts) / sum(times)

    return {
        name: (weighted(some, "blocks per SM"), weighted(some, "est. achieved occupancy %"), uses_tensor_cores(name))
        for name, some in found.items()
    }


def uses_tensor_cores(name: str) -> bool:
    return any(part in name for part in TENSOR_CORES)


def enclosing(trace: Figures, event: Event) -> str | None:
    """The shortest GPU annotation around an event, on its device and stream."""
    around = [
        one for one in trace.by_cat["gpu_user_annotation"]
        if (one["pid"], one["tid"]) == (event["pid"], event["tid"])
        and one["start"] <= event["start"] and event["end"] <= one["end"]
    ]  # fmt: skip
    return min(around, key=lambda one: one["end"] - one["start"])["name"] if around else None


def launched_within(trace: Figures, annotation: str, *, on_its_thread: bool) -> int:
    """GPU events that are launched while an annotation of this name is open, on any thread or on its own one."""
    count = 0
    for event in trace.launched():
        call = trace.calls[event["args"]["correlation"]]
        count += any(
            one["name"] == annotation and one["start"] <= call["start"] < one["end"]
            and (not on_its_thread or (one["pid"], one["tid"]) == (call["pid"], call["tid"]))
            for one in trace.by_cat["user_annotation"]
        )  # fmt: skip
    return count


def launching(trace: Figures) -> dict[str, tuple[float, ...]]:
    """By launch call: launches, host time, medians of call and delay and kernel, 95 % of the delay, longer than theirs.

    A call that launched several (a graph) is one call: until the first of them starts, and against all together.
    """
    found: dict[str, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in trace.launched():
        number = event["args"]["correlation"]
        found[trace.calls[number]["name"]][number].append(event)
    figures: dict[str, tuple[float, ...]] = {}
    for name, launched in found.items():
        calls = [trace.calls[number] for number in launched]
        call_ns = [call["end"] - call["start"] for call in calls]
        begun = [min(event["start"] for event in events) for events in launched.values()]
        delays = [start - call["start"] for start, call in zip(begun, calls, strict=True)]
        kernel_ns = [[event["end"] - event["start"] for event in events] for events in launched.values()]
        every = [ns for some in kernel_ns for ns in some]
        medians = (statistics.median(some) for some in (call_ns, delays, every))
        shorter = sum(sum(some) < ns for some, ns in zip(kernel_ns, call_ns, strict=True))
        figures[name] = (len(every), sum(call_ns), *medians, quantile(delays, 0.95), shorter)
    return figures


def quantile(values: Iterable[int], share: float) -> float:
    """Linear between the two nearest values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def step(trace: Figures, name: str) -> Interval:
    """A step: its host range, or longer until the last GPU event that a call inside of it launched has ended."""
    [host] = [event for event in trace.by_cat["user_annotation"] if event["name"] == name]
    ends = [host["end"]]
    for event in trace.launched():
        call = trace.calls[event["args"]["correlation"]]
        if host["start"] <= call["start"] and call["end"] <= host["end"]:
            ends.append(event["end"])
    return host["start"], max(ends)


def class_of(event: Event) -> str:
    """The class of tb_plugin; `CLASSES` are in the order of their importance."""
    if event["cat"] in ON_GPU:
        names = {"kernel": "Kernel", "gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}
        return "Communication" if is_communication(event) else names[event["cat"]]
    if event["cat"] in CALLS:
        return "Runtime"
    return "DataLoader" if event["name"].startswith("enumerate(DataLoader)#") else "CPU Exec"


def step_breakdown(trace: Figures, name: str) -> dict[str, int]:
    """Every ns of a step belongs to the first class that runs then."""
    start, end = step(trace, name)
    events = [*trace.gpu, *trace.by_cat["cuda_runtime"], *trace.by_cat["cuda_driver"], *trace.ops]
    covered: list[Interval] = []
    times = {"Average Step Time": end - start}
    for wanted in CLASSES:
        mine = [
            (max(start, event["start"]), min(end, event["end"])) for event in events
            if class_of(event) == wanted and event["start"] < end and event["end"] > start
        ]  # fmt: skip
        if added := length(covered + mine) - length(covered):
            times[wanted] = added
        covered = union(covered + mine)
    if rest := end - start - length(covered):
        times["Other"] = rest
    return times


def gpu_summary(trace: Figures, name: str) -> dict[str, float]:
    """tb_plugin's estimates over a step: utilization, SM efficiency, occupancy, share of tensor cores; in %."""
    start, end = step(trace, name)
    inside = [
        (max(start, event["start"]), min(end, event["end"]), event)
        for event in trace.kernels if event["start"] < end and event["end"] > start
    ]  # fmt: skip
    busy = length((first, last) for first, last, _ in inside)
    moments = sorted({time for first, last, _ in inside for time in (first, last)})
    efficient = 0.0
    for now, then in itertools.pairwise(moments):
        blocks = [float(one["args"]["blocks per SM"]) for first, last, one in inside if first <= now and last >= then]
        efficient += min(1.0, sum(blocks)) * (then - now)
    time = sum(last - first for first, last, _ in inside)
    occupied = sum(float(one["args"]["est. achieved occupancy %"]) * (last - first) for first, last, one in inside)
    tensor = sum(one["end"] - one["start"] for _, _, one in inside if uses_tensor_cores(one["name"]))
    return {
        "GPU Utilization": 100 * busy / (end - start),
        "Est. SM Efficiency": 100 * efficient / (end - start),
        "Est. Achieved Occupancy": occupied / time,
        "Kernel Time using Tensor Cores": 100 * tensor / sum(one["end"] - one["start"] for _, _, one in inside),
    }
