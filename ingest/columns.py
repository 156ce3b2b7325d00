"""Types of the columns that readers write, by name: parts of one table must agree in them; columns of code in C."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from polars.exceptions import PolarsError

if TYPE_CHECKING:
    from kerneldb.ingest.output import Report

Schema = dict[str, type[pl.DataType]]

STRINGS: Final = (
    "api_call api_process arch args copy_kind details device_name device_type domain file instance kernel kind "
    "launch_status level metric name name_id operation origin part path phase process properties quality "
    "range_path region reported_grid_unit section signature_id source_metric text theoretical_limiter thread "
    "timing unit vendor"
)
INT32S: Final = (
    "agprs agprs_reported block_x block_y block_z depth device grid_x grid_y grid_z max_threads_per_multiprocessor "
    "multiprocessors registers registers_per_multiprocessor registers_reported sgprs sgprs_reported threads_per_block "
    "warp_size"
)
INT64S: Final = (
    "address api_id api_index bytes context correlation_id duration_ns dynamic_shared_bytes end_ns external_id "
    "graph_id graph_node_id instruction kernel_index launch_duration_ns launch_index launch_start_ns line max_ns "
    "memory_bytes min_ns n parent_id pid queue range_id reported_grid_x reported_grid_y reported_grid_z row "
    "scratch_bytes shared_bytes shared_bytes_per_block_optin shared_bytes_per_multiprocessor start_ns "
    "static_shared_bytes stream tid timed total_allocated_bytes total_blocks total_ns total_reserved_bytes ts_ns"
)
FLOATS: Final = "clock_mhz memory_clock_mhz occupancy precision theoretical_occupancy theoretical_occupancy_cu value"
TYPES: Final[Schema] = {
    name: kind
    for names, kind in ((STRINGS, pl.String), (INT32S, pl.Int32), (INT64S, pl.Int64), (FLOATS, pl.Float64))
    for name in names.split()
}


def schema(names: str) -> Schema:
    """The types of these columns (names between blanks), in this order."""
    return {name: TYPES[name] for name in names.split()}


class _Stream:
    """A stream of Arrow as an object. Not in a module named `…torch.…`: polars would import PyTorch to look at it."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsule


def stream(capsule: object) -> pl.Series:
    """The column in a capsule of a stream of Arrow (its PyCapsule interface), which is used up."""
    return pl.Series(_Stream(capsule))


Row = Mapping[str, Any] | Sequence[Any]


def frame_of(rows: Iterable[Row], kinds: Schema, report: Report | None = None) -> pl.DataFrame:
    """The rows (by name, or in the order of `kinds`) as a frame; what its column does not hold is NULL, and counted."""
    rows = list(rows)
    if not rows:
        return pl.DataFrame(schema=kinds)
    try:
        return pl.DataFrame(rows, schema=kinds, orient="row")
    except (PolarsError, OverflowError, TypeError):
        listed = [[row.get(name) for name in kinds] if isinstance(row, Mapping) else row for row in rows]
    columns = []
    for values, (name, kind) in zip(zip(*listed, strict=True), kinds.items(), strict=True):
        columns.append(_held(name, values, kind))
        odd = columns[-1].null_count() - values.count(None)
        if report is not None:
            report.add("unread", f"value of {name} that its column does not hold: left empty", odd)
    return pl.DataFrame(columns)


def _held(name: str, values: Sequence[Any], kind: type[pl.DataType]) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=kind, strict=False)
    except (PolarsError, OverflowError, TypeError):
        return pl.Series(name, [one if _holds(kind, one) else None for one in values], dtype=kind)


def _holds(kind: type[pl.DataType], value: Any) -> bool:
    try:
        pl.Series([value], dtype=kind)
    except (PolarsError, OverflowError, TypeError):
        return False
    return True
