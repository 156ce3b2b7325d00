"""Explains what a trace lacks, and how to record a better one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

import polars as pl

from kerneldb import repeated
from kerneldb.batch import Manifest
from kerneldb.ingest.columns import TYPES

Level = Literal["ok", "note", "warning", "problem"]
LEVELS: Final = ("problem", "warning", "note", "ok")
FEW: Final = 0.02
"""Up to this share of launches, a missing link is a note, not a warning."""


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing to know about a trace. `remedy` is empty where nothing needs doing."""

    level: Level
    topic: str
    message: str
    remedy: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnostics of one trace, worst first."""

    trace: str
    diagnostics: list[Diagnostic]


NO_DEVICES: Final = Diagnostic("note", "devices", "No device properties: the GPU's name and architecture are unknown.")
NO_GPU: Final = (
    "Pass `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`. If that was given: another profiler held the GPU "
    "(only one at a time), or the work ran outside the recorded window; synchronise before it ends."
)
NO_PHASES: Final = 'Wrap stages in `torch.profiler.record_function("prefill")`, or ingest with `--phase NAME`.'
STACKS: Final = "Pass `with_stack=True` (slower recording)."
SHAPES: Final = "Pass `record_shapes=True`: replay, problem sizes and FLOPs need the shapes."
BAD_TIME: Final = "The recorded times are damaged there; sums leave them out. Record again if they matter."
CUT: Final = "The profiler was killed while writing, or the copy broke off; record or copy again."
ONE_DEVICE: Final = "Record on a machine where the runtime names its GPU, with only that one visible to the program."
LAUNCHING: Final = r"^(?:hip|cuda|cu)[A-Za-z]*Launch(?:Cooperative)?Kernel"
CAPTURING: Final = "StreamEndCapture|StreamBeginCapture|GraphInstantiate"
ONLY_CAPTURED: Final = (
    "the trace holds the capture of a graph, and not its execution. Captured kernels have no times; on ROCm their "
    "names are in `api_calls.details`."
)
SYNCHRONISE: Final = "Synchronise before the profiler stops; record fewer steps where its buffers ran full."
NO_UNIT: Final = (
    "launches were counted in blocks or in work-items, and nothing says which: their grids are empty, what was printed "
    "is in `reported_grid_x`, `_y` and `_z`."
)
LINK_ADVICE: Final = {
    "graph": (
        "graphs",
        "come from CUDA or HIP graphs, which hide their operators.",
        "Record the captures too (docs/cuda-graphs.md), or one run without graphs (vLLM: `enforce_eager=True`).",
    ),
    "before_window": (
        "window",
        "were launched before the recorded window began.",
        "Synchronise before the profiler starts, or use `schedule(wait=1, warmup=1, active=…)`.",
    ),
    "no_op": (
        "operators",
        "have a launch call but no operator around it.",
        "Record CPU activity too (`ProfilerActivity.CPU`).",
    ),
    "no_launch": (
        "launch calls",
        "have no launch call in the file.",
        "Record CPU activity too; torch before 2.1 does not record driver launches (Triton).",
    ),
}
"""Launch status → topic, message and remedy."""
WITH_OPS: Final = {
    "no_op": "The program launched them outside of torch operators: wrap them in `torch.profiler.record_function`.",
    "no_launch": "torch before 2.1 does not record driver launches (Triton), and other tools strip calls.",
}
"""Remedies where operators were recorded: CPU activity cannot be what is missing."""
COUNTED: Final = (
    "The trace holds counters of the CUPTI range profiler instead of GPU activity: {ranges:,} ranges, in `metrics`."
)
CAPTURED: Final = (
    "{n:,} launch calls were recorded into {graphs}, which ran nothing then; {ran} ran in the recorded window."
)
REPLAYS: Final = "Record a replay of the graph too, as docs/cuda-graphs.md says: its kernels then get these operators."
OWNED: Final = "The capture is recorded: `kerneldb db inherit` gives them its operators (docs/cuda-graphs.md)."
CAPTURE: Final = ("BeginCapture", "EndCapture")


def diagnose_manifest(manifest: Manifest, of_reader: Callable[[Manifest], Iterator[Diagnostic]]) -> Diagnosis:
    """Judge a converted trace by its tables. `of_reader` gives the diagnostics of its reader."""
    found = [*_damage(manifest), *of_reader(manifest)]
    return Diagnosis(manifest.name, sorted(found, key=lambda one: LEVELS.index(one.level)))


def read_table(manifest: Manifest, table: str, *columns: str) -> pl.DataFrame:
    """The rows of a table, or these columns of it; empty where it has no part.

    Parts may differ in their columns: readers leave out what is NULL in a whole part. Columns in no part are NULL.
    """
    parts = [pl.scan_parquet(path) for path in manifest.parts.get(table, [])]
    if not parts:
        return pl.DataFrame(schema={name: TYPES.get(name, pl.String) for name in columns})
    whole = pl.concat(parts, how="diagonal_relaxed")
    absent = [pl.lit(None).alias(name) for name in columns if name not in whole.collect_schema()]
    chosen = whole.with_columns(absent).select(columns or pl.all()).collect()
    return chosen.with_columns(
        pl.col(name).cast(TYPES.get(name, pl.String))
        for name, kind in chosen.schema.items()
        if kind in (pl.Null, pl.Enum)
    )


def launched(launches: pl.DataFrame, what: str = "launches") -> Diagnostic:
    """How many launches of how many signatures there are."""
    signatures = launches["signature_id"].n_unique()
    return Diagnostic("ok", "GPU events", f"{launches.height:,} {what} of {signatures:,} signatures.")


def untimed(launches: pl.DataFrame) -> Iterator[Diagnostic]:
    """How many launches have no duration, where some have none."""
    n = launches["duration_ns"].null_count()
    if n:
        yield Diagnostic("warning", "times", f"{n:,} launches have no duration; they are in counts, not in time sums.")


def _damage(manifest: Manifest) -> Iterator[Diagnostic]:
    reports = read_table(manifest, "ingest_reports", "outcome", "reason", "n")
    for outcome, reason, n in reports.iter_rows():
        if outcome == "truncated":
            yield Diagnostic("problem", "truncated", f"The file is cut: {reason}.", CUT)
        elif outcome == "lost":
            yield Diagnostic(
                "problem",
                "lost",
                f"{n:,} × {reason}.",
                "The text of the file is damaged there; record or copy it again.",
            )
        elif outcome == "refused" and reason.endswith(repeated.LEFT_OUT):
            yield Diagnostic("note", "long texts", f"{n:,} × {reason}.")
        elif outcome == "refused":
            yield Diagnostic("warning", "refused", f"{n:,} × {reason}: its time is left empty.", BAD_TIME)
        elif outcome == "repaired":
            yield Diagnostic("note", "repaired", f"{n:,} × {reason}, repaired.")


def of_launches(manifest: Manifest) -> Iterator[Diagnostic]:
    """Of a reader without diagnostics of its own: how many launches there are, and what they lack."""
    launches = read_table(manifest, "launches", "signature_id", "duration_ns")
    if launches.is_empty():
        yield Diagnostic("problem", "no GPU events", "The trace holds no GPU activity.")
        return
    yield launched(launches)
    yield from untimed(launches)
    if "devices" not in manifest.parts:
        yield NO_DEVICES


def of_pytorch(manifest: Manifest) -> Iterator[Diagnostic]:
    """Of PyTorch traces: whether launches have operators, shapes, stacks and phases."""
    columns = ("signature_id", "duration_ns", "launch_status", "device", "api_index", "quality")
    launches = read_table(manifest, "launches", *columns)
    kinds = read_table(manifest, "ranges", "kind")["kind"]
    captured = list(_captured(manifest, launches)) or list(_without_kernels(manifest, launches))
    if not launches.is_empty():
        yield launched(launches)
        yield from untimed(launches)
        yield from _undescribed(manifest, launches)
        remedies = WITH_OPS if "ops" in manifest.parts else {}
        yield from _links(launches, {**remedies, "graph": OWNED} if captured else remedies)
        unclear = launches.filter(pl.col("quality").str.contains("grid_unit_unknown")).height
        if unclear:
            yield Diagnostic("note", "grids", f"{unclear:,} {NO_UNIT}")
    elif "metrics" in manifest.parts:
        ranges = kinds.filter(kinds == "cuda_profiler_range").len()
        yield Diagnostic("ok", "counters", COUNTED.format(ranges=ranges))
    elif not captured:
        yield Diagnostic("problem", "no GPU events", "The trace holds no GPU activity.", NO_GPU)
    yield from captured
    yield from _shapes(manifest)
    if not manifest.trace["has_stacks"]:
        yield Diagnostic("note", "stacks", "No Python stacks or modules.", _unless(manifest, "with_stack", STACKS))
    if "user_annotation" not in kinds:
        yield Diagnostic("note", "phases", "No annotations: launches have no phase.", NO_PHASES)


def _undescribed(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Diagnostic]:
    """Launches on devices without an architecture: nothing can be compared with the peaks of their GPU."""
    if "devices" not in manifest.parts:
        yield NO_DEVICES
        return
    devices = read_table(manifest, "devices", "device", "name", "arch")
    known = devices.filter(pl.col("arch").is_not_null())["device"].implode()
    used = launches.filter(pl.col("device").is_not_null() & ~pl.col("device").is_in(known))
    for (number,), rows in used.group_by("device", maintain_order=True):
        described = devices.filter(pl.col("device") == number)["name"].to_list()
        why = f"is described as {described[0] or 'a GPU without a name'}" if described else "is not described"
        listed = ", ".join(map(str, devices["device"].sort()))
        text = f"{rows.height:,} launches ran on device {number}, which {why} (`deviceProperties` lists {listed})"
        yield Diagnostic("warning", "devices", f"{text}: architecture and peaks are unknown.", ONE_DEVICE)


def _without_kernels(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Diagnostic]:
    """Calls that launch and have no activity: kernels captured into a graph, or not recorded."""
    calls = read_table(manifest, "api_calls", "api_index", "name")
    launching = calls.filter(pl.col("name").str.contains(LAUNCHING))
    alone = launching.join(launches, on="api_index", how="anti").height
    if alone <= FEW * launching.height:
        return
    text = f"{alone:,} of {launching.height:,} launching calls have no kernel in the file"
    if calls["name"].str.contains(CAPTURING).any():
        yield Diagnostic("warning", "graph capture", f"{text}: {ONLY_CAPTURED}", REPLAYS)
    else:
        yield Diagnostic("warning", "kernels", f"{text}: they ran after the recording, or were lost.", SYNCHRONISE)


def _unless(manifest: Manifest, option: str, remedy: str) -> str:
    """`remedy`, or what else may be the reason where the trace was recorded with the option."""
    given = json.loads(manifest.trace.get("metadata") or "{}").get(option)
    return remedy if given in (None, 0, False, "0") else f"`{option}=True` was given, but the file holds none."


def _captured(manifest: Manifest, launches: pl.DataFrame) -> Iterator[Diagnostic]:
    """Launch calls between the begin and the end of a capture, on the thread that captures."""
    calls = read_table(manifest, "api_calls", "name", "thread", "start_ns")
    begins, ends = (calls["name"].str.contains(pattern) for pattern in CAPTURE)
    if not begins.any():
        return
    depth = calls.with_columns(change=begins.cast(pl.Int32) - ends.cast(pl.Int32)).sort("thread", "start_ns")
    depth = depth.with_columns(pl.col("change").cum_sum().over("thread"))
    # A capture that began before the recording ends without a begin.
    inside = depth.filter(pl.col("change") > pl.col("change").cum_min().over("thread").clip(upper_bound=0))
    n = inside.filter(pl.col("name").str.contains(LAUNCHING)).height
    if not n:
        return
    graphs = f"{begins.sum():,} graph{'s' if begins.sum() > 1 else ''}"
    replayed = bool(calls["name"].str.contains("GraphLaunch").any())
    message = CAPTURED.format(n=n, graphs=graphs, ran=f"{launches.height:,} kernels, copies and fills")
    yield Diagnostic("note" if replayed else "warning", "graph capture", message, "" if replayed else REPLAYS)


def _links(launches: pl.DataFrame, with_ops: Mapping[str, str]) -> Iterator[Diagnostic]:
    counts = dict(launches.group_by("launch_status").len().iter_rows())
    total = launches.height
    for status, (topic, message, remedy) in LINK_ADVICE.items():
        n = counts.get(status, 0)
        if n:
            level: Level = "warning" if n > FEW * total else "note"
            text = f"{n:,} of {total:,} launches ({n / total:.1%}) {message}"
            yield Diagnostic(level, topic, text, with_ops.get(status, remedy))
    if counts.get("linked", 0) == total:
        yield Diagnostic("ok", "links", "Every launch is linked to the operator that made it.")


def _shapes(manifest: Manifest) -> Iterator[Diagnostic]:
    if "ops" not in manifest.parts:
        message = "No operators were recorded: kernels cannot be linked or replayed."
        yield Diagnostic("warning", "operators", message, "Add `ProfilerActivity.CPU` to the activities.")
    elif not manifest.trace["has_shapes"]:
        yield Diagnostic(
            "warning", "shapes", "Operators carry no input shapes.", _unless(manifest, "record_shapes", SHAPES)
        )
    else:
        calls = read_table(manifest, "op_calls", "scalars")
        yield Diagnostic("ok", "shapes", f"Input shapes are recorded: {calls.height:,} distinct operator calls.")
        if calls["scalars"].null_count() == calls.height:
            message = "No concrete scalar inputs (torch before 2.1)."
            yield Diagnostic("note", "scalars", message, "Record with a newer torch.")
