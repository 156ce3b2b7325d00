"""Converts a log of nvidia-smi into `power_samples`: one trace of the kind `power`, without launches."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest, Spool
from kerneldb.errors import NotATraceError, UsageError
from kerneldb.ingest import finishing
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.power import cells, fields, lines, times
from kerneldb.ingest.power.lines import Slice
from kerneldb.ingest.report import Report
from kerneldb.ingest.source import Source
from kerneldb.times import span

READER_VERSION: Final = 1
STAMP_FORMAT: Final = "%Y/%m/%d %H:%M:%S%.f"
NO_TIMES: Final = "a log without times. Log with {remedy}"
NO_DATES: Final = (
    "its times have no dates. Say the day of the first row: --date 2026-11-21; or log with: nvidia-smi dmon -o DT"
)
NO_ROWS: Final = "a log without any row that can be read. Look at it, and log again: {remedy}"
REMEDY: Final = {
    "query": "nvidia-smi --query-gpu=timestamp,index,uuid,power.draw --format=csv -lms 100",
    "dmon": "nvidia-smi dmon -o DT",
}


def convert(path: Path, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Write the samples of a log to a new spool. Raises NotATraceError for a log that lacks columns or times."""
    one = Source(path)
    log = _Log(one, Spool(folder), options)
    for part in lines.slices(one, log.report, progress):
        log.add(part)
    return log.finish()


class _Log:
    """A log while it is read: what one slice must know of those before it."""

    def __init__(self, one: Source, spool: Spool, options: Options) -> None:
        self.report = Report()
        self._one = one
        self._spool = spool
        self._options = options
        self._zone = times.zone_named(options.time_zone)
        self._clock = times.LocalClock(self._zone)
        self._day = _date(options.date)
        self._last: datetime.time | None = None
        self._facts = _Facts()

    def add(self, part: Slice) -> None:
        """Store the rows of a slice."""
        frame = cells.frame_of(part)
        local = self._local(part, frame)
        timed = frame.with_columns(epoch_ns=self._clock.epoch_ns(local), local=local)
        rows = timed.filter(pl.col("epoch_ns").is_not_null())
        self.report.add("skipped", "rows whose time cannot be read", frame.height - rows.height)
        if rows.is_empty():
            return
        facts = self._facts
        facts.take(part, rows)
        gpus = rows.with_columns(**cells.identities(part)).select(cells.IDENTITIES)
        facts.gpus.update(dict.fromkeys(gpus.unique(maintain_order=True).iter_rows()))
        common = rows.select(pl.col("epoch_ns"), (pl.col("epoch_ns") - facts.base_ns).alias("ts_ns")).hstack(
            gpus.select(device="index", gpu=pl.coalesce("uuid", "bus_id", "name"))
        )
        measured = cells.measured(part)
        values = rows.with_columns(**measured).select(measured.keys())
        self._spool.write("power_samples", common.with_columns(source=pl.lit("log")).hstack(values))
        self._store_others(part, rows, common)

    def _local(self, part: Slice, frame: pl.DataFrame) -> pl.Series:
        names = part.layout.names
        if fields.TIME in names:
            return frame[fields.TIME].str.to_datetime(STAMP_FORMAT, time_unit="us", strict=False)
        if fields.TIME_COLUMN not in names:
            raise self._refused(NO_TIMES.format(remedy=REMEDY[part.layout.style]))
        clock = frame[fields.TIME_COLUMN]
        if fields.DATE_COLUMN in names:
            stamps = frame[fields.DATE_COLUMN].str.replace_all(r"[/-]", "") + " " + clock
            return stamps.str.to_datetime("%Y%m%d %H:%M:%S", time_unit="us", strict=False)
        if self._day is None:
            raise self._refused(NO_DATES)
        of_day = clock.str.to_time("%H:%M:%S", strict=False)
        local, self._day = times.days_of(of_day, self._day, self._last)
        self._last = of_day[-1]
        return local

    def _store_others(self, part: Slice, rows: pl.DataFrame, common: pl.DataFrame) -> None:
        for column in cells.others(part):
            texts = rows[column.field]
            values = rows.select(cells.number(column)).to_series()
            kept = common.select("ts_ns", "device").with_columns(
                counter=pl.lit(column.field), value=values, unit=pl.lit(cells.unit_of(column, texts), dtype=pl.String)
            )
            stored = kept.filter(pl.col("value").is_not_null())
            self._spool.write("samples", stored)
            absent = int(texts.str.contains(fields.ABSENT).sum())
            lost = rows.height - stored.height - absent
            self.report.add("skipped", f"cells of {column.field}: no numbers", lost, texts[0])

    def finish(self) -> Manifest:
        """Close the spool. Raises NotATraceError where no row was read."""
        facts = self._facts
        if facts.rows == 0:
            raise self._refused(NO_ROWS.format(remedy=REMEDY["query"]))
        zone = times.zone_label(self._zone, facts.first_local)
        self._remark(zone)
        row = finishing.trace_row(
            [self._one],
            self._options,
            _stem(self._one),
            kind="power",
            source="nvidia-smi",
            tool="nvidia-smi",
            clock="epoch",
            base_ns=facts.base_ns,
            window_start_ns=facts.first_ns - facts.base_ns,
            window_end_ns=facts.last_ns - facts.base_ns,
            launches=0,
            metadata=json.dumps({"time_zone": zone, "columns": facts.columns}),
            reader_version=READER_VERSION,
        )
        trace_id = row["trace_id"]
        for table in ("power_samples", "samples"):
            _identify(self._spool, table, trace_id)
        self._spool.write("devices", facts.devices(trace_id))
        return finishing.finish(
            self._spool, row, [finishing.file_row(self._one, "power log", facts.rows)], [self.report]
        )

    def _remark(self, zone: str) -> None:
        facts, report = self._facts, self.report
        report.add("stored", "power samples", facts.rows)
        whose = "--time-zone" if self._zone is not None else "of this machine; --time-zone says another"
        report.add("note", f"local times are read as {zone} ({whose})", facts.rows)
        report.add("note", f"power_w is {facts.columns.get('power_w', 'not in the log')}", facts.rows)
        if all(number is None and uuid is None and bus is None for number, uuid, bus, _ in facts.gpus):
            report.add("note", "no column tells GPUs apart: all rows count as those of one", facts.rows)

    def _refused(self, problem: str) -> NotATraceError:
        return NotATraceError(f"{self._one.label}: {problem}")


@dataclasses.dataclass(slots=True)
class _Facts:
    """What is known of a log so far. `gpus` are (index, uuid, bus id, name), each once."""

    rows: int = 0
    base_ns: int = 0
    first_ns: int = 0
    last_ns: int = 0
    first_local: datetime.datetime = datetime.datetime.min
    columns: dict[str, str] = dataclasses.field(default_factory=dict)
    gpus: dict[tuple[Any, ...], None] = dataclasses.field(default_factory=dict)

    def take(self, part: Slice, rows: pl.DataFrame) -> None:
        """Widen the window by a slice; the first one sets the base."""
        low, high = span(rows, "epoch_ns", pl.lit(0))
        if low is not None and high is not None:
            if self.last_ns == 0:
                self.base_ns = self.first_ns = low
            self.first_ns, self.last_ns = min(self.first_ns, low), max(self.last_ns, high)
        if self.rows == 0:
            self.first_local = rows["local"][0]
        for target, found in cells.chosen(part).items():
            self.columns[target] = ", else ".join(column.field for column in found)
        self.rows += rows.height

    def devices(self, trace_id: str) -> pl.DataFrame:
        """Rows of `devices`: the GPUs that have a number, each once, with what any row says of them."""
        found: dict[int, dict[str, Any]] = {}
        for index, uuid, bus_id, name in self.gpus:
            if index is not None:
                known = {"uuid": uuid, "pci_bus_id": bus_id, "name": name}
                found.setdefault(index, {}).update({key: value for key, value in known.items() if value is not None})
        rows = [
            {
                "trace_id": trace_id,
                "device": index,
                "vendor": "nvidia",
                "name": known.pop("name", None),
                "properties": json.dumps(known) if known else None,
            }
            for index, known in sorted(found.items())
        ]
        schema = {
            "trace_id": pl.String,
            "device": pl.Int32,
            **dict.fromkeys(("vendor", "name", "properties"), pl.String),
        }
        return pl.DataFrame(rows, schema=schema)


def _identify(spool: Spool, table: str, trace_id: str) -> None:
    """Add the trace id, known only now that all bytes are read, to the parts written so far."""
    for path in spool.paths(table):
        pl.read_parquet(path).with_columns(trace_id=pl.lit(trace_id)).write_parquet(path, compression="lz4")


def _stem(one: Source) -> str:
    name = one.stem
    for ending in (".csv", ".txt", ".log", ".dmon"):
        name = name.removesuffix(ending)
    return name or one.stem


def _date(text: str | None) -> datetime.date | None:
    if text is None:
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        message = f"--date {text}: not a day; write it like 2026-11-21"
        raise UsageError(message) from error
