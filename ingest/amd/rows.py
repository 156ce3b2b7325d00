"""Hardware counters as rows of `metrics`, under the names that ROCm gives them; allocations as `memory_events`."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from kerneldb.ingest.columns import schema
from kerneldb.ingest.output import nullable

KIB: Final = 1024.0
SIZES: Final = ("FETCH_SIZE", "WRITE_SIZE", "FetchSize", "WriteSize")
PERCENTAGES: Final = (
    *("ALUStalledByLDS", "GPUBusy", "GPU_UTIL", "L2CacheHit", "LDSBankConflict", "MemUnitBusy", "MemUnitStalled"),
    *("OccupancyPercent", "SALUBusy", "VALUBusy", "VALUUtilization", "WriteUnitStalled", "MfmaUtil"),
)
"""Derived counters. Source: rocprofiler-sdk, counter_defs.yaml: sizes are divided by 1024 there. What is not here
counts events, cycles or waves and has no unit."""
GIVEN: Final = schema("process thread start_ns address bytes device operation level")
ADDRESSES: Final = 1 << 64
"""SQLite and Polars hold the upper half of addresses as negative numbers."""
RELEASES: Final = ("FREE", "RECLAIM")


def metric_rows(values: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics` without trace_id, from launch_index, counter, value, and what else the frame holds."""
    name = pl.col("counter")
    size, percentage = name.is_in(SIZES), name.is_in(PERCENTAGES)
    factor = pl.when(size).then(KIB).otherwise(1.0)
    unit = pl.when(size).then(pl.lit("byte")).when(percentage).then(pl.lit("%"))
    scaled = [pl.col(column) * factor for column in ("value", "precision") if column in values.columns]
    return values.with_columns(*scaled, unit=unit, source_metric=name).rename({"counter": "metric"})


def memory_rows(given: pl.DataFrame, first: int) -> pl.DataFrame:
    """Rows of `memory_events` without trace_id, numbered from `first`, in order of time.

    `operation` ends with ALLOC, ALLOCATE, FREE, REALLOC or RECLAIM; `level` REAL, VIRTUAL or SCRATCH, which goes into
    device_type (`hip`, `hip_virtual`, `hip_scratch`, `cpu`). A release says no size: it is that of the last allocation
    at its address, NULL where none is known.
    """
    rows = nullable(given, GIVEN).select(*GIVEN).sort("start_ns", maintain_order=True)
    held: dict[tuple[str | None, int | None], tuple[int | None, int | None]] = {}
    sizes = [_size(row, held) for row in rows.iter_rows(named=True)]
    level = pl.when(pl.col("level").is_in(["VIRTUAL", "SCRATCH"])).then("_" + pl.col("level").str.to_lowercase())
    side = pl.when(pl.col("device").is_not_null()).then(pl.lit("hip")).otherwise(pl.lit("cpu"))
    return rows.with_columns(
        pl.Series("bytes", [size for size, _ in sizes], dtype=pl.Int64),
        pl.Series("device", [device for _, device in sizes], dtype=pl.Int32),
    ).select(
        pl.col("process", "thread", "bytes", "device"),
        event_index=pl.int_range(first, first + rows.height, dtype=pl.Int64),
        ts_ns="start_ns",
        address=pl.format(
            "0x{}", pl.col("address").map_elements(lambda value: f"{value % ADDRESSES:x}", return_dtype=pl.String)
        ),
        device_type=pl.concat_str(side, level.fill_null("")),
    )


def address_of(value: object) -> int | None:
    """An address printed in any base, as `memory_rows` takes it: 64 bits, the upper half negative."""
    try:
        return signed(int(str(value), 0)) if value not in (None, "") else None
    except ValueError:
        return None


def signed(address: int) -> int:
    """An address as `memory_rows` takes it: 64 bits, the upper half negative."""
    return (address + (ADDRESSES >> 1)) % ADDRESSES - (ADDRESSES >> 1)


def _size(
    row: dict[str, Any], held: dict[tuple[str | None, int | None], tuple[int | None, int | None]]
) -> tuple[int | None, int | None]:
    key = (row["process"], row["address"])
    if not str(row["operation"] or "").upper().endswith(RELEASES):
        held[key] = (row["bytes"], row["device"])
        return row["bytes"], row["device"]
    size, device = held.pop(key, (row["bytes"] or None, row["device"]))
    return None if size is None else -size, row["device"] if row["device"] is not None else device
