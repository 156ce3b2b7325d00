"""Operators of PyTorch, which `emit_nvtx` marks as ranges (`marks`): what encloses each, and the one around a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

from kerneldb import repeated, times
from kerneldb.ingest.nsys.marks import NUMBERS, Marks
from kerneldb.ingest.nsys.ranges import Ranges, Spans, same

NOT_THERE: Final = {name: pl.lit(None, kind).alias(name) for name, kind in NUMBERS.items()}


class _Depths:
    """In place of paths, which nobody asks of operators: how many are around each, and itself."""

    def of(self, rows: pl.DataFrame) -> pl.Series:
        """One more than the row above."""
        return rows.select((pl.col("above") + 1).cast(pl.Int32)).to_series().alias("path")


class Operators(Spans):
    """All operators of an export; `around` finds the innermost one. `calls` are the rows of `op_calls`.

    `tracked` says of how many the recording has the operators that made their inputs.
    """

    def __init__(self, marks: Marks, ranges: Ranges, write: Callable[[pl.DataFrame], None]) -> None:
        self._ranges = ranges
        self.calls = marks.names.calls
        self.tracked = marks.tracked
        self._call = marks.names.call.gather(marks.operators["name"])
        self._labels = repeated.coded(self.calls.select("call_id", "op"))
        super().__init__(marks.operators, marks.last, _Depths(), write)

    @property
    def have_sizes(self) -> bool:
        """Whether sizes of inputs are recorded."""
        return self.calls["input_dims"].null_count() < self.calls.height

    def call_of(self, op_ids: pl.Series) -> pl.Series:
        """`call_id` of operators, NULL for none."""
        return self._labels["call_id"].cast(pl.String).gather(self._call.gather(op_ids))

    def _rows(self, events: pl.DataFrame, walked: pl.DataFrame, threads: pl.DataFrame, thread: int) -> pl.DataFrame:
        inside = self._ranges.around(events.select("globalTid", "start", end="until"))
        labels = self._labels.select(pl.all().gather(self._call.gather(events["range_id"])))
        absent = [nothing for name, nothing in NOT_THERE.items() if name not in events.columns]
        known = events.with_columns(absent).hstack(labels)
        return known.select(
            "call_id",
            op_id="range_id",
            name="op",
            process=same(threads["process"], thread),
            thread=same(threads["thread"], thread),
            start_ns="start",
            duration_ns=times.between("start", "end"),
            parent_id=walked["parent"].cast(pl.Int64),
            depth=walked["path"] - 1,
            range_id=inside,
            record_function_id="number",
            sequence_number="seq",
        )
