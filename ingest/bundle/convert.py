"""Converts a trace of a recording: as any PyTorch trace, with the measurements and readings of its workload added."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import codec, recordings
from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError
from kerneldb.files import printed
from kerneldb.ingest import readers
from kerneldb.ingest.bundle import execution
from kerneldb.ingest.columns import frame_of
from kerneldb.ingest.doctor import read_table
from kerneldb.ingest.output import Report
from kerneldb.ingest.pytorch.convert import convert as convert_trace
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source
from kerneldb.recordings import CAPTURE, EAGER, NAME, POWER, Measurement, Part, Reading, Recording, Traced
from kerneldb.shell import file, kerneldb
from kerneldb.times import Guard

AROUND: Final = ("idle", "context", "gap")
"""Readings that belong to no workload; they go to the first trace of the recording."""
RAN: Final = frozenset({"launches", "signatures", "kernel_names", "sync_events"})
"""What the trace of a capture is not asked for: a graph that is captured runs nothing but fills of its random seeds."""
OTHER_FILE: Final = "measurements: the trace is not the one that was recorded, copy the folder again"
TYPES: Final = {"str": pl.String, "int": pl.Int64, "float": pl.Float64}


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Write a trace of a recording to a new spool. Raises what the reader of PyTorch traces raises."""
    path = unit.files[0]
    recording = recordings.load(path.parent)
    part, trace = next((one for one in recording.traced if one[1].file == path.name), (None, None))
    if part is None or trace is None:
        message = f"{path}: says what is in a recording. Give its folder: {kerneldb('ingest', file(path.parent))}"
        if not recordings.present(path.parent, recording):
            message = (
                f"{path.parent}: a recording without a finished workload. Go on with it: kerneldb record … --resume"
            )
        raise NotATraceError(message)
    readers.check(Source(path))
    one = Source(path)
    manifest = convert_trace(one, folder, _options(recording, part, options), progress)
    if part.mode == CAPTURE:
        manifest = _without(manifest, RAN)
    report, frames = _report(path.parent, recording), {}
    if one.sha256 == trace.sha256:
        frames["measurements"] = _measurements(recording, part, manifest)
        frames["power_samples"] = _power_samples(path.parent, recording, part, manifest, report)
    else:
        report.add("lost", OTHER_FILE, 1)
    frames["op_tensors"] = _op_tensors(path.parent, trace, manifest, report)
    frames["trace_files"] = pl.DataFrame(_files(path.parent, trace, report, manifest.trace_id))
    first = {"trace_id": pl.lit(manifest.trace_id), "file_index": pl.lit(1)}
    frames["ingest_reports"] = report.rows().with_columns(**first)
    return _of_job(_with(manifest, frames, part.tags), recording, part)


def _without(manifest: Manifest, tables: Collection[str]) -> Manifest:
    """The manifest without the rows of some tables."""
    parts = {name: paths for name, paths in manifest.parts.items() if name not in tables}
    rows = {name: 0 if name in tables else n for name, n in manifest.rows.items()}
    return dataclasses.replace(manifest, parts=parts, rows=rows)


def _op_tensors(folder: Path, trace: Traced, manifest: Manifest, report: Report) -> pl.DataFrame:
    """Rows of `op_tensors`, from the Execution Trace beside the trace."""
    path = folder / (trace.execution_trace or NAME)
    if trace.execution_trace is None or not manifest.parts.get("ops") or not path.is_file():
        return pl.DataFrame()
    ops = read_table(manifest, "ops", "op_id", "record_function_id")
    return execution.op_tensors(path, ops.drop_nulls(), report).with_columns(trace_id=pl.lit(manifest.trace_id))


def _options(recording: Recording, part: Part, options: Options) -> Options:
    """The options of the user, with what the recording says of its trace where the user says nothing."""
    rank = "" if recording.rank is None else f"-rank{recording.rank}"
    return dataclasses.replace(
        options,
        label=options.label or recording.label,
        phase=options.phase or part.workload,
        name=options.name or f"{_named(recording, part)}{rank}",
        run=options.run or recording.name,
    )


def _named(recording: Recording, part: Part) -> str:
    workload = part.workload if part.mode == EAGER else f"{part.workload}-{part.mode.replace('_', '-')}"
    return f"{recording.name}-{workload}"


def _with(manifest: Manifest, frames: Mapping[str, pl.DataFrame], tags: Mapping[str, str]) -> Manifest:
    """The manifest with tags, and with further parts beside those of the trace."""
    parts, rows = dict(manifest.parts), dict(manifest.rows)
    for table, frame in frames.items():
        if frame.height:
            path = manifest.folder / f"{table}.recording.parquet"
            frame.write_parquet(path, compression="lz4", statistics=False)
            parts[table] = [*parts.get(table, []), path]
            rows[table] = rows.get(table, 0) + frame.height
    return dataclasses.replace(manifest, parts=parts, rows=rows, tags=dict(tags))


def _of_job(manifest: Manifest, recording: Recording, part: Part) -> Manifest:
    """The manifest with the traces of other ranks that its trace ran together with: those of the same workload."""
    if recording.rank is None:
        return manifest
    of_job = {"rank": recording.rank, "world_size": recording.world_size, "stated_job": _named(recording, part)}
    literals = {name: pl.lit(value) for name, value in of_job.items()}
    for path in manifest.parts["traces"]:
        pl.read_parquet(path).with_columns(**literals).write_parquet(path, compression="lz4", statistics=False)
    return dataclasses.replace(manifest, trace={**manifest.trace, **of_job})


def _report(folder: Path, recording: Recording) -> Report:
    """What of the recording is not there."""
    report = Report()
    for part in recording.parts:
        if part.reason is not None:
            report.add("note", f"{part.label}: {part.reason}", 1)
        elif part.trace is None:
            report.add("lost", f"{part.label} was not recorded to its end; kerneldb record … --resume goes on", 1)
    for _, trace in recording.traced:
        if not (folder / trace.file).is_file():
            report.add("lost", f"{trace.file} of the recording is not in its folder", 1)
    return report


def _files(folder: Path, trace: Traced, report: Report, trace_id: str) -> list[dict[str, Any]]:
    """bundle.json and the Execution Trace, as further files of the trace."""
    rows: list[dict[str, Any]] = []
    summary = json.dumps(report.summary())
    for name, role, text in ((NAME, "recording", summary), (trace.execution_trace, "execution trace", None)):
        if name is not None and (folder / name).is_file():
            data = (folder / name).read_bytes()
            size = {"bytes": len(data), "compressed_bytes": len(data), "events": None}
            place = {"trace_id": trace_id, "file_index": len(rows) + 1, "path": printed(folder / name), "role": role}
            rows.append({**place, "sha256": hashlib.sha256(data).hexdigest(), **size, "report": text})
    return rows


def _measurements(recording: Recording, part: Part, manifest: Manifest) -> pl.DataFrame:
    """Rows of `measurements`: those of the workload, of its trace, and of the device around it."""
    around = () if part.measurements is None else recording.powers
    common = {
        "trace_id": manifest.trace_id,
        "run": manifest.trace["stated_run"],
        "model": recording.model,
        "workload": part.workload,
        "mode": part.mode,
        "uuid": recording.device().uuid,
    }
    when = pl.col("measured_at").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    same = {key: pl.lit(value, dtype=pl.String) for key, value in common.items()}
    return _frame(Measurement, [*part.rows, *around]).with_columns(when, **same)


def _power_samples(folder: Path, recording: Recording, part: Part, manifest: Manifest, report: Report) -> pl.DataFrame:
    """Rows of `power_samples` taken while the workload was measured and traced."""
    first = recording.traced[0][0] is part
    rows = [
        one
        for one in _readings(folder, recording, report)
        if (one.workload, one.mode) == (part.workload, part.mode) or (first and one.workload in AROUND)
    ]
    device = recording.device()
    base = manifest.trace["base_ns"] if manifest.trace.get("clock") == "epoch" else None
    frame = (
        _frame(Reading, rows)
        .drop("mode")
        .with_columns(
            trace_id=pl.lit(manifest.trace_id),
            source=pl.lit("record"),
            device=pl.lit(device.device, dtype=pl.Int32),
            gpu=pl.lit(device.gpu, dtype=pl.String),
            ts_ns=pl.col("epoch_ns") - pl.lit(base, dtype=pl.Int64),
        )
    )
    guard = Guard()
    frame = guard.checked("power_samples", frame)
    for reason, n, (_, example) in guard.taken():
        report.add("refused", reason, n, example)
    return frame


def _readings(folder: Path, recording: Recording, report: Report) -> list[Reading]:
    """The readings that count: a recording that was killed may have left more, or a torn line."""
    path = folder / POWER
    lines = path.read_bytes()[: recording.power_bytes].splitlines() if path.is_file() else []
    found = []
    for line in lines:
        try:
            found.append(codec.load(Reading, line.decode()))
        except (ValueError, RecursionError) as error:
            report.add("lost", f"damaged lines of {POWER}", 1, str(error))
    return found


def _frame(kind: type[Any], rows: Sequence[Any]) -> pl.DataFrame:
    """Rows of a dataclass, with its fields as columns."""
    schema = {field.name: TYPES[str(field.type).split()[0]] for field in dataclasses.fields(kind)}
    return frame_of([dataclasses.asdict(row) for row in rows], schema)
