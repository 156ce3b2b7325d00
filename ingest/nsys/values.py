"""Printed numbers as whole nanoseconds and bytes, with what the printing lost."""

from __future__ import annotations

from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.nsys.columns import Column

COPY_KIND: Final = r"(?i)memcpy (?:[^\]]*?)([HDPA])(?:ost|evice|eer|rray)?(?:-to-|to)([HDPA])"
SET: Final = "[CUDA memset"
SHARP: Final = 0.5
"""Bytes that the last digit of a throughput may stand for, for the size to be taken from it."""


def whole(column: Column, factor: float | None = None) -> pl.Expr:
    """The column in base units, rounded to whole ones. `factor` counts where the header names no unit."""
    scale = column.factor or factor or 1.0
    text = pl.col(column.name)
    scaled = (text.cast(pl.Float64) * scale).round().cast(pl.Int64)
    if scale != 1.0:
        return scaled
    return pl.coalesce(text.cast(pl.Int64, strict=False), scaled)


def nanoseconds(column: Column) -> pl.Expr:
    """A column of times; numbers that 64 bits do not hold stay far too large, so that they are refused, and counted."""
    text = pl.col(column.name)
    scaled = (text.cast(pl.Float64) * (column.factor or 1.0)).clip(-times.SATURATED, times.SATURATED)
    whole_ns = scaled.round().cast(pl.Int64)
    return whole_ns if (column.factor or 1.0) != 1.0 else pl.coalesce(text.cast(pl.Int64, strict=False), whole_ns)


def real(column: Column, factor: float | None = None) -> pl.Expr:
    """The column in base units."""
    return pl.col(column.name).cast(pl.Float64) * (column.factor or factor or 1.0)


def step(rows: pl.DataFrame, column: Column, factor: float | None = None) -> float:
    """The last printed digit in base units: 1e6 for seconds with three decimals."""
    decimals = rows[column.name].str.extract(r"\.(\d+)$").str.len_chars().max()
    digits = decimals if isinstance(decimals, int) else 0
    return float((column.factor or factor or 1.0) / 10.0**digits)


def kind(name: pl.Expr) -> pl.Expr:
    """`kernel`, `memcpy` or `memset` from the printed name, such as `[CUDA memcpy Host-to-Device]`."""
    copies = name.str.contains(r"^\[(?:CUDA|Unified Memory) (?:[\w ]+ )?[Mm]emcpy")
    return (
        pl.when(copies)
        .then(pl.lit("memcpy"))
        .when(name.str.starts_with(SET))
        .then(pl.lit("memset"))
        .otherwise(pl.lit("kernel"))
    )


def copy_kind(name: pl.Expr) -> pl.Expr:
    """Direction of a copy (HtoD, DtoH, DtoD, HtoH, PtoP, HtoA, …) from its printed name; NULL for others."""
    found = name.str.extract_groups(COPY_KIND)
    letters = [found.struct.field(str(number)).str.to_uppercase() for number in (1, 2)]
    return pl.when(name.str.contains(r"^\[(?:CUDA|Unified Memory) ")).then(
        pl.concat_str(letters[0], pl.lit("to"), letters[1])
    )


def shape(column: str, prefix: str) -> list[pl.Expr]:
    """`prefix_x`, `_y`, `_z` from a printed triple such as `"   8   32    1"`."""
    numbers = pl.col(column).str.extract_all(r"\d+")
    return [
        numbers.list.get(position, null_on_oob=True).cast(pl.Int32).alias(f"{prefix}_{axis}")
        for position, axis in enumerate("xyz")
    ]


def exact_bytes(size: str, step_bytes: float, throughput: str, step_rate: float) -> pl.Expr:
    """Bytes of a copy from its rounded size and its throughput, NULL where the two do not single out one number.

    nsys since 2021 prints throughput as `bytes * (1000000000 / duration)` in whole numbers, so that of a short copy
    carries more digits of its size than the size column. `size`, `throughput`: columns in bytes and bytes/s with their
    last digits; the duration is in `duration_ns`.
    """
    per_byte = 1_000_000_000 // pl.when(pl.col("duration_ns") > 0).then("duration_ns")
    candidate = (pl.col(throughput) / per_byte).round()
    sharp = step_rate < per_byte * SHARP
    near = (pl.col(size) - candidate).abs() <= step_bytes / 2 + 1e-6
    same = (candidate * per_byte - pl.col(throughput)).abs() <= step_rate / 2 + 1e-6
    return pl.when(sharp & near & same).then(candidate.cast(pl.Int64))
