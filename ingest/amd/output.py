"""A spool together with the trace that its rows belong to, and the report of what was done."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Spool
from kerneldb.ingest.report import Report

SLICE_ROWS: Final = 1 << 17


@dataclasses.dataclass(slots=True)
class Output:
    """Writes rows of one trace, counted by table in `written`.

    `window` is the first start and the last end of everything with a time, in ns.
    """

    spool: Spool
    trace_id: str
    report: Report
    window: times.Window = (None, None)
    launches: int = 0
    written: Counter[str] = dataclasses.field(default_factory=Counter)

    def write(self, table: str, frame: pl.DataFrame) -> None:
        """Append rows to `table`, with the id of the trace."""
        if frame.height:
            self.written[table] += frame.height
            self.spool.write(table, frame.with_columns(trace_id=pl.lit(self.trace_id)))

    def ends_at(self, ends: Sequence[int | None]) -> None:
        """Take the ends of the processes, as the trace states them: 0 and NULL stand for none."""
        known = [end for end in ends if isinstance(end, int) and end > 0]
        if known and len(known) == len(ends):
            self.spool.guard.until(max(known))

    def saw(self, frame: pl.DataFrame) -> None:
        """Widen the window by the columns start_ns and end_ns, without what the spool refuses."""
        until = self.spool.guard.window_end_ns
        self.window = times.widened(self.window, times.span(frame, "start_ns", times.between(), until))


def nullable(frame: pl.DataFrame, wanted: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """`frame` with every column of `wanted`, missing ones NULL, all of the wanted type (what does not fit is NULL)."""
    absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in wanted.items() if name not in frame.columns]
    wrong = [
        pl.col(name).cast(kind, strict=False)
        for name, kind in wanted.items()
        if name in frame.columns and frame.schema[name] != kind
    ]
    return frame.with_columns(*absent, *wrong)
