"""What `kerneldb db doctor` says about captures of Nsight Systems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import NO_DEVICES, Diagnostic, launched, read_table
from kerneldb.ingest.nsys.events import WARNED
from kerneldb.ingest.nsys.marks import SUFFIX

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
STAGES: Final = 'Add a range per stage, e.g. `torch.cuda.nvtx.range("prefill")`, or ingest with `--phase NAME`.'
THREADS: Final = "Put the ranges around the calls, on the threads that launch, or ingest with `--phase NAME`."
RAN: Final = "Check that the program reached its kernels while nsys recorded, and that they ran on this host's GPUs."
MARKED: Final = "Run a program of PyTorch under `torch.autograd.profiler.emit_nvtx(record_shapes=True)`."
OPERATORS: Final = "Record the same program with torch.profiler too and give both the same `--run`."
HELD: Final = {"ranges": "ranges", "api_calls": "calls"}
GRAPH_MODE: Final = re.compile(r"CUDA_GRAPH_TRACE_OPTIONS:MODE$")


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """Diagnostics of one capture, as export or printed report."""
    yield from _warnings(manifest)
    if manifest.trace["kind"] == "summary":
        yield sums_only(manifest, EXPORT)
        return
    launches = read_table(manifest, "launches")
    kinds = dict(launches.group_by("kind").len().iter_rows()) if launches.height else {}
    graphs = kinds.get("graph", 0)
    if kinds.get("kernel"):
        yield launched(launches)
    elif not graphs:
        yield from _no_kernels(manifest) if exported(manifest) else [_no_gpu_work(manifest)]
    if graphs:
        message = f"{graphs:,} launches of CUDA graphs were recorded as a whole: their kernels are not in the export."
        yield Diagnostic("problem", "graphs", message, NODES)
    if not launches.is_empty():
        for defect, number in defects(launches):
            message = f"{number:,} launches with {ROUNDED.get(defect, defect)}: the printed report has no more."
            yield Diagnostic("note", "precision", message, EXPORT)
        yield _calls(manifest, launches)
        if "devices" not in manifest.parts:
            yield NO_DEVICES
        if "phase" not in launches.columns or launches["phase"].null_count() == launches.height:
            yield _phases(manifest, launches)
        yield _operators(manifest)


def _operators(manifest: Manifest) -> Diagnostic:
    if "ops" in manifest.parts and not manifest.trace["has_shapes"]:
        return Diagnostic("note", "operators", "Operators carry no input shapes.", MARKED)
    if "ops" in manifest.parts:
        calls = read_table(manifest, "op_calls", "call_id").height
        message = f"Input shapes are recorded: {calls:,} distinct operator calls. Data types and numbers are not."
        return Diagnostic("note", "operators", message, OPERATORS)
    if not exported(manifest) and read_table(manifest, "ranges", "name")["name"].str.contains(SUFFIX).any():
        message = "Operators are NVTX ranges here, not operator calls: launches have no shapes."
        return Diagnostic("note", "operators", message, EXPORT)
    message = "No operators are recorded: launches have no shapes."
    return Diagnostic("note", "operators", message, f"{MARKED} Or: {OPERATORS}" if exported(manifest) else OPERATORS)


def _warnings(manifest: Manifest) -> Iterator[Diagnostic]:
    """What the profiler itself warned of."""
    reports = read_table(manifest, "ingest_reports", "reason")["reason"]
    for reason in reports.filter(reports.str.starts_with(WARNED)):
        yield Diagnostic("note", "recording", reason)


def sums_only(manifest: Manifest, remedy: str) -> Diagnostic:
    """That the file holds no single launches."""
    held = {"rollups": "sums", "metrics": "figures without times of kernels"}
    rows, what = next(((n, what) for table, what in held.items() if (n := manifest.rows.get(table, 0))), (0, "sums"))
    message = f"{rows:,} {what}, no single launches: no timeline, gaps, launch parameters or replays."
    return Diagnostic("note", "sums only", message, remedy)


def exported(manifest: Manifest) -> bool:
    """Whether the trace is an export, which holds all that was recorded; a printed report shows a part."""
    return str(manifest.trace["era"]).startswith(("sqlite", "parquetdir"))


def _no_gpu_work(manifest: Manifest) -> Diagnostic:
    held = ", ".join(f"{manifest.rows[table]:,} {what}" for table, what in HELD.items() if table in manifest.rows)
    return Diagnostic("note", "no GPU events", f"The report prints {held or 'nothing'}, no GPU work.", EXPORT)


def _phases(manifest: Manifest, launches: pl.DataFrame) -> Diagnostic:
    ranges = manifest.rows.get("ranges", 0)
    known = [pl.col(name).is_not_null() for name in ("range_id", "op_id") if name in launches.columns]
    around = launches.filter(pl.any_horizontal(known)).height if known else 0
    if around:
        message = f"The NVTX ranges around {around:,} launches are operators or steps: no launch has a phase."
        return Diagnostic("note", "phases", message, STAGES)
    if ranges:
        message = f"None of {ranges:,} NVTX ranges is around the call of a launch: launches have no phase."
        return Diagnostic("note", "phases", message, THREADS)
    if not exported(manifest):
        message = "The report prints no ranges: launches have no phase."
        return Diagnostic("note", "phases", message, f"{EXPORT} Or print it with `:nvtx-name`.")
    return Diagnostic("note", "phases", "No NVTX range was recorded: launches have no phase.", RANGES)


def defects(launches: pl.DataFrame) -> list[tuple[str, int]]:
    """The words in `quality`, with how many launches have them."""
    if "quality" not in launches.columns:
        return []
    words = launches.select(pl.col("quality").drop_nulls().str.split(",").explode()).to_series()
    return sorted(words.value_counts().iter_rows())


def _no_kernels(manifest: Manifest) -> Iterator[Diagnostic]:
    settings = json.loads(manifest.trace.get("metadata") or "{}")
    as_a_whole = any(GRAPH_MODE.search(name) and "Graph" in value for name, value in settings.items())
    calls = read_table(manifest, "api_calls", "kind", "name")
    called = calls.filter(calls["kind"].str.starts_with("cuda"))
    if as_a_whole and called["name"].str.contains("GraphLaunch").any():
        message = "CUDA graphs were launched, and none of their kernels recorded."
        yield Diagnostic("problem", "graphs", message, NODES)
    if called.is_empty():
        yield Diagnostic("problem", "no GPU events", "The capture holds no kernels.", TRACE_CUDA)
    else:
        message = f"CUDA was recorded ({called.height:,} calls), but no kernel."
        yield Diagnostic("problem", "no GPU events", message, RAN)


def _calls(manifest: Manifest, launches: pl.DataFrame) -> Diagnostic:
    unlinked = launches.filter(pl.col("launch_status") == "no_launch").height
    if not unlinked:
        return Diagnostic("ok", "launch calls", "Every launch has its call.")
    if "api_calls" not in manifest.parts:
        message = "No calls are recorded: launches have no call and no range."
        if not exported(manifest):
            message = "The report prints no calls: launches have no call and no range."
        return Diagnostic("note", "launch calls", message, EXPORT)
    share = unlinked / launches.height
    message = f"{unlinked:,} of {launches.height:,} launches ({share:.1%}) have no call in the file."
    return Diagnostic("note", "launch calls", message, "The capture began after the call, or was cut to a window.")
