"""Hardware counters as rows of `metrics`, under the names that ROCm gives them."""

from __future__ import annotations

from typing import Final

import polars as pl

KIB: Final = 1024.0
UNITS: Final[dict[str, tuple[float, str]]] = {
    "FETCH_SIZE": (KIB, "byte"),
    "WRITE_SIZE": (KIB, "byte"),
    "FetchSize": (KIB, "byte"),
    "WriteSize": (KIB, "byte"),
    **dict.fromkeys(
        (
            "ALUStalledByLDS",
            "GPUBusy",
            "GPU_UTIL",
            "L2CacheHit",
            "LDSBankConflict",
            "MemUnitBusy",
            "MemUnitStalled",
            "OccupancyPercent",
            "SALUBusy",
            "VALUBusy",
            "VALUUtilization",
            "WriteUnitStalled",
            "MfmaUtil",
        ),
        (1.0, "%"),
    ),
}
"""Derived counter → (factor to the base unit, base unit). Source: rocprofiler-sdk, counter_defs.yaml: sizes are divided
by 1024 there, the others are percentages. What is not here counts events, cycles or waves and has no unit."""


def metric_rows(values: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics` without trace_id, from launch_index, counter, value, and what else stands in the frame."""
    factors = {name: factor for name, (factor, _) in UNITS.items()}
    units = {name: unit for name, (_, unit) in UNITS.items()}
    name = pl.col("counter")
    known = values.with_columns(
        value=pl.col("value") * name.replace_strict(factors, default=1.0, return_dtype=pl.Float64),
        unit=name.replace_strict(units, default=None, return_dtype=pl.String),
        source_metric=name,
    )
    if "precision" in known.columns:
        factor = name.replace_strict(factors, default=1.0, return_dtype=pl.Float64)
        known = known.with_columns(precision=pl.col("precision") * factor)
    return known.rename({"counter": "metric"})
