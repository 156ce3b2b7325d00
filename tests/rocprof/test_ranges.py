"""Nesting and lookup of roctx ranges, against a plain search."""

from __future__ import annotations

import random

import polars as pl
import pytest

from kerneldb.ingest.amd.host import Marker, Ranges
from kerneldb.ingest.amd.launches import Shapes


def plain(markers: list[Marker], process: str, thread: str, at: int) -> str | None:
    """The range that began last and is still open: of the thread, else of the process."""
    for owner in (thread, None):
        around = [
            one for one in markers if (one.process, one.thread) == (process, owner) and one.start_ns <= at < one.end_ns
        ]
        if around:
            return max(around, key=lambda one: (one.start_ns, -one.end_ns)).name
    return None


@pytest.mark.parametrize("seed", range(20))
def test_lookup_agrees_with_a_plain_search(seed: int) -> None:
    rnd = random.Random(seed)
    markers = []
    for number in range(30):
        start = rnd.randrange(0, 1000, 2)
        thread = rnd.choice(["1", "2", None])
        markers.append(Marker("7", thread, f"r{number}", start, start + rnd.randrange(0, 400, 2)))
    starts = {(one.thread, one.start_ns) for one in markers}
    markers = [one for one in markers if sum((one.thread, one.start_ns) == key for key in starts) == 1]
    distinct = {(one.thread, one.start_ns): one for one in markers}
    ranges = Ranges(list(distinct.values()))
    names = dict(ranges.frame().select("range_id", "name").iter_rows())
    asked = pl.DataFrame(
        {"process": ["7"] * 500, "thread": ["1", "2"] * 250, "ts": [rnd.randrange(0, 1500) for _ in range(500)]}
    )
    found = [None if number is None else names[number] for number in ranges.around(asked, "ts")]
    assert found == [plain(list(distinct.values()), *row) for row in asked.iter_rows()]


def test_paths_and_depth() -> None:
    markers = [
        Marker("7", None, "epoch", 0, 1000),
        Marker("7", "1", "step", 10, 500),
        Marker("7", "1", "layer", 20, 60),
        Marker("7", "2", "other thread", 30, 50),
        Marker("8", "1", "other process", 25, 55),
    ]
    rows = {row["name"]: row for row in Ranges(markers).frame().iter_rows(named=True)}
    assert rows["layer"]["path"] == "epoch/step/layer"
    assert (rows["layer"]["depth"], rows["layer"]["phase"]) == (2, "epoch")
    assert rows["other thread"]["path"] == "epoch/other thread"
    assert rows["other process"]["path"] == "other process"


def test_rows_with_equal_keys_are_described_once() -> None:
    seen: list[int] = []

    def describe(distinct: pl.DataFrame) -> pl.DataFrame:
        seen.append(distinct.height)
        return distinct.select(text=pl.format("{}/{}", pl.col("a").fill_null(-1), "b"))

    shapes = Shapes(["a", "b"], describe)
    first = pl.DataFrame({"a": [1, None, 1], "b": ["x", "x", "x"]})
    second = pl.DataFrame({"a": [None, 2], "b": ["x", "y"]})
    assert shapes.described(first)["text"].to_list() == ["1/x", "-1/x", "1/x"]
    assert shapes.described(second)["text"].to_list() == ["-1/x", "2/y"]
    assert seen == [2, 1]


def test_rows_whose_hashes_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = Shapes(["a"], lambda distinct: distinct.select(text=pl.col("a").cast(pl.String)))
    monkeypatch.setattr(pl.DataFrame, "hash_rows", lambda self: pl.repeat(0, self.height, dtype=pl.UInt64, eager=True))
    for values in ([1, 2, 1], [3, 2, 1]):
        assert shapes.described(pl.DataFrame({"a": values}))["text"].to_list() == [str(value) for value in values]
