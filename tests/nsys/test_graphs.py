"""CUDA graphs in exports: recorded as a whole, as nsys does unless told otherwise, or node by node."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.ingest import sizes
from tests.ingest.conversion import convert_file
from tests.nsys import exports
from tests.nsys.test_exported import parquet_of

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = (0, 1, 2, sizes.MANY)


@pytest.mark.parametrize("number", NUMBERS)
def test_graphs_as_a_whole(tmp_path: Path, number: int) -> None:
    columns = {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 9, "globalPid": exports.global_pid(111)}
    rows = [{"start": 10 + 10 * one, "end": 15 + 10 * one, **columns, "graphId": one} for one in range(number)]
    extra = {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": rows} if rows else {}
    path = exports.build(tmp_path / "small.sqlite", extra=extra)
    for form in (path, parquet_of(path, tmp_path / "small_pqtdir")):
        converted = convert_file(form, tmp_path / f"spool-{form.name}")
        graphs = converted.launches.filter(kind="graph").sort("start_ns")
        assert graphs["start_ns"].to_list() == [row["start"] for row in rows]
        assert graphs["graph_id"].to_list() == list(range(number))
        assert set(graphs["launch_status"]) <= {"graph"}
        assert converted.report("stored").get("CUDA graph", 0) == number
        assert (
            converted.report("note").get("CUDA graph recorded as a whole: its kernels are not in the export", 0)
            == number
        )


@pytest.mark.parametrize("number", NUMBERS)
def test_graphs_node_by_node(tmp_path: Path, number: int) -> None:
    node = exports.KERNELS[-2]
    kernels = [dataclasses.replace(node, start=2_000_000 + one, node=one) for one in range(number)]
    launches = convert_file(exports.build(tmp_path / "a.sqlite", kernels=kernels), tmp_path / "spool").launches
    made = launches.filter(kind="kernel")
    assert made.height == number
    assert made["graph_node_id"].to_list() == list(range(number))
    assert set(made["launch_status"]) <= {"graph"}
    assert launches.filter(kind="graph").is_empty()


@pytest.mark.parametrize("number", NUMBERS)
def test_graphs_in_the_schema_of_a_real_export(field: Path, tmp_path: Path, number: int) -> None:
    given = field / "nsight" / "nsys-2025.5.2-two-graph-launches.sqlite"
    path = sizes.resized(given, tmp_path / "a.sqlite", ["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"], number)
    counts = convert_file(path, tmp_path / "spool").launches.group_by("kind").agg(pl.len())
    assert dict(counts.iter_rows()) == {"kernel": 3, "memcpy": 1} | ({"graph": number} if number else {})
