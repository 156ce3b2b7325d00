"""Converts files for tests and reads the parts back."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from kerneldb import ingest
from kerneldb.ingest import Options
from tests.ingest.conversion import Converted

SAME = (
    *("kind", "name", "start_ns", "end_ns", "duration_ns", "device", "stream", "queue", "correlation_id"),
    *(f"{side}_{axis}" for side in ("grid", "block", "reported_grid") for axis in "xyz"),
    *("reported_grid_unit", "registers_reported", "agprs_reported", "sgprs_reported", "registers", "sgprs"),
    *("scratch_bytes", "launch_status", "api_call", "phase", "range_path", "timing", "signature_id"),
)
"""What every format of the same run says of a launch."""


ROOM = Path(tempfile.mkdtemp(prefix="kerneldb-test-rocprof-"))
atexit.register(shutil.rmtree, ROOM, ignore_errors=True)
NUMBERS = itertools.count()
atexit.register(shutil.rmtree, ROOM, ignore_errors=True)


def converted(*paths: Path, options: Options | None = None) -> Converted:
    """The only trace that these files make."""
    (unit,) = ingest.plan(ingest.expand(paths))
    (manifest,) = ingest.convert(unit, ROOM / str(next(NUMBERS)), options or Options())
    return Converted(manifest)


def launch_rows(trace: Converted, *columns: str) -> list[dict[str, Any]]:
    """Columns of the launches in order of time; columns that were not written are NULL."""
    launches = trace.launches.sort("start_ns", "end_ns", "name")
    absent = [pl.lit(None).alias(name) for name in columns if name not in launches.columns]
    return launches.with_columns(absent).select(columns).to_dicts()
