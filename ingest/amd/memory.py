"""Allocations and releases as rows of `memory_events`."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from kerneldb.ingest.amd.output import nullable

GIVEN: Final[dict[str, type[pl.DataType]]] = {
    "process": pl.String,
    "thread": pl.String,
    "start_ns": pl.Int64,
    "address": pl.Int64,
    "bytes": pl.Int64,
    "device": pl.Int32,
    "operation": pl.String,
    "level": pl.String,
}
ADDRESSES: Final = 1 << 64
"""SQLite and Polars hold the upper half of addresses as negative numbers."""
RELEASES: Final = ("FREE", "RECLAIM")


def memory_rows(given: pl.DataFrame, first: int) -> pl.DataFrame:
    """Rows of `memory_events` without trace_id, numbered from `first`, in order of time.

    `operation` ends with ALLOC, ALLOCATE, FREE, REALLOC or RECLAIM; `level` REAL, VIRTUAL or SCRATCH, which goes into
    device_type (`hip`, `hip_virtual`, `hip_scratch`, `cpu`). A release says no size: it is that of the last allocation
    at its address, NULL where none is known.
    """
    rows = nullable(given, GIVEN).select(*GIVEN).sort("start_ns", maintain_order=True)
    held: dict[tuple[str | None, int | None], tuple[int | None, int | None]] = {}
    sizes = [_settled(row, held) for row in rows.iter_rows(named=True)]
    level = pl.when(pl.col("level").is_in(["VIRTUAL", "SCRATCH"])).then("_" + pl.col("level").str.to_lowercase())
    side = pl.when(pl.col("device").is_not_null()).then(pl.lit("hip")).otherwise(pl.lit("cpu"))
    return rows.with_columns(
        pl.Series("bytes", [size for size, _ in sizes], dtype=pl.Int64),
        pl.Series("device", [device for _, device in sizes], dtype=pl.Int32),
    ).select(
        "process",
        "thread",
        "bytes",
        "device",
        event_index=pl.int_range(first, first + rows.height, dtype=pl.Int64),
        ts_ns="start_ns",
        address=pl.format(
            "0x{}", pl.col("address").map_elements(lambda value: f"{value % ADDRESSES:x}", return_dtype=pl.String)
        ),
        device_type=pl.concat_str(side, level.fill_null("")),
    )


def signed(address: int) -> int:
    """An address as `memory_rows` takes it: a whole number of 64 bits, the upper half negative."""
    return (address + (ADDRESSES >> 1)) % ADDRESSES - (ADDRESSES >> 1)


def _settled(
    row: dict[str, Any], held: dict[tuple[str | None, int | None], tuple[int | None, int | None]]
) -> tuple[int | None, int | None]:
    key = (row["process"], row["address"])
    if not str(row["operation"] or "").upper().endswith(RELEASES):
        held[key] = (row["bytes"], row["device"])
        return row["bytes"], row["device"]
    size, device = held.pop(key, (row["bytes"] or None, row["device"]))
    return None if size is None else -size, row["device"] if row["device"] is not None else device
