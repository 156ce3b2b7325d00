"""Prints and exports of one capture meet in one run, and its work counts once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import kerneldb
from tests.nsys import exports

if TYPE_CHECKING:
    from pathlib import Path

TOTAL = sum(one.duration for one in exports.KERNELS)
COUNTED = """
    SELECT origin, sum(n)::BIGINT AS n, sum(total_ns)::BIGINT AS total_ns
    FROM kernel_rollups WHERE counted AND kind = 'kernel' GROUP BY origin
"""
FILES = (
    "r23_cuda_gpu_kern_sum.tsv",
    "r23_cuda_gpu_kern_gb_sum.json",
    "r23_cuda_gpu_sum.csv",
    "r23_cuda_gpu_mem_size_sum.json",
    "r23_cuda_gpu_trace.csv",
)


@pytest.fixture
def capture(tmp_path: Path, root: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in FILES:
        shutil.copyfile(root / "tests" / "fixtures" / "nsys" / name, folder / name)
    return folder


def counted(database: kerneldb.Database) -> list[tuple[str, int, int]]:
    return [tuple(row.values()) for row in database.sql(COUNTED).to_arrow().to_pylist()]


def test_the_best_print_of_a_run_counts(tmp_path: Path, capture: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest([capture / FILES[0]])
    assert counted(database) == [("report", len(exports.KERNELS), TOTAL)]
    database.ingest([capture / FILES[1], capture / FILES[2]])
    assert counted(database) == [("report_grid", len(exports.KERNELS), TOTAL)]
    database.ingest([capture])
    assert counted(database) == [("launches", len(exports.KERNELS), TOTAL)]
    exports.build(capture / "r23.sqlite", "2023.4")
    database.ingest([capture])
    assert counted(database) == [("launches", len(exports.KERNELS), TOTAL)]
    runs = database.sql("SELECT DISTINCT run FROM traces").to_arrow().to_pylist()
    assert runs == [{"run": "run/r23"}]


def test_a_capture_with_all_reports_counts_each_kernel_once(tmp_path: Path, root: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest([root / "tests" / "fixtures" / "nsys" / "console_2023.4.csv"])
    assert counted(database) == [("launches", len(exports.KERNELS), TOTAL)]
