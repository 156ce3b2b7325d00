"""Rows of `launches` and `rollups` from what nvprof printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.nsys import values
from kerneldb.ingest.nvprof import printed
from kerneldb.ingest.nvprof.printed import Number, Printed

AXES: Final = {
    f"{shape}_{axis}": f"{shape.capitalize()} {axis.upper()}" for shape in ("grid", "block") for axis in "xyz"
}
PLAIN: Final = {**AXES, "registers": "Registers Per Thread", "context": "Context", "stream": "Stream"}
SHARED: Final = {"static_shared_bytes": "Static SMem", "dynamic_shared_bytes": "Dynamic SMem"}
LAUNCH: Final[Mapping[str, type[pl.DataType]]] = {
    **dict.fromkeys(AXES, pl.Int32),
    "registers": pl.Int32,
    "context": pl.Int64,
    "stream": pl.Int64,
    "device": pl.Int32,
    "device_name": pl.String,
    "name": pl.String,
    "correlation_id": pl.Int64,
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    "end_ns": pl.Int64,
    "bytes": pl.Int64,
    "static_shared_bytes": pl.Int64,
    "dynamic_shared_bytes": pl.Int64,
    "shared_bytes": pl.Int64,
    "quality": pl.String,
}
SUM: Final[Mapping[str, type[pl.DataType]]] = {
    "name": pl.String,
    "n": pl.Int64,
    "timed": pl.Int64,
    "total_ns": pl.Int64,
    "min_ns": pl.Int64,
    "max_ns": pl.Int64,
}


def launches(found: Printed) -> pl.DataFrame:
    """Rows of `launches` with the columns of identity and `device_name`.

    `quality` names what is rounded: starts (six decimals of a second), durations above 1 ns, sizes above 1 byte.
    """
    base = printed.kilobyte(found)
    ran = [row for row in found.rows if not is_event(row["Name"])]
    frame = pl.DataFrame([_launch(found, row, base) for row in ran], schema=dict(LAUNCH))
    frame = frame.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))
    return _kinds(frame).with_columns(timing=pl.lit("timeline"), launch_status=pl.lit("no_launch"))


def is_event(name: str) -> bool:
    """Whether a row is an event of unified memory (a page fault, thrashing) and nothing that a GPU ran."""
    return name.startswith("[Unified Memory ") and "memcpy" not in name.lower()


def sums(found: Printed) -> pl.DataFrame:
    """Rows of `rollups` with the columns of identity: GPU activities, without calls of the API."""
    rows = [_sum(found, row) for row in found.rows if _is_of_gpu(row)]
    frame = pl.DataFrame(rows, schema=dict(SUM))
    return _kinds(frame).with_columns(timing=pl.lit("timeline"), origin=pl.lit("report"))


def _is_of_gpu(row: Mapping[str, str]) -> bool:
    return row.get("Type", printed.GPU) == printed.GPU and not _is_call(row) and not is_event(row["Name"])


def _is_call(row: Mapping[str, str]) -> bool:
    """Before the column Type came, calls of the API had a table of their own behind that of the GPU."""
    name = row["Name"]
    return "Type" not in row and name.startswith(("cuda", "cu")) and name[4:5].isupper() and "(" not in name


def _kinds(frame: pl.DataFrame) -> pl.DataFrame:
    name = pl.col("name")
    return frame.with_columns(kind=values.kind(name), copy_kind=values.copy_kind(name))


def _launch(found: Printed, row: Mapping[str, str], base: int) -> dict[str, Any]:
    name, correlation = printed.name_of(row["Name"])
    device_name, device = printed.device_of(row["Device"])
    start, duration = (printed.time(row[column], found.unit(column)) for column in ("Start", "Duration"))
    shared = {key: _size(found, row, column, base) for key, column in SHARED.items()}
    moved = _size(found, row, "Size", base)
    static, dynamic = (_whole(one) for one in shared.values())
    return {
        **{key: _integer(row.get(column)) for key, column in PLAIN.items()},
        "name": name,
        "correlation_id": correlation if correlation is not None else _integer(row.get("Correlation_ID")),
        "device": device,
        "device_name": device_name,
        "start_ns": _nanoseconds(start),
        "duration_ns": _nanoseconds(duration),
        "end_ns": None,
        "bytes": _whole(moved),
        "static_shared_bytes": static,
        "dynamic_shared_bytes": dynamic,
        "shared_bytes": static + dynamic if static is not None and dynamic is not None else None,
        "quality": _quality(start, duration, moved, list(shared.values())),
    }


def _sum(found: Printed, row: Mapping[str, str]) -> dict[str, Any]:
    number = _integer(row["Calls"])
    read = {key: printed.time(row[column], found.unit(column)) for key, column in TIMES.items()}
    name, _ = printed.name_of(row["Name"])
    return {"name": name, "n": number, "timed": number, **{key: _nanoseconds(one) for key, one in read.items()}}


TIMES: Final = {"total_ns": "Time", "min_ns": "Min", "max_ns": "Max"}


def _size(found: Printed, row: Mapping[str, str], column: str, base: int) -> Number | None:
    return printed.size(row.get(column, ""), found.unit(column), base)


def _quality(
    start: Number | None, duration: Number | None, moved: Number | None, shared: list[Number | None]
) -> str | None:
    checks = {
        "start_rounded": [start],
        "duration_rounded": [duration],
        "bytes_rounded": [moved],
        "shared_rounded": shared,
    }
    return ",".join(name for name, numbers in checks.items() if any(one and one.step > 1 for one in numbers)) or None


def _nanoseconds(number: Number | None) -> int | None:
    return None if number is None else times.whole_ns(number.value)


def _whole(number: Number | None) -> int | None:
    return None if number is None else round(number.value)


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.strip().lstrip("-").isdecimal() else None
