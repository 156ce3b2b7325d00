"""The views against figures that an independent script took from the same files (expected-nsight.tsv)."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from tests.conftest import SHARED_DATA

COLUMNS = {
    "GPU Speed Of Light Throughput/Duration": "duration_ns",
    "GPU Speed Of Light Throughput/Compute (SM) Throughput": "compute_pct",
    "GPU Speed Of Light Throughput/Memory Throughput": "memory_pct",
    "GPU Speed Of Light Throughput/DRAM Throughput": "dram_pct",
    "Memory Workload Analysis/Memory Throughput": "dram_bytes_per_second",
    "Memory Workload Analysis/L2 Hit Rate": "l2_hit_pct",
    "Occupancy/Achieved Occupancy": "occupancy_pct",
    "Launch Statistics/Registers Per Thread": "registers",
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_write_bytes",
    "dram__bytes_op_read.sum": "dram_read_bytes",
    "dram__bytes_op_write.sum": "dram_write_bytes",
    "gpu__time_duration.sum": "duration_ns",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute_pct",
    "lts__t_sector_hit_rate.pct": "l2_hit_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_pct",
}
"""Keys of the figures, and the column of `launch_counters` that holds them."""

ALONE = ("deepseek-ocr-v2/", "rtx5070_", "superbench_")
SCALE = {"us": 1e3, "ms": 1e6, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Gbyte/s": 1e9, "Tbyte/s": 1e12}
PRINTED = re.compile(r'^raw "([\d,.]+)" ?(\S*)$')


def figures() -> dict[tuple[str, str], tuple[float, float]]:
    """(file, key) → value and half of its last printed digit, of files that are a trace of their own."""
    found = {}
    path = SHARED_DATA / "expected-nsight.tsv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            key = row["key"].removeprefix("id0.")
            printed = PRINTED.match(row["note"] or "")
            sample = row["sample"].removeprefix("ncu/")
            if key in COLUMNS and printed and row["value"] != "NULL" and sample.startswith(ALONE):
                digits = len(printed[1].partition(".")[2])
                found[sample, key] = (float(row["value"]), 0.5 * 10**-digits * SCALE.get(printed[2], 1))
    return found


FIGURES = figures()


@pytest.fixture(scope="module")
def launches(
    shared_data: Path, deepseek_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """The row of `launch_counters` of each file's first launch."""
    copy = shutil.copy(deepseek_file, tmp_path_factory.mktemp("figures") / "kernels.duckdb")
    database: Database = kerneldb.open(copy)
    samples = sorted({sample for sample, _ in FIGURES})
    database.ingest([shared_data / "ncu" / sample for sample in samples])
    rows = database.sql("FROM launch_counters WHERE launch_index = 0").rows()
    by_name = {row["trace"]: row for row in rows}
    return {sample: by_name[_stem(sample)] for sample in samples}


def _stem(sample: str) -> str:
    return Path(sample).name.removesuffix(".csv").removesuffix(".log")


@pytest.mark.thorough
@pytest.mark.parametrize(("sample", "key"), FIGURES or [pytest.param("", "", marks=pytest.mark.skip("no figures"))])
def test_figure(launches: dict[str, dict[str, Any]], sample: str, key: str) -> None:
    value, half = FIGURES[sample, key]
    assert launches[sample][COLUMNS[key]] == pytest.approx(value, abs=half, rel=1e-12)


def test_there_are_figures(shared_data: Path) -> None:
    assert len(FIGURES) > 200, shared_data
