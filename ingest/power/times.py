"""Local times of a log as nanoseconds since 1970, UTC."""

from __future__ import annotations

import datetime
from typing import Final

import polars as pl

from kerneldb.errors import UsageError

QUARTER: Final = "15m"
"""Offsets of time zones change at quarters of an hour only."""

BACK: Final = pl.duration(minutes=10)
"""Times that run back by more than this do so because the clocks went back, or midnight passed."""

HALF_A_DAY: Final = pl.duration(hours=12)


def zone_named(name: str | None) -> datetime.tzinfo | None:
    """The time zone `name` (None: that of this machine). Raises UsageError for an unknown one."""
    if name is None:
        return None
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"there is no time zone {name!r}; give one such as UTC or Europe/Berlin"
        raise UsageError(message) from error


def zone_label(zone: datetime.tzinfo | None, at: datetime.datetime) -> str:
    """How a report names the zone: its name, or the offset of this machine at the local time `at`."""
    if zone is not None:
        return str(zone)
    local = at.astimezone()
    return f"UTC{local:%z}, {local.tzname()}"


class LocalClock:
    """Turns the local times of a log, slice by slice in the order of the file, into UTC.

    An hour that a clock shows twice (end of daylight saving time) counts as the second one once times have run back.
    """

    def __init__(self, zone: datetime.tzinfo | None) -> None:
        self._zone = zone
        self._latest: datetime.datetime | None = None
        self._ran_back = False

    def epoch_ns(self, local: pl.Series) -> pl.Series:
        """Nanoseconds since 1970 of local times (datetimes without zone; NULL stays NULL)."""
        latest = pl.max_horizontal(pl.col("local").cum_max(), pl.lit(self._latest, dtype=pl.Datetime("us")))
        frame = pl.DataFrame({"local": local}).with_columns(
            pl.col("local").dt.truncate(QUARTER).alias("quarter"),
            ((pl.col("local") < latest - BACK).fill_null(value=False).cum_max() | self._ran_back).alias("fold"),
        )
        self._latest = frame.select(latest.last()).item()
        self._ran_back = bool(frame["fold"].any())
        offsets = [
            {"quarter": quarter, "fold": fold, "offset": self._offset(quarter, fold)}
            for quarter, fold in frame.select("quarter", "fold").drop_nulls().unique().iter_rows()
        ]
        schema: dict[str, pl.DataType | type[pl.DataType]]
        schema = {"quarter": pl.Datetime("us"), "fold": pl.Boolean, "offset": pl.Duration("us")}
        known = pl.DataFrame(offsets, schema=schema)
        joined = frame.join(known, on=["quarter", "fold"], how="left", maintain_order="left")
        return (joined["local"] - joined["offset"]).dt.epoch("ns")

    def _offset(self, local: datetime.datetime, fold: bool) -> datetime.timedelta:
        stamped = local.replace(tzinfo=self._zone, fold=int(fold))
        offset = (stamped if self._zone is not None else stamped.astimezone()).utcoffset()
        return offset if offset is not None else datetime.timedelta()


def days_of(times: pl.Series, first: datetime.date, before: datetime.time | None) -> tuple[pl.Series, datetime.date]:
    """Times of day as local datetimes: the first on day `first`, a new day wherever they run back over midnight.

    `before` is the last time of day of the slice before. Returns the datetimes and the day of the last one.
    """
    of_day = pl.col("time").cast(pl.Duration("us"))
    start = of_day.first() if before is None else pl.lit(before).cast(pl.Duration("us"))
    midnight = of_day - pl.coalesce(of_day.shift(), start) < -HALF_A_DAY
    days = pl.duration(days=midnight.cast(pl.Int64).cum_sum())
    frame = pl.DataFrame({"time": times}).select(local=pl.lit(first).cast(pl.Datetime("us")) + days + of_day)
    last = frame["local"].drop_nulls().last()
    return frame["local"], last.date() if isinstance(last, datetime.datetime) else first
