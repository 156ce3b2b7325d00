"""Recorded operator calls with the evidence that rebuilding them needs, read from the warehouse once per trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import statement
from kerneldb.replay.plan.evidence import Trace
from kerneldb.replay.wire.plan import OpCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    import polars as pl

    from kerneldb.replay.wire.plan import CallSpec

    Connection = duckdb.DuckDBPyConnection

CALL_FIELDS: Final = ("op", "input_dims", "input_strides", "input_dtypes", "scalars", "extra")
AXES: Final = "xyz"


class Recorded:
    """The operators of the traces of a warehouse; each trace is read when it is first asked for."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._traces: dict[str, tuple[Trace, dict[int, int]]] = {}

    def spec(self, trace_id: str, op_id: int) -> CallSpec:
        """The call of an operator with its evidence. Raises KeyError where there is no such operator."""
        if trace_id not in self._traces:
            self._traces[trace_id] = self._read(trace_id)
        trace, places = self._traces[trace_id]
        return trace.spec(places[op_id])

    def _read(self, trace_id: str) -> tuple[Trace, dict[int, int]]:
        import polars as pl

        ops = frame(self._con, "replay_ops", {"trace_id": trace_id}).with_row_index("place")
        distinct = frame(self._con, "replay_op_calls", {"trace_id": trace_id})
        calls = [op_call(row) for row in distinct.to_dicts()]
        key, around = ("op", "call_id"), ops.select(parent_id="op_id", parent="place")
        codes = distinct.select(key).with_row_index("code")
        known = ops.join(codes, on=key, how="left", nulls_equal=True, maintain_order="left")
        known = known.join(around, on="parent_id", how="left", maintain_order="left").select("code", "parent")
        placed = dict(zip(ops["op_id"].to_list(), range(ops.height), strict=True))
        return Trace(
            [calls[code] for code in known["code"].cast(pl.Int64).to_list()], known["parent"].to_list()
        ), placed


def rows(con: Connection, name: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The rows of a statement file."""
    from kerneldb.warehouse.statements import rows_of

    return rows_of(con, statement(name), params)


def frame(con: Connection, name: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """The rows of a statement file as a frame."""
    from kerneldb.warehouse.statements import frame_of

    return frame_of(con, statement(name), params)


def op_call(row: Mapping[str, Any]) -> OpCall:
    """The call whose columns stand in `row`."""
    return OpCall(**{name: row[name] for name in CALL_FIELDS})


def triple(row: Mapping[str, Any], shape: str) -> tuple[int, int, int] | None:
    """`grid_x`, `grid_y`, `grid_z` (or block) of a row, None where one of them is not known."""
    x, y, z = (row.get(f"{shape}_{axis}") for axis in AXES)
    return None if x is None or y is None or z is None else (int(x), int(y), int(z))
