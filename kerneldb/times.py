"""The one guard against bad times and numbers that all rows of a trace pass through, see `Spool.write`.

A clock that jumped, a counter that wrapped or a damaged record gives times that no GPU and no host can have had. Such
a value is refused for its event alone: the row stays, what cannot be true in it is NULL, and the report counts it.
Refused are durations below zero, above `LONGEST_NS`, or of what starts inside the window that the file itself states
and ends more than `SLACK_NS` after it; and times beyond `LATEST_NS`. What starts after the window keeps its duration:
there the clocks of GPU and host disagree, which says nothing of lengths. `schemas/store/times.sql` has the same rules
for rows that are stored already. A number that its column does not hold is unknown, and a row without a value that its
table needs is left out; both are counted, too.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import polars as pl

from kerneldb import limits, repeated
from kerneldb.schemas import loader
from kerneldb.schemas.headers import Column

LONGEST_NS: Final = 7 * 86_400 * 10**9
"""Seven days: no GPU work lasts that long (profilers record minutes: an hour is gigabytes), and sums of durations then
fit into 64 bits."""
LATEST_NS: Final = 1 << 61
"""73 years from the beginning of the clock: the difference of two such times, and its double, fit into 64 bits."""
MOST_LAUNCHES: Final = 10**12
"""One a microsecond for eleven days: sums of so large counts over millions of rows fit into 64 bits."""
SLACK_NS: Final = 10**9
"""A kernel may end a little after the recording does."""
SATURATED: Final = 9 * 10**18
"""In place of a number that 64 bits do not hold: refused, as the number itself would be."""
DAYS: Final = LONGEST_NS // (86_400 * 10**9)
NEGATIVE: Final = "with a negative duration"
LONG: Final = f"longer than {DAYS} days"
LATE: Final = "that ends after the recorded window"
UNCOUNTED: Final = "sum over a number of launches that no recording has"
NO_CLOCK: Final = "with a time that no clock shows"
SPANS: Final[Mapping[str, str]] = {
    "launches": "launch",
    "ops": "operator",
    "api_calls": "API call",
    "ranges": "range",
    "sync_events": "synchronisation",
}
"""Table whose rows have a start and a duration → what a row is."""
IN_WINDOW: Final = ("launches", "ops", "api_calls")
"""A range may have been opened for longer than what was recorded of it."""
MOMENTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "memory_events": ("allocation or release", ("ts_ns",)),
    "samples": ("sample", ("ts_ns",)),
    "cpu_samples": ("sample of the CPU", ("ts_ns",)),
    "power_samples": ("power reading", ("ts_ns", "epoch_ns")),
}
REASON: Final = "refused_for"
OF_TRACE: Final = ("traces", "trace_files", "ingest_reports")
NARROW: Final = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16)
SMALLEST: Final = -(1 << 31)
LARGEST: Final = (1 << 31) - 1
"""What a column INTEGER holds."""
SUMS: Final = ("total_ns", "min_ns", "max_ns", "median_ns", "sum_squares_ns2")

Window = tuple[int | None, int | None]
"""First start and last end in ns; None for no event."""
Example = tuple[str | None, str]
"""Signature (where the name stands elsewhere), and name or value."""


def kept_time(column: str) -> pl.Expr:
    """The times of `column`; NULL where one is refused."""
    return pl.when(pl.col(column).is_between(-LATEST_NS, LATEST_NS)).then(pl.col(column))


def kept_duration(start: str, duration: pl.Expr, window_end_ns: int | None = None) -> pl.Expr:
    """`duration` (ns) of what starts at the column `start`; NULL where it is refused."""
    kept = duration.is_between(0, LONGEST_NS)
    if window_end_ns is not None:
        kept &= ~_is_late(start, duration, window_end_ns).fill_null(value=False)
    return pl.when(kept).then(duration)


def _is_late(start: str, duration: pl.Expr, window_end_ns: int) -> pl.Expr:
    inside = pl.col(start).is_between(-LATEST_NS, window_end_ns)
    return inside & (duration > pl.lit(window_end_ns + SLACK_NS) - pl.col(start))


def span(frame: pl.DataFrame, start: str, duration: pl.Expr, window_end_ns: int | None = None) -> Window:
    """First start and last end of the rows of `frame`, without what is refused."""
    if frame.is_empty():
        return None, None
    begin = kept_time(start)
    end = begin + kept_duration(start, duration, window_end_ns).fill_null(0)
    row: Window = frame.select(begin.min().alias("start"), end.max().alias("end")).row(0)
    return row


def between(start: str = "start_ns", end: str = "end_ns") -> pl.Expr:
    """The duration from column to column; NULL where the start is refused, far too large or negative for a bad end."""
    return pl.when(pl.col(start).is_between(-LATEST_NS, LATEST_NS)).then(pl.col(end) - pl.col(start))


def widened(one: Window, other: Window) -> Window:
    """The window that holds both."""
    starts = [start for start in (one[0], other[0]) if start is not None]
    ends = [end for end in (one[1], other[1]) if end is not None]
    return min(starts, default=None), max(ends, default=None)


def whole_ns(value: float | None) -> int | None:
    """`value` as whole nanoseconds; what 64 bits do not hold stays far too large, so that it is refused and counted."""
    if value is None or math.isnan(value):
        return None
    return round(max(-float(SATURATED), min(value, float(SATURATED))))


def fitting(value: int | None) -> int | None:
    """`value` within 64 bits; what they do not hold stays far too large."""
    return None if value is None else max(-SATURATED, min(value, SATURATED))


@dataclasses.dataclass(slots=True)
class Guard:
    """Takes bad times out of frames, and counts them by reason.

    `window_end_ns` is the end of the recording as the file itself states it, where it does: set before rows are
    written. `counts` maps a reason to the number of events and an example.
    """

    window_end_ns: int | None = None
    counts: dict[str, tuple[int, Example]] = dataclasses.field(default_factory=dict)

    def until(self, window_end_ns: int | None) -> None:
        """Take the end of the recording; a bad one says nothing."""
        if window_end_ns is not None and abs(window_end_ns) <= LATEST_NS:
            self.window_end_ns = window_end_ns

    def checked(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        """`frame` of rows for `table`, with NULL for times and numbers that are refused. One pass where none are."""
        frame = self._fitted(table, frame)
        if table in SPANS:
            return self._spans(table, frame)
        if table in MOMENTS:
            what, columns = MOMENTS[table]
            return self._moments(frame, what, [name for name in columns if name in frame.columns])
        return self._sums(frame) if table == "rollups" else frame

    def _fitted(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Without numbers that their columns do not hold, and without rows that lack what makes them one."""
        narrow, needed = _columns(table)
        wide = [name for name, kind in frame.schema.items() if kind.is_numeric() and kind not in NARROW]
        fits = {name: pl.col(name).is_between(SMALLEST, LARGEST) for name in wide if name in narrow}
        texts = [name for name, kind in frame.schema.items() if kind == pl.String]
        lengths = (pl.col(name).str.len_bytes().max().fill_null(0) for name in texts)
        asked = frame.select(*lengths, *((~fit).any().alias(name) for name, fit in fits.items()))
        found = asked.row(0, named=True) if asked.width else {}
        for name in [name for name in fits if found[name]]:
            odd = frame.filter(~fits[name])
            self._add(f"{table}.{name} beyond 32 bits", odd.height, (None, f"{odd[name][0]:,}"))
            frame = frame.with_columns(pl.when(fits[name]).then(name).alias(name))
        for name in texts:
            limits.NAME.check(found[name], f"{table}.{name} of {{}} bytes")
            if name in repeated.PATHS and found[name] > repeated.LONGEST_PATH:
                frame = self._shortened(table, name, frame)
        known = [name for name in needed if name in frame.columns and frame[name].null_count()]
        if not known:
            return frame
        kept = frame.drop_nulls(known)
        self._add(f"{table} without {' or '.join(known)}", frame.height - kept.height, (None, "a row"))
        return kept

    def _shortened(self, table: str, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Without the middle of what is around an event and longer than anybody reads: each event has it."""
        long = pl.col(name).str.len_bytes() > repeated.LONGEST_PATH
        reason = f"{table}.{name} longer than {repeated.LONGEST_PATH:,} bytes{repeated.LEFT_OUT}"
        self._add(reason, frame.select(long.sum()).item(), (None, frame.filter(long)[name].str.head(60)[0]))
        return frame.with_columns(pl.when(long).then(repeated.without_middle(name)).otherwise(name).alias(name))

    def _spans(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        frame = self._own(table, frame) if "duration_ns" in frame.columns else frame
        if table != "launches":
            return frame
        frame = self._moments(frame, "launch in a queue", [name for name in ("queued_ns",) if name in frame.columns])
        return self._calls(frame)

    def _own(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Start, duration and end of the rows themselves."""
        until = self.window_end_ns if table in IN_WINDOW else None
        flagged = _flagged(frame, "start_ns", "duration_ns", until)
        if flagged is None:
            return frame
        self._count(flagged, SPANS[table], "start_ns", "duration_ns")
        kept = _kept(frame, "start_ns", "duration_ns", until)
        if "end_ns" in frame.columns:
            kept.append(pl.when(pl.col(REASON).is_null()).then("end_ns").alias("end_ns"))
        return flagged.with_columns(kept).drop(REASON)

    def _calls(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The call behind a launch: counted here only where it has no row of its own in `api_calls`."""
        if "launch_duration_ns" not in frame.columns:
            return self._moments(frame, "launching call", [one for one in ("launch_start_ns",) if one in frame.columns])
        flagged = _flagged(frame, "launch_start_ns", "launch_duration_ns", self.window_end_ns)
        if flagged is None:
            return frame
        alone = flagged.filter(pl.col("api_index").is_null()) if "api_index" in frame.columns else flagged
        self._count(alone, "launching call", "launch_start_ns", "launch_duration_ns")
        kept = _kept(frame, "launch_start_ns", "launch_duration_ns", self.window_end_ns)
        return flagged.with_columns(kept).drop(REASON)

    def _moments(self, frame: pl.DataFrame, what: str, columns: list[str]) -> pl.DataFrame:
        bad = {name: ~pl.col(name).is_between(-LATEST_NS, LATEST_NS) for name in columns}
        refused = frame.filter(_any(bad.values())) if columns else frame.clear()
        if refused.is_empty():
            return frame
        value = refused.select(pl.coalesce(pl.when(flag).then(pl.col(name)) for name, flag in bad.items())).item(0, 0)
        self._add(f"{what} {NO_CLOCK}", refused.height, (None, f"{value:,} ns"))
        return frame.with_columns(kept_time(name).alias(name) for name in columns)

    def _sums(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Sums of which one is impossible are all left out: the others hold the same durations."""
        counted = pl.col("n").is_between(0, MOST_LAUNCHES)
        odd = frame.filter(~counted)
        if odd.height:
            self._add(UNCOUNTED, odd.height, _example_of(odd, f"{odd['n'][0]:,}"))
            frame = frame.filter(counted)
        present = [name for name in SUMS if name in frame.columns]
        limits = _limits()
        negative = _any(pl.col(name) < 0 for name in present)
        bad = negative | _any((pl.col(name) > limits[name]) & ~_is_nan(name) for name in present)
        if not present or not frame.select(bad.any()).item():
            return frame
        reason = pl.when(negative).then(pl.lit(NEGATIVE)).when(bad).then(pl.lit(LONG))
        flagged = frame.with_columns(reason.alias(REASON))
        self._count(flagged, "sum over launches", "total_ns", "total_ns")
        kept = [pl.when(pl.col(REASON).is_null()).then(pl.col(name)).alias(name) for name in present]
        if "timed" in frame.columns:
            kept.append(pl.when(pl.col(REASON).is_null()).then("timed").otherwise(0).alias("timed"))
        return flagged.with_columns(kept).drop(REASON)

    def _count(self, flagged: pl.DataFrame, what: str, start: str, duration: str) -> None:
        refused = flagged.filter(pl.col(REASON).is_not_null())
        for (reason,), rows in refused.partition_by(REASON, as_dict=True, maintain_order=True).items():
            value = start if reason == NO_CLOCK and start in rows.columns else duration
            self._add(f"{what} {reason}", rows.height, _example(rows, value))

    def _add(self, reason: str, n: int, example: Example) -> None:
        before, kept = self.counts.get(reason, (0, example))
        self.counts[reason] = (before + n, kept)

    def taken(self) -> Iterator[tuple[str, int, Example]]:
        """Reason, number and example of all that was refused so far, once."""
        counts, self.counts = self.counts, {}
        return ((reason, n, example) for reason, (n, example) in counts.items())


@functools.cache
def _columns(table: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """The columns of a table that hold 32 bits, and those that every row has; of its trace, others see to it."""
    columns = loader.table(table).columns if table not in OF_TRACE else ()
    listed = [column for column in columns if isinstance(column, Column)]
    narrow = frozenset(column.name for column in listed if column.type == "INTEGER")
    return narrow, tuple(column.name for column in listed if column.needed and column.name != "trace_id")


def _flagged(frame: pl.DataFrame, start: str, duration: str, until: int | None) -> pl.DataFrame | None:
    """`frame` with the column `REASON`, NULL where a row is as it should be; None where all are."""
    if _is_usual(frame, start, duration, until):
        return None
    facts = _facts(frame, start, duration, until)
    if not frame.select(_any(facts.values()).any()).item():
        return None
    reason = pl.lit(None, dtype=pl.String)
    for name, bad in reversed(facts.items()):
        reason = pl.when(bad.fill_null(value=False)).then(pl.lit(name)).otherwise(reason)
    return frame.with_columns(reason.alias(REASON))


def _is_usual(frame: pl.DataFrame, start: str, duration: str, until: int | None) -> bool:
    """Whether the least and the greatest of all times say that no row is refused."""
    if start not in frame.columns or frame[duration].null_count():
        return False
    begin, length = pl.col(start), pl.col(duration)
    ends = (begin.min(), begin.max(), length.min(), length.max(), (begin + length).max())
    found = frame.select(end.alias(str(place)) for place, end in enumerate(ends)).row(0)
    if None in found:
        return False
    first, last, least, longest, end = found
    within = first >= -LATEST_NS and last <= LATEST_NS and least >= 0 and longest <= LONGEST_NS
    return within and (until is None or end <= until + SLACK_NS)


def _facts(frame: pl.DataFrame, start: str, duration: str, until: int | None) -> dict[str, pl.Expr]:
    """Why a row may be refused → whether it is; of several reasons the first counts."""
    length = pl.col(duration)
    found = {NEGATIVE: length < 0, LONG: length > LONGEST_NS}
    if start not in frame.columns:
        return found
    no_clock = ~pl.col(start).is_between(-LATEST_NS, LATEST_NS)
    if duration == "duration_ns" and "end_ns" in frame.columns:
        alone = length.is_null() & ~pl.col("end_ns").is_between(-LATEST_NS, LATEST_NS)
        no_clock = no_clock.fill_null(value=False) | alone
    late = {} if until is None else {LATE: _is_late(start, length, until)}
    return {NO_CLOCK: no_clock, **found, **late}


def _kept(frame: pl.DataFrame, start: str, duration: str, until: int | None) -> list[pl.Expr]:
    has_start = start in frame.columns
    kept = kept_duration(start, pl.col(duration), until if has_start else None).alias(duration)
    return [kept, kept_time(start).alias(start)] if has_start else [kept]


def _any(conditions: Iterable[pl.Expr]) -> pl.Expr:
    return pl.any_horizontal([condition.fill_null(value=False) for condition in conditions])


def _is_nan(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64).is_nan()


def _limits() -> dict[str, pl.Expr]:
    """The largest that each sum over `n` launches can be. In floating point: n × 7 days may not fit into 64 bits."""
    n, longest = pl.col("n").cast(pl.Float64), pl.lit(float(LONGEST_NS))
    single = dict.fromkeys(("min_ns", "max_ns", "median_ns"), longest)
    return {"total_ns": n * longest, **single, "sum_squares_ns2": n * longest * longest}


def _example(rows: pl.DataFrame, value: str) -> Example:
    number = rows[value][0] if value in rows.columns else None
    return _example_of(rows, "unknown" if number is None else f"{number:,} ns")


def _example_of(rows: pl.DataFrame, text: str) -> Example:
    if "name" in rows.columns:
        return None, f"{rows['name'][0]}: {text}"
    return rows["signature_id"][0] if "signature_id" in rows.columns else None, text
