"""Regions of a part: API calls, roctx ranges, and allocations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from kerneldb.ingest.amd.host import CORE_MARKER, Host, is_range
from kerneldb.ingest.amd.memory import memory_rows
from kerneldb.ingest.amd.output import Output
from kerneldb.ingest.amd.ranges import Marker
from kerneldb.ingest.amd.shapes import Shapes
from kerneldb.ingest.rocpd.activities import PLACED
from kerneldb.ingest.rocpd.dimensions import Dimensions, parsed

REGION: Final[dict[str, type[pl.DataType]]] = {
    **PLACED,
    "name_id": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "category_id": pl.Int64,
    "stack_id": pl.Int64,
    "correlation_id": pl.Int64,
}
MARKED: Final[dict[str, type[pl.DataType]]] = {**REGION, "event_extdata": pl.String}
ALLOCATION: Final[dict[str, type[pl.DataType]]] = {
    **PLACED,
    "type": pl.String,
    "level": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "address": pl.Int64,
    "size": pl.Int64,
}
CALL_KEYS: Final = (*PLACED, "name_id", "category_id")
PROCESS_RANGE: Final = ("roctxProcessRange", "roctxRangeStart")
SAMPLED: Final = re.compile(r"((timer|overflow|process)_)?sampling")
"""Domains of what rocprof-sys finds on the stack now and then: no calls."""
STACK_SAMPLES: Final = "sample of the call stack (not supported)"


def markers(dimensions: Dimensions) -> list[Marker]:
    """The roctx ranges and marks of a part."""
    return [
        _marker(row, dimensions.part.suffix)
        for frame in _of_markers(dimensions)
        for row in frame.filter("is_range").iter_rows(named=True)
        if row["start"] is not None and row["end"] is not None
    ]


def read_calls(dimensions: Dimensions, host: Host) -> int:
    """Write all other regions as calls; returns how many regions there are, ranges included."""
    read = 0
    for frame in _of_markers(dimensions):
        read += frame.height
        host.add(dimensions.part.suffix, _as_calls(frame.filter(~pl.col("is_range"))))
    known = dimensions.part.has_category("rocpd_region")
    sampled = _categories(dimensions, SAMPLED) if known else []
    skipped = _count_of(dimensions, sampled)
    host.skip(STACK_SAMPLES, skipped)
    apart = [*_categories(dimensions, CORE_MARKER), *sampled] if known else []
    places = ", ".join("?" * len(apart))
    where = f"E.category_id IS NULL OR E.category_id NOT IN ({places})" if apart else ""
    shapes = Shapes(
        CALL_KEYS, lambda distinct: _named(dimensions, distinct).select("process", "thread", "kind", "name")
    )
    for frame in dimensions.part.frames("rocpd_region", REGION, where, apart):
        read += frame.height
        host.add(dimensions.part.suffix, _as_calls(frame.drop(CALL_KEYS).hstack(shapes.described(frame))))
    return read + skipped


def read_memory(dimensions: Dimensions, output: Output, first: int) -> int:
    """Write allocations and releases, numbered from `first`; returns how many there are."""
    frame = dimensions.placed(dimensions.part.frame("rocpd_memory_allocate", ALLOCATION))
    given = frame.with_columns(
        dimensions.device_of(frame["agent_id"]).alias("device"),
        operation="type",
        start_ns="start",
        end_ns="end",
        bytes="size",
    )
    output.saw(given)
    output.write("memory_events", memory_rows(given, first))
    return frame.height


def _categories(dimensions: Dimensions, wanted: re.Pattern[str]) -> list[int]:
    return [key for key, name in dimensions.categories.items() if wanted.fullmatch(name)]


def _count_of(dimensions: Dimensions, categories: list[int]) -> int:
    """Regions of these categories."""
    if not categories:
        return 0
    where = f"E.category_id IN ({', '.join('?' * len(categories))})"
    only = {"category_id": pl.Int64}
    return sum(frame.height for frame in dimensions.part.frames("rocpd_region", only, where, categories))


def _of_markers(dimensions: Dimensions) -> Iterator[pl.DataFrame]:
    marked = _categories(dimensions, CORE_MARKER)
    if not marked or not dimensions.part.has_category("rocpd_region"):
        return
    where = f"E.category_id IN ({', '.join('?' * len(marked))})"
    for frame in dimensions.part.frames("rocpd_region", MARKED, where, marked):
        named = _named(dimensions, frame)
        flags = [is_range(kind, name) for kind, name in named.select("kind", "name").iter_rows()]
        yield named.with_columns(pl.Series("is_range", flags, dtype=pl.Boolean))


def _named(dimensions: Dimensions, frame: pl.DataFrame) -> pl.DataFrame:
    kinds = pl.col("category_id").replace_strict(dimensions.categories, default=None, return_dtype=pl.String)
    names = dimensions.text_of(frame["name_id"]).fill_null("")
    return dimensions.placed(frame).with_columns(names.alias("name"), kind=kinds)


def _as_calls(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        "process",
        "thread",
        "kind",
        "name",
        start_ns="start",
        end_ns="end",
        correlation_id="stack_id",
        external_id=pl.when(pl.col("correlation_id") != 0).then("correlation_id"),
    )


def _marker(row: dict[str, Any], part: str) -> Marker:
    """The text stands in the event (rocprof-sys: as the name); a range of the process belongs to no thread."""
    text = parsed(row["event_extdata"]).get("message")
    shared = str(row["name"]).startswith(PROCESS_RANGE)
    return Marker(
        row["process"],
        None if shared else row["thread"],
        str(text) if text else str(row["name"]),
        row["start"],
        row["end"],
        row["stack_id"],
        part,
    )
