"""Hostile Perfetto traces: no wrong number, no traceback, bounded memory."""

from __future__ import annotations

import tracemalloc
import zlib
from pathlib import Path

import pytest

from kerneldb.errors import TraceError
from kerneldb.ingest.readers import Head, find
from tests.ingest.conversion import Converted
from tests.perfetto.traces import begin, dispatch, end, packet, rocprofv3, track
from tests.protobuf import message, varint
from tests.rocprof.conversion import converted, launch_rows

ENOUGH = 200 << 20
"""Bytes of memory that no small file may need."""
CUT_NUMBER = b"\x0a\x02\x08\xff"
OVERFLOW = message((1, b"\x40" + b"\xff" * 11))
ABSURD = b"\x0a" + varint(1 << 62) + b"abc"


def read(tmp_path: Path, data: bytes) -> Converted:
    path = tmp_path / "hostile.pftrace"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        trace = converted(path)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < ENOUGH
    return trace


def nested(depth: int) -> bytes:
    """An argument that nests `depth` levels."""
    value = message((4, 1))
    for _ in range(depth):
        value = message((12, value))
    return message((10, "deep")) + value


UNKNOWN_NAME = packet((8, 1), (11, message((9, 1), (11, 5), (22, "kernel"), (10, 99)))) + end(9, 5)
UNKNOWN_ARGUMENT = packet((8, 1), (11, message((9, 1), (11, 5), (22, "kernel"), (4, message((1, 7), (3, 1)))))) + end(
    9, 5
)
NESTED = packet((8, 1), (11, message((9, 1), (11, 5), (22, "kernel"), (4, nested(5_000))))) + end(9, 5)
HOSTILE = {
    "cut": rocprofv3()[:-7],
    "cut number": rocprofv3() + CUT_NUMBER,
    "number of more than 64 bits": rocprofv3() + OVERFLOW,
    "absurd length": rocprofv3() + ABSURD,
    "a name that is not in the file": rocprofv3() + UNKNOWN_NAME,
    "an argument that is not in the file": rocprofv3() + UNKNOWN_ARGUMENT,
    "deep arguments": rocprofv3() + NESTED,
    "an end that never began": rocprofv3() + end(10, 4242),
    "wire type 7": rocprofv3() + message((1, b"\x0f\x01")),
    "field number 0": rocprofv3() + message((1, b"\x00\x01")),
    "its own parent": rocprofv3() + packet((60, message((1, 1001), (5, 1001), (2, "COMPUTE")))),
    "packed packets within packed ones": packet((50, zlib.compress(packet((50, zlib.compress(rocprofv3()))))))
    + rocprofv3(),
}


def test_a_bomb_of_packed_packets_keeps_the_numbers_before_it(tmp_path: Path) -> None:
    check_numbers(tmp_path, rocprofv3() + packet((50, zlib.compress(bytes(300 << 20), 1))))


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_whole_keeps_its_numbers(tmp_path: Path, what: str) -> None:
    check_numbers(tmp_path, HOSTILE[what])


def check_numbers(tmp_path: Path, data: bytes) -> None:
    trace = read(tmp_path, data)
    kernels = [row for row in launch_rows(trace, "name", "duration_ns") if row["name"].startswith(("gemm", "add"))]
    assert [row["duration_ns"] for row in kernels] == [500, 250]


@pytest.mark.parametrize("what", ["cut", "cut number", "number of more than 64 bits", "absurd length", "wire type 7"])
def test_damage_is_counted(tmp_path: Path, what: str) -> None:
    trace = read(tmp_path, HOSTILE[what])
    assert trace.total("lost") + trace.total("truncated") == 1


def test_negative_and_absurd_times_are_refused(tmp_path: Path) -> None:
    backwards = begin(9_000, "back", "kernel", 5) + end(8_000, 5)
    endless = begin(10, "long", "kernel", 5) + end(1 << 63, 5)
    beyond = dispatch(1 << 63, (1 << 64) - 1, "late", 4)
    trace = read(tmp_path, rocprofv3() + backwards + endless + beyond)
    odd = [row for row in launch_rows(trace, "name", "duration_ns") if row["name"] in ("back", "long", "late")]
    assert [row["duration_ns"] for row in odd] == [None, None, None]
    assert trace.total("refused") >= 3


def test_sizes_that_contradict_each_other_are_unknown(tmp_path: Path) -> None:
    said = {"begin_ns": 1, "end_ns": 5, "workgroup_size": 0, "grid_size": 64, "queue": 1 << 63}
    trace = read(tmp_path, begin(1, "k", "kernel_dispatch", 9, **said) + end(5, 9))
    (row,) = launch_rows(trace, "total_blocks", "queue")
    assert row == {"total_blocks": None, "queue": None}


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x00", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05hello", b"\x00" * 64])
def test_other_bytes_are_no_perfetto_trace(tmp_path: Path, data: bytes) -> None:
    assert find(Head(tmp_path / "some.bin", data)) is None
    with pytest.raises(TraceError):
        read(tmp_path, data)


def test_tracks_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="without GPU work"):
        read(tmp_path, track(1, "main", 1, 1))


def test_empty_packets_are_counted_and_cost_nothing(tmp_path: Path) -> None:
    packed = message((1, message((50, zlib.compress(b"\x0a\x00" * 1_000_000)))))
    before = read(tmp_path, rocprofv3()).report("read")["packets"]
    trace = read(tmp_path, rocprofv3() + b"\x0a\x00" * 5_000_000 + packed + b"\x12\x00" * 3)
    assert trace.report("read")["packets"] == before + 6_000_001
    assert trace.report("skipped")["packets field 2 of the trace: new to this version of kerneldb"] == 3
    assert trace.launches.height == 3
