"""Iterations: the profiler's steps, repeats without any annotation, behind tuning, and what only looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kerneldb
from kerneldb.api import Database
from tests.answers.plain_traces import Recording
from tests.rocprof.databases import CALLS, TORCH, Kernel, Process, fill, rocpd, views

STEADY_NS = 42_176_528
"""Cast, GEMM and epilogue of the gfx1151 document: 951,516 + 40,185,627 + 1,039,385 ns, 42.18 ms."""


def tuned(path: Path, behind: int = 0) -> Path:
    """The document's run behind tuning: forty candidates, each behind a fill (as Triton benchmarks), eight times."""
    candidates = [Kernel(f"Cijk_candidate_{number}", (4096, 64, 1), (128, 1, 1), [1]) for number in range(40)]
    with rocpd(path) as connection:
        process = Process(connection)
        at = 1_000_000_000_000
        for candidate in candidates:
            flush = Kernel("vectorized_fill", (65536, 1, 1), (256, 1, 1), [20_000] * 8)
            run = Kernel(candidate.name, candidate.grid, candidate.workgroup, [3_000_000] * 8)
            fill(process, (flush, run), at)
            at += 40_000_000
        fill(process, TORCH, at)
        extra = [Kernel(f"checksum_{number}", (64, 1, 1), (64, 1, 1), [5_000]) for number in range(behind)]
        fill(process, extra, at + 2_000_000_000)
        views(connection, [process.suffix])
    return path


BEHIND = 2
"""Launches behind those that matter."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("tuned")
    database = kerneldb.open(folder / "k.duckdb")
    database.ingest(tuned(folder / "tuned.db", BEHIND), name="tuned")
    return database


@pytest.mark.again
def test_tuning_in_front_is_no_iteration(database: Database) -> None:
    """640 launches of tuning, in runs longer than the 69 that matter, stand in front of them."""
    sums = "count(*) AS n, sum(duration_ns)::BIGINT AS ns"
    sql = f"SELECT short_name, {sums} FROM kernels WHERE steady_state GROUP BY short_name"
    rows = database.sql(sql).rows()
    assert [row["n"] for row in rows] == [CALLS] * 3
    assert round(sum(row["ns"] for row in rows) / CALLS) == STEADY_NS
    steady_state = database.sql(
        "SELECT count(*) AS n, avg(total_ns) AS ns FROM iterations('kernels') WHERE steady_state"
    ).rows()
    assert steady_state == [{"n": CALLS, "ns": pytest.approx(STEADY_NS)}]
    outside = database.sql("SELECT label, launches FROM iterations('kernels') WHERE iteration IS NULL ORDER BY label")
    assert outside.rows() == [{"label": "after", "launches": BEHIND}, {"label": "before", "launches": 640}]


def test_the_column_is_what_the_macro_finds(database: Database) -> None:
    """Written when the trace is committed; the macro finds it anew."""
    sql = """
        SELECT count(*) AS n, count(*) FILTER (
            k.iteration IS DISTINCT FROM i.iteration OR k.steady_state IS DISTINCT FROM i.steady_state
        ) AS different
        FROM kernels AS k LEFT JOIN _iteration_launches('kernels') AS i USING (trace, launch_index)
    """
    assert database.sql(sql).rows() == [{"n": 640 + 3 * CALLS + BEHIND, "different": 0}]


def test_a_where_text_may_name_them(database: Database) -> None:
    rows = database.top("trace", where="steady_state AND category = 'GEMM'").rows()
    assert [row["n"] for row in rows] == [CALLS]


@pytest.mark.again
def test_decode_steps_are_found_without_annotations(shared_data: Path, tmp_path: Path) -> None:
    """Eight decode steps of 657 launches behind a prefill; in the first and last, one kernel has another name."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "pytorch" / "bloom-560m.json.gz")
    rows = database.sql("FROM iterations('kernels') WHERE iteration IS NOT NULL").rows()
    assert {row["method"] for row in rows} == {"period"}
    assert [row["launches"] for row in rows] == [657] * 8
    assert all(row["steady_state"] for row in rows)
    launches = database.sql("SELECT count(*) AS n FROM kernels WHERE steady_state").rows()
    assert launches == [{"n": 8 * 657}]


@pytest.mark.again
def test_layers_of_one_step_are_not_sold_as_iterations(shared_data: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "pytorch" / "gpt2-train.json.gz")
    rows = database.sql("FROM iterations('kernels')").rows()
    assert {row["steady_state"] for row in rows if row["iteration"] is not None} == {None}
    assert all(row["covered_pct"] < 80 for row in rows)
    assert database.sql("SELECT count(*) AS n FROM kernels WHERE steady_state").rows() == [{"n": 0}]


@pytest.mark.thorough
def test_steps_of_the_profiler_are_iterations(shared_data: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "pytorch" / "kineto-tb-resnet50-workers0.json.gz")
    rows = database.sql("FROM iterations('kernels')").rows()
    assert {row["method"] for row in rows} == {"annotation"}
    assert len(rows) >= 4
    assert all(row["label"].startswith("ProfilerStep#") for row in rows)
    assert [row["iteration"] for row in rows] == list(range(len(rows)))


def test_launches_outside_of_the_steps_are_kept(tmp_path: Path) -> None:
    """Two before the first step, one between two of them, three behind the last; each with the time of its call."""
    recording = Recording()
    for number, call in enumerate((-90_000, -60_000, 1_000, 20_000, 45_000, 51_000, 70_000, 101_000, 120_000, 140_000)):
        recording.kernel(f"kernel_{number % 4}", call + 8_000, 5_000, call=call)
    recording.step(0, 0, 40_000)
    recording.step(1, 50_000, 50_000)
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(recording.write(tmp_path / "made.json"))
    sql = "SELECT iteration, label, launches, steady_state, covered_pct FROM iterations('kernels') ORDER BY start_ns"
    found = [tuple(row.values()) for row in database.sql(sql).rows()]
    assert found == [
        (None, "before", 2, False, 40),
        (0, "ProfilerStep#0", 2, True, 40),
        (None, "between", 1, False, 40),
        (1, "ProfilerStep#1", 2, True, 40),
        (None, "after", 3, False, 40),
    ]
    rows = database.sql("SELECT steady_state, count(*) AS n FROM kernels GROUP BY ALL ORDER BY steady_state").rows()
    assert rows == [{"steady_state": False, "n": 6}, {"steady_state": True, "n": 4}]


def test_a_device_without_steps_has_its_period(tmp_path: Path) -> None:
    """The first GPU works in two steps; what the second repeats was launched behind them."""
    recording = Recording()
    for number in range(6):
        recording.kernel(f"kernel_{number % 3}", 2_000 + 10_000 * number, 5_000, call=1_000 + 10_000 * number)
    recording.step(0, 0, 30_000)
    recording.step(1, 30_000, 30_000)
    for number in range(8):
        start = 102_000 + 10_000 * number
        recording.kernel(f"other_{number % 2}", start, 5_000, call=start - 1_000, device=1)
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(recording.write(tmp_path / "made.json"))
    sql = "SELECT device, method, iteration, launches, steady_state FROM iterations() ORDER BY device, start_ns"
    found = [tuple(row.values()) for row in database.sql(sql).rows()]
    assert found == [
        *((0, "annotation", number, 3, True) for number in range(2)),
        *((1, "period", number, 2, True) for number in range(4)),
    ]
    sql = "SELECT device, iteration, count(*) AS n FROM kernels WHERE steady_state GROUP BY ALL ORDER BY ALL"
    assert [tuple(row.values()) for row in database.sql(sql).rows()] == [
        *((0, number, 3) for number in range(2)),
        *((1, number, 2) for number in range(4)),
    ]


def test_a_trace_without_repeats_has_none(tmp_path: Path) -> None:
    path = tmp_path / "once.db"
    with rocpd(path) as connection:
        process = Process(connection)
        fill(process, [Kernel(f"kernel_{number}", (64, 1, 1), (64, 1, 1), [1_000]) for number in range(9)])
        views(connection, [process.suffix])
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(path)
    assert database.sql("FROM iterations('kernels')").rows() == []
    assert database.sql("SELECT DISTINCT iteration, steady_state FROM kernels").rows() == [
        {"iteration": None, "steady_state": None}
    ]
