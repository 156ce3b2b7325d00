"""What the host did while the GPU was idle: which waits explain a gap, and which only happened meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.report import events
from kerneldb.report.asking import asking
from kerneldb.warehouse import Warehouse
from tests.answers.plain_traces import Recording

Row = dict[str, Any]
Wait = tuple[str, int, int, int, int]
"""Name, start, duration, thread and process of a call."""

STREAM, DEVICE, FREE = "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaFree"
OWN, HELPER, ELSEWHERE = (100, 100), (200, 100), (100, 900)

CAUSES: Final[dict[str, tuple[int, tuple[Wait, ...], str, str | None]]] = {
    "nothing": (170_000, (), "launching", None),
    "another thread": (170_000, ((STREAM, 10_000, 155_000, *HELPER),), "launching", None),
    "another process": (170_000, ((STREAM, 10_000, 155_000, *ELSEWHERE),), "launching", None),
    "behind a short one of another thread": (
        170_000,
        ((DEVICE, 10_000, 150_000, *OWN), (STREAM, 20_000, 1_000, *HELPER)),
        "synchronisation",
        DEVICE,
    ),
    "all of the lateness": (170_000, ((STREAM, 10_000, 155_000, *OWN),), "synchronisation", STREAM),
    "freed memory": (170_000, ((FREE, 10_000, 155_000, *OWN),), "allocation", FREE),
    "launched before": (90_000, ((STREAM, 10_000, 60_000, *OWN),), "between launches", None),
}
"""Call of the launch behind a gap from 100 to 180 us, the waits, the cause, and the call that it names."""


APART_NS = 1_000_000


def gaps(folder: Path, recording: Recording) -> list[Row]:
    database = kerneldb.open(folder / "k.duckdb")
    database.ingest(recording.write(folder / "made.json"))
    return database.sql("FROM idle_gaps('kernels') ORDER BY gap_start_ns").rows()


@pytest.fixture(scope="module")
def caused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """The gap of each case, a millisecond apart from each other in one recording."""
    recording = Recording()
    for number, (call, waits, _, _) in enumerate(CAUSES.values()):
        base = number * APART_NS
        recording.kernel("first", base, 100_000, call=base - 5_000)
        for name, start, duration, thread, process in waits:
            recording.waits(name, base + start, duration, thread, process)
        recording.kernel("second", base + 180_000, 10_000, call=base + call)
    found = {row["gap_start_ns"]: row for row in gaps(tmp_path_factory.mktemp("caused"), recording)}
    first = min(found)
    return {case: found[first + number * APART_NS] for number, case in enumerate(CAUSES)}


@pytest.mark.parametrize("case", CAUSES)
def test_the_cause_is_what_kept_the_launching_thread(caused: dict[str, Row], case: str) -> None:
    _, _, cause, waiting = CAUSES[case]
    gap = caused[case]
    assert gap["gap_ns"] == 80_000
    assert (gap["cause"], gap["waiting_call"]) == (cause, waiting)


def test_a_cause_that_is_carried_over_is_told_from_a_call_that_is_open(tmp_path: Path, caused: dict[str, Row]) -> None:
    """The wait of 60 us ended 30 us before the gap, in which the host was in no call until it launched."""
    recording = Recording()
    recording.kernel("first", 0, 100_000, call=-5_000)
    recording.waits(STREAM, 10_000, 60_000)
    recording.kernel("second", 180_000, 10_000, call=170_000)
    (gap,) = gaps(tmp_path, recording)
    assert (gap["cause"], gap["waiting_call"], gap["is_carried"]) == ("synchronisation", STREAM, True)
    assert (gap["no_call_ns"], gap["host_late_ns"]) == (70_000, 70_000)
    assert (gap["call_before"], gap["call_after"]) == (STREAM, "cudaLaunchKernel")
    with asking(kerneldb.open(tmp_path / "k.duckdb")) as ask:
        held = events.gather(ask.about(trace="made"), events.MOST)
        told = [text for _, _, text, _, _ in events.caused(ask.about(trace="made"), held.found.whole)]
    (name,) = held.frame.filter(pl.col("lane") == "idle")["name"]
    assert told == [name] == [f"synchronisation, after {STREAM} had ended, then second"]
    opened = caused["all of the lateness"]
    assert (opened["is_carried"], opened["no_call_ns"], opened["call_before"]) == (False, 5_000, STREAM)
    assert (caused["nothing"]["is_carried"], caused["nothing"]["no_call_ns"]) == (None, 70_000)


def test_within_an_outer_call_the_host_is_in_a_call(tmp_path: Path) -> None:
    """A short call ended long before the launch, but the one around it only 10 us before."""
    recording = Recording()
    recording.kernel("first", 0, 100_000, call=-5_000)
    recording.waits("outer", 50_000, 110_000)
    recording.waits("inner", 60_000, 50_000)
    recording.kernel("second", 180_000, 10_000, call=170_000)
    (gap,) = gaps(tmp_path, recording)
    assert (gap["no_call_ns"], gap["call_before"]) == (10_000, "outer")


def test_the_time_in_no_call_is_that_of_the_whole_gap(tmp_path: Path) -> None:
    """From 100 to 170 us two calls of 10 us each, and one that had begun before takes the first 5 us."""
    recording = Recording()
    recording.kernel("first", 0, 100_000, call=-5_000)
    for start, duration in ((90_000, 15_000), (120_000, 10_000), (158_000, 10_000)):
        recording.waits("cudaGetDevice", start, duration)
    recording.kernel("second", 180_000, 10_000, call=170_000)
    (gap,) = gaps(tmp_path, recording)
    assert (gap["host_late_ns"], gap["no_call_ns"], gap["call_before"]) == (70_000, 45_000, "cudaGetDevice")


def test_threads_of_no_known_process_come_last(tmp_path: Path) -> None:
    recording = Recording()
    recording.kernel("first", 0, 100_000, call=-5_000)
    for process in (-1, 7):
        recording.add("cpu_op", "aten::mm", (process, 0), (0, 1_000))
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(recording.write(tmp_path / "made.json"))
    with asking(database) as ask:
        places = (
            events.gather(ask.about(trace="made"), events.MOST).frame["place"].unique(maintain_order=True).to_list()
        )
    assert places[-1] == "no process, thread 0"
    assert {"process 100, thread 100", "process 7, thread 0"} <= set(places[:-1])


def test_where_no_thread_is_known_the_process_tells(tmp_path: Path) -> None:
    recording = Recording()
    recording.kernel("first", 0, 100_000, call=-5_000)
    recording.waits(STREAM, 10_000, 155_000, *HELPER)
    recording.waits(DEVICE, 10_000, 157_000, *ELSEWHERE)
    recording.kernel("second", 180_000, 10_000, call=170_000)
    assert gaps(tmp_path, recording)[0]["cause"] == "launching"
    warehouse = Warehouse.open(tmp_path / "k.duckdb")
    warehouse.query("UPDATE launches SET api_index = NULL, process = '100'", write=True)
    (gap,) = warehouse.query("FROM idle_gaps('kernels')").to_pylist()
    assert (gap["cause"], gap["waiting_call"]) == ("synchronisation", STREAM)


def test_the_launch_before_is_the_one_that_ended_last(tmp_path: Path) -> None:
    """A short kernel on another stream began later, inside the long one."""
    recording = Recording()
    recording.kernel("long_one", 0, 100_000, call=-9_000)
    recording.kernel("short_one", 20_000, 5_000, call=-5_000, stream=9)
    recording.kernel("next_one", 180_000, 10_000, call=170_000)
    (gap,) = gaps(tmp_path, recording)
    assert (gap["previous"], gap["next"]) == ("long_one", "next_one")


def test_short_waits_in_a_long_gap_explain_nothing(nccl: Database) -> None:
    """Two gaps of 6 ms hold cudaEventSynchronize calls of 2 us each, 1.4 ms after the GPU went idle."""
    causes = {row["waiting_call"] for row in nccl.sql("FROM idle_gaps('kernels') WHERE gap_ns > 5000000").rows()}
    assert "cudaEventSynchronize" not in causes


def test_times_of_gaps_count_from_the_first_launch_of_the_trace(tmp_path: Path) -> None:
    """Also where the condition leaves that one out: the timeline has it."""
    recording = Recording(origin_us=5_000_000)
    for number, name in enumerate(("warm", "first", "second")):
        recording.kernel(name, number * 300_000, 100_000, call=number * 300_000 - 5_000)
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(recording.write(tmp_path / "made.json"))
    rows = database.analyze("idle_gaps").rows()
    assert sorted((row["at_ns"], row["gap_ns"]) for row in rows) == [(100_000, 200_000), (400_000, 200_000)]
    assert {row["gap_start_ns"] - row["at_ns"] for row in rows} == {rows[0]["gap_start_ns"] - rows[0]["at_ns"]}
    (row,) = database.analyze("idle_gaps", where="short_name <> 'warm'").rows()
    assert row["at_ns"] == 400_000
    done = CliRunner().invoke(cli, ["--db", str(database.path), "analyze", "idle", "--gaps"])
    assert "0.400 ms" in done.stdout
    assert "gap_start" not in done.stdout


def test_a_gap_names_the_line_of_the_program_and_not_one_of_pytorch(root: Path, tmp_path: Path) -> None:
    """Of the JSON: `_multi_tensor_sgd` is the innermost frame around the launch, called by `step` of record.py."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(root / "tests" / "fixtures" / "stacks-memory-h200.json.gz")
    row = database.analyze("idle_gaps").rows()[0]
    assert (row["next_op"], row["next_line"]) == ("aten::_foreach_add_", "record.py(103): step")
    (plain,) = database.sql("SELECT next_line FROM idle_gaps() ORDER BY gap_ns DESC LIMIT 1").rows()
    assert plain["next_line"] == "torch/optim/sgd.py(383): _multi_tensor_sgd"
