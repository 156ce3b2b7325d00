"""Types of the columns that readers write, by name: parts of one table must agree in them."""

from __future__ import annotations

from typing import Final

import polars as pl

Schema = dict[str, type[pl.DataType]]

STRINGS: Final = (
    "api_call api_process arch copy_kind counter device_name instance kind launch_status level metric name name_id "
    "operation origin part path phase process properties quality range_path reported_grid_unit section signature_id "
    "source_metric symbol text theoretical_limiter thread timing unit vendor"
)
INT32S: Final = (
    "agprs agprs_reported block_x block_y block_z depth device grid_x grid_y grid_z max_threads_per_multiprocessor "
    "multiprocessors registers registers_per_multiprocessor registers_reported sgprs sgprs_reported threads_per_block "
    "warp_size"
)
FLOATS: Final = "clock_mhz memory_clock_mhz occupancy precision theoretical_occupancy theoretical_occupancy_cu value"
TYPES: Final[Schema] = {
    **dict.fromkeys(STRINGS.split(), pl.String),
    **dict.fromkeys(INT32S.split(), pl.Int32),
    **dict.fromkeys(FLOATS.split(), pl.Float64),
}
"""All other columns are Int64: times, ids, sizes in bytes, counts."""


def schema(names: str) -> Schema:
    """The types of these columns (names between blanks), in this order."""
    return {name: TYPES.get(name, pl.Int64) for name in names.split()}
