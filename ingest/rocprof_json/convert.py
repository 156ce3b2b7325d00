"""Records of one process as frames for `Launches`, `Host` and `memory_rows`."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import polars as pl

from kerneldb.batch import Manifest
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import nested
from kerneldb.ingest.amd import agents as agent_rows
from kerneldb.ingest.amd import capture, unread
from kerneldb.ingest.amd.agents import Agent, agent_of, archs, first_numbers, moved, numbered
from kerneldb.ingest.amd.host import UNTIMED_RANGE, Host, Marker, is_range
from kerneldb.ingest.amd.launches import COUNTED, NO_SYMBOL, UNKNOWN_KERNEL, Launches, copy_kind, is_halved
from kerneldb.ingest.amd.rows import ADDRESSES, address_of, memory_rows, metric_rows, signed
from kerneldb.ingest.columns import frame_of
from kerneldb.ingest.launches import name_id
from kerneldb.ingest.output import SLICE_ROWS, File, Output, Report
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.rocprof_json.document import (
    Allocation,
    Call,
    Copy,
    Counted,
    Dispatch,
    Document,
    Process,
    Sections,
    Symbol,
)
from kerneldb.ingest.source import Source
from kerneldb.times import fitting

Columns = dict[str, tuple[type[pl.DataType], list[Any]]]
CLONE: Final = (" [clone .kd]", " (.kd)", ".kd")
NO_NUMBER: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE)
"""Texts, to pass over them, and numbers as cereal writes them where a counter divides by zero (its default is
`kWriteNanAndInfFlag`). Source: USCiLab/cereal, include/cereal/external/rapidjson/writer.h."""
CALL_BUFFERS: Final = ("hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "ompt")
PROCESS_RANGE: Final = ("roctxProcessRange", "roctxRangeStart")
NOTHING: Final = msgspec.Raw(b"null")
PC_SAMPLES: Final = "samples of the program counter (not supported)"
IDS: Final = ("correlation_id", "external_id", "queue", "stream")
Record = TypeVar("Record")
SYMBOLS: Final = {
    **{"name": pl.String, "symbol_id": pl.Int64, "code_object_id": pl.Int64, "process": pl.String, "symbol": pl.String},
    **dict.fromkeys(("launches", "static_shared_bytes", "scratch_bytes", "kernarg_bytes"), pl.Int64),
    **dict.fromkeys(("registers_reported", "agprs_reported", "sgprs_reported"), pl.Int64),
}


class Activities:
    """One process of the file."""

    def __init__(self, process: Process, report: Report) -> None:
        self.process, self._report = process, report
        self.pid = None if process.metadata.pid is None else str(process.metadata.pid)
        agents = numbered(agent_of(facts) for facts in process.agents)
        self.agents: dict[int, Agent] = dict(zip(map(_handle, process.agents), agents, strict=True))
        self.symbols: dict[int, Symbol] = {symbol.kernel_id: symbol for symbol in process.kernel_symbols}
        highest = max((symbol.accum_vgpr_count or 0 for symbol in self.symbols.values()), default=0)
        self.halved = any(is_halved(arch, highest) for arch in self.archs.values())
        self._renamed = {text.key: text.value for text in process.strings.correlation_id.external}

    @property
    def archs(self) -> dict[int, str | None]:
        """Device number → architecture, of GPUs."""
        return archs(self.agents.values())

    @property
    def machine(self) -> str | None:
        """The machine that it ran on, where the file says it."""
        node = self.process.metadata.node
        return str(node["machine_id"]) if isinstance(node, dict) and node.get("machine_id") else None

    def markers(self, part: str, report: Report) -> list[Marker]:
        """Roctx ranges and marks; the text is found by the correlation id, which is unique within the `part`.

        Those without a time are counted in `report`.
        """
        texts = {text.key: text.value for text in self.process.strings.marker_api}
        named = ((call, self.operation(call)) for call in self.process.buffer_records.marker_api)
        ranges = [(call, name) for call, name in named if is_range(self.domain(call), name)]
        found = [
            Marker(
                self.pid,
                None if name.startswith(PROCESS_RANGE) else _text(call.thread_id),
                texts.get(call.correlation_id.internal or -1) or name,
                call.start_timestamp,
                call.end_timestamp,
                _identity(call.correlation_id.internal),
                part,
            )
            for call, name in ranges
            if call.start_timestamp is not None and call.end_timestamp is not None
        ]
        report.add("lost", UNTIMED_RANGE, len(ranges) - len(found))
        return found

    def calls(self) -> list[Call]:
        """Calls that are no ranges."""
        buffers = self.process.buffer_records
        found: list[Call] = [call for name in CALL_BUFFERS for call in getattr(buffers, name)]
        rest = (call for call in buffers.marker_api if not is_range(self.domain(call), self.operation(call)))
        return [*found, *rest]

    def _frame(self, columns: Columns) -> pl.DataFrame:
        """The columns as a frame, ids as signed numbers; what a column does not hold is left empty, and counted."""
        made = {}
        for name, (kind, given) in columns.items():
            values = [_identity(value) for value in given] if name in IDS else given
            made[name] = pl.Series(values, dtype=kind, strict=False)
            odd = made[name].null_count() - given.count(None)
            self._report.add("unread", f"value of {name} that its column does not hold: left empty", odd)
        return pl.DataFrame(made)

    def _common(self, records: Sequence[Call] | Sequence[Dispatch]) -> Columns:
        """Process, times and the ids that tie an activity to its call and to the range that roctx pushed."""
        return {
            "process": (pl.String, [self.pid for _ in records]),
            "start_ns": (pl.Int64, [fitting(one.start_timestamp) for one in records]),
            "end_ns": (pl.Int64, [fitting(one.end_timestamp) for one in records]),
            "correlation_id": (pl.Int64, [one.correlation_id.internal for one in records]),
            "external_id": (pl.Int64, [_external(one.correlation_id.external) for one in records]),
        }

    def call_rows(self, calls: Sequence[Call]) -> pl.DataFrame:
        """As `Host.add` takes them."""
        return self._frame(
            {
                **self._common(calls),
                "thread": (pl.String, [_text(call.thread_id) for call in calls]),
                "kind": (pl.String, [self.domain(call) for call in calls]),
                "name": (pl.String, [self.operation(call) for call in calls]),
                "external_id": (pl.Int64, [_external(call.correlation_id.external) or None for call in calls]),
            }
        )

    def launch_rows(self, dispatches: Sequence[Dispatch], timing: str, counted: frozenset[int]) -> pl.DataFrame:
        """As `Launches.add` takes them. `counted`: dispatches with counters."""
        infos = [dispatch.dispatch_info for dispatch in dispatches]
        symbols = [self.symbols.get(info.kernel_id) for info in infos]
        external = [_external(dispatch.correlation_id.external) for dispatch in dispatches]
        sizes = {
            f"{ours}_{axis}": (pl.Int64, [getattr(getattr(info, theirs), axis) for info in infos])
            for ours, theirs in (("reported_grid", "grid_size"), ("block", "workgroup_size"))
            for axis in "xyz"
        }
        reported = {
            ours: (pl.Int64, [None if symbol is None else getattr(symbol, theirs) for symbol in symbols])
            for ours, theirs in REPORTED.items()
        }
        return self._frame(
            {
                **self._common(dispatches),
                "kind": (pl.String, ["kernel" for _ in infos]),
                "name": (pl.String, [self._name(info.kernel_id) for info in infos]),
                "timing": (pl.String, [timing for _ in infos]),
                "device": (pl.Int32, [self._device(info.agent_id.handle) for info in infos]),
                "queue": (pl.Int64, [info.queue_id.handle for info in infos]),
                "stream": (pl.Int64, [None if one.stream_id is None else one.stream_id.handle for one in dispatches]),
                "region": (pl.String, [self._renamed.get(number or 0) for number in external]),
                "shared_bytes": (pl.Int64, [info.group_segment_size for info in infos]),
                "scratch_bytes": (pl.Int64, [info.private_segment_size for info in infos]),
                "quality": (
                    pl.String,
                    [_quality(info.dispatch_id, info.kernel_id in self.symbols, counted) for info in infos],
                ),
                **sizes,
                **reported,
            }
        )

    def copy_rows(self, copies: Sequence[Copy]) -> pl.DataFrame:
        """As `Launches.add` takes them."""
        names = [self.operation(copy) for copy in copies]
        ends = [(self._device(copy.dst_agent_id.handle), self._device(copy.src_agent_id.handle)) for copy in copies]
        return self._frame(
            {
                **self._common(copies),
                "kind": (pl.String, ["memcpy" for _ in copies]),
                "name": (pl.String, names),
                "copy_kind": (pl.String, [copy_kind(name) for name in names]),
                "device": (pl.Int32, [source if target is None else target for target, source in ends]),
                "stream": (pl.Int64, [None if one.stream_id is None else one.stream_id.handle for one in copies]),
                "bytes": (pl.Int64, [copy.bytes for copy in copies]),
            }
        )

    def memory(self, allocations: Sequence[Allocation], scratch: bool) -> pl.DataFrame:
        """As `memory_rows` takes them."""
        return self._frame(
            {
                **self._common(allocations),
                "thread": (pl.String, [_text(one.thread_id) for one in allocations]),
                "address": (pl.Int64, [address_of(one.address) for one in allocations]),
                "bytes": (pl.Int64, [one.allocation_size for one in allocations]),
                "device": (pl.Int32, [self._device(one.agent_id.handle) for one in allocations]),
                "operation": (pl.String, [self.operation(one) for one in allocations]),
                "level": (pl.String, ["SCRATCH" if scratch else "REAL" for _ in allocations]),
            }
        )

    def symbol_rows(self, launched: Mapping[int, int]) -> list[dict[str, Any]]:
        """Rows of `kernel_symbols` without trace_id and name_id, and the name beside them."""
        return [
            {
                "name": self._name(number),
                "symbol_id": number,
                "code_object_id": symbol.code_object_id,
                "process": self.pid,
                "symbol": symbol.kernel_name or self._name(number),
                "launches": launched.get(number, 0),
                "static_shared_bytes": symbol.group_segment_size,
                "scratch_bytes": symbol.private_segment_size,
                "kernarg_bytes": symbol.kernarg_segment_size,
                "registers_reported": symbol.arch_vgpr_count,
                "agprs_reported": symbol.accum_vgpr_count,
                "sgprs_reported": symbol.sgpr_count,
            }
            for number, symbol in self.symbols.items()
        ]

    def domain(self, call: Call) -> str:
        """The kind of a record, as `HIP_RUNTIME_API_EXT`."""
        names = self.process.strings.buffer_records
        return names[call.kind].kind if 0 <= call.kind < len(names) else ""

    def operation(self, call: Call) -> str:
        """The function that was called, or what was copied or allocated."""
        names = self.process.strings.buffer_records
        known = names[call.kind].operations if 0 <= call.kind < len(names) else []
        return known[call.operation] if 0 <= call.operation < len(known) else f"operation {call.operation}"

    def _device(self, handle: int) -> int | None:
        agent = self.agents.get(handle)
        return agent.device if agent is not None and agent.is_gpu else None

    def _name(self, kernel_id: int) -> str:
        symbol = self.symbols.get(kernel_id)
        if symbol is None:
            return UNKNOWN_KERNEL if kernel_id == 0 else f"{UNKNOWN_KERNEL} (kernel_id {kernel_id})"
        name = symbol.kernel_name or ""
        for ending in CLONE:
            name = name.removesuffix(ending)
        return symbol.formatted_kernel_name or symbol.demangled_kernel_name or name or UNKNOWN_KERNEL


REPORTED: Final = {
    "static_shared_bytes": "group_segment_size",
    "registers_reported": "arch_vgpr_count",
    "agprs_reported": "accum_vgpr_count",
    "sgprs_reported": "sgpr_count",
}


def as_dispatch(counted: Counted) -> Dispatch:
    """The launch that counters belong to."""
    dispatch = counted.dispatch_data
    dispatch.thread_id = dispatch.thread_id or counted.thread_id
    return dispatch


def _handle(facts: Mapping[str, Any]) -> int:
    identity = facts.get("id")
    handle = identity.get("handle") if isinstance(identity, dict) else None
    return handle if isinstance(handle, int) else 0


def _identity(number: int | None) -> int | None:
    """An id of 64 bits as the signed number of the same bits, as columns hold it; None for one that is longer."""
    return signed(number) if number is not None and -(ADDRESSES >> 1) <= number < ADDRESSES else None


def _external(value: Any) -> int | None:
    number = value.get("value") if isinstance(value, dict) else value
    return number if isinstance(number, int) else None


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _quality(dispatch: int | None, known: bool, counted: frozenset[int]) -> str | None:
    remarks = [*([] if known else [NO_SYMBOL]), *([COUNTED] if dispatch in counted else [])]
    return ",".join(remarks) or None


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert the file of `unit` into the spool `folder`. Raises UnreadableTraceError for cut or foreign JSON."""
    one = Source(unit.files[0])
    document, sections, keys = _decoded(one, progress)
    output = Output(folder, [one])
    unread.SECTIONS.account(sections, output.report)
    unread.KEYS.account({key: n for key, n in keys.items() if unread.KEYS.reason(key) != unread.READ}, output.report)
    processes = [Activities(process, output.report) for process in document.tool]
    for it, first in zip(
        processes, first_numbers((one.machine, one.agents.values()) for one in processes), strict=True
    ):
        it.agents = moved(it.agents, first)
    output.ends_at([process.metadata.fini_time for process in document.tool])
    host = Host(output, [one for number, it in enumerate(processes) for one in it.markers(str(number), output.report)])
    launches, read = Launches(output, host), 0
    for number, activities in enumerate(processes):
        read += _write(str(number), activities, output, host, launches)
    launches.finish(_symbols(processes, output))
    left = sum(n for name, n in sections.items() if unread.SECTIONS.reason(name))
    output.report.add("read", "records", read + left)
    nodes = [process.metadata.node for process in document.tool]
    hosts = dict.fromkeys(str(node["hostname"]) for node in nodes if isinstance(node, dict) and node.get("hostname"))
    kept: dict[str, Any] = {"pids": [it.pid for it in processes]}
    if options.keep_environment:
        kept["commands"] = [process.metadata.command for process in document.tool]
    return output.finish(
        options,
        capture.prefix_of(one.path) or one.stem,
        [File(one, "trace", read, output.report)],
        kind=launches.trace_kind,
        source="rocprofv3",
        tool="rocprofv3",
        era=capture.era_of("rocprofv3 json", one.path),
        clock="boottime",
        base_ns=0,
        host=", ".join(hosts) or None,
        metadata=json.dumps(kept, sort_keys=True, default=str),
        reader_version=2,
    )


def _sections(document: Sections) -> Counter[str]:
    """Number of records of each part, those inside records of buffers and callbacks by the names of both."""
    found: Counter[str] = Counter()
    for process in document.tool:
        for name, raw in process.items():
            inside = name in ("buffer_records", "callback_records")
            parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]) if inside else {}
            found[name] += 1 if inside else _records(raw)
            found.update({f"{name}.{part}": _records(one) for part, one in parts.items()})
    return found


def _keys(document: Sections) -> Counter[str]:
    """How many records of activities, calls and counters have each key, those of what was launched where with them."""
    found: Counter[str] = Counter()
    for process in document.tool:
        for name in ("buffer_records", "callback_records"):
            parts = msgspec.json.decode(process.get(name, NOTHING), type=dict[str, msgspec.Raw] | None) or {}
            for part, raw in parts.items():
                if unread.SECTIONS.reason(f"{name}.{part}") is None and bytes(raw)[:1] == b"[":
                    _add_keys(part, msgspec.json.decode(raw, type=list[dict[str, msgspec.Raw]]), found)
    return found


def _add_keys(part: str, records: Sequence[Mapping[str, msgspec.Raw]], found: Counter[str]) -> None:
    found.update(f"{part}.{key}" for record in records for key in record)
    inside = [record["dispatch_info"] for record in records if "dispatch_info" in record]
    keys = (msgspec.json.decode(raw, type=dict[str, msgspec.Raw]) for raw in inside)
    found.update(f"{part}.dispatch_info.{key}" for given in keys for key in given)


def _records(raw: msgspec.Raw) -> int:
    text = bytes(raw).lstrip()
    if text.startswith((b"[", b"{")):
        return len(msgspec.json.decode(raw, type=list[msgspec.Raw] if text[:1] == b"[" else dict[str, msgspec.Raw]))
    return int(text != b"null")


def _present(value: Any) -> Any:
    """The value without members that are null: a part that a writer left empty is one that it did not write."""
    if isinstance(value, dict):
        return {name: _present(inner) for name, inner in value.items() if inner is not None}
    return [_present(inner) for inner in value if inner is not None] if isinstance(value, list) else value


def _decoded(one: Source, progress: Progress | None) -> tuple[Document, Counter[str], Counter[str]]:
    """The file, the number of records of each of its parts, and of each of their keys."""
    parts = []
    with contextlib.closing(one.blocks()) as blocks:
        for block in blocks:
            parts.append(block)
            if progress is not None:
                progress(one.read_bytes, one.stored_bytes)
    text = b"".join(parts)
    try:
        try:
            document = msgspec.json.decode(text, type=Document)
        except msgspec.DecodeError:
            numbers = NO_NUMBER.sub(lambda match: match[0] if match[0].startswith(b'"') else b"null", text)
            text = msgspec.json.encode(_present(msgspec.json.decode(numbers)))
            document = msgspec.json.decode(text, type=Document)
        sections = msgspec.json.decode(text, type=Sections)
        return document, _sections(sections), _keys(sections)
    except RecursionError as error:
        raise nested.error(text) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = one.damage or error
        message = f"{one.label}: the JSON of rocprofv3 is cut or damaged ({why}). Record again, best as rocpd."
        raise UnreadableTraceError(message) from error


def _write(part: str, it: Activities, output: Output, host: Host, launches: Launches) -> int:
    output.write("devices", agent_rows.device_rows(it.agents.values(), it.pid, output.report))
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
    alone: list[Dispatch] = []
    for one in counted:  # a launch may have several records, such as one for each pass over the counters
        number = one.dispatch_data.dispatch_info.dispatch_id
        if number is None or number not in known:
            alone.append(as_dispatch(one))
            known.add(number)
    indexes: dict[int, int] = {}
    for timing, records in (("timeline", traced), ("profiled", alone)):
        for some in _slices(records):
            rows = it.launch_rows(some, timing, with_counters)
            first, _ = launches.add(part, rows, it.archs, it.halved)
            numbered = enumerate((one.dispatch_info.dispatch_id for one in some), first)
            indexes.update({number: index for index, number in numbered if number is not None})
    return indexes


def _counters(it: Activities, counted: Sequence[Counted], indexes: dict[int, int], output: Output) -> None:
    """One row per launch and counter; instances get rows of their own and, where all of them count, a sum."""
    counters = {counter.id.handle: counter for counter in it.process.counters}
    rows: list[tuple[int | None, str, float | None, str | None]] = []
    unknown = 0
    for one in counted:
        number = one.dispatch_data.dispatch_info.dispatch_id
        index = None if number is None else indexes.get(number)
        by_counter: dict[int, list[float | None]] = defaultdict(list)
        for record in one.records:
            by_counter[record.counter_id.handle].append(record.value)
        for handle, values in by_counter.items():
            counter = counters.get(handle)
            name = counter.name if counter is not None else f"counter {handle}"
            known = [(number, value) for number, value in enumerate(values) if value is not None]
            unknown += len(values) - len(known)
            if len(values) > 1:
                rows += [(index, name, value, str(number)) for number, value in known]
            is_sum = len(values) == 1 or not (counter is not None and counter.is_derived)
            if is_sum and len(known) == len(values):
                rows.append((index, name, sum(value for _, value in known), None))
    schema = {"launch_index": pl.Int64, "counter": pl.String, "value": pl.Float64, "instance": pl.String}
    output.report.add("stored", "counter values", len(rows))
    output.report.add("lost", "value of a counter that is no number", unknown)
    output.write("metrics", metric_rows(frame_of(rows, schema)))


def _symbols(processes: Sequence[Activities], output: Output) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for it in processes:
        launched = Counter(one.dispatch_info.kernel_id for one in it.process.buffer_records.kernel_dispatch)
        rows += it.symbol_rows(launched)
    if not rows:
        return pl.DataFrame(schema={"name": pl.String})
    frame = frame_of(rows, SYMBOLS, output.report)
    ids = pl.Series("name_id", [name_id(name) for name in frame["name"]], dtype=pl.String)
    output.write("kernel_symbols", frame.drop("name").with_columns(ids))
    return frame.select("name")


def _slices(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    return (records[at : at + SLICE_ROWS] for at in range(0, len(records), SLICE_ROWS))
