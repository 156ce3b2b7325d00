"""Small recordings of PyTorch, made by hand: kernels with their launch calls, synchronising calls, and steps."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

HOST = 100
"""Process and first thread of the host."""


@dataclasses.dataclass
class Recording:
    """Collects events; all times are in ns from an origin, which is far enough from zero for calls before it."""

    events: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    origin_us: int = 10_000
    correlation: int = 0

    def add(self, category: str, name: str, place: tuple[int, int], span: tuple[int, int], **details: Any) -> None:
        """An event of a process and thread (or device and stream) with start and duration."""
        (process, thread), (start, duration) = place, span
        times = {"ts": self.origin_us + start / 1000, "dur": duration / 1000}
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, **times, "args": details}
        )

    def kernel(self, name: str, start: int, duration: int, call: int, **details: Any) -> None:
        """A kernel of ten blocks on stream 7, or on that of `details`, that the first thread launched at `call`."""
        self.correlation += 1
        linked = {"correlation": self.correlation, "External id": self.correlation}
        stream, op = details.pop("stream", 7), details.pop("op", None)
        if op is not None:
            called = {"External id": self.correlation, "Input Dims": op[1], "Input type": ["float"] * len(op[1])}
            self.add("cpu_op", op[0], (HOST, HOST), (call - 500, 3_000), **called)
        self.add("cuda_runtime", "cudaLaunchKernel", (HOST, HOST), (call, 2_000), **linked)
        shape = {"grid": [10, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}
        placed = {"device": 0, "context": 1, "stream": stream, **shape, **linked, **details}
        self.add("kernel", name, (0, stream), (start, duration), **placed)

    def waits(self, name: str, start: int, duration: int, thread: int = HOST, process: int = HOST) -> None:
        """A call of the runtime on a thread, which waits."""
        self.correlation += 1
        self.add("cuda_runtime", name, (process, thread), (start, duration), correlation=self.correlation)

    def step(self, number: int, start: int, duration: int) -> None:
        """A step of the profiler."""
        self.add("user_annotation", f"ProfilerStep#{number}", (HOST, HOST), (start, duration))

    def write(self, path: Path) -> Path:
        """The file, as PyTorch's profiler writes it."""
        gpu = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
        whole = {"schemaVersion": 1, "deviceProperties": [gpu], "traceEvents": self.events}
        path.write_text(json.dumps(whole | {"displayTimeUnit": "ms", "traceName": path.name}), encoding="utf-8")
        return path
