"""What `kerneldb doctor` says about captures of Nsight Systems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import NO_DEVICES, Diagnostic, launched, read_table

TRACE_CUDA: Final = (
    "Record with `nsys profile --trace=cuda,nvtx`; under WSL or a driver that is too old, nsys sees no GPU."
)
NODES: Final = "Record with `nsys profile --cuda-graph-trace=node`, which shows each kernel of a graph."
EXPORT: Final = "Give the export: `nsys export --type sqlite --output FILE.sqlite FILE.nsys-rep`."
ROUNDED: Final = {
    "shared_rounded": "shared memory rounded to 1 KB",
    "bytes_rounded": "copied bytes rounded",
    "start_rounded": "rounded starts",
    "duration_rounded": "rounded durations",
}
RANGES: Final = 'Wrap stages in NVTX ranges, e.g. `torch.cuda.nvtx.range("prefill")`, or ingest with `--phase NAME`.'
OPERATORS: Final = "Record the same program with torch.profiler too and give both the same `--run`."
GRAPH_MODE: Final = re.compile(r"CUDA_GRAPH_TRACE_OPTIONS:MODE$")


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """Diagnostics of one capture, as export or printed report."""
    if manifest.trace["kind"] == "summary":
        yield sums_only(manifest, EXPORT)
        return
    launches = read_table(manifest, "launches")
    kinds = dict(launches.group_by("kind").len().iter_rows()) if launches.height else {}
    graphs = kinds.get("graph", 0)
    if kinds.get("kernel"):
        yield launched(launches)
    elif not graphs:
        yield from _no_kernels(manifest)
    if graphs:
        message = f"{graphs:,} CUDA graphs were recorded as a whole: their kernels are not in the export."
        yield Diagnostic("problem", "graphs", message, NODES)
    if not launches.is_empty():
        for defect, number in defects(launches):
            message = f"{number:,} launches with {ROUNDED.get(defect, defect)}: the printed report has no more."
            yield Diagnostic("note", "precision", message, EXPORT)
        yield _calls(manifest, launches)
        if "devices" not in manifest.parts:
            yield NO_DEVICES
        if "phase" not in launches.columns or launches["phase"].null_count() == launches.height:
            yield Diagnostic("note", "phases", "No NVTX range around the launches: they have no phase.", RANGES)
        yield Diagnostic(
            "note", "operators", "Nsight Systems records no operators: launches have no shapes.", OPERATORS
        )


def sums_only(manifest: Manifest, remedy: str) -> Diagnostic:
    """That the file holds no single launches."""
    rows = manifest.rows.get("rollups", 0)
    message = f"{rows:,} sums, no single launches: no timeline, gaps, launch parameters or replays."
    return Diagnostic("note", "sums only", message, remedy)


def defects(launches: pl.DataFrame) -> list[tuple[str, int]]:
    """The words in `quality`, with how many launches have them."""
    if "quality" not in launches.columns:
        return []
    words = launches.select(pl.col("quality").drop_nulls().str.split(",").explode()).to_series()
    return sorted(words.value_counts().iter_rows())


def _no_kernels(manifest: Manifest) -> Iterator[Diagnostic]:
    settings = json.loads(manifest.trace.get("metadata") or "{}")
    as_a_whole = any(GRAPH_MODE.search(name) and "Graph" in value for name, value in settings.items())
    if as_a_whole and "api_calls" in manifest.parts:
        calls = read_table(manifest, "api_calls", "name")
        if calls["name"].str.contains("GraphLaunch").any():
            message = "CUDA graphs were launched, and none of their kernels recorded."
            yield Diagnostic("problem", "graphs", message, NODES)
    yield Diagnostic("problem", "no GPU events", "The capture holds no kernels.", TRACE_CUDA)


def _calls(manifest: Manifest, launches: pl.DataFrame) -> Diagnostic:
    unlinked = launches.filter(pl.col("launch_status") == "no_launch").height
    if not unlinked:
        return Diagnostic("ok", "launch calls", "Every launch has its call.")
    if "api_calls" not in manifest.parts:
        message = "No runtime or driver calls: launches have no call and no range."
        return Diagnostic("note", "launch calls", message, EXPORT)
    share = unlinked / launches.height
    message = f"{unlinked:,} of {launches.height:,} launches ({share:.1%}) have no call in the file."
    return Diagnostic("note", "launch calls", message, "The capture began after the call, or was cut to a window.")
