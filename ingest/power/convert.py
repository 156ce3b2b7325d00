"""Converts a log of nvidia-smi into `power_samples`: one trace of the kind `power`, without launches."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError, UsageError
from kerneldb.ingest.columns import schema
from kerneldb.ingest.output import File, Output
from kerneldb.ingest.power import log
from kerneldb.ingest.power.log import Column, Slice
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source
from kerneldb.times import span, widened

QUARTER: Final = "15m"
"""Offsets of time zones change at quarters of an hour only."""

BACK: Final = pl.duration(minutes=10)
"""Times that run back by more than this do so because the clocks went back, or midnight passed."""

HALF_A_DAY: Final = pl.duration(hours=12)
MEASURED: Final = {**dict.fromkeys(log.QUERY, pl.Float64), "throttle": pl.String}
MOST_WATTS: Final = 100_000.0
"""No GPU, nor a module of several, comes near; a faulty sensor gives -1 or 2³² milliwatts."""
IDENTITIES = ("index", "uuid", "bus_id", "name")
NO_DATES: Final = (
    "its times have no dates. Say the day of the first row: --date 2026-11-21; or log with: nvidia-smi dmon -o DT"
)
REMEDY: Final = {
    "query": "nvidia-smi --query-gpu=timestamp,index,uuid,power.draw --format=csv -lms 100",
    "dmon": "nvidia-smi dmon -o DT",
}


def zone_named(name: str | None) -> datetime.tzinfo | None:
    """The time zone `name` (None: that of this machine). Raises UsageError for an unknown one."""
    if name is None:
        return None
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"unknown time zone {name!r}; give one such as UTC or Europe/Berlin"
        raise UsageError(message) from error


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
        offsets = []
        for quarter, fold in frame.select("quarter", "fold").drop_nulls().unique().iter_rows():
            stamped = quarter.replace(tzinfo=self._zone, fold=int(fold))
            offset = (stamped if self._zone is not None else stamped.astimezone()).utcoffset()
            offsets.append((quarter, fold, offset or datetime.timedelta()))
        schema: dict[str, pl.DataType | type[pl.DataType]]
        schema = {"quarter": pl.Datetime("us"), "fold": pl.Boolean, "offset": pl.Duration("us")}
        known = pl.DataFrame(offsets, schema=schema, orient="row")
        joined = frame.join(known, on=["quarter", "fold"], how="left", maintain_order="left")
        return (joined["local"] - joined["offset"]).dt.epoch("ns")


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


def number(column: Column) -> pl.Expr:
    """The numbers of a column in the unit of the warehouse; NULL where the cell has none.

    A unit in the cell counts before that of the header. P-states count as their numbers.
    """
    cell = pl.col(column.field).str.strip_prefix("P") if column.field == "pstate" else pl.col(column.field)
    printed = cell.str.extract(log.NUMBER, 2)
    factors = {name: factor for name, (_, factor) in log.UNITS.items()}
    otherwise = factors.get(column.unit or "", 1.0)
    factor = printed.replace_strict(factors, default=otherwise, return_dtype=pl.Float64)
    return cell.str.extract(log.NUMBER, 1).cast(pl.Float64, strict=False) * factor


def unit_of(column: Column, cells: pl.Series) -> str | None:
    """The unit in which `number` gives the values of a column."""
    inside = cells.str.extract(log.NUMBER, 2).drop_nulls()
    printed = next((unit for unit in inside.unique(maintain_order=True) if unit), None) or column.unit
    if printed is None:
        return None
    stored: str = log.UNITS.get(printed, (printed, 1.0))[0]
    return stored


def chosen(part: Slice) -> dict[str, list[Column]]:
    """Column of `power_samples` → the columns of the log that it is read from, the best first."""
    table = log.DMON if part.layout.style == "dmon" else log.QUERY
    printed = {column.field: column for column in part.layout.columns}
    found = {target: [printed[name] for name in names if name in printed] for target, names in table.items()}
    return {target: columns for target, columns in found.items() if columns}


def measured(part: Slice) -> dict[str, pl.Expr]:
    """The columns MEASURED of `power_samples`, as expressions over `frame_of`; NULL where the slice lacks one."""
    wanted = chosen(part)
    masks = wanted.pop("throttle", [])
    absent = {target: pl.lit(None, dtype=kind) for target, kind in MEASURED.items()}
    values = {target: pl.coalesce([number(column) for column in columns]) for target, columns in wanted.items()}
    throttle = _throttle(part, masks)
    return {**absent, **values, **({} if throttle is None else {"throttle": throttle})}


def _throttle(part: Slice, masks: list[Column]) -> pl.Expr | None:
    if masks:
        return pl.col(masks[0].field).map_elements(log.reasons, return_dtype=pl.String)
    single = {name: reason for name in part.layout.names if (reason := log.single_reason(name)) is not None}
    if not single:
        return None
    active = [pl.when(pl.col(name) == "Active").then(pl.lit(reason)) for name, reason in single.items()]
    known = pl.any_horizontal(*(pl.col(name).is_in(["Active", "Not Active"]) for name in single))
    return pl.when(known).then(pl.concat_str(*active, separator="; ", ignore_nulls=True))


def others(part: Slice) -> Iterator[Column]:
    """Columns that `power_samples` does not have: they go to `samples`, as far as they hold numbers."""
    taken = {columns[0].field for columns in chosen(part).values()}
    times = {log.TIME, log.DATE_COLUMN, log.TIME_COLUMN}
    seen: set[str] = set()
    for column in part.layout.columns:
        aside = column.field in taken | times | set(log.IDENTITY) or log.single_reason(column.field) is not None
        if not aside and column.field not in seen:
            seen.add(column.field)
            yield column


def identities(part: Slice) -> dict[str, pl.Expr]:
    """What tells GPUs apart: `index`, `uuid`, `bus_id`, `name`; NULL where the log does not say."""
    printed = {what: pl.col(name) for name, what in reversed(log.IDENTITY.items()) if name in part.layout.names}
    cells = {what: printed.get(what, pl.lit(None, dtype=pl.String)) for what in IDENTITIES}
    known = {what: pl.when(~cell.str.contains(log.ABSENT)).then(cell) for what, cell in cells.items()}
    return {**known, "index": cells["index"].cast(pl.Int32, strict=False)}


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Write the samples of a log to a new spool. Raises NotATraceError for a log that lacks columns or times."""
    one = Source(unit.files[0])
    conversion = _Conversion(one, Output(folder), options)
    for part in log.slices(one, conversion.output.report, progress):
        conversion.add(part)
    return conversion.finish()


class _Conversion:
    """A log while it is read: what one slice must know of those before it. `gpus`: (index, uuid, bus id, name)."""

    def __init__(self, one: Source, output: Output, options: Options) -> None:
        self.output = output
        self._one = one
        self._options = options
        self._zone = zone_named(options.time_zone)
        self._clock = LocalClock(self._zone)
        self._day = None if options.date is None else _date(options.date)
        self._last: datetime.time | None = None
        self._base_ns: int | None = None
        self._first_local = datetime.datetime.min
        self._columns: dict[str, str] = {}
        self._gpus: dict[tuple[Any, ...], None] = {}

    def add(self, part: Slice) -> None:
        """Store the rows of a slice. Of a field that is printed twice, the first column counts."""
        names = part.layout.names
        columns = list(zip(*part.rows, strict=True))
        frame = pl.DataFrame({name: pl.Series(columns[names.index(name)], dtype=pl.String) for name in names})
        local = self._local(part, frame)
        timed = frame.with_columns(epoch_ns=self._clock.epoch_ns(local), local=local)
        rows = timed.filter(pl.col("epoch_ns").is_not_null())
        self.output.report.add("skipped", "rows whose time cannot be read", frame.height - rows.height)
        if rows.is_empty():
            return
        base_ns = self._widen(rows)
        for target, found in chosen(part).items():
            self._columns[target] = ", else ".join(column.field for column in found)
        gpus = rows.with_columns(**identities(part)).select(IDENTITIES)
        self._gpus.update(dict.fromkeys(gpus.unique(maintain_order=True).iter_rows()))
        common = rows.select(pl.col("epoch_ns"), ts_ns=pl.col("epoch_ns") - base_ns).hstack(
            gpus.select(device="index", gpu=pl.coalesce("uuid", "bus_id", "name"))
        )
        values = self._believed(part, rows, rows.with_columns(**measured(part)).select(*MEASURED))
        self.output.write("power_samples", common.with_columns(source=pl.lit("log")).hstack(values))
        self._store_others(part, rows, common)

    def _believed(self, part: Slice, rows: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
        """`values` without power that no GPU draws, which is counted; so are cells that are no numbers."""
        for target, columns in chosen(part).items():
            for column in columns if MEASURED[target] == pl.Float64 else ():
                texts, unread = rows[column.field], rows.select(number(column)).to_series().is_null()
                odd = texts.filter(unread & ~texts.str.contains(log.ABSENT))
                self.output.report.add("skipped", f"cells of {column.field}: no numbers", odd.len(), str(odd.first()))
        possible = pl.col("power_w").is_between(0, MOST_WATTS)
        refused = values.filter(~possible)["power_w"]
        self.output.report.add("refused", "power that no GPU draws", refused.len(), str(refused.first()))
        return values.with_columns(power_w=pl.when(possible).then("power_w"))

    def _widen(self, rows: pl.DataFrame) -> int:
        """Widen the window by a slice; the first one sets the base of the times, which is returned."""
        if not self.output.written["power_samples"]:
            self._first_local = rows["local"][0]
        found = span(rows, "epoch_ns", pl.lit(0))
        if self._base_ns is None:
            self._base_ns = found[0]
        self.output.window = widened(self.output.window, found)
        return self._base_ns or 0

    def _local(self, part: Slice, frame: pl.DataFrame) -> pl.Series:
        names = part.layout.names
        if log.TIME in names:
            return frame[log.TIME].str.to_datetime("%Y/%m/%d %H:%M:%S%.f", time_unit="us", strict=False)
        if log.TIME_COLUMN not in names:
            message = f"a log without times. Log with {REMEDY[part.layout.style]}"
            raise self._refused(message)
        clock = frame[log.TIME_COLUMN]
        if log.DATE_COLUMN in names:
            stamps = frame[log.DATE_COLUMN].str.replace_all(r"[/-]", "") + " " + clock
            return stamps.str.to_datetime("%Y%m%d %H:%M:%S", time_unit="us", strict=False)
        if self._day is None:
            raise self._refused(NO_DATES)
        of_day = clock.str.to_time("%H:%M:%S", strict=False)
        local, self._day = days_of(of_day, self._day, self._last)
        self._last = of_day[-1]
        return local

    def _store_others(self, part: Slice, rows: pl.DataFrame, common: pl.DataFrame) -> None:
        for column in others(part):
            texts = rows[column.field]
            kept = common.select("ts_ns", "device").with_columns(
                counter=pl.lit(column.field),
                value=rows.select(number(column)).to_series(),
                unit=pl.lit(unit_of(column, texts), dtype=pl.String),
            )
            stored = kept.filter(pl.col("value").is_not_null())
            self.output.write("samples", stored)
            absent = int(texts.str.contains(log.ABSENT).sum())
            lost = rows.height - stored.height - absent
            self.output.report.add("skipped", f"cells of {column.field}: no numbers", lost, texts[0])

    def finish(self) -> Manifest:
        """Close the spool. Raises NotATraceError where no row was read."""
        output, report, read = self.output, self.output.report, self.output.written["power_samples"]
        if read == 0:
            message = f"a log without any row that can be read. Look at it, and log again: {REMEDY['query']}"
            raise self._refused(message)
        zone = str(self._zone)
        if self._zone is None:
            local = self._first_local.astimezone()
            zone = f"UTC{local:%z}, {local.tzname()}"
        whose = "--time-zone" if self._zone is not None else "of this machine; --time-zone says another"
        report.add("stored", "power samples", read)
        report.add("note", f"local times are read as {zone} ({whose})", read)
        report.add("note", f"power_w is {self._columns.get('power_w', 'not in the log')}", read)
        if all(number is None and uuid is None and bus is None for number, uuid, bus, _ in self._gpus):
            report.add("note", "no column tells GPUs apart: all rows count as those of one", read)
        output.write("devices", self._devices())
        name, base_ns = self._one.stem, self._base_ns or 0
        for ending in (".csv", ".txt", ".log", ".dmon"):
            name = name.removesuffix(ending)
        start, end = (None if at is None else at - base_ns for at in output.window)
        return output.finish(
            self._options,
            name or self._one.stem,
            [File(self._one, "power log", read, report)],
            kind="power",
            source="nvidia-smi",
            tool="nvidia-smi",
            clock="epoch",
            base_ns=base_ns,
            window_start_ns=start,
            window_end_ns=end,
            has_shapes=None,
            has_stacks=None,
            metadata=json.dumps({"time_zone": zone, "columns": self._columns}),
            reader_version=1,
        )

    def _refused(self, problem: str) -> NotATraceError:
        return NotATraceError(f"{self._one.label}: {problem}")

    def _devices(self) -> pl.DataFrame:
        """Rows of `devices`: the GPUs that have a number, each once, with what any row says of them."""
        found: dict[int, dict[str, Any]] = {}
        for index, uuid, bus_id, name in self._gpus:
            if index is not None:
                known = {"uuid": uuid, "pci_bus_id": bus_id, "name": name}
                found.setdefault(index, {}).update({key: value for key, value in known.items() if value is not None})
        rows = [
            (index, "nvidia", known.pop("name", None), json.dumps(known) if known else None)
            for index, known in sorted(found.items())
        ]
        return pl.DataFrame(rows, schema=schema("device vendor name properties"), orient="row")


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        message = f"--date {text}: not a day; write it like 2026-11-21"
        raise UsageError(message) from error
