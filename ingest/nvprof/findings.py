"""What `kerneldb doctor` says about files of nvprof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import Finding

SINGLE: Final = "Print single launches: `nvprof --csv --print-gpu-trace --import-profile FILE.nvvp`."
DATABASE: Final = "Give the file of `nvprof --export-profile FILE.nvvp`, which holds whole nanoseconds and bytes."
NEWER: Final = (
    "nvprof sees no GPU of compute capability 8.0 or higher (A100 and later): record there with "
    "`nsys profile --trace=cuda,nvtx`."
)
PHASES: Final = "Ingest a file of one stage with `--phase NAME`, or record with `nsys profile --trace=cuda,nvtx`."
OPERATORS: Final = "Record the same program with torch.profiler too and give both the same `--run`."
LOSSY: Final = {
    "shared_rounded": "rounded shared memory",
    "bytes_rounded": "rounded copied bytes",
    "start_rounded": "rounded starts",
    "duration_rounded": "rounded durations",
}


def findings(manifest: Manifest) -> Iterator[Finding]:
    """Findings of one file, as text or database.

    nvprof ends with compute capability 7.x: https://docs.nvidia.com/cuda/profiler-users-guide/, "Migrating to Nsight
    Tools from Visual Profiler and nvprof".
    """
    if manifest.trace["kind"] == "summary":
        rows = manifest.rows.get("rollups", 0)
        message = f"{rows:,} sums, no single launches: no timeline, gaps, launch parameters or replays."
        yield Finding("note", "sums only", message, SINGLE)
        return
    paths = manifest.parts.get("launches")
    launches = pl.concat([pl.read_parquet(path) for path in paths], how="diagonal_relaxed") if paths else pl.DataFrame()
    if launches.is_empty() or launches.filter(pl.col("kind") == "kernel").is_empty():
        yield Finding("problem", "no GPU events", "The file holds no kernels.", NEWER)
        return
    signatures = launches["signature_id"].n_unique()
    yield Finding("ok", "GPU events", f"{launches.height:,} launches of {signatures:,} signatures.")
    yield from _quality(launches)
    yield from _context(manifest)


def _quality(launches: pl.DataFrame) -> Iterator[Finding]:
    if "quality" not in launches.columns:
        return
    defects = launches.select(pl.col("quality").drop_nulls().str.split(",").explode()).to_series()
    for defect, number in sorted(defects.value_counts().iter_rows()):
        message = f"{number:,} launches with {LOSSY.get(defect, defect)}: the printed text has no more digits."
        yield Finding("note", "precision", message, DATABASE)


def _context(manifest: Manifest) -> Iterator[Finding]:
    if "devices" not in manifest.parts:
        yield Finding("note", "devices", "No device properties: the GPU's name and architecture are unknown.")
    yield Finding("note", "launch calls", "Calls and NVTX ranges of nvprof are not read: launches have none.", PHASES)
    yield Finding("note", "operators", "nvprof records no operators: launches have no shapes.", OPERATORS)
