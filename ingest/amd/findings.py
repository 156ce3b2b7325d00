"""What `kerneldb doctor` says of traces of AMD's profilers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.amd.resources import HALVED
from kerneldb.ingest.doctor import Finding, read_table

JUDGED: Final = ("signature_id", "timing", "duration_ns", "quality", "api_index", "phase")
"""Columns of launches that are looked at."""
KERNEL_TRACE: Final = "Record `rocprofv3 --kernel-trace --hip-trace --marker-trace -- PROGRAM` (or `--sys-trace`)."
MARKERS: Final = (
    "Put `roctxRangePush`/`roctxRangePop` (in torch: `torch.cuda.nvtx.range`) around stages and record with "
    "`rocprofv3 --marker-trace`, or ingest with `--phase NAME`."
)
ORPHANED: Final = "Ask AMD's views for the same trace and they show fewer rows; kerneldb keeps them."
FIXED_SDK: Final = "Record with a rocprofiler-sdk that knows gfx950; occupancy here is computed from twice the count."


def findings(manifest: Manifest) -> Iterator[Finding]:
    """Judge a converted trace of rocprofv3, rocprof-sys, rocprof or RPD."""
    launches = read_table(manifest, "launches", *JUDGED)
    if launches.is_empty():
        yield from _without_launches(manifest)
        return
    yield from _launches(launches)
    yield from _devices(manifest, launches)
    yield from _host(manifest, launches)
    yield from _kept(manifest)


def _without_launches(manifest: Manifest) -> Iterator[Finding]:
    if "rollups" in manifest.parts:
        text = "The file is a report of sums: kernels count, but there are no single launches."
        yield Finding("warning", "sums only", text, KERNEL_TRACE)
    elif "api_calls" in manifest.parts:
        yield Finding("problem", "no kernels", "API calls were recorded, but no kernel trace.", KERNEL_TRACE)
    else:
        yield Finding("problem", "no kernels", "The trace holds no GPU activity.", KERNEL_TRACE)


def _launches(launches: pl.DataFrame) -> Iterator[Finding]:
    signatures = launches["signature_id"].n_unique()
    yield Finding("ok", "GPU events", f"{launches.height:,} launches of {signatures:,} signatures.")
    profiled = launches.filter(pl.col("timing") == "profiled").height
    if profiled == launches.height:
        text = "Counters only: every kernel ran under counter collection, so its time is no part of time sums."
        yield Finding("warning", "counters only", text, KERNEL_TRACE)
    elif profiled:
        yield Finding("note", "counters", f"{profiled:,} launches come from counter collection; time sums skip them.")
    untimed = launches["duration_ns"].null_count()
    if untimed:
        yield Finding("warning", "times", f"{untimed:,} launches have no duration; they count, but not in time sums.")


def _devices(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Finding]:
    if "devices" not in manifest.parts:
        text = "No description of the GPU: architecture, occupancy and allocated registers are unknown."
        remedy = "Keep `*_agent_info.csv` beside the other CSV files, or record `--output-format rocpd`."
        yield Finding("warning", "devices", text, remedy)
    halved = launches.filter(pl.col("quality").str.contains(HALVED, literal=True)).height
    if halved:
        text = f"{halved:,} launches on gfx950 report half of their registers (a fault of rocprofiler-sdk)."
        yield Finding("warning", "registers", text, FIXED_SDK)


def _host(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Finding]:
    linked = launches["api_index"].len() - launches["api_index"].null_count()
    if "api_calls" not in manifest.parts:
        remedy = "Add `--hip-trace` to see when and where kernels were launched."
        yield Finding("note", "API calls", "No API calls were recorded: launches have no caller.", remedy)
    else:
        yield Finding("ok", "API calls", f"{linked:,} of {launches.height:,} launches are linked to the call.")
    if launches["phase"].null_count() == launches.height:
        yield Finding("note", "phases", "No roctx ranges around launches: they have no phase.", MARKERS)
    unnamed = launches.filter(pl.col("quality").str.contains("no_symbol", literal=True)).height
    if unnamed:
        yield Finding("note", "orphans", f"{unnamed:,} launches name no kernel symbol; they are kept.", ORPHANED)


def _kept(manifest: Manifest) -> Iterator[Finding]:
    reports = read_table(manifest, "ingest_reports", "outcome", "reason", "n").filter(pl.col("outcome") == "skipped")
    for reason, n in reports.select("reason", "n").iter_rows():
        yield Finding("note", "not stored", f"{n:,} × {reason}.")
