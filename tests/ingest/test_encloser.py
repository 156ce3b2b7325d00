"""What encloses what: the part in C, and columns, against a stack and a plain definition."""

from __future__ import annotations

import dataclasses
from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldb.ingest.pytorch import native
from kerneldb.ingest.pytorch import nesting as host

INNER = ("op", "annotation", "module", "python")
Item = tuple[int, int, int, int, int]
"""(thread, start, end, kind, index)"""


@dataclasses.dataclass(frozen=True)
class Around:
    """Innermost holders of one item; -1 for none."""

    op: int
    annotation: int
    module: int
    python: int
    depth: int


def ordered(items: list[tuple[int, int, int, int]]) -> list[Item]:
    """Items as the reader sorts them, with an index each."""
    indexed = [(thread, start, end, kind, index) for index, (thread, start, end, kind) in enumerate(items)]
    return sorted(indexed, key=lambda item: (item[0], item[1], -item[2], item[3], item[4]))


def by_definition(items: list[Item]) -> list[Around]:
    """For each item, search all that precede it in order for the innermost one of each kind that contains it."""
    found = []
    for position, (thread, start, end, _, _) in enumerate(items):
        holders = [
            other
            for other in items[:position]
            if other[0] == thread and other[1] <= start < other[2] and end <= other[2] and other[3] != host.CALL
        ]
        inner = dict.fromkeys(range(4), -1)
        for holder in holders:
            inner[holder[3]] = holder[4]
        frames = [holder[4] for holder in holders if holder[3] in {host.PYTHON, host.MODULE}]
        depth = sum(holder[3] == host.OP for holder in holders)
        found.append(
            Around(inner[host.OP], inner[host.ANNOTATION], inner[host.MODULE], frames[-1] if frames else -1, depth)
        )
    return found


def by_columns(items: list[Item]) -> list[Around]:
    schema = {"thread": pl.UInt32, "ts": pl.Int64, "end": pl.Int64, "kind": pl.Int8, "index": pl.UInt32}
    frame = pl.DataFrame(items, schema=schema, orient="row").sample(fraction=1, shuffle=True, seed=1)
    frame = frame.with_columns(source=pl.lit(0, dtype=pl.UInt8))
    found = host.enclosing_of(frame).sort("order")
    with mock.patch.object(native, "built", return_value=False):
        assert host.enclosing_of(frame).sort("order").equals(found), "in C and on columns"
        with mock.patch.object(host, "STRETCH", 3):
            assert host.enclosing_of(frame).sort("order").equals(found), "a few spans at a time"
    around = [Around(*row) for row in found.select(pl.col(INNER).fill_null(-1), "depth").iter_rows()]
    return [around[item[4]] for item in items]


def by_stack(items: list[Item]) -> list[Around]:
    """A plain stack; what overlaps in part stays on it until what was opened later has ended."""
    found, stack, last = [], list[tuple[int, Around]](), -1
    for thread, start, end, kind, index in items:
        if thread != last:
            stack, last = [], thread
        while stack and stack[-1][0] <= start:
            stack.pop()
        around = next((inner for until, inner in reversed(stack) if until >= end), Around(-1, -1, -1, -1, 0))
        found.append(around)
        inside = {
            host.OP: {"op": index, "depth": around.depth + 1},
            host.ANNOTATION: {"annotation": index},
            host.PYTHON: {"python": index},
            host.MODULE: {"module": index, "python": index},
        }
        if kind != host.CALL:
            stack.append((end, dataclasses.replace(around, **inside[kind])))
    return found


@st.composite
def nested(draw: st.DrawFn, low: int = 0, high: int = 10_000, depth: int = 3) -> list[tuple[int, int, int, int]]:
    """Spans inside [low, high], each with spans inside it: no two overlap in part."""
    items: list[tuple[int, int, int, int]] = []
    at = low
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(at, max(at, high - 1)))
        end = draw(st.integers(start, high))
        kind = draw(st.sampled_from([host.OP, host.OP, host.CALL, host.ANNOTATION, host.PYTHON, host.MODULE]))
        items.append((0, start, end, kind))
        if depth and kind != host.CALL:
            items += draw(nested(start, end, depth - 1))
        at = end
    return items


@settings(max_examples=40, deadline=None)
@given(threads=st.lists(nested(), min_size=1, max_size=3))
def test_nested_spans(threads: list[list[tuple[int, int, int, int]]]) -> None:
    items = ordered([(number, *item[1:]) for number, thread in enumerate(threads) for item in thread])
    assert by_columns(items) == by_stack(items) == by_definition(items)


Spans = list[tuple[int, int, int]]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 4)), max_size=30), max_size=9)
)
def test_spans_that_overlap_in_part(threads: list[Spans]) -> None:
    """Of many threads at once: a frame costs more than its rows."""
    items = ordered(
        [(thread, start, start + length, kind) for thread, spans in enumerate(threads) for start, length, kind in spans]
    )
    assert by_columns(items) == by_stack(items)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=30))
def test_a_call_gets_an_operator_that_contains_it(spans: list[tuple[int, int]]) -> None:
    """With spans that overlap in part too, an answer is always a container on the same thread."""
    items = ordered([(0, start, start + length, host.OP if length % 3 else host.CALL) for start, length in spans])
    whole = {index: (start, end) for _, start, end, _, index in items}
    for (_, start, end, _, index), around in zip(items, by_columns(items), strict=True):
        if around.op >= 0:
            holder = whole[around.op]
            assert holder[0] <= start
            assert end <= holder[1]
            assert around.op != index


def test_a_call_that_outlasts_an_operator_by_rounding_has_the_one_around_both() -> None:
    outer, inner, call = (0, 0, 100, host.OP), (0, 10, 20, host.OP), (0, 15, 21, host.CALL)
    around = by_columns(ordered([outer, inner, call]))[2]
    assert (around.op, around.depth) == (0, 1)


def test_equal_spans_nest_by_kind() -> None:
    """An annotation and an operator of the same interval: the annotation is around the operator."""
    items = ordered([(0, 0, 10, host.OP), (0, 0, 10, host.ANNOTATION), (0, 0, 10, host.CALL)])
    assert [item[3] for item in items] == [host.ANNOTATION, host.OP, host.CALL]
    assert by_columns(items)[2] == Around(op=0, annotation=1, module=-1, python=-1, depth=1)


def test_threads_do_not_mix() -> None:
    items = ordered([(0, 0, 100, host.OP), (1, 10, 20, host.CALL)])
    assert by_columns(items)[1].op == -1


def test_many_spans_that_end_together_take_no_time_each() -> None:
    """Of 100,000 spans around each other, and as many calls that outlast them all, no pair is looked at."""
    n = 100_000
    spans = {"thread": [0] * (2 * n), "ts": [*range(n), *([n] * n)], "end": [n + 1] * n + [n + 2] * n}
    kinds = {"kind": [host.OP] * n + [host.CALL] * n, "index": range(2 * n)}
    frame = pl.DataFrame(spans | kinds, schema_overrides={"kind": pl.Int8}).with_columns(source=pl.lit(0))
    if not native.built():
        frame = frame.tail(n)
    found = host.enclosing_of(frame).filter(pl.col("order") >= n)
    assert found["op"].null_count() == n


@pytest.mark.skipif(not native.built(), reason="kerneldb was installed without a C compiler")
@pytest.mark.parametrize(
    "wrong", [{"ts": None}, {"kind": 5}, {"kind": -1}, {"index": 2**31}], ids=["null", "kind", "negative", "index"]
)
def test_columns_that_are_none_of_spans_are_refused(wrong: dict[str, int | None]) -> None:
    span = {"thread": 0, "ts": 1, "end": 2, "kind": host.OP, "index": 0}
    with pytest.raises(ValueError, match="not the columns"):
        native.enclosing(pl.DataFrame([span, span | wrong]))
