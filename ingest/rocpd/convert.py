"""Dispatches, copies and counters of a part as rows of `launches` and `metrics`."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest import sqlite
from kerneldb.ingest.amd import agents, capture, unread
from kerneldb.ingest.amd.agents import archs
from kerneldb.ingest.amd.host import Host
from kerneldb.ingest.amd.launches import COUNTED, NO_SYMBOL, UNKNOWN_KERNEL, WRITTEN, Launches, Shapes, copy_kind
from kerneldb.ingest.launches import name_id
from kerneldb.ingest.output import File, Output
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.rocpd.records import markers, read_calls, read_counters, read_memory, read_samples
from kerneldb.ingest.rocpd.tables import CLONE, PLACED, Dimensions, parts
from kerneldb.ingest.source import Source
from kerneldb.ingest.sqlite import quoted

AXES: Final = "xyz"
REGISTERS: Final = {
    "registers_reported": "arch_vgpr_count",
    "agprs_reported": "accum_vgpr_count",
    "sgprs_reported": "sgpr_count",
}
IDS: Final = ("event_id", "stack_id", "correlation_id")
DISPATCH: Final = dict.fromkeys(
    (
        *(*PLACED, "kernel_id", "start", "end", "private_segment_size", "group_segment_size"),
        *(f"{side}_size_{axis}" for side in ("workgroup", "grid") for axis in AXES),
        *("graph_exec_id", "graph_node_id", "region_name_id", *IDS),
    ),
    pl.Int64,
)
COPY: Final = dict.fromkeys(
    (
        *(*PLACED, "start", "end", "name_id", "dst_agent_id", "src_agent_id", "size"),
        *("graph_exec_id", "graph_node_id", *IDS),
    ),
    pl.Int64,
)
PER_ROW: Final = ("start", "end", "graph_exec_id", "graph_node_id", *IDS)
KERNEL_KEYS: Final = tuple(name for name in DISPATCH if name not in PER_ROW)
COPY_KEYS: Final = tuple(name for name in COPY if name not in PER_ROW)
BARE: Final = r"^(?:void )?((?:\(anonymous namespace\)|[^<(])*)"
"""A kernel's name without the arguments of its template and of its call."""
DROPPED: Final = "dispatch that AMD's `kernels` view drops, kept"
ORPHANS: Final = {
    "no_symbol": "dispatch without a kernel symbol",
    "no_agent": "dispatch of an agent that the file does not describe",
    "no_thread": "dispatch of a thread that the file does not describe",
    "no_event": "dispatch without an event",
    "no_region": "dispatch without a region name",
    "no_queue": "dispatch of a queue that the file does not describe",
}
FLAGS: Final = tuple(flag for flag in ORPHANS if flag != "no_event")
ROCPROF_SYS: Final = "kernel_summary"
"""A view that only rocprof-sys creates."""


class Dispatches:
    """Reads the dispatches and copies of one part. `launched` counts by kernel_id afterwards."""

    def __init__(self, dimensions: Dimensions, launches: Launches, output: Output) -> None:
        self._dimensions = dimensions
        self._launches = launches
        self._output = output
        self._archs = archs(dimensions.agents.values())
        self._counted = self._events_with_counters()
        self._timing = self._timing_of_all()
        self._queues = {row["id"] for row in dimensions.part.rows("rocpd_info_queue", ("id",))}
        self._kernels = Shapes([*KERNEL_KEYS, "counted"], self._describe_kernels)
        self._copies = Shapes([*COPY_KEYS, "counted"], self._describe_copies)
        self.launched = pl.DataFrame(schema={"kernel_id": pl.Int64, "launches": pl.Int64})
        self._counts: list[pl.DataFrame] = []
        self._by_event: list[pl.DataFrame] = []

    def read(self) -> int:
        """Write all dispatches and copies; returns how many rows were read."""
        part, read = self._dimensions.part, 0
        for frame in part.frames("rocpd_kernel_dispatch", DISPATCH):
            rows = frame.with_columns(self._has_counters(frame["event_id"]))
            self._add(rows, self._kernels)
            read += frame.height
        self._count_kernels()
        for frame in part.frames("rocpd_memory_copy", COPY):
            self._add(frame.with_columns(self._has_counters(frame["event_id"])), self._copies)
            read += frame.height
        return read

    @property
    def by_event(self) -> pl.DataFrame:
        """event_id → launch_index, of launches with counters; of several with one event, the first."""
        schema = {"event_id": pl.Int64, "launch_index": pl.Int64}
        found = pl.concat(self._by_event) if self._by_event else pl.DataFrame(schema=schema)
        return found.unique("event_id", keep="first", maintain_order=True)

    def _add(self, rows: pl.DataFrame, shapes: Shapes) -> None:
        numbers = shapes.numbered(rows)
        graph = pl.col("graph_exec_id") != 0
        per_row = rows.select(
            start_ns="start",
            end_ns="end",
            correlation_id="stack_id",
            external_id="correlation_id",
            graph_id=pl.when(graph).then("graph_exec_id"),
            graph_node_id=pl.when(graph).then("graph_node_id"),
        )
        described = shapes.table.select(WRITTEN)[numbers]
        first, behind = self._launches.write(self._dimensions.part.suffix, per_row, described)
        if shapes is self._kernels:
            self._counts.append(numbers.value_counts(name="n"))
            without_event = self._without_event(rows)
            dropped = without_event | shapes.table["incomplete"][numbers]
            self._output.report.add("note", ORPHANS["no_event"], int(without_event.sum()))
            self._output.report.add("note", DROPPED, int(dropped.sum()))
        if self._counted.len():
            numbered = rows.select("event_id", "counted", launch_index=pl.int_range(first, behind, dtype=pl.Int64))
            self._by_event.append(numbered.filter("counted").drop("counted"))

    def _has_counters(self, events: pl.Series) -> pl.Series:
        if not self._counted.len():
            return pl.repeat(False, events.len(), dtype=pl.Boolean, eager=True).alias("counted")
        return events.is_in(self._counted.implode()).fill_null(False).alias("counted")

    def _describe_kernels(self, distinct: pl.DataFrame) -> pl.DataFrame:
        dimensions = self._dimensions
        symbols = dimensions.symbols.select(
            "name",
            kernel_id="id",
            symbol="kernel_name",
            static_shared_bytes="group_segment_size",
            **REGISTERS,
        ).with_columns(known_symbol=True)
        frame = dimensions.placed(distinct).join(symbols, on="kernel_id", how="left", maintain_order="left")
        frame = frame.with_columns(
            dimensions.device_of(frame["agent_id"]).alias("device"),
            dimensions.text_of(frame["region_name_id"]).alias("region"),
        )
        # rocprof-sys repeats the name of the kernel as the text of a range.
        region, *names = (pl.col(one).str.replace(CLONE, "").str.extract(BARE) for one in ("region", "name", "symbol"))
        repeated = pl.any_horizontal(name.eq(region).fill_null(False) for name in names)
        other_region = pl.when(~repeated).then("region")
        # AMD's tool says `unknown_kernel` for kernel 0; other numbers without a symbol stay apart.
        numbered = pl.format(UNKNOWN_KERNEL + " (kernel_id {})", "kernel_id")
        unknown = pl.when(pl.col("kernel_id") == 0).then(pl.lit(UNKNOWN_KERNEL)).otherwise(numbered)
        given = frame.with_columns(
            region="region" if dimensions.settings.get("kernel_rename") else other_region,
            kind=pl.lit("kernel"),
            timing=pl.lit(self._timing),
            stream="stream_id",
            queue="queue_id",
            name=pl.coalesce("name", unknown),
            shared_bytes="group_segment_size",
            scratch_bytes="private_segment_size",
            quality=_quality(pl.col("known_symbol").is_null()),
            **{f"block_{axis}": pl.col(f"workgroup_size_{axis}") for axis in AXES},
            **{f"reported_grid_{axis}": pl.col(f"grid_size_{axis}") for axis in AXES},
        )
        described = self._launches.described(given, self._archs, dimensions.halved)
        flags = self._flags(frame)
        incomplete = flags.select(incomplete=pl.any_horizontal(pl.all()))
        return described.hstack(flags).hstack(incomplete).hstack([frame["kernel_id"]])

    def _describe_copies(self, distinct: pl.DataFrame) -> pl.DataFrame:
        dimensions = self._dimensions
        frame = dimensions.placed(distinct)
        names = dimensions.text_of(frame["name_id"])
        target, origin = (dimensions.device_of(frame[f"{side}_agent_id"]) for side in ("dst", "src"))
        given = frame.with_columns(
            names.alias("name"),
            pl.Series("copy_kind", [copy_kind(name) for name in names], dtype=pl.String),
            pl.Series("device", pl.select(pl.coalesce(target, origin)).to_series()),
            kind=pl.lit("memcpy"),
            timing=pl.lit("timeline"),
            stream="stream_id",
            queue="queue_id",
            bytes="size",
            quality=_quality(pl.lit(False)),
        )
        return self._launches.described(given, self._archs)

    def _flags(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What a distinct dispatch refers to and the file does not describe."""
        return frame.select(
            no_symbol=pl.col("known_symbol").is_null(),
            no_agent=~pl.col("agent_id").is_in(list(self._dimensions.agents)).fill_null(False),
            no_thread=~pl.col("known_thread"),
            no_region=pl.col("region").is_null(),
            no_queue=~pl.col("queue_id").is_in(list(self._queues)).fill_null(False),
        )

    def _without_event(self, rows: pl.DataFrame) -> pl.Series:
        """Which rows name no event, or one that is not in the file; one that is there says its stack_id."""
        missing = rows["event_id"].is_null()
        doubtful = rows["stack_id"].is_null() & ~missing
        if doubtful.any():
            missing |= doubtful & ~rows["event_id"].is_in(self._events.implode()).fill_null(False)
        return missing

    @functools.cached_property
    def _events(self) -> pl.Series:
        return self._dimensions.part.frame("rocpd_event", {"id": pl.Int64})["id"]

    def _count_kernels(self) -> None:
        """Sum up how often each distinct dispatch was there."""
        table = self._kernels.table
        if table.is_empty():
            return
        n = pl.concat(self._counts).group_by("shape").agg(pl.col("n").sum())
        counted = table.with_row_index("shape").join(n, on="shape", how="left").fill_null(0)
        for flag in FLAGS:
            missing = int(counted.filter(flag)["n"].sum())
            self._output.report.add("note", ORPHANS[flag], missing)
        self.launched = counted.group_by("kernel_id").agg(launches=pl.col("n").sum().cast(pl.Int64))

    def _events_with_counters(self) -> pl.Series:
        part = self._dimensions.part
        if not part.has("rocpd_pmc_event") or not part.has("rocpd_kernel_dispatch"):
            return pl.Series("event_id", [], dtype=pl.Int64)
        sql = " ".join(("SELECT DISTINCT event_id FROM", quoted(part.tables["rocpd_pmc_event"])))
        frames = list(part.database.frames(sql, {"event_id": pl.Int64}))
        return pl.concat(frames)["event_id"].drop_nulls() if frames else pl.Series("event_id", [], dtype=pl.Int64)

    def _timing_of_all(self) -> str:
        """Whether times are those of a running program.

        Counters serialise kernels. Where every dispatch has some and kernels were not traced on purpose too, times are
        `profiled`; otherwise rows with counters say so in `quality`.
        """
        part, settings = self._dimensions.part, self._dimensions.settings
        if not self._counted.len() or settings.get("kernel_trace"):
            return "timeline"
        dispatches, counters = (quoted(part.tables[name]) for name in ("rocpd_kernel_dispatch", "rocpd_pmc_event"))
        inside = " ".join(("SELECT event_id FROM", counters, "WHERE event_id IS NOT NULL"))
        sql = " ".join(("SELECT count(*) FROM", dispatches, "WHERE event_id IS NULL OR event_id NOT IN (", inside, ")"))
        return "timeline" if part.database.rows(sql)[0][0] else "profiled"


def _quality(nameless: pl.Expr) -> pl.Expr:
    symbol = pl.when(nameless).then(pl.lit(NO_SYMBOL))
    counted = pl.when("counted").then(pl.lit(COUNTED))
    return pl.concat_str(symbol, counted, separator=",", ignore_nulls=True).replace("", None)


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the database of `unit` into the spool `folder`. Raises NotATraceError or UnreadableTraceError."""
    one = Source(unit.files[0])
    with sqlite.opened(one, folder) as database:
        output = Output(folder, [one])
        found = _dimensions(database)
        output.ends_at([process["end"] or process["fini"] for part in found for process in part.processes])
        host = Host(output, [marker for part in found for marker in markers(part, output.report)])
        launches = Launches(output, host)
        read = _read(found, host, launches, output, capture.pass_of(one.path)).total()
        bases = {name: base for one in found for base, name in one.part.tables.items()}
        read += unread.account_tables(unread.ROCPD, database, output.report, lambda name: bases.get(name, name))
        facts = _facts(found, database.tables(), options)
    if progress is not None:
        progress(one.stored_bytes, one.stored_bytes)
    output.report.add("read", "rows", read)
    return output.finish(
        options,
        capture.prefix_of(one.path) or one.stem,
        [File(one, "trace", read, output.report)],
        kind=launches.trace_kind,
        era=capture.era_of(f"rocpd schema {facts.pop('version')}", one.path),
        **facts,
    )


def _dimensions(database: sqlite.Database) -> list[Dimensions]:
    """Lookups of each part; processes with equal numbers (on different machines) are told apart by their host."""
    bare = [Dimensions(part) for part in parts(database)]
    pids = Counter(str(row["pid"]) for dimensions in bare for row in dimensions.processes)
    found = []
    for one in bare:
        label = None
        if len(one.processes) == 1 and pids[str(one.processes[0]["pid"])] > 1:
            host = next((str(node["hostname"]) for node in one.nodes if node["hostname"]), "host")
            label = f"{one.processes[0]['pid']}@{host} {one.metadata.get('guid', one.part.suffix)[-4:]}"
        found.append(one if label is None else Dimensions(one.part, label))
    firsts = agents.first_numbers((one.machine, one.agents.values()) for one in found)
    return [dataclasses.replace(one, first=first) if first else one for one, first in zip(found, firsts, strict=True)]


def _read(
    found: Sequence[Dimensions], host: Host, launches: Launches, output: Output, run_pass: int | None
) -> Counter[str]:
    read: Counter[str] = Counter()
    symbols: list[pl.DataFrame] = []
    for dimensions in found:
        rows = agents.device_rows(dimensions.agents.values(), dimensions.process_label, output.report)
        output.write("devices", rows)
        read["regions"] += read_calls(dimensions, host)
    for dimensions in found:
        dispatches = Dispatches(dimensions, launches, output)
        read["launches"] += dispatches.read()
        read["memory"] += read_memory(dimensions, output, read["memory"])
        read["counters"] += read_counters(dimensions, dispatches.by_event, output, run_pass)
        read["samples"] += read_samples(dimensions, output)
        symbols.append(_symbols(dimensions, dispatches.launched))
        output.write("kernel_symbols", symbols[-1].drop("name"))
        output.report.add("unread", "argument of an API call", dimensions.part.count("rocpd_arg"))
    output.report.add("stored", "allocations and releases", read["memory"])
    launches.finish(pl.concat(symbols) if symbols else None)
    return read


def _symbols(dimensions: Dimensions, launched: pl.DataFrame) -> pl.DataFrame:
    """Rows of `kernel_symbols` without trace_id, and the name beside them."""
    frame = dimensions.symbols.join(launched, left_on="id", right_on="kernel_id", how="left", maintain_order="left")
    frame = frame.with_columns(name=pl.coalesce("name", pl.format("kernel {}", "id")))
    ids = pl.Series("name_id", [name_id(name) for name in frame["name"]], dtype=pl.String)
    known = dimensions.agents
    objects = dimensions.part.rows("rocpd_info_code_object", ("id", "agent_id"))
    targets = {row["id"]: known[row["agent_id"]].arch for row in objects if row["agent_id"] in known}
    return frame.select(
        "name",
        "code_object_id",
        ids,
        symbol_id="id",
        process=pl.lit(dimensions.process_label, dtype=pl.String),
        symbol=pl.coalesce("kernel_name", "name"),
        launches=pl.col("launches").fill_null(0),
        static_shared_bytes="group_segment_size",
        scratch_bytes="private_segment_size",
        kernarg_bytes="kernarg_segment_size",
        **{name: pl.col(count).cast(pl.Int32, strict=False) for name, count in REGISTERS.items()},
        target=pl.col("code_object_id").replace_strict(targets, default=None, return_dtype=pl.String),
    )


def _facts(found: Sequence[Dimensions], tables: Collection[str], options: Options) -> dict[str, Any]:
    """Columns of `traces`, and `version` of the schema. Environments and command lines only on request."""
    hosts = dict.fromkeys(str(node["hostname"]) for one in found for node in one.nodes if node["hostname"])
    kept: dict[str, Any] = {"guids": [one.metadata.get("guid") for one in found]}
    for one in found:
        kept["settings"] = {key: value for key, value in one.settings.items() if isinstance(value, bool | int | float)}
        if options.keep_environment:
            kept.setdefault("processes", []).extend(one.processes)
    return {
        "version": next(
            (one.metadata["schema_version"] for one in found if "schema_version" in one.metadata), "unknown"
        ),
        "source": "rocprofv3",
        "tool": "rocprof-sys" if ROCPROF_SYS in tables else "rocprofv3",
        "clock": "boottime",
        "base_ns": 0,
        "host": ", ".join(hosts) or None,
        "metadata": json.dumps(kept, sort_keys=True),
        "reader_version": 2,
    }
