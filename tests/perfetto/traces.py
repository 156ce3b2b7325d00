"""Writes Perfetto traces for tests, as the SDK of Perfetto does: interned names, incremental clocks."""

from __future__ import annotations

from tests.protobuf import Value, fixed64, message

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
SEQUENCE = 10


def packet(*parts: tuple[int, Value | list[bytes]], sequence: int = 1) -> bytes:
    """A packet of the trace."""
    return message((1, message(*parts, (SEQUENCE, sequence))))


def annotation(name: str, value: object) -> bytes:
    """A debug annotation with its name in it."""
    if isinstance(value, list):
        return message((10, name), (12, [message((4, one)) for one in value]))
    kind = 5 if isinstance(value, float) else 6 if isinstance(value, str) else 3
    return message((10, name), (kind, value))  # type: ignore[arg-type]


def begin(at: int, name: str, category: str, track: int, flow: int | None = None, **arguments: object) -> bytes:
    """The begin of a slice."""
    event = message(
        (9, BEGIN),
        (11, track),
        (22, category),
        (23, name),
        (4, [annotation(key, value) for key, value in arguments.items()]),
    )
    return packet((8, at), (11, event + (fixed64(47, flow) if flow is not None else b"")))


def end(at: int, track: int) -> bytes:
    """The end of the innermost slice of a track."""
    return packet((8, at), (11, message((9, END), (11, track))))


def track(number: int, name: str, pid: int | None = None, tid: int | None = None) -> bytes:
    """The description of a track."""
    thread = [(4, message((1, pid or 0), (2, tid)))] if tid is not None else []
    return packet((60, message((1, number), (2, name), *thread)))


def dispatch(start: int, stop: int, name: str, correlation: int, queue: int = 1, agent: str = "Agent-4") -> bytes:
    """A kernel as rocprofv3 writes it: 16 workgroups of 64 work-items."""
    said = {
        "begin_ns": start,
        "end_ns": stop,
        "delta_ns": stop - start,
        "kind": 11,
        "agent": agent,
        "corr_id": correlation,
        "queue": queue,
        "tid": 70,
        "kernel_id": 3,
        "private_segment_size": 0,
        "group_segment_size": 512,
        "workgroup_size": 64,
        "grid_size": 1024,
    }
    number = 1000 + queue
    return begin(start, name, "kernel_dispatch", number, correlation, **said) + end(stop, number)


def call(start: int, stop: int, name: str, correlation: int, category: str = "hip_api") -> bytes:
    """A call as rocprofv3 writes it."""
    said = {"begin_ns": start, "end_ns": stop, "tid": 70, "corr_id": correlation, "ancestor_id": 0}
    return begin(start, name, category, 70, correlation, **said) + end(stop, 70)


def rocprofv3() -> bytes:
    """Two kernels on one queue, a copy, their calls and a roctx range around the first."""
    copy = {"begin_ns": 5_000, "end_ns": 5_800, "dst_agent": "Agent-4", "src_agent": "Agent-0", "copy_bytes": 4096}
    return b"".join(
        [
            track(70, "THREAD 1 (70)", 60, 70),
            track(1001, "COMPUTE Agent [4] QUEUE [0] GPU"),
            begin(900, "prefill", "marker_api", 70, 9, begin_ns=900, end_ns=1_500, corr_id=9),
            call(1_000, 1_100, "hipLaunchKernel", 1),
            end(1_500, 70),
            call(2_000, 2_100, "hipLaunchKernel", 2),
            dispatch(3_000, 3_500, "gemm_kernel(float*)", 1),
            dispatch(4_000, 4_250, "add_kernel(float*)", 2),
            begin(5_000, "MEMORY_COPY_HOST_TO_DEVICE", "memory_copy", 1001, 3, **copy) + end(5_800, 1001),
        ]
    )
