"""Recorded operator calls with the evidence that rebuilding them needs, read from the warehouse once per trace."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from kerneldb import codec
from kerneldb.api.queries import frame, rows
from kerneldb.errors import WarehouseError
from kerneldb.replay.plan.evidence import Trace
from kerneldb.replay.wire.plan import OpCall, PlannedKernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import DataclassInstance

    from kerneldb.api.queries import Connection
    from kerneldb.replay.wire.plan import CallSpec


T = TypeVar("T", bound="DataclassInstance")


class Recorded:
    """The operators of the traces of a warehouse; each trace is read when it is first asked for.

    Also what else it holds beside launches (see `kerneldb.replay.plan.work.Archive`).
    """

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._traces: dict[str, tuple[Trace, dict[int, int], list[int]]] = {}

    def spec(self, trace_id: str, op_id: int) -> CallSpec:
        """The call of an operator with its evidence. Raises KeyError where there is no such operator."""
        trace, place = self._placed(trace_id, op_id)
        return trace.spec(place)

    def call(self, trace_id: str, op_id: int) -> OpCall:
        """The call of an operator alone. Raises KeyError where there is no such operator."""
        trace, place = self._placed(trace_id, op_id)
        return trace.calls[place]

    def inside(self, trace_id: str, op_id: int) -> list[int]:
        """The operators inside of one, by op_id; none of an operator without a start, which is in no order of time."""
        try:
            trace, place = self._placed(trace_id, op_id)
        except KeyError:
            return []
        op_ids = self._traces[trace_id][2]
        return [op_ids[inner] for inner in trace.inside(place)]

    def _placed(self, trace_id: str, op_id: int) -> tuple[Trace, int]:
        if trace_id not in self._traces:
            ops = frame(self._con, "replay_ops", {"trace_id": trace_id})
            calls = [op_call(row) for row in rows(self._con, "replay_op_calls", {"trace_id": trace_id})]
            read = Trace([calls[code] for code in ops["code"].to_list()], ops["parent"].to_list())
            op_ids = ops["op_id"].to_list()
            self._traces[trace_id] = read, {op_id: place for place, op_id in enumerate(op_ids)}, op_ids
        trace, places, _ = self._traces[trace_id]
        return trace, places[op_id]

    def sources(self, language: str, hashes: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        """Archived sources of kernels by hash or by name."""
        return rows(self._con, "replay_sources", {"language": language, "hashes": hashes, "names": names})


def filled(kind: type[T], row: Mapping[str, Any], **others: Any) -> T:
    """A dataclass with the columns of `row` that are named like its fields, and `others`.

    Raises WarehouseError for values that kerneldb cannot have written: the database may be a stranger's.
    """
    known = {field.name: row[field.name] for field in dataclasses.fields(kind) if field.name in row}
    try:
        return kind(**{**known, **others})
    except codec.CodecError as error:
        message = f"the database holds a damaged {kind.__name__}: {error}; ingest its trace again with --replace"
        raise WarehouseError(message) from None


def planned_kernel(row: Mapping[str, Any]) -> PlannedKernel:
    """The kernel whose facts and sums are in `row`."""
    ordinal = row.get("ordinal") or 0
    return filled(PlannedKernel, row, ordinal=ordinal, grid=triple(row, "grid"), block=triple(row, "block"))


def op_call(row: Mapping[str, Any]) -> OpCall:
    """The call whose columns are in `row`."""
    return filled(OpCall, row)


def call_row(call: OpCall) -> dict[str, Any]:
    """The row of `op_calls` of a call."""
    from kerneldb.ingest.pytorch.identity import call_id

    row = dataclasses.asdict(call)
    return {**row, "call_id": call_id(row)}


def triple(row: Mapping[str, Any], shape: str) -> tuple[int, int, int] | None:
    """`grid_x`, `grid_y`, `grid_z` (or block) of a row, None where one of them is not known."""
    x, y, z = (row.get(f"{shape}_{axis}") for axis in "xyz")
    return None if x is None or y is None or z is None else (int(x), int(y), int(z))
