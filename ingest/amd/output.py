"""A spool together with the trace that its rows belong to, and the report of what was done."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Final

import polars as pl

from kerneldb.batch import Spool
from kerneldb.ingest.report import Report

SLICE_ROWS: Final = 1 << 17
LATEST: Final = 1 << 62
"""146 years from the beginning of the clock, in ns."""
NO_TIME: Final = "time that no clock shows, left empty"


@dataclasses.dataclass(slots=True)
class Output:
    """Writes rows of one trace, counted by table in `written`.

    `window` is the first start and the last end of everything with a time, in ns.
    """

    spool: Spool
    trace_id: str
    report: Report
    window: tuple[int | None, int | None] = (None, None)
    launches: int = 0
    written: Counter[str] = dataclasses.field(default_factory=Counter)

    def write(self, table: str, frame: pl.DataFrame) -> None:
        """Append rows to `table`, with the id of the trace."""
        if frame.height:
            self.written[table] += frame.height
            self.spool.write(table, frame.with_columns(trace_id=pl.lit(self.trace_id)))

    def clocked(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`frame` with NULL for each start_ns and end_ns that no clock shows, counted.

        Any two of the others can be subtracted from each other in 64 bits.
        """
        times = pl.col("start_ns", "end_ns")
        low, high = frame.select(low=pl.min_horizontal(times.min()), high=pl.max_horizontal(times.max())).row(0)
        if low is None or (low > -LATEST and high < LATEST):
            return frame
        shown = frame.with_columns(pl.when(times.is_between(-LATEST, LATEST, closed="none")).then(times))
        lost = sum(shown[name].null_count() - frame[name].null_count() for name in ("start_ns", "end_ns"))
        self.report.add("note", NO_TIME, lost)
        return shown

    def saw(self, frame: pl.DataFrame) -> None:
        """Widen the window by the columns start_ns and end_ns."""
        first, last = frame.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
        starts = [value for value in (self.window[0], first) if value is not None]
        ends = [value for value in (self.window[1], last) if value is not None]
        self.window = (min(starts, default=None), max(ends, default=None))


def nullable(frame: pl.DataFrame, wanted: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """`frame` with every column of `wanted`, missing ones NULL, all of the wanted type (what does not fit is NULL)."""
    absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in wanted.items() if name not in frame.columns]
    wrong = [
        pl.col(name).cast(kind, strict=False)
        for name, kind in wanted.items()
        if name in frame.columns and frame.schema[name] != kind
    ]
    return frame.with_columns(*absent, *wrong)
