"""What `kerneldb db doctor` says about a power log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import Diagnostic
from kerneldb.ingest.power.log import LOG_AGAIN

SLOW_MS: Final = 250.0
"""Samples farther apart than this see little of a stage that lasts a second."""
FASTER: Final = "Log with `-lms 100`; the driver updates its counters every 100 ms, so a shorter period adds nothing."


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """How many samples there are, how far apart, and what they lack."""
    samples = pl.read_parquet(manifest.parts["power_samples"])
    steps = samples.sort("device", "gpu", "epoch_ns").select(step=pl.col("epoch_ns").diff().over("device", "gpu"))
    median = steps.filter(pl.col("step") > 0)["step"].median()
    period = float(median) / 1e6 if isinstance(median, int | float) else 0.0
    gpus = samples.select(pl.struct("device", "gpu").n_unique()).item()
    yield Diagnostic("ok", "samples", f"{samples.height:,} samples of {gpus} GPUs, one every {period:,.0f} ms.")
    if period > SLOW_MS:
        yield Diagnostic("note", "period", f"Windows shorter than {period:,.0f} ms get no energy.", FASTER)
    if samples["power_w"].null_count() == samples.height:
        yield Diagnostic("problem", "power", "No sample has a power.", f"Log with: {LOG_AGAIN}")
    if samples["device"].null_count() and samples["gpu"].null_count():
        yield Diagnostic("note", "GPUs", "Some rows do not say which GPU they are of.", f"Log with: {LOG_AGAIN}")
