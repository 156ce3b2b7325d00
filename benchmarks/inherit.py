"""How often an inherited call is the recorded one: calls of recorded traces are hidden, and looked for again.

    python benchmarks/inherit.py DATABASE [TRACE...]

Per trace: a fifth of the launches hidden (five times, another fifth each time), and the second half hidden. `possible`
is the share of hidden launches whose call another launch has at all. For the figures in docs/replay-without-calls.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import polars as pl

from kerneldb.api import donors
from kerneldb.api.inheriting import MOST_LAUNCHES
from kerneldb.api.queries import frame
from kerneldb.warehouse import Warehouse

FOLDS = 5
FEWEST = 100
HIDDEN = ("variant", "op_id")


def launches(warehouse: Warehouse, trace: str) -> pl.DataFrame:
    """The launches of a trace with `truth`, the call that each was recorded with."""
    trace_id = warehouse.query("SELECT trace_id FROM traces WHERE name = ?", [trace])["trace_id"][0].as_py()
    with warehouse.connection() as con:
        found = frame(con, "inherit_launches", {"trace_id": trace_id, "most": MOST_LAUNCHES})
    return found.with_columns(truth="variant", related=pl.lit(value=True))


def hide(known: pl.DataFrame, hidden: pl.Expr) -> pl.DataFrame:
    """`known` with the calls of the launches `hidden` taken away, and asked for."""
    asked = hidden & pl.col("truth").is_not_null()
    taken = {name: pl.when(asked).then(None).otherwise(pl.col(name)) for name in HIDDEN}
    return known.with_columns(wanted=asked, **taken)


def study(asked: pl.DataFrame) -> dict[str, Any]:
    """What became of the hidden launches: counts by way of decision, right ones among them, and those possible."""
    numbered = asked.with_row_index("row")
    hidden = numbered.filter("wanted").select("row", "truth")
    known = numbered.filter(~pl.col("wanted")).select(truth="variant").unique()
    found = donors.match(asked.select(donors.FACTS)).join(hidden, on="row")
    judged = found.join(numbered.select(donor="row", given="variant"), on="donor")
    right = judged.with_columns(right=pl.col("truth") == pl.col("given"))
    ways = right.group_by("decided").agg(n=pl.len(), right=pl.col("right").sum())
    return {
        "hidden": hidden.height,
        "possible": hidden.join(known, on="truth", how="semi").height,
        "found": right.height,
        "right": int(right["right"].sum()),
        "ways": {row["decided"]: (row["n"], row["right"]) for row in ways.iter_rows(named=True)},
    }


def folds(known: pl.DataFrame) -> dict[str, Any]:
    """`study` with each fifth of the launches hidden once, added up."""
    fifth = pl.struct("trace_id", "launch_index").hash(11) % FOLDS
    parts = [study(hide(known, fifth == number)) for number in range(FOLDS)]
    total = {name: sum(part[name] for part in parts) for name in ("hidden", "possible", "found", "right")}
    ways: dict[str, tuple[int, int]] = {}
    for part in parts:
        for way, (n, right) in part["ways"].items():
            ways[way] = (ways.get(way, (0, 0))[0] + n, ways.get(way, (0, 0))[1] + right)
    return {**total, "ways": ways}


def second_half(known: pl.DataFrame) -> dict[str, Any]:
    """`study` with the second half of the launches hidden."""
    return study(hide(known, pl.col("launch_index") > known["launch_index"].median()))


def lines(name: str, how: str, result: dict[str, Any]) -> Iterator[str]:
    """The result for people."""
    share = 100 * result["right"] / max(result["possible"], 1)
    ways = ", ".join(f"{way} {right}/{n}" for way, (n, right) in sorted(result["ways"].items()))
    counts = f"{result['hidden']:>7,} hidden {result['possible']:>7,} possible {result['right']:>7,} right"
    yield f"{name:<32} {how:<12} {counts} ({share:6.2f} % of the possible)  {ways}"


def main() -> None:
    """Study all traces of a database, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database")
    parser.add_argument("traces", nargs="*")
    given = parser.parse_args()
    warehouse = Warehouse.open(given.database)
    names = given.traces or warehouse.query("SELECT name FROM traces WHERE launches > 0 ORDER BY 1")["name"].to_pylist()
    for name in names:
        known = launches(warehouse, name)
        if known["truth"].is_not_null().sum() >= FEWEST:
            for how, result in (("a fifth", folds(known)), ("second half", second_half(known))):
                sys.stdout.write("".join(f"{line}\n" for line in lines(name, how, result)))


if __name__ == "__main__":
    main()
