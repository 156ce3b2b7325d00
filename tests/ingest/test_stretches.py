"""A trace that is worked through a few events at a time, by way of the disk, gives the rows of one read at once."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb import batch, files
from kerneldb.ingest import runs
from kerneldb.ingest.pytorch import callers, collect, host, launches, nesting
from kerneldb.ingest.pytorch.convert import SCRATCH
from kerneldb.ingest.runs import Shelf, stretches
from tests.ingest.conversion import Converted, as_bytes, convert_file
from tests.ingest.traces import T0, Trace, everything

if TYPE_CHECKING:
    from tests.ingest.conversion import Content

TABLES = {
    "launches": "launch_index",
    "ops": "op_id",
    "api_calls": "api_index",
    "ranges": "range_id",
    "memory_events": "event_index",
    "sync_events": "sync_index",
    "samples": "ts_ns",
    "op_calls": "call_id",
    "signatures": "signature_id",
    "kernel_names": "name_id",
}
STEPS = 40
STEP = 400_000


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything a few rows at a time, and in files."""
    monkeypatch.setattr(runs, "HELD_BYTES", 4_000)
    monkeypatch.setattr(runs, "SAMPLED", 2)
    monkeypatch.setattr(collect, "MANY_EVENTS", 60)
    monkeypatch.setattr(batch, "PART_ROWS", 20)
    monkeypatch.setattr(launches, "SLICE_ROWS", 7)
    monkeypatch.setattr(launches, "MOST_KNOWN", 2)
    for module, name in itertools.product((nesting, host, callers, launches), ("STRETCH", "ROWS")):
        monkeypatch.setattr(module, name, 10, raising=False)


def long_one() -> Trace:
    """Steps out of order, within spans that last for many of them; ids that repeat, and calls that are not there."""
    chooser, trace = random.Random(4), everything()
    trace.note("epoch", T0, STEPS * STEP)
    trace.frame("train.py(1): main", T0, STEPS * STEP)
    trace.note("epoch", T0, STEPS * STEP, cat="gpu_user_annotation", pid=0, tid=7)
    trace.kernel("early", T0, 3_000, 1)
    for step in chooser.sample(range(1, STEPS), STEPS - 1):
        at = T0 + step * STEP
        trace.note(f"ProfilerStep#{step}", at, STEP + STEP * (step % 5 == 0))
        trace.op("outer", at + 1_000, 3 * STEP if step % 7 == 0 else 90_000, {"External id": 5_000 + step})
        numbers = {"Sequence number": step // 2, "Fwd thread id": step % 2}
        for number in range(3):
            trace.launch(
                f"aten::op{number}", f"kernel{number}", at + 10_000 + 20_000 * number, 10 * step + number, numbers
            )
        trace.kernel("late", at + chooser.randrange(10 * STEP), 3_000, 10 * step + 2, {"External id": 5_000 + step})
        trace.kernel("unlaunched", at, 3_000, 90_000 + step, {"External id": 5_000 + step})
        trace.kernel("unknown", at + 5, 2_000, None)
        trace.memory(at + 50_000, 512, step)
        trace.counter("power", at, {"watts": step / 2})
        trace.span("cuda_sync", "Stream Sync", at, 3_000, {"stream": 7, "correlation": step}, pid=0, tid=7)
        trace.span("odd", f"span {step}", at, 3_000, {"n": step})
    return trace


def converted(content: Content, folder: Path) -> Converted:
    folder.mkdir()
    (folder / "trace.json").write_bytes(as_bytes(content))
    return convert_file(folder / "trace.json", folder / "spool")


def test_stretches_give_the_rows_of_the_whole(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    whole = converted(long_one(), tmp_path / "whole")
    request.getfixturevalue("few")
    parts = converted(long_one(), tmp_path / "parts")
    assert len(parts.manifest.parts["ops"]) > STEPS // 10 > len(whole.manifest.parts["ops"])
    for table, key in TABLES.items():
        expected = whole.table(table).sort(key)
        assert expected.height
        found = parts.table(table).select(expected.columns).sort(key)
        assert found.equals(expected), table
    assert parts.manifest.trace == whole.manifest.trace
    assert parts.report("stored") == whole.report("stored")
    statuses = {"linked", "no_op", "no_launch", "before_window"}
    assert statuses <= set(whole.table("launches")["launch_status"]), "a case that nobody tries"
    assert not list(parts.manifest.folder.glob(f"{SCRATCH}*"))


@pytest.mark.usefixtures("few")
def test_a_full_disk_is_blamed_where_events_are_put_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: pl.DataFrame, path: Path) -> None:
        raise OSError(28, os.strerror(28), str(path))

    monkeypatch.setattr(runs, "write_run", refuse)
    with pytest.raises(OSError, match="No space left") as caught:
        converted(long_one(), tmp_path / "full")
    assert "make room there" in str(files.of_disk(caught.value, tmp_path))


@pytest.mark.parametrize("folder", [None, "runs"])
def test_runs_give_what_lies_between_two_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str | None
) -> None:
    monkeypatch.setattr(runs, "HELD_BYTES", 2_000)
    monkeypatch.setattr(runs, "SAMPLED", 4)
    chooser = random.Random(2)
    keys = [chooser.choice([None, *range(40)]) for _ in range(600)]
    shelf = Shelf(None if folder is None else tmp_path / folder)
    rows = shelf.runs("key")
    for start in range(0, len(keys), 50):
        some = keys[start : start + 50]
        rows.add(pl.DataFrame({"key": pl.Series(some, dtype=pl.Int64), "n": range(start, start + len(some))}))
    assert folder is None or list((tmp_path / folder).iterdir())
    cuts = stretches([rows], 100)
    assert len(cuts) > 3
    for low, high in cuts:
        expected = [
            number
            for number, key in enumerate(keys)
            if (high is None if key is None else (low is None or key >= low) and (high is None or key < high))
        ]
        assert sorted(rows.between((low, high))["n"]) == expected
    rows.clear()
    assert rows.height == len(keys)
    assert folder is None or not list((tmp_path / folder).iterdir())
