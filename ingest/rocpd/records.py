"""Regions of a part: API calls, roctx ranges, and allocations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from kerneldb.ingest.amd.host import CORE_MARKER, UNTIMED_RANGE, Host, Marker, is_range
from kerneldb.ingest.amd.launches import Shapes
from kerneldb.ingest.amd.rows import memory_rows, metric_rows
from kerneldb.ingest.output import Output, Report
from kerneldb.ingest.rocpd.tables import PLACED, Dimensions, parsed
from kerneldb.ingest.sqlite import quoted

TIMES: Final = dict.fromkeys((*PLACED, "start", "end"), pl.Int64)
REGION: Final = {**TIMES, **dict.fromkeys(("name_id", "category_id", "stack_id", "correlation_id"), pl.Int64)}
ALLOCATION: Final = {**TIMES, "type": pl.String, "level": pl.String, "address": pl.Int64, "size": pl.Int64}
CALL_KEYS: Final = (*PLACED, "name_id", "category_id")
PROCESS_RANGE: Final = ("roctxProcessRange", "roctxRangeStart")
SAMPLED: Final = re.compile(r"((timer|overflow|process)_)?sampling")
"""Domains of what rocprof-sys finds on the stack now and then: no calls."""
VALUES: Final = {"event_id": pl.Int64, "pmc_id": pl.Int64, "value": pl.Float64, "n": pl.Int64, "ordinal": pl.Int64}
SAMPLES: Final = {"ts_ns": pl.Int64, "pmc_id": pl.Int64, "value": pl.Float64}
INFO: Final = {
    **dict.fromkeys(("id", "is_derived", "agent_id"), pl.Int64),
    **dict.fromkeys(("name", "symbol", "units"), pl.String),
}
UNDESCRIBED: Final = "value of a counter that the file does not describe, named by its number"
POWER_COLUMNS: Final = {"power_w": ("w", "watt", "watts"), "temperature_c": ("°c", "c", "celsius")}


def markers(dimensions: Dimensions, report: Report) -> list[Marker]:
    """The roctx ranges and marks of a part; those without a time are counted in `report`."""
    found: list[Marker] = []
    for frame in _of_markers(dimensions):
        ranges = frame.filter("is_range")
        timed = ranges.drop_nulls(("start", "end"))
        report.add("lost", UNTIMED_RANGE, ranges.height - timed.height)
        found += [_marker(row, dimensions.part.suffix) for row in timed.iter_rows(named=True)]
    return found


def read_calls(dimensions: Dimensions, host: Host) -> int:
    """Write all other regions as calls; returns how many regions there are, ranges included."""
    read = 0
    for frame in _of_markers(dimensions):
        read += frame.height
        host.add(dimensions.part.suffix, _as_calls(frame.filter(~pl.col("is_range"))))
    known = dimensions.part.has_category("rocpd_region")
    sampled = _categories(dimensions, SAMPLED) if known else []
    only = {"category_id": pl.Int64}
    samples = dimensions.part.frames("rocpd_region", only, _in(sampled), sampled) if sampled else ()
    skipped = sum(frame.height for frame in samples)
    host.skip("sample of the call stack (not supported)", skipped)
    apart = [*_categories(dimensions, CORE_MARKER), *sampled] if known else []
    where = f"E.category_id IS NULL OR NOT {_in(apart)}" if apart else ""
    shapes = Shapes(
        CALL_KEYS, lambda distinct: _named(dimensions, distinct).select("process", "thread", "kind", "name")
    )
    for frame in dimensions.part.frames("rocpd_region", REGION, where, apart):
        read += frame.height
        host.add(dimensions.part.suffix, _as_calls(frame.drop(CALL_KEYS).hstack(shapes.described(frame))))
    return read + skipped


def read_memory(dimensions: Dimensions, output: Output, first: int) -> int:
    """Write allocations and releases, numbered from `first`; returns how many there are."""
    frame = dimensions.placed(dimensions.part.frame("rocpd_memory_allocate", ALLOCATION))
    given = frame.with_columns(
        dimensions.device_of(frame["agent_id"]).alias("device"),
        operation="type",
        start_ns="start",
        end_ns="end",
        bytes="size",
    )
    output.saw(given)
    output.write("memory_events", memory_rows(given, first))
    return frame.height


def _categories(dimensions: Dimensions, wanted: re.Pattern[str]) -> list[int]:
    return [key for key, name in dimensions.categories.items() if wanted.fullmatch(name)]


def _in(categories: Sequence[int]) -> str:
    return f"(E.category_id IN ({', '.join('?' * len(categories))}))"


def _of_markers(dimensions: Dimensions) -> Iterator[pl.DataFrame]:
    marked = _categories(dimensions, CORE_MARKER)
    if not marked or not dimensions.part.has_category("rocpd_region"):
        return
    where = _in(marked)
    for frame in dimensions.part.frames("rocpd_region", {**REGION, "event_extdata": pl.String}, where, marked):
        named = _named(dimensions, frame)
        flags = [is_range(kind, name) for kind, name in named.select("kind", "name").iter_rows()]
        yield named.with_columns(pl.Series("is_range", flags, dtype=pl.Boolean))


def _named(dimensions: Dimensions, frame: pl.DataFrame) -> pl.DataFrame:
    kinds = pl.col("category_id").replace_strict(dimensions.categories, default=None, return_dtype=pl.String)
    names = dimensions.text_of(frame["name_id"]).fill_null("")
    return dimensions.placed(frame).with_columns(names.alias("name"), kind=kinds)


def _as_calls(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        pl.col("process", "thread", "kind", "name"),
        start_ns="start",
        end_ns="end",
        correlation_id="stack_id",
        external_id=pl.when(pl.col("correlation_id") != 0).then("correlation_id"),
    )


def _marker(row: dict[str, Any], part: str) -> Marker:
    """The text is in the event (rocprof-sys: as the name); a range of the process belongs to no thread."""
    text = parsed(row["event_extdata"]).get("message")
    shared = str(row["name"]).startswith(PROCESS_RANGE)
    return Marker(
        row["process"],
        None if shared else row["thread"],
        str(text) if text else str(row["name"]),
        row["start"],
        row["end"],
        row["stack_id"],
        part,
    )


def read_counters(dimensions: Dimensions, by_event: pl.DataFrame, output: Output, run_pass: int | None) -> int:
    """Write the counters of dispatches; returns how many values were read.

    A counter with several instances (XCCs, shader engines) gives a row each, and where they are counts their sum
    besides, with instance NULL. Percentages are not added up.
    """
    part = dimensions.part
    if not part.has("rocpd_pmc_event"):
        return 0
    info = _info(dimensions).select("pmc_id", "counter", "is_derived")
    read = 0
    for frame in _values(dimensions):
        read += frame.height
        rows = _described(frame, info, output)
        rows = rows.join(by_event, on="event_id", how="left", maintain_order="left")
        lost = rows.filter(pl.col("launch_index").is_null()).height
        output.report.add("note", "counter value of no dispatch", lost)
        output.write("metrics", _as_metrics(rows, run_pass))
    output.report.add("stored", "counter values", read)
    return read + _skip_streamed(dimensions, output)


def _described(values: pl.DataFrame, info: pl.DataFrame, output: Output) -> pl.DataFrame:
    """Values with what the file says of their counters; a counter that it does not describe is called by its number."""
    rows = values.join(info, on="pmc_id", how="left", maintain_order="left")
    output.report.add("note", UNDESCRIBED, rows["counter"].null_count())
    number = pl.col("pmc_id").cast(pl.String).fill_null("without a number")
    return rows.with_columns(counter=pl.coalesce("counter", pl.format("pmc {}", number)))


def _skip_streamed(dimensions: Dimensions, output: Output) -> int:
    """Count the streaming counters (SPM) of schema 3.0.3: they belong to moments, not to dispatches."""
    part = dimensions.part
    if "sample_id" not in part.columns["rocpd_pmc_event"]:
        return 0
    sql = " ".join(("SELECT count(sample_id) FROM", quoted(part.tables["rocpd_pmc_event"])))
    streamed = int(part.database.rows(sql)[0][0])
    output.report.add("skipped", "value of a streaming counter (SPM)", streamed)
    return streamed


def read_samples(dimensions: Dimensions, output: Output) -> int:
    """Write what was sampled over time as `samples`, and power and temperature as `power_samples` too."""
    part = dimensions.part
    if not (part.has("rocpd_sample") and part.has("rocpd_pmc_event")):
        return 0
    pmc, sample = (quoted(part.tables[name]) for name in ("rocpd_pmc_event", "rocpd_sample"))
    times = " ".join(("SELECT event_id, min(timestamp) AS ts FROM", sample, "GROUP BY event_id"))
    joined = f"AS P JOIN ({times}) AS S ON S.event_id = P.event_id ORDER BY S.ts, P.id"
    sql = " ".join(("SELECT S.ts, P.pmc_id, P.value FROM", pmc, joined))
    info, read = _info(dimensions), 0
    for frame in part.database.frames(sql, SAMPLES):
        rows = _described(frame, info, output)
        rows = rows.with_columns(process=pl.lit(dimensions.process_label, dtype=pl.String))
        read += frame.height
        output.saw(rows.select(start_ns="ts_ns", end_ns="ts_ns"))
        output.write("samples", rows.select("counter", "process", "device", "ts_ns", "value", unit="units"))
        output.write("power_samples", _power(rows))
    output.report.add("stored", "samples over time", read)
    return read


def _power(rows: pl.DataFrame) -> pl.DataFrame:
    units = pl.col("units").str.to_lowercase()
    columns = {name: pl.when(units.is_in(list(known))).then("value") for name, known in POWER_COLUMNS.items()}
    marked = rows.with_columns(**columns).filter(pl.any_horizontal(pl.col(list(columns)).is_not_null()))
    at = marked.group_by("device", "ts_ns", maintain_order=True).agg([pl.col(list(columns)).drop_nulls().first()])
    return at.with_columns(source=pl.lit("trace"), epoch_ns=pl.lit(None, dtype=pl.Int64))


def _values(dimensions: Dimensions) -> Iterator[pl.DataFrame]:
    """Values of dispatches: not the streaming counters (SPM) of schema 3.0.3, nor what belongs to a sample."""
    part = dimensions.part
    pmc = quoted(part.tables["rocpd_pmc_event"])
    conditions = ["P.sample_id IS NULL"] if "sample_id" in part.columns["rocpd_pmc_event"] else []
    if part.has("rocpd_sample"):
        sample = quoted(part.tables["rocpd_sample"])
        inside = " ".join(("SELECT event_id FROM", sample, "WHERE event_id IS NOT NULL"))
        conditions.append(f"(P.event_id IS NULL OR P.event_id NOT IN ({inside}))")
    where = ("WHERE " + " AND ".join(conditions),) if conditions else ()
    many = " ".join(("SELECT 1 FROM", pmc, "GROUP BY event_id, pmc_id HAVING count(*) > 1 LIMIT 1"))
    window = "OVER (PARTITION BY P.event_id, P.pmc_id"
    numbered = (f"count(*) {window}) AS n, row_number() {window} ORDER BY P.id) AS ordinal",)
    plain = ("1 AS n, 1 AS ordinal",)
    chosen = numbered if part.database.rows(many) else plain
    sql = " ".join(("SELECT P.event_id, P.pmc_id, P.value,", *chosen, "FROM", pmc, "AS P", *where))
    yield from _whole_groups(part.database.frames(sql, VALUES))


def _whole_groups(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The same rows, cut so that all instances of a counter are in one frame."""
    rest: pl.DataFrame | None = None
    for frame in frames:
        whole = frame if rest is None else pl.concat([rest, frame])
        starts = whole.with_row_index("at").filter(pl.col("ordinal") == 1)["at"]
        last = int(starts[-1]) if starts.len() else 0
        if last:
            yield whole.head(last)
        rest = whole.slice(last)
    if rest is not None and rest.height:
        yield rest


def _as_metrics(rows: pl.DataFrame, run_pass: int | None) -> pl.DataFrame:
    several = pl.col("n") > 1
    single = rows.with_columns(instance=pl.when(several).then((pl.col("ordinal") - 1).cast(pl.String)))
    added = rows.filter(several & (pl.col("is_derived").fill_null(0) == 0))
    sums = added.group_by("event_id", "pmc_id", "counter", "launch_index", maintain_order=True).agg(
        pl.when(pl.col("value").null_count() == 0).then(pl.col("value").sum())
    )
    columns = ["launch_index", "counter", "value", "instance"]
    sums = sums.with_columns(instance=pl.lit(None, dtype=pl.String)).select(columns)
    both = pl.concat([single.select(columns), sums])
    return metric_rows(both.with_columns(pl.lit(run_pass, dtype=pl.Int32).alias("pass")))


def _info(dimensions: Dimensions) -> pl.DataFrame:
    frame = dimensions.part.frame("rocpd_info_pmc", INFO)
    texts = {name: pl.col(name).replace("", None) for name in ("name", "symbol", "units")}
    return frame.select(
        "is_derived",
        dimensions.device_of(frame["agent_id"]).alias("device"),
        pmc_id="id",
        counter=pl.coalesce(texts["name"], texts["symbol"]),
        units=texts["units"],
    ).unique("pmc_id", keep="first", maintain_order=True)
