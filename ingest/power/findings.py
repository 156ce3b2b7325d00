"""What `kerneldb doctor` says about a power log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import Finding

SLOW_MS: Final = 250.0
"""Samples farther apart than this see little of a stage that lasts a second."""
FASTER: Final = "Log with `-lms 100`; the counters behind it move every 100 ms, so more often brings nothing."
WANTED: Final = (
    "nvidia-smi --query-gpu=timestamp,index,uuid,name,power.draw,clocks.sm --format=csv -lms 100 -f power.csv"
)


def findings(manifest: Manifest) -> Iterator[Finding]:
    """How many samples there are, how far apart, and what they lack."""
    samples = pl.read_parquet(manifest.parts["power_samples"])
    period = _period_ms(samples)
    gpus = samples.select(pl.struct("device", "gpu").n_unique()).item()
    yield Finding("ok", "samples", f"{samples.height:,} samples of {gpus} GPUs, one every {period:,.0f} ms.")
    if period > SLOW_MS:
        yield Finding("note", "period", f"Windows shorter than {period:,.0f} ms get no energy.", FASTER)
    if samples["power_w"].null_count() == samples.height:
        yield Finding("problem", "power", "No sample has a power.", f"Log with: {WANTED}")
    if samples["device"].null_count() and samples["gpu"].null_count():
        yield Finding("note", "GPUs", "Some rows do not say which GPU they are of.", f"Log with: {WANTED}")


def _period_ms(samples: pl.DataFrame) -> float:
    ordered = samples.sort("device", "gpu", "epoch_ns")
    steps = ordered.select(pl.col("epoch_ns").diff().over("device", "gpu").alias("step"))["step"].drop_nulls()
    median = steps.filter(steps > 0).median()
    return float(median) / 1e6 if isinstance(median, int | float) else 0.0
