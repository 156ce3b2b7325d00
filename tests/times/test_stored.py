"""Rows that were stored before the guard was there come out as if it had been."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

import kerneldb
from kerneldb.api import IngestOptions
from kerneldb.times import Guard
from kerneldb.warehouse.migrate import refuse_bad_times
from tests.times import inputs

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ("launches", "ops", "api_calls", "ranges", "memory_events", "samples", "rollups", "ingest_reports", "traces")
GIVEN = (
    *(inputs.pytorch, inputs.nsys_kern_exec_trace, inputs.ncu, inputs.rocpd_database, inputs.rpd, inputs.nsys_sums),
)
"""A file of each kind of row that may be stored."""
CHANGED = ("launches", "ops", "api_calls", "ranges", "rollups", "ingest_reports", "traces")
PASSING = ("ingested_at", "iteration", "steady_state", "launches_start_ns", "launches_end_ns", "bin_ns")


def _all_rows(database: Path) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect(database) as con:
        found = {}
        for table in TABLES:
            rows = pl.DataFrame(con.sql(f"SELECT * FROM {table}").to_arrow_table()).to_dicts()
            kept = [{name: value for name, value in row.items() if name not in PASSING} for row in rows]
            found[table] = sorted(kept, key=lambda row: str(sorted(row.items())))
        return found


def _repair(database: Path) -> None:
    with duckdb.connect(database) as con:
        refuse_bad_times(con)


def _given(folder: Path) -> list[Path]:
    """The files of all readers, each in a folder of its own."""
    found: list[Path] = []
    for make in GIVEN:
        place = folder / make.__name__
        place.mkdir()
        made = make(place)
        found += made.paths if isinstance(made, inputs.Input) else [made]
    return found


def _ingested(database: Path, paths: list[Path]) -> None:
    outcomes = list(kerneldb.open(database).ingest_each(paths, IngestOptions()))
    assert [str(outcome.error) for outcome in outcomes if outcome.error] == []
    assert len(outcomes) == len(GIVEN)


@pytest.mark.thorough
def test_stored_rows_become_what_the_guard_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, new, old = _given(tmp_path), tmp_path / "new.duckdb", tmp_path / "old.duckdb"
    _ingested(new, paths)
    with monkeypatch.context() as patch:
        patch.setattr(Guard, "checked", lambda _self, _table, frame: frame)
        _ingested(old, paths)
    with duckdb.connect(old) as con:
        con.execute("UPDATE traces SET window_start_ns = window_start_ns - 7, window_end_ns = window_end_ns + 7e17")
    wanted = _all_rows(new)
    assert all(_all_rows(old)[table] != wanted[table] for table in CHANGED)
    _repair(old)
    found = _all_rows(old)
    for table in TABLES:
        assert found[table] == wanted[table], table
    _repair(old)
    assert _all_rows(old) == found


def test_a_good_database_stays_as_it_is(tmp_path: Path) -> None:
    trace = inputs.Trace()
    trace.launch("aten::mm", "gemm", inputs.T0, 1)
    path = tmp_path / "trace.json"
    path.write_text(inputs.kineto(trace), encoding="utf-8")
    kerneldb.open(tmp_path / "k.duckdb").ingest(path)
    before = _all_rows(tmp_path / "k.duckdb")
    _repair(tmp_path / "k.duckdb")
    assert _all_rows(tmp_path / "k.duckdb") == before
    assert pl.DataFrame(before["launches"])["duration_ns"].to_list() == [5_000]
