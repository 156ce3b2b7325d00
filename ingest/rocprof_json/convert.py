"""Converts one JSON file of rocprofv3 into a spool. The text is decoded as a whole: long runs are better in rocpd."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import polars as pl

from kerneldb.batch import Manifest, Spool
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest.amd import agents as agent_rows
from kerneldb.ingest.amd import capture
from kerneldb.ingest.amd.counters import metric_rows
from kerneldb.ingest.amd.host import Host
from kerneldb.ingest.amd.launches import Launches
from kerneldb.ingest.amd.memory import memory_rows
from kerneldb.ingest.amd.output import SLICE_ROWS, Output
from kerneldb.ingest.amd.summary import describe
from kerneldb.ingest.finishing import file_row, finish, trace_row
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Unit
from kerneldb.ingest.report import Report
from kerneldb.ingest.rocprof_json.activities import Activities, as_dispatch
from kerneldb.ingest.rocprof_json.document import Counted, Dispatch, Document
from kerneldb.ingest.signing import name_id
from kerneldb.ingest.source import Source, trace_id_of

READER_VERSION: Final = 2
PC_SAMPLES: Final = "samples of the program counter (not supported)"
Record = TypeVar("Record")
SYMBOL_TYPES: Final = {"registers_reported": pl.Int32, "agprs_reported": pl.Int32, "sgprs_reported": pl.Int32}


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the file of `unit` into the spool `folder`. Raises UnreadableTraceError for cut or foreign JSON."""
    one = Source(unit.files[0])
    document = _decoded(one, progress)
    output = Output(Spool(folder), trace_id_of([one]), Report())
    processes = [Activities(process) for process in document.tool]
    output.ends_at([process.metadata.fini_time for process in document.tool])
    host = Host(output, [one for number, it in enumerate(processes) for one in it.markers(str(number))])
    launches, read = Launches(output, host), 0
    for number, activities in enumerate(processes):
        read += _write(str(number), activities, output, host, launches)
    symbols = _symbols(processes, output)
    launches.finish(symbols)
    output.report.add("stored", "API calls", host.calls)
    output.report.add("read", "records", read)
    describe(output, host, launches)
    name = capture.prefix_of(one.path) or one.stem
    row = trace_row([one], options, name, **_facts(one, processes, output, launches, options))
    return finish(output.spool, row, [file_row(one, "trace", read)], [output.report])


def _decoded(one: Source, progress: Progress | None) -> Document:
    parts = []
    with contextlib.closing(one.blocks()) as blocks:
        for block in blocks:
            parts.append(block)
            if progress is not None:
                progress(one.read_bytes, one.stored_bytes)
    try:
        return msgspec.json.decode(b"".join(parts), type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = one.damage or error
        message = f"{one.label}: the JSON of rocprofv3 is cut or damaged ({why}). Record again, best as rocpd."
        raise UnreadableTraceError(message) from error


def _write(part: str, it: Activities, output: Output, host: Host, launches: Launches) -> int:
    output.write("devices", agent_rows.device_rows(it.agents.values(), it.pid))
    calls = it.calls()
    for some in _slices(calls):
        host.add(part, it.call_rows(some))
    buffers, counted = it.process.buffer_records, it.process.callback_records.counter_collection
    indexes = _dispatches(part, it, launches, buffers.kernel_dispatch, counted)
    for copies in _slices(buffers.memory_copy):
        launches.add(part, it.copy_rows(copies), it.archs)
    _counters(it, counted, indexes, output)
    allocated = pl.concat(
        [it.memory(buffers.memory_allocation, scratch=False), it.memory(buffers.scratch_memory, scratch=True)]
    )
    output.saw(allocated)
    output.write("memory_events", memory_rows(allocated, output.written["memory_events"]))
    output.report.add("stored", "allocations and releases", allocated.height)
    samples = len(buffers.pc_sample_host_trap) + len(buffers.pc_sample_stochastic)
    output.report.add("skipped", PC_SAMPLES, samples)
    marked = len(buffers.marker_api)
    return len(calls) + marked + len(buffers.kernel_dispatch) + len(buffers.memory_copy) + len(counted) + samples


def _dispatches(
    part: str, it: Activities, launches: Launches, traced: Sequence[Dispatch], counted: Sequence[Counted]
) -> dict[int, int]:
    """Write launches; those of counter collection that no kernel trace has are profiled. Dispatch id → launch_index."""
    with_counters = frozenset(
        number for one in counted if (number := one.dispatch_data.dispatch_info.dispatch_id) is not None
    )
    known = {one.dispatch_info.dispatch_id for one in traced}
    alone = [as_dispatch(one) for one in counted if one.dispatch_data.dispatch_info.dispatch_id not in known]
    indexes: dict[int, int] = {}
    for timing, records in (("timeline", traced), ("profiled", alone)):
        for some in _slices(records):
            rows = it.launch_rows(some, timing, with_counters)
            first, _ = launches.add(part, rows, it.archs, it.halved)
            numbered = enumerate((one.dispatch_info.dispatch_id for one in some), first)
            indexes.update({number: index for index, number in numbered if number is not None})
    return indexes


def _counters(it: Activities, counted: Sequence[Counted], indexes: dict[int, int], output: Output) -> None:
    """One row per launch and counter; instances get rows of their own and, where they count, a sum."""
    counters = {counter.id.handle: counter for counter in it.process.counters}
    rows: list[tuple[int | None, str, float | None, str | None]] = []
    for one in counted:
        index = indexes.get(one.dispatch_data.dispatch_info.dispatch_id or -1)
        by_counter: dict[int, list[float]] = defaultdict(list)
        for record in one.records:
            by_counter[record.counter_id.handle].append(record.value or 0.0)
        for handle, values in by_counter.items():
            counter = counters.get(handle)
            name = counter.name if counter is not None else f"counter {handle}"
            if len(values) > 1:
                rows += [(index, name, value, str(number)) for number, value in enumerate(values)]
            if len(values) == 1 or not (counter is not None and counter.is_derived):
                rows.append((index, name, sum(values), None))
    schema = {"launch_index": pl.Int64, "counter": pl.String, "value": pl.Float64, "instance": pl.String}
    output.report.add("stored", "counter values", len(rows))
    output.write("metrics", metric_rows(pl.DataFrame(rows, schema=schema, orient="row")))


def _symbols(processes: Sequence[Activities], output: Output) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for it in processes:
        launched = Counter(one.dispatch_info.kernel_id for one in it.process.buffer_records.kernel_dispatch)
        rows += it.symbol_rows(launched)
    if not rows:
        return pl.DataFrame(schema={"name": pl.String})
    frame = pl.DataFrame(rows, infer_schema_length=None).cast(SYMBOL_TYPES, strict=False)  # type: ignore[arg-type]
    ids = pl.Series("name_id", [name_id(name) for name in frame["name"]], dtype=pl.String)
    output.write("kernel_symbols", frame.drop("name").with_columns(ids))
    return frame.select("name")


def _slices(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    return (records[at : at + SLICE_ROWS] for at in range(0, len(records), SLICE_ROWS))


def _facts(
    one: Source, processes: Sequence[Activities], output: Output, launches: Launches, options: Options
) -> dict[str, Any]:
    nodes = [it.process.metadata.node for it in processes]
    hosts = dict.fromkeys(str(node["hostname"]) for node in nodes if isinstance(node, dict) and node.get("hostname"))
    kept: dict[str, Any] = {"pids": [it.pid for it in processes]}
    if options.keep_environment:
        kept["commands"] = [it.process.metadata.command for it in processes]
    return {
        "kind": launches.trace_kind,
        "source": "rocprofv3",
        "tool": "rocprofv3",
        "era": capture.era_of("rocprofv3 json", one.path),
        "clock": "boottime",
        "base_ns": 0,
        "window_start_ns": output.window[0],
        "window_end_ns": output.window[1],
        "host": ", ".join(hosts) or None,
        "has_shapes": False,
        "has_stacks": False,
        "launches": output.launches,
        "metadata": json.dumps(kept, sort_keys=True, default=str),
        "reader_version": READER_VERSION,
    }
