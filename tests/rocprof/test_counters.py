"""Counters of AMD GPUs, from file to the answers that show them."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

import kerneldb

if TYPE_CHECKING:
    from pathlib import Path

FETCHED = "rocprofv3_gfx1151_llamacpp_decode_fetch_counter_collection.csv"
GEMM = "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1"


@pytest.fixture(scope="module")
def database(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> kerneldb.Database:
    made = kerneldb.open(tmp_path_factory.mktemp("counters") / "kernels.duckdb")
    made.ingest([shared_data / "rocprof" / name for name in (FETCHED, "synthetic_gfx1151_full.db")])
    return made


def test_fetched_bytes_are_bytes_read_from_memory(database: kerneldb.Database, shared_data: Path) -> None:
    """ROCm prints FETCH_SIZE in KiB."""
    with (shared_data / "rocprof" / FETCHED).open(newline="") as file:
        expected = sum(float(row["Counter_Value"]) for row in csv.DictReader(file)) * 1024
    sums = "SELECT sum(dram_read_bytes) AS read, count(dram_bytes) AS both FROM launch_counters"
    (row,) = database.sql(sums).rows()
    assert (row["read"], row["both"]) == (expected, 0)  # what was written is not known


def test_counters_beside_a_kernel_trace_are_those_of_the_signature(database: kerneldb.Database) -> None:
    """rocpd keeps both in one file; its launches with counters are no `profiled` ones."""
    found = database.sql(f"""
        SELECT c.metric, c.mean, c.launches
        FROM signature_counters AS c
        INNER JOIN signatures AS s USING (signature_id)
        INNER JOIN kernel_names AS n USING (name_id)
        WHERE n.short_name LIKE '{GEMM}%' AND c.method = 'own'
    """).rows()
    assert {row["metric"]: row["launches"] for row in found}["L2CacheHit"] == 3


@pytest.mark.parametrize("metric", ["FETCH_SIZE", "L2CacheHit"])
def test_show_has_the_counters_of_amd(database: kerneldb.Database, metric: str) -> None:
    asked = f"SELECT signature_id FROM signature_counters WHERE metric = '{metric}' LIMIT 1"
    (row,) = database.sql(asked).rows()
    assert metric in [line["metric"] for line in database.show(row["signature_id"]).tables["counters"]]
