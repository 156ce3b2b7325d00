"""Which span encloses which: in C where that is built, else for many spans at once, on columns.

The innermost span around another is the last one before it, in order of start, that ends no earlier. Each span first
points at the one before it; all whose target ends too early then point at the target of their target, again and again.
That takes as many rounds as spans are nested, or the logarithm of the number of neighbours. Long traces are worked
through in stretches of time, several at once, with the spans that are still open at the end of one at the beginning of
the next: columns of one stretch fit into the caches of a processor, and take little memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from kerneldb.ingest.pytorch import native
from kerneldb.ingest.threads import mapped

ANNOTATION, PYTHON, MODULE, OP, CALL = range(5)
STRETCH: Final = 1 << 17
"""Items of a stretch of time, or as many as are open at its beginning: so the work for those stays in proportion."""
SPAN: Final = ("thread", "ts", "end", "kind", "index")
ENCLOSED: Final = {"op": (OP,), "annotation": (ANNOTATION,), "module": (MODULE,), "python": (PYTHON, MODULE)}
"""Column → the kinds of spans of which it names the innermost one."""


def enclosing_of(items: pl.DataFrame) -> pl.DataFrame:
    """What encloses each of `items` (thread, ts, end, kind, index, source), with their `source` and `index` as `order`.

    Columns `op`, `annotation`, `module` and `python` are the indices of the innermost ones, NULL where there is none,
    `depth` counts the operators around. Kinds: ANNOTATION, PYTHON, MODULE, OP or CALL; a call encloses nothing. Of
    equal spans the one of the smaller kind, then index, is around the other. Partly overlapping ones (rounded times)
    do not enclose each other, nor does a span what starts at its end. All times in ns. Rows come in no certain order.
    """
    if native.built() and items.height:
        return items.select("source", order="index").hstack(native.enclosing(items.select(SPAN)))
    return pl.concat(mapped(_enclosing_of, _stretches(items.sort("ts"))))


def _stretches(ordered: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Items by stretches of time, each with the spans that are open when it begins; those have `is_open`."""
    ordered = ordered.with_columns(is_open=pl.lit(value=False))
    starts, part, end = ordered["ts"], ordered.clear(), 0
    while not end or end < ordered.height:
        still = (pl.col("kind") != CALL) & (pl.col("end") > starts[end]) if end else pl.lit(value=False)
        carried = part.filter(still).with_columns(is_open=pl.lit(value=True))
        start, last = end, min(end + max(STRETCH, carried.height), ordered.height) - 1
        end = last + 1 if last + 1 == ordered.height else int(starts.search_sorted(starts[last], side="right"))
        part = pl.concat([carried, ordered.slice(start, end - start)])
        yield part
        if not ordered.height:
            return


def _enclosing_of(items: pl.DataFrame) -> pl.DataFrame:
    """`enclosing_of` the items of one stretch and the spans that are open when it begins, with their `is_open`."""
    ordered = items.sort("thread", "ts", "end", "kind", "index", descending=[False, False, True, False, False])
    enclosing = pl.col("kind") != CALL
    ordered = ordered.with_columns(
        needed=pl.max_horizontal("end", pl.col("ts") + 1),
        before=(enclosing.cum_sum().cast(pl.Int64) - enclosing.cast(pl.Int64) - 1),
    )
    spans = ordered.filter(enclosing)
    around = _first(ordered, spans)
    parents = _climbed(_first(spans, spans), spans["needed"], spans["end"], None)
    around = _climbed(around, ordered["needed"], spans["end"], parents)
    columns = [_nearest(spans, parents, kinds).gather(around).alias(name) for name, kinds in ENCLOSED.items()]
    depth = _depth(spans, parents).gather(around).fill_null(0).alias("depth")
    found = ordered.select("source", pl.col("index").alias("order"), "is_open").hstack([*columns, depth])
    return found.filter(~pl.col("is_open")).drop("is_open")


def _first(frame: pl.DataFrame, spans: pl.DataFrame) -> pl.Series:
    """The span just before each row, where it is of the same thread."""
    before = frame.select(pl.when(pl.col("before") >= 0).then("before"))["before"].cast(pl.UInt32)
    return before.zip_with(spans["thread"].gather(before) == frame["thread"], _nothing(before))


def _nothing(like: pl.Series) -> pl.Series:
    return pl.Series([None], dtype=pl.UInt32).new_from_index(0, like.len())


def _climbed(targets: pl.Series, needed: pl.Series, ends: pl.Series, parents: pl.Series | None) -> pl.Series:
    """`targets` moved on to `parents` (None: to the targets of the targets) until they end no earlier than `needed`."""
    active = (ends.gather(targets) < needed).arg_true()
    while active.len():
        nearest = targets.gather(active)
        further = (targets if parents is None else parents).gather(nearest)
        targets = targets.scatter(active, further)
        active = active.filter(ends.gather(further) < needed.gather(active))
    return targets


def _nearest(spans: pl.DataFrame, parents: pl.Series, kinds: Sequence[int]) -> pl.Series:
    """The index of each span, or of the nearest one around it, that is of these kinds."""
    fits = spans["kind"].is_in(kinds)
    if not fits.any():
        return pl.Series([None], dtype=pl.Int32).new_from_index(0, spans.height)
    own = pl.int_range(spans.height, dtype=pl.UInt32, eager=True)
    targets = own.zip_with(fits, parents)
    active = (~fits.gather(targets)).arg_true()
    while active.len():
        further = targets.gather(targets.gather(active))
        targets = targets.scatter(active, further)
        active = active.filter(~fits.gather(further))
    return spans["index"].cast(pl.Int32).gather(targets)


def _depth(spans: pl.DataFrame, parents: pl.Series) -> pl.Series:
    """How many operators are around each span, itself included."""
    depth, targets = (spans["kind"] == OP).cast(pl.Int32), parents
    active = targets.is_not_null().arg_true()
    while active.len():
        reached = targets.gather(active)
        further, more = targets.gather(reached), depth.gather(reached)
        depth = depth.scatter(active, depth.gather(active) + more)
        targets = targets.scatter(active, further)
        active = active.filter(further.is_not_null())
    return depth
