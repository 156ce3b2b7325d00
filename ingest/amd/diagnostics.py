"""What `kerneldb db doctor` says of traces of AMD's profilers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.amd.launches import HALVED, NO_SYMBOL
from kerneldb.ingest.doctor import Diagnostic, launched, read_table, untimed

KERNEL_TRACE: Final = "Record `rocprofv3 --kernel-trace --hip-trace --marker-trace -- PROGRAM` (or `--sys-trace`)."
AGENTS: Final = "Keep `*_agent_info.csv` beside the other CSV files, or record `--output-format rocpd`."
DESCRIBED: Final = "This format has none: record with `rocprofv3 --output-format rocpd`."
MARKERS: Final = (
    "Put `roctxRangePush`/`roctxRangePop` (in torch: `torch.cuda.nvtx.range`) around phases and record with "
    "`rocprofv3 --marker-trace`, or ingest with `--phase NAME`."
)
OTHERS: Final = {"ranges": "roctx ranges", "memory_events": "allocations"}
ORPHANED: Final = "AMD's own views drop these rows, so they show fewer launches; kerneldb keeps them."
FIXED_SDK: Final = "Record with a rocprofiler-sdk that knows gfx950; occupancy here is computed from twice the count."


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """Judge a converted trace of rocprofv3, rocprof-sys, rocprof or RPD."""
    columns = ("signature_id", "timing", "duration_ns", "quality", "api_index", "phase")
    launches = read_table(manifest, "launches", *columns)
    yield from _skipped(manifest)
    if launches.is_empty():
        yield _without_launches(manifest)
        return
    yield launched(launches)
    profiled = launches.filter(pl.col("timing") == "profiled").height
    if profiled == launches.height:
        text = "Counters only: every kernel ran under counter collection, so its time is not part of time sums."
        yield Diagnostic("warning", "counters only", text, KERNEL_TRACE)
    elif profiled:
        text = f"{profiled:,} launches come from counter collection; time sums skip them."
        yield Diagnostic("note", "counters", text)
    yield from untimed(launches)
    yield from _devices(manifest, launches)
    yield from _host(manifest, launches)


def _skipped(manifest: Manifest) -> Iterator[Diagnostic]:
    reports = read_table(manifest, "ingest_reports", "outcome", "reason", "n").filter(pl.col("outcome") == "skipped")
    for reason, n in reports.select("reason", "n").iter_rows():
        yield Diagnostic("note", "not stored", f"{n:,} × {reason}.")


def _without_launches(manifest: Manifest) -> Diagnostic:
    if "rollups" in manifest.parts:
        text = "The file is a report of sums: kernels have sums, but no single launches."
        return Diagnostic("warning", "sums only", text, KERNEL_TRACE)
    if "call_sums" in manifest.parts:
        text = "The files are reports of sums over calls of the host; kernels are not in them."
        return Diagnostic("warning", "sums only", text, KERNEL_TRACE)
    if "api_calls" in manifest.parts:
        return Diagnostic("problem", "no kernels", "API calls were recorded, but no kernel trace.", KERNEL_TRACE)
    held = [what for table, what in OTHERS.items() if table in manifest.parts]
    text = f"The trace holds {' and '.join(held)}, but no GPU activity." if held else "The trace holds no GPU activity."
    return Diagnostic("problem", "no kernels", text, KERNEL_TRACE)


def _devices(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Diagnostic]:
    if "devices" not in manifest.parts:
        text = "No description of the GPU: architecture, occupancy and allocated registers are unknown."
        of_csv = str(manifest.trace["era"]).startswith(("rocprofv3 csv", "rocpd csv"))
        yield Diagnostic("warning", "devices", text, AGENTS if of_csv else DESCRIBED)
    halved = launches.filter(pl.col("quality").str.contains(HALVED, literal=True)).height
    if halved:
        text = f"{halved:,} launches on gfx950 report half of their registers (a fault of rocprofiler-sdk)."
        yield Diagnostic("warning", "registers", text, FIXED_SDK)


def _host(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Diagnostic]:
    if "api_calls" not in manifest.parts:
        remedy = "Add `--hip-trace` to see when and where kernels were launched."
        yield Diagnostic("note", "API calls", "No API calls were recorded: launches have no caller.", remedy)
    else:
        linked = launches["api_index"].count()
        yield Diagnostic("ok", "API calls", f"{linked:,} of {launches.height:,} launches are linked to the call.")
    if launches["phase"].null_count() == launches.height:
        yield Diagnostic("note", "phases", "No roctx ranges around launches: they have no phase.", MARKERS)
    unnamed = launches.filter(pl.col("quality").str.contains(NO_SYMBOL, literal=True)).height
    if unnamed:
        yield Diagnostic("note", "orphans", f"{unnamed:,} launches name no kernel symbol; they are kept.", ORPHANED)
