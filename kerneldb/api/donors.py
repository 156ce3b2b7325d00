"""Which recorded launch a launch without an operator call takes its call from: by launch, neighbours, order, duration.

A launch is looked up among recorded ones (donors) by a ladder of keys, the strictest first. Where several calls
launched the same kernel (in a transformer layer, four projections often share one), the kernels before and after
decide: the widest window in which both sequences agree. What repeats step by step with other sizes only (the length of
a key-value cache) has the same neighbours each time; there the place in the sequence decides, by aligning both traces
at windows that occur once in each. Left to the last is the duration.

Launches come as a frame with the columns of `FACTS`; the order within a stream is that of `start_ns`, `launch_index`.
"""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Chain = tuple[tuple[int, int], "Chain | None"]

STREAM: Final = ("trace_id", "process", "device", "stream")
FACTS: Final = (
    *STREAM, "launch_index", "kind", "start_ns", "duration_ns", "arch", "name_id", "shape", "shared_bytes", "bytes",
    "copy_kind", "launch_key", "match_name", "has_shape", "variant", "op_id", "ordinal", "wanted", "related",
)  # fmt: skip
"""`shape` is any value that is equal for equal grids and blocks; `variant` the call with the place of the kernel in it
(`ordinal`, from 0), NULL where no call is recorded; `op_id` one execution of that call; `wanted` marks the launches
that look for a call, `related` those of traces with much in common, which are asked first."""

LADDER: Final = (
    ("launch", ("name_id", "shape", "shared_bytes", "arch")),
    ("launch key", ("launch_key", "arch")),
    ("launch key, other GPU", ("launch_key",)),
    ("name", ("match_name",)),
)
ONE_CALL: Final = "one call"
NEIGHBOURS: Final = "neighbours"
ORDER: Final = "order"
DURATION: Final = "duration"

NEAR: Final = (0, 1, 2, 4, 8, 16)
"""Windows of kernels to each side that distinguish calls: about a block of a layer."""

FAR: Final = (32, 64)
"""Wider ones, for sequences that cannot be aligned."""

REACH: Final = (*NEAR, *FAR)

ANCHORS: Final = (64, 1024, 16384)
"""Windows that align two sequences, where each occurs once on both sides. Windows that reach beyond an end count."""

ALIKE: Final = 0.05
"""Sequences without a common window are laid on each other where their lengths differ by no more than this share."""


def match(launches: pl.DataFrame) -> pl.DataFrame:
    """The donor of each wanted launch that has one.

    Columns: `row` (of the wanted launch in `launches`), `donor` (row of the donor), `level` (of `LADDER`), `decided`
    (ONE_CALL, NEIGHBOURS, ORDER or DURATION), `before` and `after` (kernels that agree to each side), `alternatives`
    (how many calls launched such a kernel), `away` (with ORDER: kernels between the donor and the expected place).
    """
    placed = _placed(launches.with_row_index("row"))
    donors = placed.filter(pl.col("variant").is_not_null())
    wanted = placed.filter("wanted")
    keyed, pool = _grouped(wanted, donors)
    calls = pool.group_by("group").agg(alternatives=pl.col("variant").n_unique(), donor=pl.col("row").first())
    joined = keyed.join(calls, on="group")
    alone = _result(joined.filter(pl.col("alternatives") == 1), ONE_CALL, 0, 0)
    several = joined.filter(pl.col("alternatives") > 1).drop("donor")
    if several.is_empty():
        return alone
    contexts, sizes = _contexts(placed)
    # Per place of a sequence with wanted launches: the place in another (`toward`) where its like is expected
    parts = [_offsets(contexts, one, other, sizes) for one, other in _partners(placed)]
    types = {"sequence": pl.Int64(), "place": pl.Int64(), "toward": pl.Int64(), "expected": pl.Int64()}
    aligned = pl.concat(parts) if parts else pl.DataFrame(schema=types)
    expected = _windowed(several, contexts).join(aligned, on=["sequence", "place"], how="left")
    known, windowed = pl.col("expected").is_not_null(), _windowed(pool, contexts)
    by_place = _by_windows(expected.filter(known), windowed, NEAR)
    others = _by_windows(expected.filter(~known), windowed, REACH)
    return _kept_together(pl.concat([alone, *by_place, *others]), placed)


def _placed(launches: pl.DataFrame) -> pl.DataFrame:
    """With `sequence` (a number per stream), `token` (what a neighbour is known by), `place` and `behind`.

    `place` counts the kernels before the launch in its stream, `behind` those before and at it.
    """
    kernel = pl.col("kind") == "kernel"
    named = pl.struct(pl.coalesce("launch_key", "match_name"))
    behind = kernel.cast(pl.Int64).cum_sum().over(STREAM)
    return launches.sort(*STREAM, "start_ns", "launch_index", nulls_last=True).with_columns(
        sequence=pl.struct(*STREAM).rank("dense").cast(pl.Int64),
        token=pl.when(kernel).then(named.hash(1)).otherwise(pl.struct("kind", "bytes", "copy_kind").hash(2)),
        behind=behind,
        place=behind - kernel.cast(pl.Int64),
    )


def _grouped(wanted: pl.DataFrame, donors: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Wanted launches with `level` and `group`, the key of the first rung on which there are donors, and those."""
    found: list[pl.DataFrame] = []
    pools: list[pl.DataFrame] = []
    for among, (level, columns) in itertools.product((donors.filter("related"), donors), LADDER):
        group = _key(f"{level} {len(found)}", columns)
        keyed = wanted.with_columns(group=group, level=pl.lit(level)).filter(_may(level))
        pool = among.with_columns(group=group).join(keyed.select("group").unique(), on="group", how="semi")
        hit = keyed.join(pool.select("group").unique(), on="group", how="semi")
        found.append(hit)
        pools.append(pool)
        wanted = wanted.join(hit.select("row"), on="row", how="anti")
    return pl.concat(found), pl.concat(pools)


def _key(level: str, columns: Sequence[str]) -> pl.Expr:
    copied = pl.struct(pl.lit(level), "kind", "bytes", "copy_kind").hash(4)
    return pl.when(pl.col("kind") == "kernel").then(pl.struct(pl.lit(level), *columns).hash(3)).otherwise(copied)


def _may(level: str) -> pl.Expr:
    """Which launches a rung is for: names alone only where no launch shape is known, copies on the first only."""
    kernel = pl.col("kind") == "kernel"
    if level == "launch":
        return (kernel & pl.col("has_shape")) | (~kernel & pl.col("bytes").is_not_null())
    return kernel & (~pl.col("has_shape") if level == "name" else pl.col("launch_key").is_not_null())


def _result(found: pl.DataFrame, decided: str, before: int, after: int) -> pl.DataFrame:
    window = {"before": pl.lit(before, pl.Int32()), "after": pl.lit(after, pl.Int32())}
    away = (pl.col("at") - pl.col("expected")).abs() if decided == ORDER else pl.lit(None, pl.Int64())
    return found.select("row", "donor", "level", "alternatives", decided=pl.lit(decided), **window, away=away)


def _contexts(placed: pl.DataFrame) -> tuple[pl.DataFrame, list[int]]:
    """Hashes of the kernels before (`before_8`) and from (`after_8`) each place of a sequence on, by window.

    By doubling: the hash of sixteen kernels is that of two hashes of eight. One row per (sequence, place), one more
    than there are kernels; what lies beyond an end counts as 0. Also the windows used for alignment.
    """
    kernels = placed.filter(pl.col("kind") == "kernel").select("sequence", "place", "token")
    ends = placed.group_by("sequence").agg(place=pl.col("behind").max(), token=pl.lit(0, pl.UInt64()))
    grid = pl.concat([kernels, ends.select("sequence", "place", "token")]).sort("sequence", "place")
    longest = max(kernels.group_by("sequence").len()["len"].to_list(), default=0)
    current = grid.with_columns(before=pl.col("token").shift(1).over("sequence").fill_null(0), after=pl.col("token"))
    out, width, sizes = [grid.select("sequence", "place", "token"), _columns(current, 1)], 1, [0]
    while width < longest or width < REACH[-1]:
        current = current.with_columns(before=_joined("before", width), after=_joined("after", -width))
        width *= 2
        if width in REACH or width in ANCHORS or width >= longest:
            out.append(_columns(current, width))
            sizes.append(width)
    zero = pl.lit(0, pl.UInt64())
    return pl.concat(out, how="horizontal").with_columns(before_0=zero, after_0=zero), sizes


def _columns(frame: pl.DataFrame, width: int) -> pl.DataFrame:
    return frame.select(pl.col("before").alias(f"before_{width}"), pl.col("after").alias(f"after_{width}"))


def _joined(side: str, by: int) -> pl.Expr:
    return pl.struct(side, other=pl.col(side).shift(by).over("sequence").fill_null(0)).hash(5)


def _windowed(launches: pl.DataFrame, contexts: pl.DataFrame) -> pl.DataFrame:
    """Launches with the hashes of their windows; the launch itself is in none of them."""
    before = contexts.select("sequence", "place", *(f"before_{width}" for width in REACH))
    after = contexts.select("sequence", pl.col("place").alias("behind"), *(f"after_{width}" for width in REACH))
    return launches.join(before, on=["sequence", "place"]).join(after, on=["sequence", "behind"])


def _by_windows(wanted: pl.DataFrame, pool: pl.DataFrame, reach: Sequence[int]) -> Iterable[pl.DataFrame]:
    """Donors with the widest common window; of several calls with it, the one in the expected place."""
    for before, after in sorted(itertools.product(reach, reach), key=lambda pair: (-min(pair), -max(pair), pair)):
        if wanted.is_empty():
            return
        on = ["group", f"before_{before}", f"after_{after}"]
        calls = pool.group_by(on).agg(calls=pl.col("variant").n_unique(), donor=pl.col("row").first())
        hit = wanted.join(calls, on=on)
        if hit.is_empty():
            continue
        yield _result(hit.filter(pl.col("calls") == 1), NEIGHBOURS, before, after)
        yield from _by_place(hit.filter(pl.col("calls") > 1).drop("donor"), pool, on, (before, after))
        wanted = wanted.join(hit.select("row"), on="row", how="anti")


def _by_place(
    wanted: pl.DataFrame, pool: pl.DataFrame, on: list[str], window: tuple[int, int]
) -> Iterable[pl.DataFrame]:
    """Of several calls in the same window: the nearest to the expected place, else the nearest duration."""
    expected = wanted.filter(pl.col("expected").is_not_null()).with_columns(key=pl.struct(*on, "toward").hash(6))
    there = pool.with_columns(key=pl.struct(*on, toward="sequence").hash(6)).select("key", at="place", donor="row")
    nearest = expected.sort("expected").join_asof(
        there.sort("at"), left_on="expected", right_on="at", by="key", strategy="nearest", check_sortedness=False
    )
    placed = nearest.filter(pl.col("donor").is_not_null())
    yield _result(placed, ORDER, *window)
    rest = wanted.join(placed.select("row"), on="row", how="anti")
    timed = pool.join(rest.select(on).unique(), on=on, how="semi").group_by([*on, "variant"])
    usual = timed.agg(usual=pl.col("duration_ns").median(), donor=pl.col("row").first())
    away = (pl.col("duration_ns").clip(1) / pl.col("usual").clip(1)).log().abs()
    ranked = rest.join(usual, on=on).sort(away, "donor", nulls_last=True)
    yield _result(ranked.unique("row", keep="first", maintain_order=True), DURATION, *window)


def _kept_together(found: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Kernels behind the first of a call get the donor behind that one's, where place or duration would decide."""
    ordered = placed.select("row", "sequence", "op_id", "ordinal", "trace_id", name="match_name")
    behind = ordered.with_columns(pl.col("ordinal") - 1).select("trace_id", "op_id", "ordinal", "name", next="row")
    donors = found.join(ordered.drop("sequence", "name"), left_on="donor", right_on="row")
    after = donors.join(behind, on=["trace_id", "op_id", "ordinal"]).select("row", "name", "next")
    follows = ordered.with_columns(first=pl.col("row").shift(1).over("sequence"))
    upcoming = follows.filter(pl.col("op_id").is_null())
    moved = upcoming.join(after, left_on=["first", "name"], right_on=["row", "name"]).select("row", "next")
    doubtful = pl.col("decided").is_in([ORDER, DURATION]) & pl.col("next").is_not_null()
    chosen = pl.when(doubtful).then("next").otherwise("donor")
    return found.join(moved, on="row", how="left").with_columns(donor=chosen).drop("next")


def _partners(placed: pl.DataFrame) -> list[tuple[int, int]]:
    """Each sequence with wanted launches, and the sequence whose donors have most in common with it.

    In common are launches, each counted as often as both sequences have it; a sequence may be its own partner.
    """
    wanted = placed.filter("wanted").group_by("sequence", "token").len()
    donors = placed.filter(pl.col("variant").is_not_null()).group_by("sequence", "token").len()
    both = wanted.join(donors, on="token", suffix="_donor").with_columns(shared=pl.min_horizontal("len", "len_donor"))
    ranked = both.group_by("sequence", "sequence_donor").agg(pl.col("shared").sum())
    best = ranked.sort("sequence", "shared", "sequence_donor", descending=[False, True, False])
    return best.unique("sequence", keep="first", maintain_order=True).select("sequence", "sequence_donor").rows()


def _offsets(contexts: pl.DataFrame, one: int, other: int, sizes: Sequence[int]) -> pl.DataFrame:
    mine = contexts.filter(pl.col("sequence") == one)
    places = mine.select("sequence", "place", toward=pl.lit(other, pl.Int64()))
    if one == other:
        return places.with_columns(expected=pl.col("place"))
    theirs = contexts.filter(pl.col("sequence") == other)
    anchors = _rising([pair for size in sizes if size >= ANCHORS[0] for pair in _common(mine, theirs, size)])
    if not anchors and abs(mine.height - theirs.height) > ALIKE * max(mine.height, theirs.height):
        return places.with_columns(expected=pl.lit(None, pl.Int64()))
    ends = anchors or [(0, 0), (mine.height - 1, theirs.height - 1)]
    known = pl.DataFrame(ends, schema={"at": pl.Int64(), "there": pl.Int64()}, orient="row")
    nearest = places.sort("place").join_asof(known.sort("at"), left_on="place", right_on="at", strategy="nearest")
    return nearest.select("sequence", "place", "toward", expected=pl.col("place") + pl.col("there") - pl.col("at"))


def _common(mine: pl.DataFrame, theirs: pl.DataFrame, size: int) -> list[tuple[int, int]]:
    """Places whose windows occur once in each sequence and agree."""
    on = ["token", f"before_{size}", f"after_{size}"]
    once = [frame.filter(pl.len().over(on) == 1).select(*on, "place") for frame in (mine, theirs)]
    return once[0].join(once[1], on=on, suffix="_there").select("place", "place_there").rows()


def _rising(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of `pairs` in which both numbers rise, by patience sorting (Fredman 1975)."""
    tails: list[int] = []
    chains: list[Chain] = []  # the best one that ends at each of the tails
    for pair in sorted(set(pairs), key=lambda pair: (pair[0], -pair[1])):
        at = bisect.bisect_left(tails, pair[1])
        chains[at : at + 1] = [(pair, chains[at - 1] if at else None)]
        tails[at : at + 1] = [pair[1]]
    chain: list[tuple[int, int]] = []
    link = chains[-1] if chains else None
    while link is not None:
        chain.append(link[0])
        link = link[1]
    return chain[::-1]
