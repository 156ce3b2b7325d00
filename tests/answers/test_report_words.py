"""What a report says where something is missing, and that its advice is in the order of the time that it promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.report import contents, gather, why, wording
from kerneldb.report.model import Table
from tests.answers.plain_traces import Recording


def ingested(folder: Path, recording: Recording, **changed: Any) -> Database:
    """The recording in a database as the trace `made`; `changed` are fields of its file."""
    path = recording.write(folder / "made.json")
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changed}), encoding="utf-8")
    database = kerneldb.open(folder / "k.duckdb")
    database.ingest(path)
    return database


def launched(**details: Any) -> Recording:
    recording = Recording()
    for number in range(30):
        recording.kernel("first", number * 100_000, 90_000, call=number * 100_000 - 5_000, **details)
    return recording


def occupancy(database: Database) -> Table:
    report = gather.single(database, ["made"])
    (found,) = (b for s in report.sections for b in s.blocks if isinstance(b, Table) and b.caption == "Occupancy")
    return found


def test_occupancy_is_there_with_its_parts(tmp_path: Path) -> None:
    assert occupancy(ingested(tmp_path, launched())).rows


def test_without_a_gpu_the_gpu_is_what_is_missing(tmp_path: Path) -> None:
    found = occupancy(ingested(tmp_path, launched(), deviceProperties=[]))
    assert (found.rows, found.missing) == ([], contents.NO_GPU)


def test_a_gpu_of_unknown_limits_is_named(tmp_path: Path) -> None:
    gpu = {"id": 0, "name": "NVIDIA X", "computeMajor": 99, "computeMinor": 0, "numSms": 132}
    found = occupancy(ingested(tmp_path, launched(), deviceProperties=[gpu]))
    assert (found.rows, found.missing) == ([], contents.NO_LIMITS.format("sm_990"))


def test_without_registers_these_are_what_is_missing(tmp_path: Path) -> None:
    recording = launched()
    for event in recording.events:
        event["args"].pop("registers per thread", None)
    found = occupancy(ingested(tmp_path, recording))
    assert (found.rows, found.missing) == ([], contents.OCCUPANCY.missing)


def test_launches_from_before_the_window_are_told(tmp_path: Path) -> None:
    """Their calls are not in the file, and their numbers are smaller than those of all that are."""
    recording = launched()
    calls = [event for event in recording.events if event["cat"] == "cuda_runtime"]
    recording.events = [event for event in recording.events if event not in calls[:7]]
    (verdict,) = why.verdicts(ingested(tmp_path, recording), ["made"])
    (told,) = (line for line in verdict.unknown if "before the recorded window" in line)
    assert told.startswith("7 of 30 launches were made before")
    assert not any("before the recorded window" in line for line in whole(tmp_path).unknown)


def whole(folder: Path) -> why.Verdict:
    (folder / "whole").mkdir()
    (verdict,) = why.verdicts(ingested(folder / "whole", launched()), ["made"])
    return verdict


ROW: dict[str, Any] = {"is_compute": True, "mean_ns": 1e6, "is_counted": False, "is_called": False, "size": None}
ROW |= {"n": 24, "known": 24}


@pytest.mark.parametrize(
    ("reached", "said", "unsaid"),
    [
        (30.0, "30 % of the peak arithmetic, {at_stake_ns} more", "little to gain"),
        (63.0, "leaves little to gain: few get much of the {beyond_ns}", "at_stake_ns"),
        (120.0, "at 100 % of the peak arithmetic, the kernel itself leaves little to gain", "{"),
    ],
)
def test_words_about_a_kernel_fit_its_figure(reached: float, said: str, unsaid: str) -> None:
    found = wording.judged({**ROW, "reached_pct": reached})["judged"]
    assert said in found
    assert unsaid not in found
    some = wording.judged({**ROW, "reached_pct": reached, "known": 18})["judged"]
    assert some == found.replace("peak arithmetic", "peak arithmetic (of the {known:,} launches of known work)")


def test_advice_is_in_the_order_of_the_time_at_stake(shared_data: Path, tmp_path: Path) -> None:
    """In this trace the kernel with most time is near its peak, where little can be gained."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "pytorch" / "tracelens-h100-qwen1.5-0.5b.json.gz")
    (verdict,) = why.verdicts(database, ["tracelens-h100-qwen1.5-0.5b"])
    stakes = [piece.at_stake_ns for piece in verdict.advice if piece.at_stake_ns is not None]
    assert stakes == sorted(stakes, reverse=True)
    assert len(stakes) > 2
    (kernel,) = (piece for piece in verdict.advice if piece.rule == "one-kernel")
    assert kernel.at_stake_ns is None
    assert "little to gain" in kernel.sentence
