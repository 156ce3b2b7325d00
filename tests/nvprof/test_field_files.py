"""Texts of nvprof that other people published, with figures from plain csv: rows of field/README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from kerneldb.ingest.delimited import NO_END
from kerneldb.ingest.ledger import UNKNOWN
from tests.ingest.conversion import convert_file

if TYPE_CHECKING:
    from pathlib import Path


def test_unified_memory_is_no_kernel(field: Path, tmp_path: Path) -> None:
    converted = convert_file(field / "nsight" / "nvprof-unified-memory-gpu-trace.csv.gz", tmp_path / "spool")
    kernels = converted.launches.filter(pl.col("kind") == "kernel")
    assert (kernels.height, kernels["duration_ns"].sum()) == (14_003, 402_140_420)
    assert converted.launches.group_by("kind").len().sort("kind").rows() == [
        ("kernel", 14_003),
        ("memcpy", 2_165),
        ("memset", 1),
    ]
    ids = converted.table("signatures").filter(pl.col("kind") == "kernel").select("name_id")
    names = converted.table("kernel_names").join(ids, on="name_id")["name"]
    assert not names.str.contains("[", literal=True).any()
    skipped = converted.report("skipped")
    assert sum(n for reason, n in skipped.items() if "page faults" in reason) == 69
    assert not any(UNKNOWN in reason for reason in skipped)


def test_a_missing_last_line_end_is_no_damage(field: Path, tmp_path: Path) -> None:
    converted = convert_file(field / "nsight" / "nvprof-no-last-newline.csv", tmp_path / "spool")
    rows = converted.table("rollups").sort("total_ns", descending=True).select("n", "total_ns").rows()
    assert rows == [(45, 542_360_000), (150, 237_430_000), (150, 237_260_000), (10, 117_720_000)]
    assert converted.report("note") == {NO_END: 1}
    assert not any(UNKNOWN in reason for reason in converted.report("skipped"))
