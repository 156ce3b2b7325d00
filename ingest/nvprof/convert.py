"""Converts what nvprof printed or stored."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest, Spool
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import finishing, readers, source, sqlite
from kerneldb.ingest.nsys import exported, facts
from kerneldb.ingest.nsys.printed import device_rows
from kerneldb.ingest.nvprof import printed, rows
from kerneldb.ingest.nvprof.nvvp import NvvpStore
from kerneldb.ingest.occupancy import with_occupancy
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.report import Report
from kerneldb.ingest.signing import IDENTITY, Signer
from kerneldb.ingest.source import Source, trace_id_of

READER_VERSION: Final = 2
TOOL: Final = "nvprof"
ENDINGS: Final = (".gz", ".csv", ".log", ".txt", ".nvvp", ".nvprof", ".sqlite")


def convert(path: Path, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Convert one file into the spool `folder`. Raises NotATraceError and UnreadableTraceError as the parsers do."""
    one = Source(path)
    if not sqlite.is_database(readers.head_of(path).data):
        return _convert_text(one, folder, options, progress)
    with (
        tempfile.TemporaryDirectory(prefix="kerneldb-nvprof-") as place,
        sqlite.open_database(source.local_file(one, Path(place))) as database,
    ):
        conversion = exported.Conversion(NvvpStore(database), [one], folder)
        row = {"source": TOOL, "kind": "timeline", "tool": TOOL, "era": "sqlite", "clock": "capture"}
        return conversion.run(options, _stem(path), row, progress)


def _convert_text(one: Source, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    found = printed.read(_text(one), one.label)
    if progress is not None:
        progress(one.stored_bytes, one.stored_bytes)
    signer, trace_id, spool = Signer(), trace_id_of([one]), Spool(folder)
    made = rows.launches(found) if found.is_trace else rows.sums(found)
    window = times.span(made, "start_ns", pl.col("duration_ns")) if found.is_trace else (None, None)
    if found.is_trace:
        made = _with_devices(spool, made, trace_id).with_row_index("launch_index")
        made = made.with_columns(pl.col("launch_index").cast(pl.Int64))
    signed = signer.sign(made).drop(name for name in IDENTITY if name in made.columns and name != "kind")
    spool.write("launches" if found.is_trace else "rollups", _traced(signed, trace_id, found.is_trace))
    spool.write("signatures", signer.signatures())
    spool.write("kernel_names", signer.names())
    row = finishing.trace_row([one], options, _stem(one.path), **_facts(found, window, made.height))
    file = finishing.file_row(one, "report", len(found.rows))
    return finishing.finish(spool, row, [file], [_report(found, made.height)])


def _text(one: Source) -> str:
    with contextlib.closing(one.blocks()) as blocks:
        text = b"".join(blocks).decode("utf-8", errors="replace")
    if one.damage:
        message = f"{one.label}: {one.damage}. Copy the file again."
        raise UnreadableTraceError(message)
    return text


def _with_devices(spool: Spool, made: pl.DataFrame, trace_id: str) -> pl.DataFrame:
    known = dict(made.select("device", "device_name").unique().drop_nulls().iter_rows())
    devices = device_rows(known)
    spool.write("devices", devices.with_columns(trace_id=pl.lit(trace_id)))
    return with_occupancy(made.drop("device_name"), facts.arch_of_device(devices))


def _traced(signed: pl.DataFrame, trace_id: str, single: bool) -> pl.DataFrame:
    kept = signed if single else signed.drop("kind")
    return kept.with_columns(trace_id=pl.lit(trace_id))


def _facts(found: printed.Printed, window: tuple[Any, ...], height: int) -> dict[str, Any]:
    trace = found.is_trace
    return {
        "kind": "timeline" if trace else "summary",
        "source": TOOL,
        "tool": TOOL,
        "era": f"{'gpu trace' if trace else 'summary'} csv",
        "clock": "capture" if trace else None,
        "window_start_ns": window[0],
        "window_end_ns": window[1],
        "has_shapes": False,
        "has_stacks": False,
        "launches": height if trace else 0,
        "reader_version": READER_VERSION,
    }


def _report(found: printed.Printed, stored: int) -> Report:
    report = Report()
    report.add("stored", "GPU activity" if found.is_trace else "sum over GPU activities", stored)
    events = sum(rows.is_event(row["Name"]) for row in found.rows)
    report.add("skipped", "event of unified memory that is no copy", events)
    report.add("skipped", "sum over calls of the API", len(found.rows) - stored - events)
    report.add("skipped", "line of other programs", found.other_lines)
    return report


def _stem(path: Path) -> str:
    name = path.name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name or path.name
