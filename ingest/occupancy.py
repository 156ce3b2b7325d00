"""Theoretical occupancy of launches, from the resources that a profiler records with each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from kerneldb.gpus.occupancy import occupancy

RESOURCES: Final[dict[str, type[pl.DataType]]] = {
    "device": pl.Int32,
    "block_x": pl.Int32,
    "block_y": pl.Int32,
    "block_z": pl.Int32,
    "threads_per_block": pl.Int32,
    "registers": pl.Int32,
    "agprs": pl.Int32,
    "sgprs": pl.Int32,
    "shared_bytes": pl.Int64,
}
FILLED: Final[dict[str, type[pl.DataType]]] = {
    "theoretical_occupancy": pl.Float64,
    "theoretical_occupancy_cu": pl.Float64,
    "theoretical_limiter": pl.String,
}
WAVE64: Final = r"_WS64(?:_|$)"
"""Tensile says in a kernel's name that it runs in waves of 64; on RDNA nothing else in a trace does."""


def with_occupancy(launches: pl.DataFrame, arch_of_device: Mapping[int, str | None]) -> pl.DataFrame:
    """`launches` with `theoretical_occupancy`, `theoretical_occupancy_cu` (RDNA) and `theoretical_limiter`.

    Reads the columns of `RESOURCES` and `name`; missing ones count as NULL, `threads_per_block` only where there is no
    block. Each distinct combination is computed once; rows and their order stay, NULL where nothing is known.
    """
    names = launches["name"] if "name" in launches.columns else pl.Series("name", [None], dtype=pl.String)
    wide = names.str.contains(WAVE64).fill_null(value=False)
    given = launches.select(
        *(
            (pl.col(name) if name in launches.columns else pl.lit(None)).cast(kind).alias(name)
            for name, kind in RESOURCES.items()
        ),
        wide=pl.lit(wide) if len(wide) == launches.height else pl.lit(value=False),
    )
    distinct = given.unique(maintain_order=True)
    rows = [_row(row, arch_of_device) for row in distinct.iter_rows(named=True)]
    distinct = distinct.hstack(pl.DataFrame(rows, schema=FILLED, orient="row"))
    found = given.join(distinct, on=given.columns, nulls_equal=True, how="left", maintain_order="left")
    return launches.with_columns(found.select(*FILLED).get_columns())


def _row(resources: dict[str, Any], arch_of_device: Mapping[int, str | None]) -> tuple[float | None, ...]:
    found = occupancy(
        arch_of_device.get(resources["device"]),
        threads_per_block=_threads(resources),
        registers=resources["registers"],
        shared_bytes=resources["shared_bytes"],
        agprs=resources["agprs"],
        scalar_registers=resources["sgprs"],
        warp_size=64 if resources["wide"] else None,
    )
    return (None, None, None) if found is None else (found.theoretical, found.cu, found.limiter)  # type: ignore[return-value]


def _threads(resources: dict[str, Any]) -> int:
    block = [resources[f"block_{axis}"] for axis in "xyz"]
    return math.prod(block) if None not in block else resources["threads_per_block"] or 0
