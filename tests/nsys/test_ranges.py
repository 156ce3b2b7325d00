"""Ranges that nest, that overlap and that begin or end together: held against a plain walk through each of them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import polars as pl
import pytest

from kerneldb.ingest.distinct import coded_rows
from kerneldb.ingest.nsys import marks, ranges
from kerneldb.ingest.nsys.ranges import Ranges
from kerneldb.ingest.nsys.store import Schema

THREADS = (5, 1 << 24)
STRINGS = pl.DataFrame({"id": [1], "value": ["registered"]})
Span = tuple[int, int, int]


class Events:
    """An export that holds nothing but ranges, in batches of 50."""

    def __init__(self, spans: list[Span]) -> None:
        columns = {"globalTid": pl.Int64, "start": pl.Int64, "end": pl.Int64}
        rows = pl.DataFrame(spans, schema=columns, orient="row")
        text = pl.col("start").mod(3).replace_strict({0: "a", 1: "b", 2: "c"}, return_dtype=pl.String)
        self._rows = rows.with_columns(text=text, eventType=pl.lit(59, pl.Int64))

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        missing = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in self._rows.columns]
        whole = self._rows.with_columns(missing).select(*schema)
        return whole.iter_slices(50) if table == "NVTX_EVENTS" else iter(())

    def names(self) -> frozenset[str]:
        return frozenset({"NVTX_EVENTS"})

    def count(self, table: str) -> int:
        return self._rows.height if table == "NVTX_EVENTS" else 0


def nested(chance: random.Random, start: int, end: int, depth: int = 0) -> Iterator[Span]:
    """Ranges that nest, beside and in each other, some empty, some with a common start or end."""
    at = start
    while at < end and depth < 6:
        until = chance.randint(at, end)
        yield THREADS[0], at, until
        yield from nested(chance, at, until, depth + 1)
        at = until + chance.randrange(2)
        if until == at:
            at += 1


def plain(spans: list[Span], thread: int, start: int, end: int) -> int | None:
    """The latest start among the ranges that contain a call; those that are over when it starts do not."""
    around = [number for number, (of, low, high) in enumerate(spans) if of == thread and low <= start < high >= end]
    return max(around, default=None)


@pytest.mark.parametrize("together", [3, 1 << 18])
@pytest.mark.parametrize("overlap", [0, 40])
def test_the_range_around_a_call(monkeypatch: pytest.MonkeyPatch, together: int, overlap: int) -> None:
    monkeypatch.setattr(ranges, "TOGETHER", together)
    chance = random.Random(overlap)
    found = {*nested(chance, 0, 200)}
    for _ in range(overlap):
        start = chance.randrange(200)
        found.add((chance.choice(THREADS), start, start + chance.randrange(40)))
    spans = sorted(found, key=lambda one: (one[0], one[1], -one[2]))
    assert len(spans) > 50
    written: list[pl.DataFrame] = []
    known = Ranges(marks.read(Events(sorted(spans, key=lambda _: chance.random())), STRINGS), None, written.append)
    rows = pl.concat(written)
    assert rows["range_id"].to_list() == list(range(len(spans)))
    assert rows.select("start_ns", end=pl.col("start_ns") + pl.col("duration_ns")).rows() == [one[1:] for one in spans]
    calls = [(thread, start, start + length) for thread in (*THREADS, 7) for start in range(201) for length in (0, 3)]
    asked = pl.DataFrame(calls, schema=["globalTid", "start", "end"], orient="row")
    assert known.around(asked).to_list() == [plain(spans, *call) for call in calls]
    for row in rows.iter_rows(named=True):
        above = row["parent_id"]
        assert row["depth"] == (0 if above is None else rows["depth"][above] + 1)
        assert row["path"] == row["name"] if above is None else f"{rows['path'][above]}/{row['name']}"
        if above is not None:
            outer = spans[above]
            assert outer[1] <= row["start_ns"]
            assert outer[2] >= row["start_ns"] + row["duration_ns"]


@pytest.mark.parametrize("largest", [0, 3, 1 << 31, (1 << 63) - 1])
def test_rows_of_equal_keys_have_one_code(largest: int) -> None:
    chance = random.Random(largest)
    numbers = [None, 0, largest, -largest, *(chance.randint(-largest, largest) for _ in range(3))]
    rows = [
        (chance.choice(numbers), chance.choice([None, "", "a", "b"]), chance.choice(numbers), 7) for _ in range(400)
    ]
    keys = pl.DataFrame(
        rows, schema=dict(zip("abcd", (pl.Int64, pl.String, pl.Int64, pl.Int64), strict=True)), orient="row"
    )
    coded, distinct = coded_rows(keys)
    assert distinct.rows() == list(dict.fromkeys(rows))
    assert distinct.select(pl.all().gather(coded)).rows() == rows


def test_events_in_order_stay_as_they_are_and_others_are_sorted() -> None:
    chance = random.Random(3)
    for _ in range(400):
        rows = [
            (chance.choice([None, 1, 2]), chance.randrange(4), chance.choice([None, 1, 2, 3, 4]), place)
            for place in range(chance.randrange(7))
        ]
        events = pl.DataFrame(rows, schema=["globalTid", "start", "end", "place"], orient="row").cast(pl.Int64)
        wanted = sorted(
            rows,
            key=lambda one: (one[0] is not None, one[0] or 0, one[1], one[2] is not None, -(one[2] or 0), one[3]),
        )
        assert marks.in_order(events).rows() == wanted
        ordered = pl.DataFrame(wanted, schema=events.schema, orient="row")
        assert marks.in_order(ordered).rows() == wanted
