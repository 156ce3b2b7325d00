"""Adding, replacing, tagging and removing traces."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kerneldb.batch import MANY_ROWS, PART_ROWS, Manifest, Spool
from kerneldb.errors import TraceExistsError, UsageError, WarehouseError
from kerneldb.warehouse import Warehouse
from kerneldb.warehouse.commit import BLOCKS, ORDER, TABLES
from kerneldb.warehouse.runs import free_name
from tests.warehouse.conftest import Launch, Traces

Make = Callable[..., Manifest]

SLOW_COMMIT = """
import sys, time
from pathlib import Path
from kerneldb.batch import Manifest
from kerneldb.warehouse import Warehouse, commit

def stop(*_):
    Path(sys.argv[3]).touch()
    time.sleep(60)

commit.set_tags = stop  # the last step of a commit: everything is written, nothing committed
Warehouse(sys.argv[1]).commit(Manifest.load(Path(sys.argv[2])), replace=True)
"""


def counts(warehouse: Warehouse) -> dict[str, int]:
    tables = (*TABLES, "trace_tags")
    return {table: warehouse.query(f"SELECT count(*) AS n FROM {table}")["n"][0].as_py() for table in tables}


def one(warehouse: Warehouse, sql: str) -> dict[str, Any]:
    (row,) = warehouse.query(sql).to_pylist()
    return dict(row)


def test_same_content_is_stored_once(warehouse: Warehouse, make_trace: Make) -> None:
    assert warehouse.commit(make_trace("one")).written
    before = counts(warehouse)
    assert not warehouse.commit(make_trace("another name", trace_id="t:one")).written
    assert counts(warehouse) == before
    assert warehouse.trace_name("t:one") == "one"


def test_trace_row_is_completed(warehouse: Warehouse, make_trace: Make) -> None:
    warehouse.commit(make_trace("one", label="x", rank=3), tags={"batch": "8"})
    row = one(warehouse, "SELECT * EXCLUDE (ingested_at), ingested_at > TIMESTAMP '2020-01-01' AS dated FROM traces")
    known = {key: value for key, value in row.items() if value is not None}
    facts = {
        "trace_id": "t:one",
        "name": "one",
        "kind": "timeline",
        "source": "pytorch",
        "base_ns": zlib.crc32(b"one"),
        "label": "x",
        "rank": 3,
    }
    derived = {"run": "one", "primary_timing": "timeline", "is_primary": True}
    assert known == facts | derived | {"launches": 11, "launches_start_ns": 0, "launches_end_ns": 623, "dated": True}
    assert one(warehouse, "SELECT tags['batch'] AS batch FROM trace_overview") == {"batch": "8"}
    assert warehouse.query("FROM kernels", where="tags['batch'] = '8'").num_rows == 10


def test_names_are_unique(warehouse: Warehouse, make_trace: Make) -> None:
    for number in range(3):
        warehouse.commit(make_trace("one", trace_id=f"t:{number}"))
    assert warehouse.traces()["trace"].to_pylist() == ["one", "one (2)", "one (3)"]


def test_free_name() -> None:
    assert free_name("a", set()) == "a"
    assert free_name("a", {"a", "a (2)", "a (4)"}) == "a (3)"


def test_dimensions_are_shared(warehouse: Warehouse, make_trace: Make) -> None:
    warehouse.commit(make_trace("one"))
    warehouse.commit(make_trace("two"))
    for table, key in (("kernel_names", "name_id"), ("signatures", "signature_id"), ("op_calls", "call_id")):
        row = one(warehouse, f"SELECT count(*) AS n, count(DISTINCT {key}) AS ids FROM {table}")
        assert row["n"] == row["ids"] > 0


def test_launches_are_stored_in_order_of_time(warehouse: Warehouse, make_trace: Make) -> None:
    warehouse.commit(make_trace("one"))
    starts = warehouse.query("SELECT start_ns FROM launches ORDER BY rowid")["start_ns"].to_pylist()
    assert starts == sorted(starts)


def test_rollups_are_the_sums_of_launches(filled: Warehouse) -> None:
    launches = pl.DataFrame(filled.query("FROM launches"))
    keys = ["trace_id", "device", "stream", "signature_id", "phase", "timing"]
    rollups = {tuple(row[key] for key in keys): row for row in filled.query("FROM rollups").to_pylist()}
    groups = launches.group_by(keys)
    assert len(rollups) == sum(1 for _ in groups)
    for key, group in groups:
        durations = [value for value in group["duration_ns"].to_list() if value is not None]
        row = rollups[key]
        assert (row["n"], row["timed"], row["origin"]) == (group.height, len(durations), "launches")
        if durations:
            assert (row["total_ns"], row["min_ns"], row["max_ns"]) == (sum(durations), min(durations), max(durations))
            assert row["sum_squares_ns2"] == sum(value**2 for value in durations)
            assert row["median_ns"] == statistics.median(durations)
            bins = [math.floor(16 * math.log2(value)) for value in durations]
            assert dict(row["histogram"]) == {value: bins.count(value) for value in bins}


def test_zero_duration_has_a_bin(warehouse: Warehouse, make_trace: Make, launch: type[Any]) -> None:
    warehouse.commit(make_trace("one", (launch("gemm", 0, 0),)))
    assert dict(one(warehouse, "SELECT histogram FROM rollups")["histogram"]) == {0: 1}


def test_replace_writes_anew_and_keeps_what_users_set(
    warehouse: Warehouse, make_trace: Make, launch: type[Any]
) -> None:
    warehouse.commit(make_trace("one", label="first", stated_run="folder"), tags={"batch": "8"})
    warehouse.rename("one", "mine")
    warehouse.set_run("mine", "job")
    again = make_trace("one", (launch("gemm", 0, 7, grid=9),))
    assert warehouse.commit(again, replace=True).written
    row = one(warehouse, "SELECT trace, run, label, launches, tags['batch'] AS batch FROM trace_overview")
    assert row == {"trace": "mine", "run": "job", "label": "first", "launches": 1, "batch": "8"}
    assert one(warehouse, "SELECT sum(total_ns)::BIGINT AS ns FROM rollups") == {"ns": 7}
    assert warehouse.query("SELECT signature_id FROM signatures")["signature_id"].to_pylist() == ["s:gemm:9:"]


def test_unknown_table_is_refused(warehouse: Warehouse, make_trace: Make) -> None:
    manifest = make_trace("one")
    strange = dataclasses.replace(manifest, parts={**manifest.parts, "moons": manifest.parts["traces"]})
    with pytest.raises(WarehouseError, match="unknown tables moons"):
        warehouse.commit(strange)
    assert set(counts(warehouse).values()) == {0}


def test_unknown_column_is_an_error_and_changes_nothing(warehouse: Warehouse, make_trace: Make) -> None:
    manifest = make_trace("one")
    path = manifest.parts["launches"][0]
    pl.read_parquet(path).with_columns(weather=pl.lit("fine")).write_parquet(path)
    with pytest.raises(WarehouseError, match="weather"):
        warehouse.commit(manifest)
    assert set(counts(warehouse).values()) == {0}


def test_parts_may_have_different_columns(warehouse: Warehouse, make_trace: Make) -> None:
    manifest = make_trace("one")
    extra = manifest.folder / "extra.parquet"
    rows = pl.read_parquet(manifest.parts["launches"][0]).head(1)
    rows.select(
        "trace_id", "kind", "timing", "signature_id", "launch_status", launch_index=99, module=pl.lit("m")
    ).write_parquet(extra)
    manifest.parts["launches"].append(extra)
    warehouse.commit(manifest)
    assert one(warehouse, "SELECT count(*) AS n, count(module) AS m FROM launches") == {"n": 12, "m": 1}


def test_remove_leaves_no_row_behind(filled: Warehouse) -> None:
    filled.query("INSERT INTO annotations VALUES ('s:add:1:aten::add', 'flops', '7', 'me', NULL, 7)", write=True)
    filled.tag("one", {"batch": "8"})
    filled.remove(["one", "two"])
    assert filled.query("SELECT signature_id FROM signatures ORDER BY 1")["signature_id"].to_pylist() == [
        "s:gemm:1:",
        "s:gemm:3:",
    ]
    assert filled.query("SELECT name_id FROM kernel_names")["name_id"].to_pylist() == ["n:gemm"]
    filled.remove("three")
    assert set(counts(filled).values()) == {0}
    assert filled.query("FROM annotations").num_rows == 1


def test_unknown_names_are_refused_with_near_ones(filled: Warehouse) -> None:
    for call in (filled.remove, lambda name: filled.tag(name, {"a": "b"}), lambda name: filled.rename(name, "x")):
        with pytest.raises(UsageError, match="no trace 'thre'; near: three"):
            call("thre")
    assert filled.traces().num_rows == 3


def test_tags(filled: Warehouse) -> None:
    filled.tag(["one", "two"], {"batch": "8", "precision": "fp16"})
    filled.tag("one", {"batch": "16", "precision": None})
    rows = filled.query("SELECT trace, tags FROM trace_overview ORDER BY trace").to_pylist()
    assert {row["trace"]: dict(row["tags"] or {}) for row in rows} == {
        "one": {"batch": "16"},
        "three": {},
        "two": {"batch": "8", "precision": "fp16"},
    }


def test_rename(filled: Warehouse) -> None:
    with pytest.raises(TraceExistsError):
        filled.rename("one", "two")
    filled.rename("one", "one")
    filled.rename("one", "uno")
    assert sorted(filled.traces()["trace"].to_pylist()) == ["three", "two", "uno"]


def _start_commit(warehouse: Warehouse, manifest: Manifest, tmp_path: Path) -> subprocess.Popen[bytes]:
    """A process in the middle of a transaction that has written everything."""
    mark = tmp_path / "written"
    command = [sys.executable, "-c", SLOW_COMMIT, str(warehouse.path), str(manifest.folder), str(mark)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not mark.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """More launches than DuckDB puts into one group of rows."""
    launches = tuple(Launch("gemm", start, 5, grid=77) for start in range(130_000))
    return Traces(tmp_path_factory.mktemp("large"))("one", launches)


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.volume)])
def test_killed_commit_leaves_the_earlier_contents(
    filled: Warehouse, large: Manifest, tmp_path: Path, ending: signal.Signals
) -> None:
    before = counts(filled)
    with _start_commit(filled, large, tmp_path) as process:
        process.send_signal(ending)
        process.communicate(timeout=60)
    assert counts(Warehouse.open(filled.path)) == before
    assert filled.commit(large, replace=True)
    assert one(filled, "SELECT launches FROM traces WHERE name = 'one'") == {"launches": 130_000}


def test_what_goes_wrong_beside_the_reader_is_raised(tmp_path: Path) -> None:
    """Long frames are written by threads: their errors come with a later call, at the latest with the last one."""
    spool = Spool(tmp_path / "spool")
    (tmp_path / "spool").rmdir()
    spool.write("samples", pl.DataFrame({"ts_ns": pl.int_range(MANY_ROWS, eager=True)}))
    with pytest.raises(OSError):  # noqa: PT011 (the system's words)
        spool.finish({"trace_id": "t", "name": "n"})


def test_rows_are_gathered_in_parts_of_a_row_group(tmp_path: Path) -> None:
    """In the order in which they came, however many at a time; other columns begin a part."""
    spool, rows = Spool(tmp_path / "spool"), pl.DataFrame({"ts_ns": pl.int_range(2 * PART_ROWS + 7, eager=True)})
    for part in (rows.head(5), rows.slice(5, PART_ROWS + 1), rows.slice(PART_ROWS + 6), rows.clear()):
        spool.write("samples", part)
    spool.write("samples", pl.DataFrame({"ts_ns": [1], "value": [2.0]}))
    found = [pl.read_parquet(path) for path in spool.paths("samples")]
    assert [part.height for part in found] == [PART_ROWS, PART_ROWS, 7, 1]
    assert pl.concat(found[:3]).equals(rows)


def test_long_parts_leave_out_what_no_row_has(tmp_path: Path) -> None:
    """But for the start: a trace whose launches have none is told by that. Tables that others read keep all columns."""
    spool, numbers = Spool(tmp_path / "spool"), pl.int_range(MANY_ROWS, eager=True)
    nothing = pl.Series([None] * MANY_ROWS, dtype=pl.Int64)
    rows = pl.DataFrame({"number": numbers, "start_ns": nothing, "queue": nothing})
    for table in ("launches", "samples"):
        spool.write(table, rows)
    spool.finish({"trace_id": "t", "name": "n"})
    found = {table: pl.read_parquet(spool.paths(table)) for table in ("launches", "samples")}
    assert found["launches"].equals(rows.drop("queue"))
    assert found["samples"].equals(rows)


@pytest.mark.parametrize("table", ORDER)
def test_rows_in_order_are_not_sorted_again(tmp_path: Path, table: str) -> None:
    """Wherever one is not in its place, all are sorted; a start that is not known belongs behind the others."""
    start, number = ORDER[table]
    numbers = pl.int_range(MANY_ROWS, eager=True).alias(number)
    kept = pl.DataFrame([numbers, (numbers // 2).alias(start).scatter(MANY_ROWS - 1, None)])
    blocks = []
    for rows in (
        kept,
        kept.with_columns(numbers.reverse()),
        kept.with_columns(kept[start].scatter(1, None)),
        kept.head(9),
    ):
        spool = Spool(tmp_path / str(len(blocks)))
        spool.write(table, rows)
        blocks.append(BLOCKS[table](spool.finish({"trace_id": "t", "name": "n"})))
    assert len(set(blocks[1:])) == 1
    assert blocks[0] not in blocks[1:]
