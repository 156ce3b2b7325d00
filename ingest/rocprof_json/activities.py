"""Records of one process as frames for `Launches`, `Host` and `memory_rows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from kerneldb.ingest.amd.agents import Agent, agent_of, archs, numbered
from kerneldb.ingest.amd.host import is_range
from kerneldb.ingest.amd.launches import COUNTED, NO_SYMBOL, UNKNOWN_KERNEL, copy_kind
from kerneldb.ingest.amd.memory import signed
from kerneldb.ingest.amd.ranges import Marker
from kerneldb.ingest.amd.resources import is_halved
from kerneldb.ingest.rocprof_json.document import Allocation, Call, Copy, Counted, Dispatch, Process, Symbol
from kerneldb.times import fitting

CLONE: Final = (" [clone .kd]", " (.kd)", ".kd")
CALL_BUFFERS: Final = ("hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "ompt")
PROCESS_RANGE: Final = ("roctxProcessRange", "roctxRangeStart")


class Activities:
    """One process of the file."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.pid = None if process.metadata.pid is None else str(process.metadata.pid)
        agents = numbered(agent_of(facts) for facts in process.agents)
        self.agents: dict[int, Agent] = dict(zip(map(_handle, process.agents), agents, strict=True))
        self.archs = archs(self.agents.values())
        self.symbols: dict[int, Symbol] = {symbol.kernel_id: symbol for symbol in process.kernel_symbols}
        highest = max((symbol.accum_vgpr_count or 0 for symbol in self.symbols.values()), default=0)
        self.halved = any(is_halved(arch, highest) for arch in self.archs.values())
        self._renamed = {text.key: text.value for text in process.strings.correlation_id.external}

    def markers(self, part: str) -> list[Marker]:
        """Roctx ranges and marks; the text is found by the correlation id, which is unique within the `part`."""
        texts = {text.key: text.value for text in self.process.strings.marker_api}
        return [
            Marker(
                self.pid,
                None if name.startswith(PROCESS_RANGE) else _text(call.thread_id),
                texts.get(call.correlation_id.internal or -1) or name,
                call.start_timestamp,
                call.end_timestamp,
                call.correlation_id.internal,
                part,
            )
            for call in self.process.buffer_records.marker_api
            for name in (self.operation(call),)
            if is_range(self.domain(call), name) and call.start_timestamp is not None and call.end_timestamp is not None
        ]

    def calls(self) -> list[Call]:
        """Calls that are no ranges."""
        buffers = self.process.buffer_records
        found: list[Call] = [call for name in CALL_BUFFERS for call in getattr(buffers, name)]
        rest = (call for call in buffers.marker_api if not is_range(self.domain(call), self.operation(call)))
        return [*found, *rest]

    def call_rows(self, calls: Sequence[Call]) -> pl.DataFrame:
        """As `Host.add` takes them."""
        return _frame(
            {
                "process": (pl.String, [self.pid for _ in calls]),
                "thread": (pl.String, [_text(call.thread_id) for call in calls]),
                "kind": (pl.String, [self.domain(call) for call in calls]),
                "name": (pl.String, [self.operation(call) for call in calls]),
                "start_ns": (pl.Int64, [fitting(call.start_timestamp) for call in calls]),
                "end_ns": (pl.Int64, [fitting(call.end_timestamp) for call in calls]),
                "correlation_id": (pl.Int64, [call.correlation_id.internal for call in calls]),
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
        return _frame(
            {
                "kind": (pl.String, ["kernel" for _ in infos]),
                "name": (pl.String, [self._name(info.kernel_id) for info in infos]),
                "timing": (pl.String, [timing for _ in infos]),
                "process": (pl.String, [self.pid for _ in infos]),
                "device": (pl.Int32, [self._device(info.agent_id.handle) for info in infos]),
                "queue": (pl.Int64, [info.queue_id.handle for info in infos]),
                "stream": (pl.Int64, [None if one.stream_id is None else one.stream_id.handle for one in dispatches]),
                "start_ns": (pl.Int64, [fitting(one.start_timestamp) for one in dispatches]),
                "end_ns": (pl.Int64, [fitting(one.end_timestamp) for one in dispatches]),
                "correlation_id": (pl.Int64, [one.correlation_id.internal for one in dispatches]),
                "external_id": (pl.Int64, external),
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
        return _frame(
            {
                "kind": (pl.String, ["memcpy" for _ in copies]),
                "name": (pl.String, names),
                "copy_kind": (pl.String, [copy_kind(name) for name in names]),
                "process": (pl.String, [self.pid for _ in copies]),
                "device": (pl.Int32, [source if target is None else target for target, source in ends]),
                "stream": (pl.Int64, [None if one.stream_id is None else one.stream_id.handle for one in copies]),
                "start_ns": (pl.Int64, [fitting(copy.start_timestamp) for copy in copies]),
                "end_ns": (pl.Int64, [fitting(copy.end_timestamp) for copy in copies]),
                "correlation_id": (pl.Int64, [copy.correlation_id.internal for copy in copies]),
                "external_id": (pl.Int64, [_external(copy.correlation_id.external) for copy in copies]),
                "bytes": (pl.Int64, [copy.bytes for copy in copies]),
            }
        )

    def memory(self, allocations: Sequence[Allocation], scratch: bool) -> pl.DataFrame:
        """As `memory_rows` takes them."""
        return _frame(
            {
                "process": (pl.String, [self.pid for _ in allocations]),
                "thread": (pl.String, [_text(one.thread_id) for one in allocations]),
                "start_ns": (pl.Int64, [fitting(one.start_timestamp) for one in allocations]),
                "end_ns": (pl.Int64, [fitting(one.end_timestamp) for one in allocations]),
                "address": (pl.Int64, [_address(one.address) for one in allocations]),
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
        return symbol.formatted_kernel_name or symbol.demangled_kernel_name or name


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


def _frame(columns: Mapping[str, tuple[type[pl.DataType], list[Any]]]) -> pl.DataFrame:
    return pl.DataFrame({name: pl.Series(values, dtype=kind, strict=False) for name, (kind, values) in columns.items()})


def _handle(facts: Mapping[str, Any]) -> int:
    identity = facts.get("id")
    return int(identity.get("handle", 0)) if isinstance(identity, dict) else 0


def _external(value: Any) -> int | None:
    number = value.get("value") if isinstance(value, dict) else value
    return number if isinstance(number, int) else None


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _address(value: Any) -> int | None:
    try:
        return signed(int(str(value), 0)) if value is not None else None
    except ValueError:
        return None


def _quality(dispatch: int | None, known: bool, counted: frozenset[int]) -> str | None:
    remarks = [*([] if known else [NO_SYMBOL]), *([COUNTED] if dispatch in counted else [])]
    return ",".join(remarks) or None
