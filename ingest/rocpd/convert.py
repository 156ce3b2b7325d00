"""Converts one rocpd database into a spool, part by part, without the ready-made views, which drop rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest import sqlite
from kerneldb.ingest.amd import agents, capture
from kerneldb.ingest.amd.host import Host
from kerneldb.ingest.amd.launches import Launches
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.output import File, Output
from kerneldb.ingest.readers import Unit
from kerneldb.ingest.rocpd.activities import Dispatches
from kerneldb.ingest.rocpd.records import markers, read_calls, read_counters, read_memory, read_samples
from kerneldb.ingest.rocpd.tables import Dimensions, parts
from kerneldb.ingest.signing import name_id
from kerneldb.ingest.source import Source

READER_VERSION: Final = 2
ROCPROF_SYS: Final = "kernel_summary"
"""A view that only rocprof-sys creates."""


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the database of `unit` into the spool `folder`. Raises NotATraceError or UnreadableTraceError."""
    one = Source(unit.files[0])
    with sqlite.opened(one, folder) as database:
        output = Output(folder, [one])
        found = _dimensions(database)
        output.ends_at([process["end"] or process["fini"] for part in found for process in part.processes])
        host = Host(output, [marker for part in found for marker in markers(part)])
        launches = Launches(output, host)
        read = _read(found, host, launches, output, capture.pass_of(one.path)).total()
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
    return found


def _read(
    found: Sequence[Dimensions], host: Host, launches: Launches, output: Output, run_pass: int | None
) -> Counter[str]:
    read: Counter[str] = Counter()
    symbols: list[pl.DataFrame] = []
    for dimensions in found:
        rows = agents.device_rows(dimensions.agents.values(), dimensions.process_label)
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
        arguments = dimensions.part.count("rocpd_arg")
        output.report.add("skipped", "argument of an API call", arguments)
        read["arguments"] += arguments
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
        registers_reported=pl.col("arch_vgpr_count").cast(pl.Int32, strict=False),
        agprs_reported=pl.col("accum_vgpr_count").cast(pl.Int32, strict=False),
        sgprs_reported=pl.col("sgpr_count").cast(pl.Int32, strict=False),
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
        "reader_version": READER_VERSION,
    }
