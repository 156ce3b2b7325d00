"""Memory over time, and what held it at the peak, against a plain walk through the events of the file."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.errors import KerneldbError
from tests.ingest.traces import T0, Trace, kineto

if TYPE_CHECKING:
    from pathlib import Path

Device = tuple[int, int | None]


def walked(path: Path) -> dict[Device, dict[str, Any]]:
    """By (type, index) of the device: highest total, and what is held then of allocations that the file shows."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    changes = [event for event in events if event.get("name") == "[memory]"]
    changes.sort(key=lambda event: float(event["ts"]))
    live: dict[Device, dict[int, int]] = defaultdict(dict)
    peaks: dict[Device, dict[str, Any]] = {}
    for event in changes:
        args = event["args"]
        device = (args["Device Type"], args["Device Id"] if args["Device Id"] >= 0 else None)
        live[device].pop(args["Addr"], None)
        if args["Bytes"] > 0:
            live[device][args["Addr"]] = args["Bytes"]
        if args["Total Allocated"] > peaks.get(device, {"total": -1})["total"]:
            peaks[device] = {"total": args["Total Allocated"], "held": sum(live[device].values())}
    return peaks


NAMES = ("tracelens-h100-bert-small", "tracelens-h100-qwen1.5-0.5b")


@pytest.mark.volume
@pytest.mark.parametrize("name", NAMES)
def test_what_held_memory_at_the_peak(shared_data: Path, tmp_path: Path, name: str) -> None:
    path = shared_data / "pytorch" / f"{name}.json.gz"
    db = kerneldb.open(tmp_path / "k.duckdb")
    db.ingest(path)
    expected = walked(path)
    types = {0: "cpu", 1: "cuda"}
    for key in ("root_op", "op", "module", "python_line"):
        rows = db.memory(key).rows()
        for (kind, index), peak in expected.items():
            mine = [row for row in rows if (row["device_type"], row["device"]) == (types[kind], index)]
            held = [row["at_peak_bytes"] for row in mine if row["name"] != "(before the recording)"]
            assert {row["device_peak_bytes"] for row in mine} == {peak["total"]}
            assert sum(held) == peak["held"]
            assert sum(row["at_peak_bytes"] for row in mine) == peak["total"]


def allocating() -> Trace:
    """Two operators on one device: 400 bytes of the first are held when the second makes the peak."""
    trace = Trace()
    trace.op("aten::linear", T0, 100_000)
    trace.op("aten::empty", T0 + 1_000, 20_000)
    trace.op("aten::relu", T0 + 200_000, 100_000)
    events = [
        (2_000, 400, 1),
        (3_000, 100, 2),
        (4_000, -100, 2),
        (201_000, 300, 3),
        (202_000, -400, 1),
        (203_000, 50, 1),
    ]
    total = 1_000
    for at, size, address in events:
        total += size
        trace.memory(T0 + at, size, address, {"Total Allocated": total})
    return trace


@pytest.fixture
def db(tmp_path: Path) -> kerneldb.Database:
    (tmp_path / "t.json").write_text(kineto(allocating()))
    made = kerneldb.open(tmp_path / "k.duckdb")
    made.ingest(tmp_path / "t.json")
    return made


def test_own_peaks_and_what_is_held_at_that_of_the_device(db: kerneldb.Database) -> None:
    columns = ("name", "allocations", "allocated_bytes", "peak_bytes", "at_peak_bytes", "device_peak_bytes")
    assert [tuple(row[column] for column in columns) for row in db.memory().rows()] == [
        ("(before the recording)", 0, 0, None, 1_000, 1_700),
        ("aten::linear", 2, 500, 500, 400, 1_700),
        ("aten::relu", 2, 350, 350, 300, 1_700),
    ]
    assert {row["name"] for row in db.memory("op").rows()} == {"(before the recording)", "aten::empty", "aten::relu"}


def test_a_release_belongs_to_the_allocation_at_its_address(db: kerneldb.Database) -> None:
    rows = db.sql(
        "SELECT bytes, released_index, held_at_peak, is_peak FROM memory_timeline ORDER BY event_index"
    ).rows()
    assert [tuple(row.values()) for row in rows] == [
        (400, 4, True, False),
        (100, 2, False, False),
        (-100, None, None, False),
        (300, None, True, True),
        (-400, None, None, False),
        (50, None, False, False),
    ]


def test_without_addresses_nobody_knows_what_is_held(tmp_path: Path) -> None:
    trace = Trace()
    for at, size in ((1_000, 64), (2_000, 32), (3_000, -64)):
        trace.add("i", None, "[memory]", T0 + at, s="t", args={"Device Type": 1, "Device Id": 0, "Bytes": size})
    (tmp_path / "t.json").write_text(kineto(trace))
    made = kerneldb.open(tmp_path / "k.duckdb")
    made.ingest(tmp_path / "t.json")
    (row,) = made.memory().rows()
    assert (row["allocated_bytes"], row["peak_bytes"], row["at_peak_bytes"], row["device_peak_bytes"]) == (
        96,
        None,
        None,
        96,
    )


def test_a_step_recorded_as_an_operator_owns_no_memory(shared_data: Path, tmp_path: Path) -> None:
    """Torch 1.8 records the steps of its profiler as operators: what they hold is that of the operators in them."""
    db = kerneldb.open(tmp_path / "k.duckdb")
    db.ingest(shared_data / "pytorch" / "kineto-tb-resnet50-workers0.json.gz")
    rows = db.memory("root_op").rows()
    names = {row["name"] for row in rows}
    assert "aten::conv2d" in names
    assert not [name for name in names if name and name.startswith("ProfilerStep")]
    assert sum(row["allocations"] for row in rows) == sum(row["allocations"] for row in db.memory("op").rows())


def test_a_trace_without_memory_says_how_to_record_it(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch("aten::mm", "gemm", T0, 1)
    (tmp_path / "t.json").write_text(kineto(trace))
    made = kerneldb.open(tmp_path / "k.duckdb")
    made.ingest(tmp_path / "t.json")
    shown = CliRunner().invoke(cli, ["analyze", "memory", "--db", str(made.path), "--csv"])
    assert (shown.exit_code, len(shown.stdout.splitlines())) == (0, 1)
    assert "profile_memory=True" in shown.stderr


def test_memory_of_the_host_has_no_number(tmp_path: Path) -> None:
    trace = Trace()
    args = {"Device Type": 0, "Device Id": -1, "Bytes": 64, "Addr": 1, "Total Allocated": 64}
    trace.add("i", None, "[memory]", T0, s="t", args=args)
    (tmp_path / "t.json").write_text(kineto(trace))
    made = kerneldb.open(tmp_path / "k.duckdb")
    made.ingest(tmp_path / "t.json")
    shown = CliRunner().invoke(cli, ["analyze", "memory", "--db", str(made.path)])
    assert "t, cpu: peak 64 B" in shown.stderr


def test_the_command(db: kerneldb.Database) -> None:
    shown = CliRunner().invoke(cli, ["analyze", "memory", "--db", str(db.path)])
    assert shown.exit_code == 0
    assert "aten::linear" in shown.stdout
    assert "cuda 0: peak 1.70 KB" in shown.stderr
    with pytest.raises(KerneldbError, match="memory_by takes root_op"):
        db.memory("colour")
