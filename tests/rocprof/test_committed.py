"""From file to query: every format is committed whole, once, and one run's launches count once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from tests.rocprof.databases import TORCH, Kernel, Process, fill, rocpd, torch_gemm, views
from tests.rocprof.formats import write_csv, write_json
from tests.rocprof.test_csv import AGENTS, COUNTED, COUNTERS, KERNELS_63, ROCPROF_V1, ROCPROF_V2, STATS, written
from tests.rocprof.test_others import rpd
from tests.rocprof.test_rocpd import sampled

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["rpd"]
TOTAL = sum(sum(kernel.durations) for kernel in TORCH)


@pytest.fixture
def database(tmp_path: Path) -> kerneldb.Database:
    return kerneldb.open(tmp_path / "kernels.duckdb")


def rows(database: kerneldb.Database, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in database.sql(query).arrow().to_pylist()]


def test_everything_a_rocpd_file_may_hold(database: kerneldb.Database, tmp_path: Path) -> None:
    path = tmp_path / "all_results.db"
    with rocpd(path) as connection:
        process = Process(connection)
        fill(process, [Kernel("k", (256, 1, 1), (64, 1, 1), [1_000, 2_000])])
        sampled(process)
        process.region("MARKER_CORE_RANGE_API", "roctxThreadRangeA", 0, 10**13, 5, extdata='{"message": "all"}')
        place = {"address": 1, "start": 5, "end": 6, "agent_id": 1, "size": 9}
        process.insert("rocpd_memory_allocate", type="ALLOC", level="REAL", **place, **process.place())
        views(connection, [process.suffix])
    (outcome,) = database.ingest(path)
    assert outcome.error is None
    assert rows(database, "SELECT count(*) AS n FROM kernels WHERE phase = 'all' AND arch = 'gfx1151'") == [(2,)]
    assert rows(database, "SELECT max(power_w) AS w FROM power_samples") == [(300.0,)]
    assert [one.status for one in database.ingest(path)] == ["unchanged"]


@pytest.mark.thorough
def test_other_formats(database: kerneldb.Database, tmp_path: Path, rpd: Path) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    written(folder / "7_kernel_trace.csv", KERNELS_63)
    written(folder / "7_agent_info.csv", AGENTS)
    row = COUNTED.format(dispatch=1, counter="SQ_WAVES", value="1", start=1, end=2)
    written(folder / "8_counter_collection.csv", COUNTERS + row)
    written(folder / "9_kernel_stats.csv", STATS + '"k",4,400,100.0,80.0,50,150,40.0\n')
    written(folder / "results.csv", ROCPROF_V1)
    written(folder / "results_2.csv", ROCPROF_V2)
    outcomes = [*database.ingest(folder), *database.ingest(rpd)]
    assert [one.error for one in outcomes] == [None] * 6
    timed = rows(
        database,
        "SELECT timing, sum(total_ns)::BIGINT AS ns FROM top_kernels() WHERE name = 'k' GROUP BY ALL ORDER BY ALL",
    )
    assert timed == [("profiled", 200), ("summed", 400)]


def test_one_run_counts_once(database: kerneldb.Database, tmp_path: Path) -> None:
    """The same run as rocpd, CSV and JSON in one folder: three traces, one of which counts."""
    folder = tmp_path / "job"
    folder.mkdir()
    source = torch_gemm(folder / "115108_results.db")
    write_csv(source, folder, "115108")
    write_json(source, folder / "115108_results.json")
    outcomes = database.ingest(folder)
    assert [one.error for one in outcomes] == [None] * 3
    assert rows(database, "SELECT count(DISTINCT run) AS n FROM traces") == [(1,)]
    assert rows(database, "SELECT sum(total_ns)::BIGINT AS ns FROM top_kernels()") == [(TOTAL,)]
