"""The end of a conversion: the rows of the trace itself, its files and its report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from kerneldb.batch import Manifest, Spool
from kerneldb.ingest.options import Options
from kerneldb.ingest.report import Report
from kerneldb.ingest.source import Source, trace_id_of


def trace_row(read: Sequence[Source], options: Options, name: str, **facts: Any) -> dict[str, Any]:
    """A row of `traces`: identity, what the user said about it, and the columns in `facts`.

    `name` is the name where the user gave none. All sources must have been read to their ends.
    """
    stated = {"label": options.label, "default_phase": options.phase, "stated_run": options.run}
    return {**facts, "trace_id": trace_id_of(read), "name": options.name or name, **stated}


def file_row(one: Source, role: str, events: int | None) -> dict[str, Any]:
    """A row of `trace_files` without trace_id, file_index and report. `events` counts rows or records of the file."""
    return {
        "path": one.label,
        "role": role,
        "sha256": one.sha256,
        "bytes": one.decompressed_bytes,
        "compressed_bytes": one.stored_bytes,
        "events": events,
    }


def finish(spool: Spool, row: dict[str, Any], files: Sequence[dict[str, Any]], reports: Sequence[Report]) -> Manifest:
    """Write `traces`, `trace_files` and `ingest_reports` (one report per file, in order), and close the spool.

    Times that were refused are told in the report of the first file.
    """
    reports[0].add_refused(spool)
    for index, (file, report) in enumerate(zip(files, reports, strict=True)):
        of_file = {"trace_id": row["trace_id"], "file_index": index}
        spool.write("trace_files", pl.DataFrame([{**of_file, **file, "report": json.dumps(report.summary())}]))
        columns = [pl.lit(value).alias(name) for name, value in of_file.items()]
        spool.write("ingest_reports", report.rows().with_columns(columns))
    spool.write("traces", pl.DataFrame([row], infer_schema_length=None))
    return spool.finish(row)
