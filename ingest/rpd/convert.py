"""Converts one RPD database: from `rocpd_op` with LEFT JOINs, as its view `kernel` misses what graphs launch.

Source: ROCm/rocmProfileData, rocpd_python/rocpd/schema_data; times are CLOCK_MONOTONIC (rpd_tracer/Utility.h).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

import polars as pl

from kerneldb import limits
from kerneldb.batch import Manifest
from kerneldb.gpus.hip import WORK_ITEMS, grid_unit
from kerneldb.ingest import sqlite
from kerneldb.ingest.amd import capture, unread
from kerneldb.ingest.amd.host import Host, Marker
from kerneldb.ingest.amd.launches import WAITED, WAITS, Launches, copy_kind, kind_of, mapped
from kerneldb.ingest.columns import schema
from kerneldb.ingest.output import SLICE_ROWS, File, Output
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source
from kerneldb.repeated import LONGEST_PATH

OF_DISPATCH: Final = "^RocprofDataSource::"
"""What the source over rocprofiler-sdk writes among the calls; the one over roctracer writes `hcc_activity_callback`.
Source: rpd_tracer/RocprofDataSource.cpp, RoctracerDataSource.cpp."""
CLOCK_COUNTER: Final = "sclk"
NOT_KERNELS: Final[dict[str, str]] = {"copy": "memcpy", "memcpy": "memcpy", "fill": "memset", "memset": "memset"}
API: Final = schema("api_id pid tid start_ns end_ns name args domain bytes")
OP: Final = {
    **dict.fromkeys(("device", "queue", "start_ns", "end_ns"), pl.Int64),
    **dict.fromkeys(("description", "op_type"), pl.String),
    "api_id": pl.Int64,
    **dict.fromkeys(("api_name", "stream_text"), pl.String),
    **{f"{side}_{axis}": pl.Int64 for side in ("reported_grid", "block") for axis in "xyz"},
    **dict.fromkeys(("dynamic_shared_bytes", "scratch_bytes", "bytes"), pl.Int64),
}
"""`groupSegmentSize` is what the launch asks for on top of what the code needs."""
OPS: Final = """
SELECT O.gpuId, O.queueId, O.start, O.end, D.string, T.string, L.api_id, N.string, coalesce(K.stream, C.stream),
    K.gridX, K.gridY, K.gridZ, K.workgroupX, K.workgroupY, K.workgroupZ,
    K.groupSegmentSize, K.privateSegmentSize, C.size
FROM rocpd_op AS O
LEFT JOIN rocpd_string AS D ON D.id = O.description_id
LEFT JOIN rocpd_string AS T ON T.id = O.opType_id
LEFT JOIN {rocpd_api_ops} AS L ON L.op_id = O.id
LEFT JOIN rocpd_api AS A ON A.id = L.api_id
LEFT JOIN rocpd_string AS N ON N.id = A.apiName_id
LEFT JOIN {rocpd_kernelapi} AS K ON K.api_ptr_id = L.api_id
LEFT JOIN {rocpd_copyapi} AS C ON C.api_ptr_id = L.api_id
"""
DOUBTS: Final = {
    "activity that several API calls claim: its call is left empty": (
        "SELECT count(*) FROM (SELECT 1 FROM rocpd_api_ops GROUP BY op_id HAVING min(api_id) <> max(api_id))"
    ),
    "arguments of an API call that several rows tell: left empty": """
SELECT count(*) FROM (
    SELECT api_ptr_id FROM rocpd_kernelapi GROUP BY api_ptr_id HAVING count(*) > 1
    UNION ALL SELECT api_ptr_id FROM rocpd_copyapi GROUP BY api_ptr_id HAVING count(*) > 1
)
""",
}
"""What files do not decide that a tool put together from others → how often that is."""
REPEATED: Final = {
    "rocpd_api_ops": "SELECT 1 FROM rocpd_api_ops GROUP BY op_id HAVING count(*) > 1 LIMIT 1",
    "rocpd_kernelapi": "SELECT 1 FROM rocpd_kernelapi GROUP BY api_ptr_id HAVING count(*) > 1 LIMIT 1",
    "rocpd_copyapi": "SELECT 1 FROM rocpd_copyapi GROUP BY api_ptr_id HAVING count(*) > 1 LIMIT 1",
}
"""Table of which each activity or call has one row in a file of a tracer → whether it has several here."""
DECIDED: Final = {
    "rocpd_api_ops": """(
    SELECT op_id, CASE WHEN min(api_id) = max(api_id) THEN min(api_id) END AS api_id FROM rocpd_api_ops GROUP BY op_id
)""",
    "rocpd_kernelapi": "(SELECT * FROM rocpd_kernelapi GROUP BY api_ptr_id HAVING count(*) = 1)",
    "rocpd_copyapi": "(SELECT * FROM rocpd_copyapi GROUP BY api_ptr_id HAVING count(*) = 1)",
}
"""The same tables with one row at most for each, which costs sorts, and that nothing is looked up by its number."""
APIS: Final = """
SELECT A.id, A.pid, A.tid, A.start, A.end, N.string, {args}, {domain}, C.size
FROM rocpd_api AS A
LEFT JOIN rocpd_string AS N ON N.id = A.apiName_id
LEFT JOIN rocpd_string AS G ON G.id = A.args_id
LEFT JOIN {rocpd_copyapi} AS C ON C.api_ptr_id = A.id
"""
OPTIONAL: Final[dict[str, tuple[str, ...]]] = {
    "rocpd_api_ops": ("api_id", "op_id"),
    "rocpd_kernelapi": (
        *("api_ptr_id", "stream", "gridX", "gridY", "gridZ", "workgroupX", "workgroupY", "workgroupZ"),
        *("groupSegmentSize", "privateSegmentSize"),
    ),
    "rocpd_copyapi": ("api_ptr_id", "stream", "size"),
    "rocpd_metadata": ("tag", "value"),
}
"""Tables that a tracer leaves out where it recorded none of that, and the columns that are read."""
LONG_TEXTS: Final = "SELECT 1 FROM rocpd_string WHERE length(CAST(string AS BLOB)) > ? LIMIT 1"
JOINED: Final = """
SELECT coalesce(sum(R.n * length(CAST(S.string AS BLOB))), 0)
FROM (
    SELECT description_id AS id, count(*) AS n FROM rocpd_op GROUP BY 1
    UNION ALL SELECT opType_id, count(*) FROM rocpd_op GROUP BY 1
    UNION ALL SELECT apiName_id, count(*) FROM rocpd_api GROUP BY 1
    UNION ALL SELECT args_id, count(*) FROM rocpd_api GROUP BY 1
) AS R
INNER JOIN rocpd_string AS S ON S.id = R.id
"""
"""Bytes of the texts of all rows. The table of texts holds each of them once."""
MONITOR: Final = "SELECT deviceId, monitorType, start, value FROM rocpd_monitor WHERE deviceType = 'gpu' ORDER BY start"
OTHER_READINGS: Final = "SELECT count(*) FROM rocpd_monitor WHERE deviceType IS NOT 'gpu'"
MONITORED: Final = {"device": pl.Int32, "counter": pl.String, "ts_ns": pl.Int64, "text": pl.String}


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the database of `unit` into the spool `folder`. Raises NotATraceError or UnreadableTraceError."""
    one = Source(unit.files[0])
    with sqlite.opened(one, folder) as database:
        manifest = _converted(one, database, folder, options)
    if progress is not None:
        progress(one.stored_bytes, one.stored_bytes)
    return manifest


def _converted(one: Source, database: sqlite.Database, folder: Path, options: Options) -> Manifest:
    output = Output(folder, [one])
    if database.rows(LONG_TEXTS, (LONGEST_PATH,)):
        limits.check_ratio(one.path.stat().st_size, int(database.rows(JOINED)[0][0]))
    repeated = [table for table, sql in REPEATED.items() if database.rows(_completed(sql, database))]
    calls = _calls(_decided(APIS, repeated), database)
    marked = pl.col("is_marker")
    host = Host(output, [_marker(row) for row in calls.filter(marked).iter_rows(named=True)])
    for part in calls.filter(~marked).iter_slices(SLICE_ROWS):
        host.add("", _as_calls(part))
    launches, read = Launches(output, host), calls.height
    of_dispatch = calls["name"].str.contains(OF_DISPATCH).any()
    for frame in database.frames(_completed(_decided(OPS, repeated), database), OP):
        waits = frame["op_type"].fill_null("").str.to_lowercase().is_in(WAITS)
        output.report.add("skipped", WAITED, int(waits.sum()))
        launches.add("", _as_launches(frame.filter(~waits), of_dispatch), {})
        read += frame.height
    for reason, sql in DOUBTS.items() if repeated else ():
        ((doubtful,),) = database.rows(_completed(sql, database))
        output.report.add("unread", reason, doubtful)
    read += _monitor(database, output)
    read += unread.account_tables(unread.RPD, database, output.report)
    launches.finish()
    metadata = dict(database.rows(_completed("SELECT tag, value FROM rocpd_metadata", database)))
    version = metadata.get("schema_version")
    for table in OPTIONAL.keys() - database.tables().keys():
        output.report.add("note", f"no table {table}: its columns are empty", 1)
    output.report.add("read", "rows", read)
    return output.finish(
        options,
        capture.prefix_of(one.path) or one.stem,
        [File(one, "trace", read, output.report)],
        kind="timeline",
        source="rpd",
        tool="rocmProfileData",
        era=f"rpd schema {version}" if version else None,
        clock="monotonic",
        base_ns=0,
        metadata=json.dumps({"schema_version": None if version is None else str(version)}),
        reader_version=1,
    )


def _decided(sql: str, repeated: Collection[str]) -> str:
    """`sql` with those of the tables of `DECIDED` as they are that have nothing twice."""
    for table, decided in DECIDED.items():
        sql = sql.replace(f"{{{table}}}", decided if table in repeated else table)
    return sql


def _calls(sql: str, database: sqlite.Database) -> pl.DataFrame:
    """All API calls, with `is_marker` for roctx ranges; schema 3 keeps texts of arguments in a table of their own."""
    columns = database.tables()["rocpd_api"]
    v3 = "domain_id" in columns
    sql = sql.replace("{domain}", "M.string" if v3 else "NULL")
    ustring = v3 and "rocpd_ustring" in database.tables()
    sql = sql.replace("{args}", "coalesce(U.string, G.string)" if ustring else "G.string")
    if v3:
        sql += "LEFT JOIN rocpd_string AS M ON M.id = A.domain_id\n"
    if ustring:
        sql += "LEFT JOIN rocpd_ustring AS U ON U.id = A.args_id\n"
    frames = list(database.frames(_completed(sql, database), API))
    calls = pl.concat(frames) if frames else pl.DataFrame(schema=API)
    roctx = (pl.col("name") == "UserMarker") | (pl.col("domain").str.to_lowercase() == "roctx")
    pops = pl.col("name").fill_null("").str.contains("roctx(RangePop|RangeStop)")
    return calls.with_columns(is_marker=roctx.fill_null(False) & ~pops & pl.col("start_ns").is_not_null())


def _completed(sql: str, database: sqlite.Database) -> str:
    """`sql` with an empty table for each optional one that it names and that is missing or lacks columns."""
    tables = database.tables()
    replaced = []
    for table, columns in OPTIONAL.items():
        present = tables.get(table, ())
        if re.search(rf"\b{table}\b", sql) and not set(columns) <= set(present):
            chosen = ", ".join(column if column in present else f"NULL AS {column}" for column in columns)
            rows = ("FROM", "main." + table) if table in tables else ("WHERE 0",)
            replaced.append(" ".join((table, "AS (SELECT", chosen, *rows, ")")))
    return " ".join(("WITH", ", ".join(replaced), sql)) if replaced else sql


def _marker(row: dict[str, object]) -> Marker:
    start, end = int(str(row["start_ns"])), int(str(row["end_ns"] or row["start_ns"]))
    return Marker(str(row["pid"]), str(row["tid"]), str(row["args"] or row["name"] or ""), start, end)


def _as_calls(calls: pl.DataFrame) -> pl.DataFrame:
    launches = pl.col("name").str.contains("^(__)?hip")
    return calls.select(
        pl.col("start_ns", "end_ns", "bytes"),
        name=pl.col("name").fill_null(""),
        kind=pl.coalesce("domain", pl.when(launches).then(pl.lit("hip_runtime"))),
        process=pl.col("pid").cast(pl.String),
        thread=pl.col("tid").cast(pl.String),
        correlation_id="api_id",
    )


def _as_launches(ops: pl.DataFrame, of_dispatch: bool) -> pl.DataFrame:
    """The name is the description where there is one.

    Grid and LDS are those of the dispatch packet where the tracer read them there (`of_dispatch`), else arguments of
    the launching call.
    """
    if of_dispatch:
        ops = ops.rename({"dynamic_shared_bytes": "shared_bytes"})
    unit = pl.lit(WORK_ITEMS) if of_dispatch else mapped(ops["api_name"], grid_unit)
    name = pl.coalesce(pl.when(pl.col("description") != "").then("description"), "op_type")
    return ops.with_columns(
        name=name,
        kind=mapped(ops["op_type"], lambda text: kind_of(text, NOT_KERNELS), default="kernel"),
        copy_kind=mapped(ops["op_type"], copy_kind),
        stream=mapped(ops["stream_text"], _number, pl.Int64),
        reported_grid_unit=unit,
        quality=pl.when(pl.col("reported_grid_x").is_not_null() & (not of_dispatch)).then(pl.lit("grid_unit_by_api")),
        correlation_id="api_id",
    )


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _monitor(database: sqlite.Database, output: Output) -> int:
    """Clocks and other readings over time; each holds from its time on."""
    if "rocpd_monitor" not in database.tables():
        return 0
    read = stored = 0
    for frame in database.frames(MONITOR, MONITORED):
        named = frame.filter(pl.col("counter").is_not_null())
        output.report.add("skipped", "reading that does not say of what", frame.height - named.height)
        rows = named.with_columns(value=pl.col("text").cast(pl.Float64, strict=False))
        unread = rows.filter(pl.col("value").is_null() & pl.col("text").is_not_null())["text"]
        output.report.add("unread", "reading that is no number", unread.len(), str(unread.first()))
        unit = pl.when(pl.col("counter") == CLOCK_COUNTER).then(pl.lit("MHz"))
        output.write("samples", rows.select("counter", "device", "ts_ns", "value", unit=unit))
        clocks = rows.filter(pl.col("counter") == CLOCK_COUNTER)
        power = clocks.select("device", "ts_ns", sm_mhz="value", source=pl.lit("trace"))
        output.write("power_samples", power.with_columns(epoch_ns=pl.lit(None, dtype=pl.Int64)))
        read += frame.height
        stored += named.height
    output.report.add("stored", "samples over time", stored)
    ((others,),) = database.rows(OTHER_READINGS)
    output.report.add("skipped", "reading of something that is no GPU", others)
    return read + int(others)
