"""Converts one rocpd database into a spool, part by part, without the ready-made views, which drop rows."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest, Spool
from kerneldb.ingest import sqlite
from kerneldb.ingest.amd import agents, capture
from kerneldb.ingest.amd.host import Host
from kerneldb.ingest.amd.launches import Launches
from kerneldb.ingest.amd.output import Output
from kerneldb.ingest.amd.summary import describe
from kerneldb.ingest.finishing import file_row, finish, trace_row
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Unit
from kerneldb.ingest.report import Report
from kerneldb.ingest.rocpd.activities import Dispatches
from kerneldb.ingest.rocpd.counters import read_counters, read_samples
from kerneldb.ingest.rocpd.dimensions import Dimensions
from kerneldb.ingest.rocpd.host import markers, read_calls, read_memory
from kerneldb.ingest.rocpd.layout import parts
from kerneldb.ingest.signing import name_id
from kerneldb.ingest.source import Source, local_file, trace_id_of

READER_VERSION: Final = 2
ROCPROF_SYS: Final = "kernel_summary"
"""A view that only rocprof-sys creates."""


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the database of `unit` into the spool `folder`. Raises NotATraceError or UnreadableTraceError."""
    one = Source(unit.files[0])
    with tempfile.TemporaryDirectory(prefix="kerneldb-rocpd-") as room:
        path = local_file(one, Path(room))
        with sqlite.open_database(path) as database:
            return _converted(one, database, Spool(folder), options, progress)


def _converted(
    one: Source, database: sqlite.Database, spool: Spool, options: Options, progress: Progress | None
) -> Manifest:
    output = Output(spool, trace_id_of([one]), Report())
    found = _dimensions(database)
    output.ends_at([process["end"] or process["fini"] for one in found for process in one.processes])
    host = Host(output, [marker for dimensions in found for marker in markers(dimensions)])
    launches = Launches(output, host)
    read = _read(found, host, launches, output, capture.pass_of(one.path))
    if progress is not None:
        progress(one.stored_bytes, one.stored_bytes)
    describe(output, host, launches)
    facts = _facts(found, database.tables(), options, launches, one.path)
    name = capture.prefix_of(one.path) or one.stem
    row = trace_row([one], options, name, **facts)
    output.report.add("read", "rows", sum(read.values()))
    return finish(spool, row, [file_row(one, "trace", sum(read.values()))], [output.report])


def _dimensions(database: sqlite.Database) -> list[Dimensions]:
    """Lookups of each part; processes with equal numbers (on different machines) are told apart by their host."""
    bare = [Dimensions(part) for part in parts(database)]
    pids = Counter(str(row["pid"]) for dimensions in bare for row in dimensions.processes)
    return [Dimensions(one.part, _label(one)) if _is_ambiguous(one, pids) else one for one in bare]


def _is_ambiguous(one: Dimensions, pids: Counter[str]) -> bool:
    return len(one.processes) == 1 and pids[str(one.processes[0]["pid"])] > 1


def _label(one: Dimensions) -> str:
    host = next((str(node["hostname"]) for node in one.nodes if node["hostname"]), "")
    guid = one.metadata.get("guid", one.part.suffix)
    return f"{one.processes[0]['pid']}@{host or 'host'} {guid[-4:]}"


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
    output.report.add("stored", "API calls", host.calls)
    output.report.add("stored", "allocations and releases", read["memory"])
    launches.finish(pl.concat(symbols) if symbols else None)
    return read


def _symbols(dimensions: Dimensions, launched: pl.DataFrame) -> pl.DataFrame:
    """Rows of `kernel_symbols` without trace_id, and the name beside them."""
    frame = dimensions.symbols.join(launched, left_on="id", right_on="kernel_id", how="left", maintain_order="left")
    frame = frame.with_columns(name=pl.coalesce("name", pl.format("kernel {}", "id")))
    ids = pl.Series("name_id", [name_id(name) for name in frame["name"]], dtype=pl.String)
    targets = _targets(dimensions)
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


def _targets(dimensions: Dimensions) -> dict[int, str | None]:
    known = dimensions.agents
    rows = dimensions.part.rows("rocpd_info_code_object", ("id", "agent_id"))
    return {row["id"]: known[row["agent_id"]].arch for row in rows if row["agent_id"] in known}


def _facts(
    found: Sequence[Dimensions], tables: Collection[str], options: Options, launches: Launches, path: Path
) -> dict[str, Any]:
    hosts = dict.fromkeys(str(node["hostname"]) for one in found for node in one.nodes if node["hostname"])
    version = next((one.metadata["schema_version"] for one in found if "schema_version" in one.metadata), None)
    tool = "rocprof-sys" if ROCPROF_SYS in tables else "rocprofv3"
    return {
        "kind": launches.trace_kind,
        "source": "rocprofv3",
        "tool": tool,
        "era": capture.era_of(f"rocpd schema {version or 'unknown'}", path),
        "clock": "boottime",
        "base_ns": 0,
        "window_start_ns": launches.output.window[0],
        "window_end_ns": launches.output.window[1],
        "host": ", ".join(hosts) or None,
        "has_shapes": False,
        "has_stacks": False,
        "launches": launches.output.launches,
        "metadata": json.dumps(_metadata(found, options.keep_environment), sort_keys=True),
        "reader_version": READER_VERSION,
    }


def _metadata(found: Sequence[Dimensions], keep_environment: bool) -> dict[str, Any]:
    """Identity of the capture and switches of the tool; environments and command lines only on request."""
    kept: dict[str, Any] = {"guids": [one.metadata.get("guid") for one in found]}
    for one in found:
        kept["settings"] = {key: value for key, value in one.settings.items() if isinstance(value, bool | int | float)}
        if keep_environment:
            kept.setdefault("processes", []).extend(one.processes)
    return kept
