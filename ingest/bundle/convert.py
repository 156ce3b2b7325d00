"""Converts a trace of a recording: as any PyTorch trace, with the measurements and readings of its stage added."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError
from kerneldb.ingest import detect
from kerneldb.ingest.bundle import NAME, content
from kerneldb.ingest.bundle.content import Part, Recording
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.pytorch.convert import convert as convert_trace
from kerneldb.ingest.report import Report
from kerneldb.ingest.source import Source

AROUND: Final = ("idle", "context", "gap")
"""Readings that belong to no stage; they go to the first trace of the recording."""
READING: Final = {
    "epoch_ns": pl.Int64,
    "energy_mj": pl.Float64,
    "power_w": pl.Float64,
    "memory_power_w": pl.Float64,
    "sm_mhz": pl.Float64,
    "memory_mhz": pl.Float64,
    "temperature_c": pl.Float64,
    "gpu_util_pct": pl.Float64,
    "memory_util_pct": pl.Float64,
    "throttle": pl.String,
}
MEASUREMENT: Final = {
    "repetition": pl.Int32,
    "quantity": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "unit": pl.String,
    "n": pl.Int64,
    "method": pl.String,
    "reason": pl.String,
    "measured_at": pl.String,
}
OTHER_FILE: Final = "measurements: the trace is not the one that was recorded, copy the folder again"
Frames = Iterator[tuple[str, pl.DataFrame]]


def convert(path: Path, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Write a trace of a recording to a new spool. Raises what the reader of PyTorch traces raises."""
    recording = content.load(path.parent)
    part = recording.part_of(path)
    if part is None:
        message = f"{path}: says what is in a recording. Give its folder: kerneldb ingest {path.parent}"
        raise NotATraceError(message)
    detect.check(Source(path))
    one = Source(path)
    manifest = convert_trace(one, folder, _said(recording, part, options), progress)
    report = _report(recording)
    whole = one.sha256 == part["trace"]["sha256"]
    report.add("lost", OTHER_FILE, int(not whole))
    frames = [*_files(recording, part, report, manifest.trace_id)]
    if whole:
        frames += [*_measurements(recording, part, manifest), *_readings(recording, part, manifest)]
    tags = dict(part.get("tags", {}))
    return _of_job(dataclasses.replace(_with(manifest, frames), tags=tags), _job(recording, part))


def _said(recording: Recording, part: Part, options: Options) -> Options:
    """What the recording says of its trace, where the user says nothing else."""
    known = recording.content
    rank = f"-rank{known['rank']}" if "rank" in known else ""
    return dataclasses.replace(
        options,
        label=options.label or known.get("label"),
        phase=options.phase or part["stage"],
        name=options.name or f"{known['name']}-{_suffix(part)}{rank}",
        run=options.run or known["name"],
    )


def _suffix(part: Part) -> str:
    mode = part["mode"]
    return str(part["stage"]) if mode == "eager" else f"{part['stage']}-{mode.replace('_', '-')}"


def _job(recording: Recording, part: Part) -> dict[str, Any]:
    """Which traces of other ranks this one ran together with: those of the same stage of the recording."""
    known = recording.content
    if "rank" not in known:
        return {}
    job = f"{known['name']}-{_suffix(part)}"
    return {"rank": known["rank"], "world_size": known["world_size"], "stated_job": job}


def _with(manifest: Manifest, frames: list[tuple[str, pl.DataFrame]]) -> Manifest:
    """The manifest with further parts beside those of the trace."""
    parts, rows = dict(manifest.parts), dict(manifest.rows)
    for table, frame in frames:
        if frame.height:
            path = manifest.folder / f"{table}.recording.parquet"
            frame.write_parquet(path, compression="lz4", statistics=False)
            parts[table] = [*parts.get(table, []), path]
            rows[table] = rows.get(table, 0) + frame.height
    return dataclasses.replace(manifest, parts=parts, rows=rows)


def _of_job(manifest: Manifest, said: dict[str, Any]) -> Manifest:
    """The manifest with what is said of its trace."""
    for path in manifest.parts["traces"] if said else ():
        literals = {name: pl.lit(value) for name, value in said.items()}
        pl.read_parquet(path).with_columns(**literals).write_parquet(path, compression="lz4", statistics=False)
    return dataclasses.replace(manifest, trace={**manifest.trace, **said})


def _report(recording: Recording) -> Report:
    """What of the recording is not there."""
    report = Report()
    for name in recording.unfinished():
        report.add("lost", f"{name} was not recorded to its end; kerneldb record … --resume goes on", 1)
    for name in recording.missing():
        report.add("lost", f"{name} of the recording is not in its folder", 1)
    for part in recording.parts:
        if "reason" in part:
            report.add("note", f"{content.label(part)}: {part['reason']}", 1)
    return report


def _files(recording: Recording, part: Part, report: Report, trace_id: str) -> Frames:
    """bundle.json and the Execution Trace, as further files of the trace."""
    beside = part["trace"].get("execution_trace")
    named = [(NAME, "recording"), *([(beside, "execution trace")] if beside else [])]
    rows = [
        _file(recording.folder / name, role) | {"trace_id": trace_id, "file_index": index}
        for index, (name, role) in enumerate(named, 1)
        if (recording.folder / name).is_file()
    ]
    rows[0]["report"] = json.dumps(report.summary())
    yield "trace_files", pl.DataFrame(rows, infer_schema_length=None)
    ids = [pl.lit(trace_id).alias("trace_id"), pl.lit(1).alias("file_index")]
    yield "ingest_reports", report.rows().with_columns(ids)


def _file(path: Path, role: str) -> dict[str, Any]:
    data = path.read_bytes()
    return {
        "path": str(path),
        "role": role,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "compressed_bytes": len(data),
        "events": None,
        "report": None,
    }


def _measurements(recording: Recording, part: Part, manifest: Manifest) -> Frames:
    """Rows of `measurements`: those of the stage, of its trace, and of the device around it."""
    rows = [*part.get("measurements", ()), *part.get("of_trace", ())]
    if "measurements" in part:
        rows += recording.content.get("powers", ())
    common = {
        "trace_id": manifest.trace_id,
        "run": manifest.trace["stated_run"],
        "model": recording.content.get("model"),
        "stage": part["stage"],
        "mode": part["mode"],
        "uuid": recording.content.get("software", {}).get("uuid"),
    }
    frame = pl.DataFrame(_only(rows, MEASUREMENT), schema=MEASUREMENT)
    when = pl.col("measured_at").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    same = {key: pl.lit(value, dtype=pl.String) for key, value in common.items()}
    yield "measurements", frame.with_columns(when, **same)


def _readings(recording: Recording, part: Part, manifest: Manifest) -> Frames:
    """Rows of `power_samples` taken while the stage was measured and traced."""
    first = recording.traced[0] is part
    rows = [
        one
        for one in _lines(recording)
        if (one.get("stage"), one.get("mode")) == (part["stage"], part["mode"]) or (first and one["stage"] in AROUND)
    ]
    frame = pl.DataFrame(_only(rows, READING), schema=READING)
    software = recording.content.get("software", {})
    epoch = manifest.trace.get("clock") == "epoch"
    base = manifest.trace["base_ns"] if epoch else None
    yield (
        "power_samples",
        frame.with_columns(
            trace_id=pl.lit(manifest.trace_id),
            source=pl.lit("record"),
            stage=pl.Series([one["stage"] for one in rows], dtype=pl.String),
            device=pl.lit(software.get("device"), dtype=pl.Int32),
            gpu=pl.lit(software.get("gpu"), dtype=pl.String),
            ts_ns=pl.col("epoch_ns") - pl.lit(base, dtype=pl.Int64),
        ),
    )


def _lines(recording: Recording) -> list[dict[str, Any]]:
    """The readings that count: a recording that was killed may have left more, or a torn line."""
    path = recording.folder / "power.ndjson"
    if not path.is_file():
        return []
    with path.open("rb") as file:
        text = file.read(int(recording.content.get("power_bytes", 0)))
    return [json.loads(line) for line in text.splitlines() if line.endswith(b"}")]


def _only(rows: list[dict[str, Any]], schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: one.get(name) for name in schema} for one in rows]
