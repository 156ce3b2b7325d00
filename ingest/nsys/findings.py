"""What `kerneldb doctor` says about captures of Nsight Systems."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import Finding
from kerneldb.ingest.nsys import facts

TRACE_CUDA: Final = (
    "Record with `nsys profile --trace=cuda,nvtx`; under WSL or a driver that is too old, nsys sees no GPU."
)
NODES: Final = "Record with `nsys profile --cuda-graph-trace=node`, which shows each kernel of a graph."
EXPORT: Final = "Give the export: `nsys export --type sqlite --output FILE.sqlite FILE.nsys-rep`."
LOSSY: Final = {
    "shared_rounded": "shared memory rounded to 1 KB",
    "bytes_rounded": "copied bytes rounded",
    "start_rounded": "rounded starts",
    "duration_rounded": "rounded durations",
}
RANGES: Final = 'Wrap stages in NVTX ranges, e.g. `torch.cuda.nvtx.range("prefill")`, or ingest with `--phase NAME`.'


def findings(manifest: Manifest) -> Iterator[Finding]:
    """Findings of one capture, as export or printed report."""
    if manifest.trace["kind"] == "summary":
        yield from _summary(manifest)
        return
    launches = _read(manifest, "launches")
    yield from _work(manifest, launches)
    if not launches.is_empty():
        yield from _quality(launches)
        yield from _calls(manifest, launches)
        yield from _context(manifest, launches)


def _read(manifest: Manifest, table: str) -> pl.DataFrame:
    paths = manifest.parts.get(table)
    return pl.concat([pl.read_parquet(path) for path in paths], how="diagonal_relaxed") if paths else pl.DataFrame()


def _summary(manifest: Manifest) -> Iterator[Finding]:
    rows = manifest.rows.get("rollups", 0)
    message = f"{rows:,} sums, no single launches: no timeline, gaps, launch parameters or replays."
    yield Finding("note", "sums only", message, EXPORT)


def _work(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Finding]:
    kinds = dict(launches.group_by("kind").len().iter_rows()) if launches.height else {}
    if not kinds.get("kernel"):
        yield from _no_kernels(manifest, kinds)
    else:
        signatures = launches["signature_id"].n_unique()
        yield Finding("ok", "GPU events", f"{launches.height:,} launches of {signatures:,} signatures.")
    graphs = kinds.get("graph", 0)
    if graphs:
        message = f"{graphs:,} CUDA graphs were recorded as a whole: their kernels are not in the export."
        yield Finding("problem", "graphs", message, NODES)


def _no_kernels(manifest: Manifest, kinds: dict[str, int]) -> Iterator[Finding]:
    if kinds.get("graph"):
        return
    if facts.hides_graphs(json.loads(manifest.trace.get("metadata") or "{}")) and "api_calls" in manifest.parts:
        calls = _read(manifest, "api_calls")
        if calls["name"].str.contains("GraphLaunch").any():
            yield Finding("problem", "graphs", "CUDA graphs were launched, and none of their kernels recorded.", NODES)
    yield Finding("problem", "no GPU events", "The capture holds no kernels.", TRACE_CUDA)


def _quality(launches: pl.DataFrame) -> Iterator[Finding]:
    if "quality" not in launches.columns:
        return
    defects = launches.select(pl.col("quality").drop_nulls().str.split(",").explode()).to_series()
    for defect, number in defects.value_counts().iter_rows():
        what = LOSSY.get(defect, defect)
        yield Finding("note", "precision", f"{number:,} launches with {what}: the printed report has no more.", EXPORT)


def _calls(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Finding]:
    unlinked = launches.filter(pl.col("launch_status") == "no_launch").height
    if not unlinked:
        yield Finding("ok", "launch calls", "Every launch has its call.")
    elif "api_calls" not in manifest.parts:
        yield Finding("note", "launch calls", "No runtime or driver calls: launches have no call and no range.", EXPORT)
    else:
        share = unlinked / launches.height
        message = f"{unlinked:,} of {launches.height:,} launches ({share:.1%}) have no call in the file."
        yield Finding("note", "launch calls", message, "The capture began after the call, or was cut to a window.")


def _context(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Finding]:
    if "devices" not in manifest.parts:
        yield Finding("note", "devices", "No device properties: the GPU's name and architecture are unknown.")
    if "phase" not in launches.columns or launches["phase"].null_count() == launches.height:
        yield Finding("note", "phases", "No NVTX range around the launches: they have no phase.", RANGES)
    yield Finding("note", "operators", "Nsight Systems records no operators: launches have no shapes.", OPERATORS)


OPERATORS: Final = "Record the same program with torch.profiler too and give both the same `--run`."
