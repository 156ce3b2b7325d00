"""Rows of the reports that sum over events: rollups of kernels and copies, and the sizes of copies as metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from kerneldb.ingest.nsys import traces, values
from kerneldb.ingest.nsys.columns import KIBIBYTES_2020, Column
from kerneldb.ingest.nsys.text import Table

ORIGINS: Final[Mapping[str, str]] = {
    "cuda_gpu_kern_gb_sum": "report_grid",
    "cuda_gpu_kern_sum": "report",
    "cuda_gpu_mem_time_sum": "report",
    "cuda_gpu_sum": "report",
    "nvtx_kern_sum": "report_phase",
}
"""Report of sums → `rollups.origin`: per launch shape, per name, per range around the launch."""
SIZES: Final = "cuda_gpu_mem_size_sum"
NAMES: Final = {"nvtx_kern_sum": "Kernel Name", "cuda_gpu_mem_time_sum": "Operation", "cuda_gpu_sum": "Operation"}
STATISTICS: Final = {"Total": "sum", "Count": "count", "Avg": "avg", "Med": "median", "Min": "min", "Max": "max"}
METRIC: Final = "memory_operation__bytes"


def rollups(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `rollups` with the columns of identity.

    `StdDev` is that of a sample (n − 1; checked against the launches of an export), so the sum of squares is
    (n − 1)·s² + total²/n. 2020 prints neither it nor the median. Averages are computed from total and number.
    """
    known = traces.by_name(table)
    number = next(known[name] for name in ("Kern Inst", "Instances", "Count") if name in known)
    n, total = pl.col(number.name).cast(pl.Int64), values.nanoseconds(known["Total Time"])
    return rows.select(
        *_identity(table, known),
        origin=pl.lit(ORIGINS[table.report]),
        timing=pl.lit("timeline"),
        n=n,
        timed=n,
        total_ns=total,
        min_ns=values.nanoseconds(known["Min"]),
        max_ns=values.nanoseconds(known["Max"]),
        median_ns=_optional(known.get("Med")),
        sum_squares_ns2=(n - 1) * _optional(known.get("StdDev")).pow(2) + total.cast(pl.Float64).pow(2) / n,
    )


def _identity(table: Table, known: Mapping[str, Column]) -> list[pl.Expr]:
    column = NAMES.get(table.report, "Name")
    name, phase = traces.named(table, column)
    text = pl.col(column).fill_null("")
    found = [name, values.kind(text).alias("kind"), values.copy_kind(text).alias("copy_kind")]
    if "GridXYZ" in known:
        found += [*values.shape("GridXYZ", "grid"), *values.shape("BlockXYZ", "block")]
    return [*found, pl.col("NVTX Range").alias("phase") if "NVTX Range" in known else phase]


def _optional(column: Column | None) -> pl.Expr:
    return pl.lit(None, dtype=pl.Float64) if column is None else values.real(column)


def sizes(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics` with the columns of identity: `memory_operation__bytes.sum`, `.avg`, … per direction.

    `precision` is half of the last printed digit. 2020 prints KiB without saying so.
    """
    known = traces.by_name(table)
    parts = [_statistic(rows, known[name], suffix) for name, suffix in STATISTICS.items() if name in known]
    return pl.concat(parts).with_columns(section=pl.lit(table.report))


def _statistic(rows: pl.DataFrame, column: Column, suffix: str) -> pl.DataFrame:
    scale = 1.0 if suffix == "count" else KIBIBYTES_2020
    text = pl.col("Operation").fill_null("")
    return rows.select(
        name=text,
        kind=values.kind(text),
        copy_kind=values.copy_kind(text),
        metric=pl.lit(f"{METRIC}.{suffix}"),
        value=values.real(column, scale),
        unit=pl.lit("count" if suffix == "count" else "byte"),
        precision=pl.lit(values.step(rows, column, scale) / 2),
        source_metric=pl.lit(column.printed),
    )
