"""What a rocpd file may lack, and values that the database refuses: the rest goes in, and the next file too."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl
import pytest

import kerneldb
from kerneldb import times
from kerneldb.api.ingestion import IngestOptions
from kerneldb.errors import UnreadableTraceError, WarehouseError, WarehouseLockedError
from kerneldb.ingest.rocpd import records
from tests.rocprof.conversion import converted
from tests.rocprof.databases import GUID, TABLES, Kernel, Process, fill, rocpd, views, write_rocpd

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.ingest.output import Output

KERNEL = Kernel("k", (256, 1, 1), (64, 1, 1), [10, 20])


def with_counters(path: Path, known: str = "FETCH_SIZE") -> Path:
    """Two launches; counter 1 is described by the file, counter 99 is not."""
    with rocpd(path) as connection:
        process = Process(connection)
        fill(process, [KERNEL])
        event = process.dispatch(KERNEL, 1, 5_000, 30, 900)
        process.insert("rocpd_info_pmc", id=1, nid=1, pid=process.pid, agent_id=1, name=known, symbol=known)
        for number, value in ((1, 2.0), (99, 7.0), (None, 8.0)):
            process.insert("rocpd_pmc_event", event_id=event, pmc_id=number, value=value)
    return path


def test_a_counter_that_the_file_does_not_describe_has_its_number_as_name(tmp_path: Path) -> None:
    trace = converted(with_counters(tmp_path / "run.db"))
    metrics = trace.table("metrics").sort("value").select("metric", "value").rows()
    assert metrics == [("pmc 99", 7.0), ("pmc without a number", 8.0), ("FETCH_SIZE", 2048.0)]
    reports = dict(trace.table("ingest_reports").select("reason", "n").iter_rows())
    assert reports["value of a counter that the file does not describe, named by its number"] == 2


def without(path: Path, *tables: str, viewed: bool) -> Path:
    """The two launches, with AMD's views or not, and without these tables."""
    suffix = f"_{GUID.replace('-', '_')}"
    with rocpd(with_counters(path)) as connection:
        if viewed:
            views(connection, [suffix])
        for table in tables:
            connection.execute(f'DROP TABLE "{table}{suffix}"')
    return path


OTHERS = [name for name in TABLES if name != "rocpd_kernel_dispatch"]


@pytest.mark.thorough
@pytest.mark.parametrize(("tables", "viewed"), [(OTHERS, False), (OTHERS[::3], True)], ids=["all", "some, with views"])
def test_any_table_but_that_of_launches_may_be_missing(tmp_path: Path, tables: list[str], viewed: bool) -> None:
    """What it would have told is NULL; views of tables that are missing are none."""
    found = {table: converted(without(tmp_path / f"{table}.db", table, viewed=viewed)) for table in tables}
    took = {table: one.launches["duration_ns"].sort().to_list() for table, one in found.items()}
    assert {table: one for table, one in took.items() if one != [10, 20, 30]} == {}


@pytest.mark.thorough
def test_what_is_left_goes_into_the_database(tmp_path: Path) -> None:
    few = ("rocpd_info_agent", "rocpd_info_kernel_symbol", "rocpd_string")
    assert set(few) <= set(OTHERS)
    for table in few:
        without(tmp_path / f"without_{table}.db", table, viewed=False)
    database = kerneldb.open(tmp_path / "k.duckdb")
    outcomes = database.ingest(tmp_path)
    assert {outcome.path.stem.removeprefix("without_") for outcome in outcomes} == set(few)
    assert {(outcome.status, outcome.launches) for outcome in outcomes} == {("ingested", 3)}
    sql = "SELECT trace_id, list(duration_ns ORDER BY duration_ns) AS took FROM launches GROUP BY 1"
    assert [row["took"] for row in database.sql(sql).rows()] == [[10, 20, 30]] * len(few)


def test_virtual_tables_of_unknown_modules_are_none(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "run.db", [KERNEL])
    with rocpd(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        sql = "CREATE VIRTUAL TABLE rocpd_search USING someones_module(text)"
        connection.execute("INSERT INTO sqlite_master VALUES ('table', 'rocpd_search', 'rocpd_search', 0, ?)", (sql,))
    assert converted(path).launches.height == 2


def test_a_launch_of_odd_resources_costs_no_other_file(tmp_path: Path) -> None:
    odd = dataclasses.replace(KERNEL, lds=-1)
    write_rocpd(tmp_path / "a.db", [odd], "gfx942")
    write_rocpd(tmp_path / "b.db", [KERNEL], "gfx942")
    database = kerneldb.open(tmp_path / "k.duckdb")
    assert [outcome.launches for outcome in database.ingest(tmp_path)] == [2, 2]
    sql = "SELECT DISTINCT shared_bytes, theoretical_occupancy IS NULL AS unknown FROM launches ORDER BY 1"
    assert [tuple(row.values()) for row in database.sql(sql).rows()] == [(-1, True), (0, False)]


def test_times_that_no_clock_shows_cost_themselves_only(tmp_path: Path) -> None:
    largest = (1 << 63) - 1
    path = tmp_path / "run.db"
    with rocpd(path) as connection:
        process = Process(connection)
        fill(process, [KERNEL])
        for start, took in ((-10, 30), (1 << 62, 5), (largest - 9, 9), (-largest, 2 * largest)):
            process.dispatch(KERNEL, 1, start, min(took, largest - max(start, 0)), 900)
        process.region("HIP_RUNTIME_API_EXT", "hipFree", (1 << 62) - 1, largest, 901)
    database = kerneldb.open(tmp_path / "k.duckdb")
    (outcome,) = database.ingest(path)
    assert outcome.launches == 6
    sql = "SELECT list(duration_ns ORDER BY duration_ns NULLS LAST) AS took FROM launches"
    assert database.sql(sql).rows() == [{"took": [10, 20, 30, None, None, None]}]
    sql = "SELECT reason, n FROM ingest_reports WHERE outcome = 'refused' ORDER BY reason"
    refused = [(row["reason"], row["n"]) for row in database.sql(sql).rows()]
    assert refused == [
        ("API call with a time that no clock shows", 1),
        ("launch with a time that no clock shows", 3),
    ]


def test_rows_that_the_database_refuses_cost_their_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = records._described

    def wrong(values: pl.DataFrame, info: pl.DataFrame, output: Output) -> pl.DataFrame:
        return right(values, info, output).with_columns(counter=pl.lit(None, dtype=pl.String))

    monkeypatch.setattr(records, "_described", wrong)
    monkeypatch.setattr(times.Guard, "_fitted", lambda _self, _table, frame: frame)  # which leaves out such rows
    bad, good = with_counters(tmp_path / "bad.db"), write_rocpd(tmp_path / "good.db", [KERNEL])
    database = kerneldb.open(tmp_path / "k.duckdb")
    failed, ingested = database.ingest_each([bad, good], IngestOptions())
    assert (failed.status, ingested.status) == ("failed", "ingested")
    assert isinstance(failed.error, UnreadableTraceError)
    assert str(bad) in str(failed.error)
    assert "NOT NULL constraint failed: metrics.metric" in str(failed.error)
    assert database.sql("SELECT count(*) AS n FROM launches").rows() == [{"n": 2}]


@pytest.mark.parametrize("error", [WarehouseError("k.duckdb: disk full"), WarehouseLockedError("k.duckdb: locked")])
def test_errors_of_the_database_end_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: WarehouseError
) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise error

    monkeypatch.setattr("kerneldb.warehouse.Warehouse.commit", refuse)
    with pytest.raises(type(error), match=r"k\.duckdb"):
        kerneldb.open(tmp_path / "k.duckdb").ingest(write_rocpd(tmp_path / "run.db", [KERNEL]))
