"""Counters of single instructions in a report: instances of a metric whose correlation ids are addresses of code.

API: Nsight Compute Customization Guide, Python Report Interface (`IMetric.correlation_ids`, `IAction.sass_by_pc`,
`IAction.source_info`). Instances of other metrics have ids of other kinds, at which there is no instruction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from kerneldb.ingest.columns import frame_of
from kerneldb.ingest.ncu.source_page import MOST_ADDRESS, SCHEMA


def addresses(action: Any, metric: Any) -> list[int]:
    """The addresses of the instructions that the instances of a metric belong to; none where they belong to none."""
    if not metric.num_instances() or not getattr(metric, "has_correlation_ids", bool)():
        return []
    ids = metric.correlation_ids()
    found = [ids.as_uint64(index) for index in range(ids.num_instances())]
    return found if found and action.sass_by_pc(found[0]) else []


def counters(action: Any, number: int, name: str, correlated: Mapping[str, tuple[Any, list[int]]]) -> pl.DataFrame:
    """Rows of `source_counters` of a launch, from its metrics with the addresses of their instances."""
    places = sorted({address for _, found in correlated.values() for address in found})
    about = {address: _about(action, order, address) for order, address in enumerate(places)}
    rows = [
        (number, number, name, "sass", *about[address], metric, value)
        for metric, (source, found) in correlated.items()
        for address, value in _values(source, found)
    ]
    return frame_of(rows, SCHEMA)


def _values(metric: Any, found: list[int]) -> Iterator[tuple[int, float]]:
    for index, address in enumerate(found):
        value = metric.value(index)
        if isinstance(value, int | float) and math.isfinite(value):
            yield address, float(value)


def _about(action: Any, order: int, address: int) -> tuple[str | None, int | None, int, int | None, str]:
    """File, line, number, address and text of an instruction."""
    info = action.source_info(address)
    file, line = (None, None) if info is None else (info.file_name() or None, info.line())
    return file, line, order, address if address <= MOST_ADDRESS else None, action.sass_by_pc(address).strip()
