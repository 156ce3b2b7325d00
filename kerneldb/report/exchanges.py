"""The collectives of a timeline in a page: what each is, for whom it waited, and its launches on other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb.output.text import harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.report.asking import Asking

MOST: Final = 50_000
"""Of a trace with more collectives a page tells nothing of them: what it holds should be less than its events."""
KIND: Final = ("operation", "dtype", "bytes", "group_ranks", "group_size")
FIGURES: Final = ("transfer_ns", "wait_ns", "late_rank", "transfer_bus_gbs")


def gather(ask: Asking) -> pl.DataFrame:
    """The collectives of the trace that `ask` is about, as rows of `report_events_exchanges.sql`."""
    found = ask.frame("events_exchanges")
    return found if found.height <= MOST else found.clear()


def moved(frame: pl.DataFrame, place: str, shift_ns: int) -> pl.DataFrame:
    """The same on an axis, with `place` behind the places."""
    return frame.with_columns(pl.col("start_ns") + shift_ns, pl.col("place") + pl.lit(place))


def header(frame: pl.DataFrame, origin: int) -> dict[str, Any]:
    """What `timeline_ranks.js` reads, with times since `origin`: lanes, kinds (`KIND`), and a row for each launch.

    A lane is a place, a name and a rank; a row the numbers of its lane, kind and instance, its start, and `FIGURES`.
    """
    lanes: dict[Any, int] = {}
    kinds: dict[Any, int] = {}
    instances: dict[Any, int] = {}
    rows = []
    for row in frame.iter_rows(named=True):
        lane, kind = (row["place"], row["lane"], row["rank"]), tuple(row[name] for name in KIND)
        codes = (_code(lanes, lane), _code(kinds, kind), _code(instances, row["instance"]))
        rows.append([*codes, row["start_ns"] - origin, *(row[name] for name in FIGURES)])
    return {"lanes": _told(lanes), "kinds": _told(kinds), "rows": rows}


def _code(known: dict[Any, int], value: Any) -> int:
    return known.setdefault(value, len(known))


def _told(known: dict[Any, int]) -> Sequence[Any]:
    """What was numbered, in order, with texts that do no harm."""
    return [[harmless(one) if isinstance(one, str) else one for one in value] for value in known]
