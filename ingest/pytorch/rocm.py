"""What Kineto writes differently on ROCm: grids in the unit of the launching call, and numbers of devices.

A GPU has two numbers: that of HIP (`deviceProperties`, memory events), and that of its node in the driver, where CPUs
count as well (kernels and copies).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from kerneldb.gpus.hip import BLOCKS, WORK_ITEMS, grid_unit, in_blocks
from kerneldb.ingest.pytorch.identity import triple

HIP: Final = "^hip"
GRAPH: Final = "GraphLaunch"
DISPATCH: Final = "^Dispatch"
"""`kind` of a kernel on ROCm; CUDA writes none."""
TENSILE: Final = "^Cijk_"
"""rocBLAS and hipBLASLt launch their kernels by `hipExtModuleLaunchKernel` only."""
ATEN: Final = r"^(?:void )?at::native::"
"""Compiled with PyTorch and launched through host stubs (`hipLaunchKernel`)."""
BY_CALL: Final = "grid_unit_by_api"
BY_NAME: Final = "grid_unit_by_name"
UNKNOWN: Final = "grid_unit_unknown"
REPORTED: Final = tuple(f"reported_grid_{axis}" for axis in "xyz")
SHAPE: Final = {
    **dict.fromkeys(("grid", "block"), pl.String),
    **dict.fromkeys(REPORTED, pl.Int64),
    **dict.fromkeys(("reported_grid_unit", "quality"), pl.String),
}


def shapes(launched: pl.DataFrame) -> pl.DataFrame:
    """`launched` with grids in blocks and the columns of SHAPE, one row per distinct kernel and launching call.

    Needs `kind`, `name`, `rocm_kind`, `grid` and `block` as printed, and `call`, the name of the launching call. A
    kernel that has none in the file, or that a graph launched, is counted as elsewhere in the trace, or as its library
    launches it; where neither says, the grid is unknown and what was printed is kept beside it.
    """
    rows = [_shape(row) for row in launched.hstack(_units(launched)).iter_rows(named=True)]
    return launched.drop("grid", "block").hstack(pl.DataFrame(rows, schema=SHAPE))


def _units(launched: pl.DataFrame) -> pl.DataFrame:
    """`unit` and `said`, how it is known; both are NULL off ROCm, where grids are in blocks."""
    name, call, by_call = (pl.col(column) for column in ("name", "call", "by_call"))
    units = {text: grid_unit(text) for text in launched["call"].unique().drop_nulls()}
    of_call = call.replace_strict(units, default=None, return_dtype=pl.String) if units else pl.lit(None, pl.String)
    direct = call.str.contains(HIP) & ~call.str.contains(GRAPH)
    frame = launched.with_columns(
        by_call=pl.when(direct).then(of_call),
        on_rocm=(pl.col("kind") == "kernel") & (pl.col("rocm_kind").str.contains(DISPATCH) | call.str.contains(HIP)),
    )
    elsewhere = pl.when(by_call.drop_nulls().n_unique().over("name") == 1).then(by_call.max().over("name"))
    of_library = pl.when(name.str.contains(TENSILE)).then(pl.lit(WORK_ITEMS))
    by_name = pl.coalesce(elsewhere, of_library.when(name.str.contains(ATEN)).then(pl.lit(BLOCKS)))
    said = pl.when(by_call.is_not_null()).then(pl.lit(BY_CALL)).when(by_name.is_not_null()).then(pl.lit(BY_NAME))
    return frame.select(
        unit=pl.when("on_rocm").then(pl.coalesce(by_call, by_name)),
        said=pl.when("on_rocm").then(said.otherwise(pl.lit(UNKNOWN))),
    )


def _shape(row: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of SHAPE; a grid in blocks needs no remark, as everywhere else."""
    grid, block = row["grid"], row["block"]
    if row["said"] is None or row["unit"] == BLOCKS or grid is None:
        return {"grid": grid, "block": block}
    printed, threads = triple(grid), triple(block)
    known = row["unit"] is not None and None not in (*printed, *threads)
    blocks = in_blocks(*(tuple(side) for side in (printed, threads))) if known else None  # type: ignore[arg-type]
    return {
        "grid": None if blocks is None else str(list(blocks)),
        "block": block,
        **dict(zip(REPORTED, printed, strict=True)),
        "reported_grid_unit": row["unit"],
        "quality": row["said"],
    }


def numbered(devices: pl.DataFrame, used: list[int], allocating: list[int]) -> tuple[dict[int, int], pl.DataFrame]:
    """Device number of launches → that of HIP, where it is provable; and `devices` with rows for the others.

    `used` are the numbers of launches, `allocating` those of memory events, which are HIP's. One GPU that launches and
    one that is described, or that allocates, are the same. Where all described GPUs are alike, a number that is not
    among them is one of them; which one stays open.
    """
    if devices.is_empty() or devices["vendor"].null_count() or (devices["vendor"] != "AMD").any():
        return {}, devices
    described = devices["device"].to_list()
    known = allocating if len(allocating) == 1 else described
    if len(used) == 1 and len(known) == 1 and known[0] in described:
        return ({used[0]: known[0]} if used != known else {}), devices
    alike = devices.drop("device", "properties").unique().height == 1
    others = [number for number in used if number not in described] if alike else []
    added = [devices.head(1).with_columns(device=pl.lit(number, dtype=devices.schema["device"])) for number in others]
    return {}, pl.concat([devices, *added])
