"""Explains what a trace lacks, and how to record a better one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import polars as pl

from kerneldb.batch import Manifest

Level = Literal["ok", "note", "warning", "problem"]
FEW: Final = 0.02
"""Up to this share of launches, a missing link is a note, not a warning."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a trace. `remedy` is empty where nothing needs doing."""

    level: Level
    topic: str
    message: str
    remedy: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found in one trace, worst first."""

    trace: str
    findings: list[Finding]


JUDGED: Final = ("signature_id", "duration_ns", "launch_status")
"""Columns of launches that are looked at."""
ORDER: Final = {"problem": 0, "warning": 1, "note": 2, "ok": 3}
NO_GPU: Final = (
    "Pass `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`. If that was given: another profiler held the GPU "
    "(only one at a time), or the work ran outside the recorded window; synchronise before it ends."
)
NO_PHASES: Final = 'Wrap stages in `torch.profiler.record_function("prefill")`, or ingest with `--phase NAME`.'
BAD_TIME: Final = "The recorded times are damaged there; sums leave them out. Record again if they matter."
CUT: Final = "The profiler was killed while writing, or the copy broke off; record or copy again."


def diagnose_manifest(manifest: Manifest, extra: Callable[[Manifest], Iterator[Finding]] | None = None) -> Diagnosis:
    """Judge a converted trace by its tables. `extra` are the findings of a reader other than that of PyTorch traces."""
    launches = read_table(manifest, "launches", *JUDGED)
    found = [*_damage(manifest), *(_of_pytorch(manifest, launches) if extra is None else extra(manifest))]
    return Diagnosis(manifest.name, sorted(found, key=lambda finding: ORDER[finding.level]))


def _of_pytorch(manifest: Manifest, launches: pl.DataFrame) -> list[Finding]:
    return [*_gpu(manifest, launches), *_links(launches), *_shapes(manifest), *_context(manifest)]


def read_table(manifest: Manifest, table: str, *columns: str) -> pl.DataFrame:
    """The rows of a table, or these columns of it; empty where it has no part.

    Parts may differ in their columns: readers leave out what is NULL in a whole part. Columns in no part are NULL.
    """
    parts = [_part(path, columns) for path in manifest.parts.get(table, [])]
    if not parts:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    whole = pl.concat(parts, how="diagonal_relaxed").with_columns(pl.col(pl.Null).cast(pl.String))
    absent = [pl.lit(None, dtype=pl.String).alias(name) for name in columns if name not in whole.columns]
    return whole.with_columns(absent)


def _part(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    if not columns:
        return pl.read_parquet(path)
    there = pl.read_parquet_schema(path)
    kept = pl.read_parquet(path, columns=[name for name in columns if name in there])
    if kept.width:
        return kept
    rows = pl.scan_parquet(path).select(pl.len()).collect().item()
    return pl.DataFrame({columns[0]: pl.repeat(None, rows, dtype=pl.Null, eager=True)})


def _damage(manifest: Manifest) -> Iterator[Finding]:
    reports = read_table(manifest, "ingest_reports", "outcome", "reason", "n")
    for outcome, reason, n in reports.select("outcome", "reason", "n").iter_rows():
        if outcome == "truncated":
            yield Finding("problem", "truncated", f"The file is cut: {reason}.", CUT)
        elif outcome == "lost":
            yield Finding("problem", "lost", f"{n:,} × {reason}.", "Keep the file: its text is damaged there.")
        elif outcome == "refused":
            yield Finding("warning", "refused", f"{n:,} × {reason}: its time is left empty.", BAD_TIME)
        elif outcome == "repaired":
            yield Finding("note", "repaired", f"{n:,} × {reason}, repaired.")


def _gpu(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Finding]:
    if launches.is_empty():
        yield Finding("problem", "no GPU events", "The trace holds no GPU activity.", NO_GPU)
        return
    signatures = launches["signature_id"].n_unique()
    yield Finding("ok", "GPU events", f"{launches.height:,} launches of {signatures:,} signatures.")
    untimed = launches["duration_ns"].null_count()
    if untimed:
        yield Finding("warning", "times", f"{untimed:,} launches have no duration; they count, but not in time sums.")
    if "devices" not in manifest.parts:
        yield Finding("note", "devices", "No device properties: the GPU's name and architecture are unknown.")


def _links(launches: pl.DataFrame) -> Iterator[Finding]:
    if launches.is_empty():
        return
    counts = dict(launches.group_by("launch_status").len().iter_rows())
    total = launches.height
    for status, (topic, message, remedy) in LINK_ADVICE.items():
        n = counts.get(status, 0)
        if n:
            level: Level = "warning" if n > FEW * total else "note"
            yield Finding(level, topic, f"{n:,} of {total:,} launches ({n / total:.1%}) {message}", remedy)
    if counts.get("linked", 0) == total:
        yield Finding("ok", "links", "Every launch is linked to the operator that made it.")


LINK_ADVICE: Final = {
    "graph": (
        "graphs",
        "come from CUDA or HIP graphs, which hide their operators.",
        "Record one run without graphs (vLLM: `enforce_eager=True`; torch.compile: `mode='default'`).",
    ),
    "before_window": (
        "window",
        "were launched before the recorded window began.",
        "Synchronise before the profiler starts, or use `schedule(wait=1, warmup=1, active=…)`.",
    ),
    "no_op": (
        "operators",
        "have a launch call but no operator around it.",
        "Record CPU activity too (`ProfilerActivity.CPU`); launches outside of torch operators stay unlinked.",
    ),
    "no_launch": (
        "launch calls",
        "have no launch call in the file.",
        "Record CPU activity too; torch before 2.1 does not record driver launches (Triton).",
    ),
}


def _shapes(manifest: Manifest) -> Iterator[Finding]:
    if "ops" not in manifest.parts:
        remedy = "Add `ProfilerActivity.CPU` to the activities."
        yield Finding(
            "warning", "operators", "No operators were recorded: kernels cannot be linked or replayed.", remedy
        )
    elif not manifest.trace["has_shapes"]:
        remedy = "Pass `record_shapes=True`: replay, problem sizes and FLOPs need the shapes."
        yield Finding("warning", "shapes", "Operators carry no input shapes.", remedy)
    else:
        calls = read_table(manifest, "op_calls", "scalars")
        yield Finding("ok", "shapes", f"Input shapes are recorded: {calls.height:,} distinct operator calls.")
        if calls["scalars"].null_count() == calls.height:
            remedy = "Record with a newer torch."
            yield Finding("note", "scalars", "No concrete scalar inputs (torch before 2.1).", remedy)


def _context(manifest: Manifest) -> Iterator[Finding]:
    if not manifest.trace["has_stacks"]:
        yield Finding("note", "stacks", "No Python stacks or modules.", "Pass `with_stack=True` (slower recording).")
    ranges = read_table(manifest, "ranges", "kind")
    if ranges.is_empty() or ranges.filter(pl.col("kind") == "user_annotation").is_empty():
        yield Finding("note", "phases", "No annotations: launches have no phase.", NO_PHASES)
