"""Lanes of a timeline: what a power log read meanwhile, and the memory of a profiler that records no totals."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Final

import pytest

import kerneldb
from kerneldb.api import Database, timeline, tracks
from kerneldb.report import events
from kerneldb.report.asking import asking

MS: Final = 1_000_000
FIRST_MS: Final = 51_730
"""The first reading, after the full minute: the first launch of the example is 51.7378 s after it."""


def reading(number: int) -> str:
    """Ten milliseconds apart: 250 W and more up to the fourth, then 400 W and more."""
    watts = 250 if number < 4 else 400
    seconds = (FIRST_MS + 10 * number) / 1000
    return f"2026/11/21 10:46:{seconds:06.3f}, 0, NVIDIA H200, {watts}.{number:02d} W, 1980 MHz, {number} %"


@pytest.fixture
def logged(root: Path, tmp_path: Path) -> Database:
    header = "timestamp, index, name, power.draw [W], clocks.sm [MHz], utilization.gpu [%]"
    log = tmp_path / "power.csv"
    log.write_text("\n".join([header, *map(reading, range(200))]) + "\n")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(root / "examples/decoder-h200.json.gz")
    database.ingest(log, time_zone="UTC")
    return database


def page(database: Database, trace: str) -> dict[str, list[tuple[int, float]]]:
    """What the page of a trace draws: lane → times from the first launch and values."""
    with asking(database) as ask:
        held = events.gather(ask.about(trace=trace), events.MOST)
    lanes = held.counters.partition_by("name", as_dict=True)
    zero = held.found.zero_ns
    return {
        str(name): [(row["ts_ns"] - zero, row["value"]) for row in one.to_dicts()] for (name,), one in lanes.items()
    }


def screen(database: Database, first_ns: int, last_ns: int) -> dict[str | None, dict[int, float]]:
    """What the terminal draws of a stretch in ten bins: lane → bin → share of the largest value."""
    with database.warehouse.connection() as con:
        shown = timeline.axis(con, [])
        found = tracks.counters(con, shown, shown.stretch(first_ns, last_ns, 10))
    return {track.name: dict(line.shares) for track, line in found.items()}


def test_readings_of_a_log_are_lanes_of_the_trace_of_that_time(logged: Database) -> None:
    drawn = page(logged, "decoder-h200")
    assert set(drawn) == {"power, GPU 0", "SM clock, GPU 0", "GPU utilisation, GPU 0"}
    power = drawn["power, GPU 0"]
    (jump,) = (late for (_, early), (late, watts) in itertools.pairwise(power) if early < 300 < watts)
    raw = json.loads(gzip.decompress((Path(__file__).parents[2] / "examples/decoder-h200.json.gz").read_bytes()))
    first_us = min(event["ts"] for event in raw["traceEvents"] if event.get("cat") == "kernel")
    minute_ns = 1_795_257_960 * 1_000_000_000
    begun = raw["baseTimeNanoseconds"] + round(first_us * 1000)
    assert abs(jump - (minute_ns + (FIRST_MS + 40) * MS - begun)) < 2_000
    assert max(value for _, value in power) < 400.2, "the later ones are beyond the trace"


def test_a_lane_goes_on_where_the_last_reading_was_before_what_is_shown(logged: Database) -> None:
    lanes = screen(logged, 20 * MS, 21 * MS)
    assert set(lanes["power, GPU 0"]) == set(range(10))


def test_memory_without_totals_is_what_was_allocated_less_what_was_released(shared_data: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "rocprof/synthetic_gfx1151_full.db")
    assert max(value for _, value in page(database, "synthetic_gfx1151_full")["allocated, hip 0"]) == 2**27
    assert "allocated, hip 0" in screen(database, 0, 1000 * MS)
