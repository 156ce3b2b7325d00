"""Converts a database or a JSON file of rocprof v1: activities with times, without grids and registers.

Columns and arguments are those that tblextr.py and sqlitedb.py of ROCm/rocprofiler write. Times are in ns of the HSA
clock; those of the JSON's `ts` and `dur` are texts in µs and are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from kerneldb.batch import Manifest
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import nested, readers, sqlite
from kerneldb.ingest.amd import capture, unread
from kerneldb.ingest.amd.host import Host
from kerneldb.ingest.amd.launches import WAITED, WAITS, Launches, kind_of, mapped
from kerneldb.ingest.output import SLICE_ROWS, File, Output, Report, nullable
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, text_of

ACTIVITY_TABLES: Final = ("OPS", "COPY")
CALL_TABLES: Final = {"HIP": "hip_runtime", "HSA": "hsa", "KFD": "kfd", "rocTX": "roctx"}
NUMBERS: Final = ("BeginNs", "EndNs", "dev-id", "queue-id", "stream-id")
COLUMNS: Final = {**dict.fromkeys(NUMBERS, pl.Int64), **dict.fromkeys(("Name", "pid", "tid", "roctx-range"), pl.String)}
OTHER_KINDS: Final = {"copy": "memcpy", "hcccopy": "memcpy", "fill": "memset", "hccfill": "memset"}
OTHER_EVENTS: Final = {
    "M": "process and thread names",
    **dict.fromkeys("stf", "flow arrows: the same links come from the order of calls"),
}


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the file of `unit` into the spool `folder`. Raises NotATraceError or UnreadableTraceError."""
    one = Source(unit.files[0])
    if sqlite.is_database(readers.head_of(one.path).data):
        form = "rocprof db"
        with sqlite.opened(one, folder) as database:
            found, left = list(_from_database(database)), Report()
            read = unread.account_tables(unread.ROCPROF, database, left)
    else:
        form, (found, left) = "rocprof json", _from_json(one)
        read = sum(n for n, _ in left.counts.values())
    output = Output(folder, [one])
    output.report = left
    host = Host(output, [])
    launches = Launches(output, host)
    for table, frame in sorted(found, key=lambda item: item[0] not in CALL_TABLES):
        read += frame.height
        if table in CALL_TABLES:
            host.add("", _as_calls(frame, table))
        else:
            waits = frame["Name"].fill_null("").str.to_lowercase().is_in(WAITS)
            output.report.add("skipped", WAITED, int(waits.sum()))
            launches.add("", _as_launches(frame.filter(~waits)), {})
    launches.finish()
    output.report.add("read", "rows", read)
    if progress is not None:
        progress(one.stored_bytes, one.stored_bytes)
    return output.finish(
        options,
        capture.prefix_of(one.path) or one.stem,
        [File(one, "trace", read, output.report)],
        kind="timeline",
        source="rocprof",
        tool="rocprof",
        era=form,
        clock="boottime",
        base_ns=0,
        metadata="{}",
        reader_version=1,
    )


def _from_database(database: sqlite.Database) -> Iterator[tuple[str, pl.DataFrame]]:
    for table in (*ACTIVITY_TABLES, *CALL_TABLES):
        columns = database.tables().get(table)
        if columns is None or "BeginNs" not in columns:
            continue
        wanted = {name: kind for name, kind in COLUMNS.items() if name in columns}
        names = ", ".join(sqlite.quoted(name) for name in wanted)
        sql = " ".join(("SELECT", names, "FROM", sqlite.quoted(table)))
        for frame in database.frames(sql, wanted):
            yield table, nullable(frame, COLUMNS)


def _from_json(one: Source) -> tuple[list[tuple[str, pl.DataFrame]], Report]:
    """Activities and calls, and what of the file is neither."""
    text = text_of(one)
    try:
        events = msgspec.json.decode(text, type=dict[str, Any]).get("traceEvents", [])
    except RecursionError as error:
        raise nested.error(text) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"{one.label}: the JSON of rocprof is cut or damaged ({error}). Record again."
        raise UnreadableTraceError(message) from error
    rows, left = [], Report()
    for event in events if isinstance(events, list) else []:
        if isinstance(event, dict) and _timed(event.get("args")):
            arguments = event["args"]
            row = {name: arguments.get(name, event.get(name)) for name in COLUMNS}
            row["Name"] = arguments.get("Name") or event.get("name")
            rows.append({name: None if value is None else str(value) for name, value in row.items()})
        else:
            phase = str(event.get("ph")) if isinstance(event, dict) else ""
            left.add("skipped", OTHER_EVENTS.get(phase, f"event of phase {phase} without BeginNs"), 1)
    found = []
    for table, is_gpu in (("OPS", True), ("HIP", False)):
        some = [row for row in rows if (row["dev-id"] not in (None, "")) == is_gpu]
        for at in range(0, len(some), SLICE_ROWS):
            frame = pl.DataFrame(some[at : at + SLICE_ROWS], schema=dict.fromkeys(COLUMNS, pl.String), strict=False)
            found.append((table, nullable(frame, COLUMNS)))
    return found, left


def _timed(arguments: object) -> bool:
    return isinstance(arguments, dict) and arguments.get("BeginNs") not in (None, "")


def _as_launches(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        name="Name",
        kind=mapped(frame["Name"], lambda name: kind_of(name, OTHER_KINDS), default="kernel"),
        copy_kind=mapped(frame["Name"], lambda name: kind_of(name, OTHER_KINDS), default="kernel"),
        process="pid",
        device=pl.col("dev-id").cast(pl.Int32, strict=False),
        queue="queue-id",
        stream="stream-id",
        start_ns="BeginNs",
        end_ns="EndNs",
        region=pl.when(~pl.col("roctx-range").str.contains(r"^[\d:\s]*$")).then("roctx-range"),
    )


def _as_calls(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    return frame.select(
        kind=pl.lit(CALL_TABLES[table]),
        name=pl.col("Name").fill_null(""),
        process="pid",
        thread="tid",
        start_ns="BeginNs",
        end_ns="EndNs",
    )
