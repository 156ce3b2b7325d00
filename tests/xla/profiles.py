"""Writes profiles of XLA for tests: an XSpace with a GPU, a thread and modules of HLO, and the JSON of the same."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tests.protobuf import Field, message

PS = 1000
FUSION, DOT, CALL = "fusion", "dot", "custom-call"
BF16, F32 = 16, 11
KERNEL = "regs:32 static_shared:1024 dynamic_shared:64 grid:8,2,1 block:128,1,1 occ_pct:50"


@dataclasses.dataclass(frozen=True)
class Event:
    """An event: times in ns."""

    name: str
    start: int
    duration: int
    stats: dict[str, Any] = dataclasses.field(default_factory=dict)


class Plane:
    """A plane: lines by name; names get numbers as they come."""

    def __init__(self, name: str, lines: dict[str, list[Event]], stats: dict[str, Any] | None = None) -> None:
        self.name, self.lines, self.stats = name, lines, stats or {}
        self._stats: dict[str, int] = {}
        self._events: dict[str, int] = {}

    def _number(self, names: dict[str, int], name: str) -> int:
        return names.setdefault(name, len(names) + 1)

    def _stat(self, name: str, value: Any) -> bytes:
        """Texts beginning with @ are references."""
        kind = 2 if isinstance(value, float) else 3 if isinstance(value, int) else 6 if isinstance(value, bytes) else 5
        if isinstance(value, str) and value.startswith("@"):
            kind, value = 7, self._number(self._stats, value[1:])
        return message((1, self._number(self._stats, name)), (kind, value))

    def _event(self, event: Event) -> bytes:
        stats = [self._stat(name, value) for name, value in event.stats.items()]
        times: list[Field] = [(2, event.start * PS), (3, event.duration * PS)]
        return message((1, self._number(self._events, event.name)), *times, (4, stats))

    def encoded(self) -> bytes:
        """The plane as field 1 of the XSpace."""
        lines = [
            message((1, place), (2, name), (3, 0), (4, [self._event(event) for event in events]))
            for place, (name, events) in enumerate(self.lines.items())
        ]
        stats = [self._stat(name, value) for name, value in self.stats.items()]
        named = [_entry(number, message((1, number), (2, name))) for name, number in self._events.items()]
        values = [_entry(number, message((1, number), (2, name))) for name, number in self._stats.items()]
        return message((1, message((2, self.name), (3, lines), (4, named), (5, values), (6, stats))))


def _entry(number: int, value: bytes) -> bytes:
    return message((1, number), (2, value))


def metadata(modules: dict[str, bytes]) -> bytes:
    """The plane of modules: name(program) → HloProto."""
    names = [_entry(1, message((1, 1), (2, "Hlo Proto")))]
    listed = [
        _entry(number, message((1, number), (2, name), (5, message((1, 1), (6, proto)))))
        for number, (name, proto) in enumerate(modules.items(), 7)
    ]
    return message((1, message((2, "/host:metadata"), (4, listed), (5, names))))


def shape(*dims: int, dtype: int = BF16) -> bytes:
    """An array in row-major order."""
    order = message((1, list(range(len(dims)))[::-1])) if dims else b""
    return message((2, dtype), (3, list(dims)), (5, order))


def instruction(
    number: int, name: str, opcode: str, result: bytes, operands: tuple[int, ...] = (), *more: Field
) -> bytes:
    """An instruction of a computation."""
    return message((1, name), (2, opcode), (3, result), *more, (35, number), (36, list(operands)))


def module(*, in_a_loop: bool = False) -> bytes:
    """`main`: a dot as a fusion, a product by cuBLAS, and two loop fusions that share one kernel; perhaps in a loop."""
    given = [instruction(18, "a", "parameter", shape(64, 128)), instruction(19, "b", "parameter", shape(128, 32))]
    summed = (30, message((1, [1]), (2, [0])))
    inner = message((1, "fused"), (2, [*given, instruction(20, "dot.1", DOT, shape(64, 32), (18, 19), summed)]), (5, 2))
    axes = {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"], "lhs_batch_dimensions": []}
    config = json.dumps({"gemm_backend_config": {"beta": 0, "dot_dimension_numbers": axes}})
    traced = (7, message((2, "jit(step)/jvp()/dot_general"), (3, "train.py"), (4, 12)))
    listed = [
        instruction(1, "x", "parameter", shape(64, 128)),
        instruction(2, "w", "parameter", shape(128, 32)),
        instruction(3, "gemm_fusion_dot.5", FUSION, shape(64, 32), (1, 2), (11, "kCustom"), (38, 2), traced),
        instruction(4, "loop_add_fusion.1", FUSION, shape(64, 32), (3,), (11, "kLoop")),
        instruction(5, "custom-call.1", CALL, shape(64, 32), (1, 2), (28, "__cublas$lt$matmul"), (43, config), traced),
        instruction(6, "loop_add_fusion.2", FUSION, shape(64, 32), (5,), (11, "kLoop")),
    ]
    main = message((1, "main"), (2, listed), (5, 1))
    schedule = [message((1, 1), (2, message((1, [1, 2, 3, 4, 5, 6]))))]
    entry, around = 1, []
    if in_a_loop:
        begin = [
            instruction(31, "copy.7", "copy", shape(64, 128)),
            instruction(32, "while", "while", shape(64, 32), (31,), (38, [1, 3])),
        ]
        entry, around = 4, [message((1, "entry"), (2, begin), (5, 4))]
        schedule.append(message((1, 4), (2, message((1, [31, 32])))))
    return message((1, message((1, "jit_step"), (3, [inner, main, *around]), (6, entry), (7, message((1, schedule))))))


def program(*listed: bytes) -> bytes:
    """A module with one computation, scheduled as it is listed."""
    numbers = list(range(1, len(listed) + 1))
    schedule = message((1, message((1, 1), (2, message((1, numbers))))))
    main = message((1, "main"), (2, list(listed)), (5, 1))
    return message((1, message((1, "jit_step"), (3, main), (6, 1), (7, schedule))))


def kernel(name: str, start: int, op: str, duration: int = 500, **stats: Any) -> Event:
    """A kernel of the module."""
    common = {"correlation_id": 1, "context_id": "$$1", "kernel_details": f"@{KERNEL}", "hlo_op": f"@{op}"}
    return Event(name, start, duration, {**common, "hlo_module": "@jit_step", "program_id": 10, **stats})


GPU = {
    "gpu_device_name": "NVIDIA H200",
    "device_vendor": "Nvidia",
    "clock_rate": 1_980_000,
    "core_count": 132,
    "compute_cap_major": 9,
    "compute_cap_minor": 0,
    "memory_size": 150 << 30,
}


def buffered() -> list[Event]:
    """What one launch of a command buffer ran."""
    graph = {"cuda_graph_id": 4}
    names = ("gemm_fusion_dot_5", "loop_add_fusion_1", "nvjet_sm90_tst", "loop_add_fusion_1")
    return [kernel(name, 10_000 + 1_000 * n, "command_buffer_1", **graph) for n, name in enumerate(names)]


def direct() -> list[Event]:
    """The same without a command buffer."""
    ops = ("gemm_fusion_dot.5", "loop_add_fusion.1", "custom-call.1", "loop_add_fusion.2")
    return [
        dataclasses.replace(event, stats={**event.stats, "hlo_op": f"@{op}"} | {"correlation_id": n})
        for n, (event, op) in enumerate(zip(buffered(), ops, strict=True), 1)
    ]


def host() -> dict[str, list[Event]]:
    """A step of a program with an annotation of its own around the launch, and an allocation."""
    call = {"correlation_id": 1, "context_id": "$$1", "cuda_graph_id": 4}
    bytes_ = {"allocation_bytes": 4096, "bytes_allocated": 8192, "addr": 256, "allocator_name": "@GPU_0_bfc"}
    return {
        "python3": [
            Event("train", 1_000, 9_000, {"step_num": 3}),
            Event("$train.py:12 step", 1_100, 8_000),
            Event("forward", 2_000, 6_000),
            Event("PjRtCApiLoadedExecutable::Execute", 3_000, 4_000, {"_src": "@a.cc"}),
            Event("inside", 3_100, 100),
            Event("cuGraphLaunch (CudaGraph:4)", 4_000, 500, call),
            Event("MemoryAllocation", 2_500, 0, bytes_),
        ]
    }


def space(events: list[Event], *more: bytes, modules: dict[str, bytes] | None = None) -> bytes:
    """A whole profile."""
    gpu = Plane("/device:GPU:0", {"Stream #7(Compute)": events, "XLA Ops": events}, GPU)
    task = Plane("Task Environment", {}, {"profile_start_time": 1_700_000_000_000_000_000})
    known = {"jit_step(10)": module()} if modules is None else modules
    planes = [metadata(known), gpu.encoded(), Plane("/host:CPU", host()).encoded(), task.encoded()]
    return b"".join([*planes, *more]) + message((4, "node1"))


def as_json(events: list[Event]) -> bytes:
    """The JSON that the profiler writes of the same."""
    rows: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": {"name": "Stream #7(Compute)"}},
        {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "M", "pid": 701, "tid": 5, "name": "thread_name", "args": {"name": "python3"}},
    ]
    for pid, tid, listed in ((1, 7, events), (701, 5, host()["python3"])):
        for event in listed:
            args = {key: str(value).removeprefix("@") for key, value in event.stats.items() if key != "program_id"}
            times = {"ts": event.start / 1000, "dur": event.duration / 1000}
            rows.append({"ph": "X", "pid": pid, "tid": tid, "name": event.name, **times, "args": args})
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*rows, {}]}
    return json.dumps(document, separators=(",", ":")).encode()
