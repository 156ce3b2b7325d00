"""Hostile profiles: no wrong number, no traceback, bounded memory."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest.readers import Head, find
from kerneldb.ingest.wire import WireError, fields, varint
from kerneldb.ingest.xla.xspace import MOST_PLANES
from tests.ingest.conversion import Converted
from tests.protobuf import message
from tests.protobuf import varint as encoded
from tests.rocprof.conversion import converted, launch_rows
from tests.xla.profiles import Event, Plane, as_json, buffered, direct, kernel, metadata, module, space

ENOUGH = 200 << 20
"""Bytes of memory that no small file may need."""


def read(tmp_path: Path, data: bytes, name: str = "host.xplane.pb") -> Converted:
    path = tmp_path / name
    path.write_bytes(data)
    tracemalloc.start()
    try:
        return converted(path)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < ENOUGH


def gpu(*events: bytes | int) -> bytes:
    """A second GPU whose line holds these events, without any metadata."""
    line = message((2, "Stream #9(Compute)"), (4, list(events)))
    return message((1, message((2, "/device:GPU:1"), (3, line))))


OWN_LOOP = message((1, message((1, "loop"), (2, "fusion"), (35, 1), (36, 1), (38, 1))))
HOSTILE = {
    "plane with a number of more than 64 bits": message((1, b"\x08" + b"\xff" * 11)),
    "plane of an absurd length": b"\x0a" + encoded(1 << 40) + b"abc",
    "cut in the middle": space(direct())[: len(space(direct())) // 8],
    "a line that is cut": message((1, message((2, "/device:GPU:1"), (3, b"\x22\xff")))),
    "an event that is cut": gpu(b"\x08"),
    "an event that is a number": gpu(1 << 31),
    "an event that refers to nothing": gpu(message((1, 99), (2, 5), (3, 7))),
    "a value that refers to nothing": gpu(message((1, 1), (2, 5), (3, 7), (4, message((1, 5), (7, 8))))),
    "aggregates": gpu(message((1, 1), (5, 1_000_000), (3, 7))),
    "wire type 3": message((1, b"\x0b\x0c")),
    "unknown fields": message((99, 5), (100, b"\x00")),
    "a module that is no module": metadata({"jit_other(11)": b"\xff\xff\xff"}),
    "a module without computations": metadata({"jit_other(11)": message((1, b""))}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_whole_keeps_its_numbers(tmp_path: Path, what: str) -> None:
    trace = read(tmp_path, space(direct(), HOSTILE[what]))
    rows = [row for row in launch_rows(trace, "device", "duration_ns") if row["device"] == 0]
    assert [row["duration_ns"] for row in rows] == [500] * 4


@pytest.mark.parametrize("what", [what for what in HOSTILE if "module" not in what])
def test_damage_is_counted(tmp_path: Path, what: str) -> None:
    trace = read(tmp_path, space(direct(), HOSTILE[what]))
    assert trace.total("lost") + trace.total("skipped") > read(tmp_path, space(direct())).total("skipped")


def looped() -> bytes:
    """A computation that calls itself, and a fusion of itself."""
    own = message((1, "call.1"), (2, "call"), (35, 1), (38, 5))
    fused = message((1, "fusion.1"), (2, "fusion"), (35, 2), (36, [2, 99]), (38, [5, 77]))
    main = message((1, "main"), (2, [own, fused]), (5, 5))
    return message((1, message((1, "jit_step"), (3, main), (6, 5))))


@pytest.mark.parametrize("proto", [looped(), module()[:-9], b"\x0a\x02\x1a\x00", message((1, message((3, b"\xff"))))])
def test_damaged_modules_leave_kernels_without_instruction(tmp_path: Path, proto: bytes) -> None:
    trace = read(tmp_path, space(buffered(), modules={"jit_step(10)": proto}))
    assert [row["duration_ns"] for row in launch_rows(trace, "duration_ns")] == [500] * 4


def test_negative_and_absurd_durations_are_refused(tmp_path: Path) -> None:
    events = [kernel("back", 10, "x", -5), kernel("long", 20, "x", 10**15), kernel("late", 1 << 52, "x", 1 << 50)]
    trace = read(tmp_path, space([*direct(), *events]))
    odd = [row["duration_ns"] for row in launch_rows(trace, "name", "duration_ns") if row["name"] in ("back", "long")]
    assert odd == [None, None]
    assert trace.total("refused") >= 2


@pytest.mark.parametrize("start", [-5, 1 << 62, (1 << 64) - 1])
def test_a_start_that_no_clock_says_is_unknown(tmp_path: Path, start: int) -> None:
    task = Plane("Task Environment", {}, {"profile_start_time": start}).encoded()
    row = read(tmp_path, space(direct(), task)).trace
    assert (row["base_ns"], row["clock"]) == (None, "capture")


@pytest.mark.parametrize("number", ["9" * 5000, "2147483648"])
def test_a_gpu_with_a_number_that_none_has_gets_a_free_one(tmp_path: Path, number: str) -> None:
    other = Plane(f"/device:GPU:{number}", {f"Stream #{number}(Compute)": direct()})
    trace = read(tmp_path, space(direct(), other.encoded()))
    assert sorted(trace.launches["device"].to_list()) == [0] * 4 + [1] * 4
    assert trace.report("note")["GPUs with another number: several have the same one, or none can have it"] == 1


def test_details_that_are_no_numbers_are_unknown(tmp_path: Path) -> None:
    details = "regs:-5 static_shared:x dynamic_shared:1 grid:1,2 block:99999999999,1,1 occ_pct:nan"
    event = Event("k", 1, 5, {"kernel_details": details, "correlation_id": "$$", "hlo_op": "k"})
    (row,) = launch_rows(
        read(tmp_path, space([event])),
        *("registers", "shared_bytes", "grid_x", "block_x", "occupancy", "correlation_id", "duration_ns"),
    )
    assert row == dict.fromkeys(row) | {"duration_ns": 5}


def test_a_profile_without_gpu_work_says_what_it_holds(tmp_path: Path) -> None:
    only = Plane("/device:TPU:0", {"XLA Ops": direct()}).encoded() + Plane("/host:CPU", {"python": []}).encoded()
    with pytest.raises(NotATraceError, match=r"without GPU work \(it holds /device:TPU:0, /host:CPU"):
        read(tmp_path, only)


def test_a_gpu_without_a_stream_says_its_lines(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match=r"it holds /device:GPU:0 with XLA Ops, Stream 7\)"):
        read(tmp_path, Plane("/device:GPU:0", {"XLA Ops": direct(), "Stream 7": direct()}).encoded())


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_cut_json_is_refused(tmp_path: Path, share: float) -> None:
    whole = as_json(direct())
    with pytest.raises(UnreadableTraceError, match=r"cut or damaged.*xplane\.pb"):
        read(tmp_path, whole[: int(len(whole) * share)], "host.trace.json")


def test_a_profile_cut_in_its_first_plane_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTraceError, match=r"cut or damaged.* Copy it again\.$"):
        read(tmp_path, Plane("/device:GPU:0", {"Stream #1": direct()}).encoded()[:200])


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(space(direct()))
    with pytest.raises(UnreadableTraceError, match="gzip"):
        read(tmp_path, packed[:-20], "host.xplane.pb.gz")


@pytest.mark.parametrize("value", ['"x"', "null", "[1]", "1e400", '{"a":1}'])
def test_odd_values_in_json(tmp_path: Path, value: str) -> None:
    head = as_json(direct())[:-2]
    event = f'{{"ph":"X","pid":1,"tid":7,"ts":{value},"dur":{value},"name":{value},"args":{value}}}'
    path = head + b"," + event.encode() + b"]}"
    if value == "1e400":  # no float
        with pytest.raises(UnreadableTraceError, match="damaged"):
            read(tmp_path, path, "host.trace.json")
        return
    named = launch_rows(read(tmp_path, path, "host.trace.json"), "name", "duration_ns")
    assert [row["duration_ns"] for row in named if row["name"].startswith("gemm")] == [500]
    assert [row["duration_ns"] for row in named].count(None) == 1


@pytest.mark.parametrize("value", ["1e400", "[1e400]", "9" * 400, "-" + "9" * 30])
def test_a_number_of_an_argument_that_64_bits_do_not_hold_costs_itself(tmp_path: Path, value: str) -> None:
    head = as_json(direct())[:-2]
    event = f'{{"ph":"X","pid":1,"tid":7,"ts":9,"dur":1,"name":"gemm_odd","args":{{"hlo_op":"dot.7","bytes":{value}}}}}'
    named = launch_rows(read(tmp_path, head + b"," + event.encode() + b"]}", "host.trace.json"), "name", "duration_ns")
    assert {"name": "gemm_odd", "duration_ns": 1_000} in named


@pytest.mark.parametrize("data", [b"", b"\x0a", b"\x0a\x05hello", b"hello", b"\x0a\xff\xff"])
def test_other_bytes_are_not_taken(data: bytes, tmp_path: Path) -> None:
    assert find(Head(tmp_path / "some.bin", data)) is None


@pytest.mark.parametrize("data", [b"\x80", b"\x80" * 11, b"\x08", b"\x0a\x05abc", b"\x09\x00", b"\x0f", b"\x00\x00"])
def test_the_wire_format_refuses_what_is_no_message(data: bytes) -> None:
    with pytest.raises(WireError):
        list(fields(data))


@pytest.mark.parametrize("count", [1, 2, 3, 32_768, 32_769, 32_770, 1_000_000])
def test_a_run_of_empty_fields_is_passed_over_at_once(count: int) -> None:
    passed = Counter[int]()
    found = [*fields(b"\x10\x07" + b"\x0a\x00" * count + b"\x12\x00\x0a\x01\x00", passed)]
    assert found == [(2, 7), (1, b""), (1, b"\x00")]
    assert passed == Counter({2: 1}) + Counter({1: count - 1})


def test_empty_planes_and_lines_are_counted_and_cost_nothing(tmp_path: Path) -> None:
    more = message((1, message((2, "/device:GPU:1"), (3, [b""] * 1000))))
    trace = read(tmp_path, space(direct(), more + b"\x0a\x00" * 100_000))
    assert trace.report("skipped")["empty field of a profile"] == 100_000
    assert trace.launches.height == 4


def test_planes_beyond_those_that_a_host_has_are_counted_and_not_read(tmp_path: Path) -> None:
    more = message((1, message((2, "/a"))))
    trace = read(tmp_path, space(direct(), more * (MOST_PLANES + 5)))
    (lost,) = (n for reason, n in trace.report("lost").items() if reason.startswith("plane after the first"))
    assert lost >= 5
    assert trace.launches.height == 4


def test_empty_fields_of_several_numbers_are_passed_over_at_once() -> None:
    dice = random.Random(5)
    parts = (b"\x0a\x00", b"\x12\x00", b"\x0a\x01x", b"\x08\x00", b"\xfa\x01\x00", b"\x0a\x00\x1a\x00" * 9)
    for _ in range(1000):
        data = b"".join(dice.choices(parts, k=dice.randrange(20)))
        passed: Counter[int] = Counter()
        found, every = list(fields(data, passed)), list(fields(data))
        assert [one for one in found if one[1] != b""] == [one for one in every if one[1] != b""]
        assert Counter(number for number, _ in found) + passed == Counter(number for number, _ in every)
    assert len(list(fields(b"\x0a\x00\x12\x00" * 1_000_000, Counter()))) == 1


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, (1 << 63) - 1, (1 << 64) - 1])
def test_numbers_come_back(number: int) -> None:
    assert varint(encoded(number), 0) == (number, len(encoded(number)))
