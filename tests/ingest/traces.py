"""Hand-made PyTorch traces: events with times in nanoseconds, printed in the text layouts that writers have used.

Layouts follow kineto `src/output_json.cpp` (torch 2.x), its 2021 form (torch 1.8), the one-key-a-line form of torch
2.13, and Python's `json.dump`, with which tools write traces again.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PID: Final = 100
MAIN: Final = 1
BASE_NS: Final = 1_790_857_026_000_000_000
T0: Final = 4_401_030_676_000_000
"""A relative time as torch >= 2.4 prints it, in ns: 4401030676000.000 µs, below 2^43 µs."""

Event = dict[str, Any]
Arguments = dict[str, Any] | None


class Raw(str):
    """A JSON value, printed as it stands: digits that a float would round, numbers that JSON does not know."""

    __slots__ = ()


def micros(ns: int) -> Raw:
    """`ns` as torch >= 2.4 prints microseconds: three decimals."""
    sign = "-" if ns < 0 else ""
    return Raw(f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}")


def whole_micros(ns: int) -> Raw:
    """`ns` as torch <= 2.3 printed microseconds: none."""
    return Raw(ns // 1000)


def quoted_micros(ns: int) -> Raw:
    """`ns` as torch_npu writes microseconds: a string."""
    return Raw(f'"{micros(ns)}"')


@dataclasses.dataclass
class Trace:
    """Events and the metadata before and behind them. `clock` prints times."""

    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    behind: dict[str, Any] = dataclasses.field(default_factory=dict)
    events: list[Event] = dataclasses.field(default_factory=list)
    clock: Callable[[int], Raw] = micros

    def add(self, phase: str, cat: str | None, name: str, ts: int | Raw | None, **more: Any) -> Event:
        """Append an event; keys with None are left out."""
        known = {"ph": phase, "cat": cat, "name": name, "pid": PID, "tid": MAIN, "ts": ts}
        event = {key: value for key, value in {**known, **more}.items() if value is not None}
        self.events.append(event)
        return event

    def span(
        self, cat: str, name: str, ts: int | Raw | None, dur: int | Raw | None, args: Arguments = None, **place: Any
    ) -> Event:
        """A complete event (`ph` X)."""
        return self.add("X", cat, name, ts, dur=dur, **place, args=args)

    def op(self, name: str, ts: int, dur: int, args: Arguments = None, **place: Any) -> Event:
        """An operator."""
        return self.span("cpu_op", name, ts, dur, args or {"Ev Idx": 0}, **place)

    def api(
        self,
        name: str,
        ts: int,
        dur: int,
        correlation: int,
        args: Arguments = None,
        *,
        cat: str = "cuda_runtime",
        **place: Any,
    ) -> Event:
        """A runtime or driver call."""
        return self.span(cat, name, ts, dur, {"correlation": correlation, **(args or {})}, **place)

    def gpu(
        self,
        name: str,
        ts: int | Raw | None,
        dur: int | Raw | None,
        correlation: int | None,
        args: Arguments = None,
        *,
        cat: str = "kernel",
        device: int = 0,
        stream: int = 7,
    ) -> Event:
        """A GPU activity without a launch shape."""
        given = {"device": device, "stream": stream, "correlation": correlation, **(args or {})}
        shown = {key: value for key, value in given.items() if value is not None}
        return self.span(cat, name, ts, dur, shown, pid=device, tid=stream)

    def kernel(
        self,
        name: str,
        ts: int | Raw | None,
        dur: int | Raw | None,
        correlation: int | None,
        args: Arguments = None,
        **place: Any,
    ) -> Event:
        """A CUDA kernel of 64 blocks of 128 threads."""
        shape = {"registers per thread": 32, "shared memory": 1024, "grid": [64, 1, 1], "block": [128, 1, 1]}
        return self.gpu(name, ts, dur, correlation, {"context": 1, **shape, **(args or {})}, **place)

    def memcpy(self, ts: int, dur: int, correlation: int, size: int, args: Arguments = None, **place: Any) -> Event:
        """A pageable copy to the device."""
        name = "Memcpy HtoD (Pageable -> Device)"
        return self.gpu(name, ts, dur, correlation, {"bytes": size, **(args or {})}, cat="gpu_memcpy", **place)

    def memset(self, ts: int, dur: int, correlation: int, size: int, args: Arguments = None, **place: Any) -> Event:
        """A fill of device memory."""
        return self.gpu(
            "Memset (Device)", ts, dur, correlation, {"bytes": size, **(args or {})}, cat="gpu_memset", **place
        )

    def note(self, name: str, ts: int, dur: int, *, cat: str = "user_annotation", **place: Any) -> Event:
        """An annotation (`record_function`)."""
        return self.span(cat, name, ts, dur, {"Ev Idx": 0}, **place)

    def frame(self, name: str, ts: int, dur: int, args: Arguments = None, **place: Any) -> Event:
        """A Python function or module."""
        return self.span("python_function", name, ts, dur, {"Python id": 1, **(args or {})}, **place)

    def memory(self, ts: int, size: int, address: int, args: Arguments = None, **place: Any) -> Event:
        """An allocation, or with negative `size` its release."""
        given = {
            "Bytes": size,
            "Addr": address,
            "Total Allocated": 4096,
            "Total Reserved": 8192,
            "Device Id": 0,
            "Device Type": 1,
        }
        return self.add("i", "cpu_instant_event", "[memory]", ts, s="t", **place, args={**given, **(args or {})})

    def counter(self, name: str, ts: int, values: dict[str, float], **place: Any) -> Event:
        """A sampled counter."""
        return self.add("C", None, name, ts, **place, args=values)

    def flow(self, phase: str, number: int, ts: int, cat: str = "ac2g", **place: Any) -> Event:
        """One end of an arrow (`phase` s or f)."""
        return self.add(phase, cat, cat, ts, id=number, **place)

    def names(self) -> None:
        """The process and thread names, and the marks that torch writes last."""
        self.add("M", None, "process_name", T0, tid=0, args={"name": "python"})
        self.add("M", None, "thread_name", T0, args={"name": "thread 1 (python)"})
        self.span("Trace", "PyTorch Profiler (0)", T0, 4_000_000, {"Op count": 0}, pid="Spans", tid="PyTorch Profiler")
        self.add("i", None, "Iteration Start: PyTorch Profiler", T0, s="g", pid="Traces", tid="Trace PyTorch Profiler")
        self.add("i", None, "Record Window End", T0, s="g", pid="", tid="")

    def launch(self, op: str, kernel: str, at: int, number: int, op_args: Arguments = None, **kernel_args: Any) -> None:
        """An operator of 10 µs at `at`, a call in it and its kernel behind it; `number` + 1000 is the operator's id."""
        external = {"External id": 1000 + number}
        self.op(op, at, 10_000, {**external, **(op_args or {})})
        self.api("cudaLaunchKernel", at + 2_000, 3_000, number, external)
        self.kernel(kernel, at + 20_000, 5_000, number, {**external, **kernel_args})

    def printed(self) -> list[Event]:
        """The events with times as text."""
        return [{key: self._print(key, value) for key, value in event.items()} for event in self.events]

    def _print(self, key: str, value: Any) -> Any:
        if key not in {"ts", "dur"} or not isinstance(value, int):
            return value
        return self.clock(value)


def encode(value: Any, **style: Any) -> str:
    """`json.dumps`, with `Raw` printed as it stands."""
    raw: list[str] = []

    def mark(node: Any) -> Any:
        if isinstance(node, Raw):
            raw.append(str(node))
            return f"\ue000{len(raw) - 1}\ue000"
        if isinstance(node, dict):
            return {key: mark(child) for key, child in node.items()}
        return [mark(child) for child in node] if isinstance(node, list) else node

    text = json.dumps(mark(value), ensure_ascii=False, **style)
    return re.sub('"\ue000(\\d+)\ue000"', lambda match: raw[int(match[1])], text)


def _members(values: dict[str, Any], indent: str) -> str:
    return "".join(f'{indent}"{key}": {encode(value)},\n' for key, value in values.items())


def _kineto(trace: Trace, event_text: Callable[[Event], str]) -> str:
    events = ",\n".join(event_text(event) for event in trace.printed())
    behind = _members({**trace.behind, "traceName": "trace.json"}, "  ").rstrip(",\n")
    head = f'{{\n  "schemaVersion": 1,\n{_members(trace.metadata, "    ")}'
    return f'{head}  "traceEvents": [\n{events}\n  ],\n{behind}\n}}\n'


def _arguments(event: Event) -> str:
    if "args" not in event:
        return ""
    inner = event["args"] if isinstance(event["args"], Raw) else encode(event["args"])
    return ',\n    "args": {\n      ' + inner[1:-1] + "\n    }"


def _pairs(event: Event, keys: Iterable[str]) -> str:
    return ", ".join(f'"{key}": {encode(event[key])}' for key in keys if key in event)


def kineto(trace: Trace) -> str:
    """As torch 1.11-2.12 prints."""

    def event_text(event: Event) -> str:
        first, second = ("ph", "cat", "id", "s", "name", "pid", "tid"), ("ts", "dur")
        return f"  {{\n    {_pairs(event, first)},\n    {_pairs(event, second)}{_arguments(event)}\n  }}"

    return _kineto(trace, event_text)


def kineto_2021(trace: Trace) -> str:
    """As torch 1.8 printed: phase and category on a line of their own."""

    def event_text(event: Event) -> str:
        lines = (("ph", "cat"), ("name", "id", "s", "pid", "tid"), ("ts", "dur"))
        shown = ",\n    ".join(filter(None, (_pairs(event, keys) for keys in lines)))
        return f"  {{\n    {shown}{_arguments(event)}\n  }}"

    return _kineto(trace, event_text)


def kineto_2026(trace: Trace) -> str:
    """As torch 2.13 prints: one key a line, with empty lines."""

    def event_text(event: Event) -> str:
        keys = ("ph", "cat", "s", "id", "name", "pid", "tid", "ts", "dur")
        shown = ",\n    ".join(_pairs(event, (key,)) for key in keys if key in event)
        return f"  {{\n    {shown}\n    {_arguments(event).lstrip()}\n  }}"

    return _kineto(trace, event_text)


def _whole(trace: Trace) -> dict[str, Any]:
    return {"schemaVersion": 1, **trace.metadata, "traceEvents": trace.printed(), **trace.behind}


def dumped(trace: Trace) -> str:
    """As `json.dump` prints: one line."""
    return encode(_whole(trace))


def compact(trace: Trace) -> str:
    """As `json.dump` without blanks and most other languages print."""
    return encode(_whole(trace), separators=(",", ":"))


def indented(trace: Trace) -> str:
    """As `json.dump(indent=2)` prints."""
    return encode(_whole(trace), indent=2)


def array(trace: Trace) -> str:
    """As torch's legacy exporter prints: events alone."""
    return encode(trace.printed())


LAYOUTS: Final[dict[str, Callable[[Trace], str]]] = {
    function.__name__: function for function in (kineto, kineto_2021, kineto_2026, dumped, compact, indented, array)
}


def everything() -> Trace:
    """One trace with every kind of event."""
    trace = Trace(metadata={"baseTimeNanoseconds": BASE_NS, "record_shapes": 1})
    trace.note("ProfilerStep#3", T0, 900_000)
    trace.note("forward", T0 + 1_000, 300_000)
    trace.frame("model.py(12): forward", T0 + 1_500, 250_000)
    trace.frame("nn.Module: Linear_0", T0 + 2_000, 200_000)
    shapes = {
        "Input Dims": [[4, 8], [8, 2], []],
        "Input Strides": [[8, 1], [2, 1], []],
        "Input type": ["float", "float", "Scalar"],
    }
    trace.launch(
        "aten::mm",
        "gemm<float>(int)",
        T0 + 3_001,
        11,
        {**shapes, "Concrete Inputs": ["", "", "0.5"], "Sequence number": 5, "Fwd thread id": 0},
    )
    trace.launch(
        "aten::cat",
        "cat_kernel",
        T0 + 40_007,
        12,
        {"Input Dims": [[[2, 3], [4, 3]], []], "Input type": ["TensorList", "Scalar"]},
    )
    trace.op(
        "MmBackward0", T0 + 400_000, 50_000, {"External id": 1013, "Sequence number": 5, "Fwd thread id": 1}, tid=2
    )
    trace.api("cudaLaunchKernel", T0 + 410_000, 5_000, 13, {"External id": 1013}, tid=2)
    trace.kernel("gemm<float>(int)", T0 + 450_123, 7_891, 13, {"External id": 1013})
    trace.api("cudaMemcpyAsync", T0 + 500_000, 2_000, 14)
    trace.memcpy(T0 + 510_000, 1_001, 14, 65_536)
    trace.api("cudaMemsetAsync", T0 + 520_000, 2_000, 15)
    trace.memset(T0 + 530_000, 999, 15, 512)
    trace.memory(T0 + 540_000, -512, 139_689_313_540_608)
    trace.counter("GPU 0 Utilization", T0 + 541_000, {"util": 0.5})
    trace.span("cuda_profiler_range", "range_1", T0 + 542_000, 1_000, {"smsp__inst_executed": 86_114_304}, pid=0, tid=0)
    trace.note("forward", T0 + 23_000, 60_000, cat="gpu_user_annotation", pid=0, tid=7)
    trace.flow("s", 11, T0 + 5_001)
    trace.flow("f", 11, T0 + 23_001, pid=0, tid=7)
    trace.span("overhead", "Activity Buffer Request", T0 + 600_000, 4_000, pid=-1, tid=0)
    trace.names()
    return trace
