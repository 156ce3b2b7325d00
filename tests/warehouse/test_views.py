"""What views and macros say, and that they are cheap to ask for one trace."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kerneldb.batch import Manifest
from kerneldb.errors import QueryError
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse

Make = Callable[..., Manifest]
Row = dict[str, Any]

SUMMED = {
    "time_by category": "time_by('category'{})",
    "time_by family": "time_by('category, family, library'{})",
    "time_by operation": "time_by('category, operation, dtype'{})",
    "time_by op": "time_by('op, inferred_by'{})",
    "time_by phase": "time_by('phase'{})",
    "top_kernels": "top_kernels({})",
    "signature_stats": "signature_stats({})",
}
"""Macros whose rows add up to all launches."""
ASKED = SUMMED | {name: f"{name}({{}})" for name in ("gpu_time", "stream_time", "counter_coverage")}
PER_TRACE = {
    doc.object: doc.object
    for doc in loader.docs()
    if doc.kind == "view" and (doc.column_name, doc.type) == ("trace", "VARCHAR")
} | {name: call.format("") for name, call in ASKED.items()}
PER_TRACE["window_power"] = "window_power()"
OVER_LAUNCHES = ("kernels", "all_launches", "gpu_time", "stream_time", "window_power")
OVER_METRICS = ("launch_metrics", "launch_counters", "ncu_roofline", "bounds", "normalized_roofline", "ncu_rules")
ACROSS_TRACES = ("counter_coverage", "power_logs", "graph_owners")
"""What looks for the kernels, the samples or the captures of one trace in the others."""
OVER_EVENTS = {
    "memory_timeline": "memory_events",
    "collective_calls": "ops",
    "captured_calls": "api_calls",
    "cpu_functions": "cpu_samples",
    "source_hotspots": "source_counters",
}


def over(call: str, relation: str) -> str:
    """The call of a macro over a relation."""
    return call.format(f"source := '{relation}'" if "({" in call else f", source := '{relation}'")


def rows(warehouse: Warehouse, sql: str, **options: Any) -> list[Row]:
    return list(warehouse.query(sql, **options).to_pylist())


def comparable(table: list[Row], columns: list[str]) -> list[tuple[Any, ...]]:
    """Rows in a fixed order, floats to 9 digits."""
    rounded = [tuple(f"{row[c]:.9g}" if isinstance(row[c], float) else row[c] for c in columns) for row in table]
    return sorted(rounded, key=repr)


@pytest.mark.parametrize("name", ASKED)
def test_everything_is_a_relation_of_all_launches(read: Warehouse, name: str) -> None:
    whole = rows(read, f"FROM {ASKED[name].format('')}")
    assert whole
    for sql in (f"FROM {over(ASKED[name], 'kernels')}", f"WITH s AS (FROM kernels) FROM {over(ASKED[name], 's')}"):
        assert comparable(whole, list(whole[0])) == comparable(rows(read, sql), list(whole[0]))


@pytest.mark.parametrize("name", SUMMED)
def test_sums_are_those_of_the_launches(read: Warehouse, name: str) -> None:
    expected = rows(
        read, "SELECT count(*) AS n, sum(duration_ns)::BIGINT AS ns FROM launches WHERE timing = 'timeline'"
    )
    call = SUMMED[name].format("")
    assert rows(read, f"SELECT sum(n)::BIGINT AS n, sum(total_ns)::BIGINT AS ns FROM {call}") == expected
    shares = rows(read, f"SELECT trace, round(sum(share_pct), 9) AS pct FROM {call} GROUP BY trace ORDER BY 1")
    assert [row["pct"] for row in shares] == [100, 100, 100]


def test_every_launch_is_there_once_and_kernels_has_what_ran(read: Warehouse) -> None:
    assert rows(read, "SELECT count(*) AS n FROM all_launches") == rows(read, "SELECT count(*) AS n FROM launches")
    expected = rows(read, "SELECT trace_id, launch_index FROM launches WHERE timing = 'timeline' ORDER BY ALL")
    assert rows(read, "SELECT trace_id, launch_index FROM kernels ORDER BY ALL") == expected
    sql = "SELECT trace_id, launch_index FROM all_launches WHERE is_primary ORDER BY ALL"
    assert rows(read, sql) == expected
    found = rows(read, "SELECT trace, name, arch, op, phase FROM selection", where="trace = 'one' AND start_ns = 410")
    assert found == [
        {"trace": "one", "name": "add<float>(int)", "arch": "sm_90", "op": "aten::add", "phase": "prefill"}
    ]


def test_devices_named_twice_do_not_double_launches(warehouse: Warehouse, make_trace: Make) -> None:
    warehouse.commit(make_trace("one"))
    warehouse.query("INSERT INTO devices BY NAME SELECT 't:one' AS trace_id, 0 AS device, 'gfx942' AS arch", write=True)
    assert rows(warehouse, "SELECT count(*) AS n, count(arch) AS known FROM all_launches") == [{"n": 11, "known": 0}]


def test_launch_without_dimensions_stays(filled: Warehouse) -> None:
    for table in ("signatures", "kernel_names", "devices", "traces"):
        filled.query(f"DELETE FROM {table}", write=True)
    for view in ("kernels", "all_launches"):
        assert rows(filled, f"SELECT count(*) AS n FROM {view}") == rows(filled, "SELECT count(*) AS n FROM launches")


def test_signature_stats_of_one_signature(read: Warehouse) -> None:
    (row,) = rows(read, "FROM signature_stats() WHERE trace = 'one' AND op = 'aten::mm'")
    assert (row["n"], row["total_ns"], row["min_ns"], row["max_ns"]) == (2, 210, 100, 110)
    assert row["stddev_ns"] == pytest.approx(50**0.5)
    chosen = "trace = 'one' AND op = 'aten::mm'"
    (selected,) = rows(read, "FROM signature_stats('selection')", where=chosen)
    assert (selected["total_ns"], selected["share_pct"]) == (210, 100)
    (exact,) = rows(read, "FROM launch_quantiles('selection')", where=chosen)
    assert (exact["n"], exact["p50_ns"], exact["p95_ns"]) == (2, 105, 109.5)


def test_histogram_quantiles_are_close(warehouse: Warehouse, make_trace: Make, launch: type[Any]) -> None:
    durations = [1000 + 37 * number % 977 + number**2 % 60_000 for number in range(4000)]
    launches = tuple(
        launch("gemm", number * 100_000, duration, stream=number % 3) for number, duration in enumerate(durations)
    )
    warehouse.commit(make_trace("one", launches))
    (near,) = rows(warehouse, "FROM signature_quantiles")
    (exact,) = rows(warehouse, "FROM launch_quantiles('kernels')")
    for column in ("p50_ns", "p90_ns", "p95_ns", "p99_ns"):
        assert near[column] == pytest.approx(exact[column], rel=0.023)
    assert near["n"] == exact["n"] == 4000


def union(intervals: list[tuple[int, int]]) -> set[int]:
    return {tick for start, end in intervals for tick in range(start, end)}


def test_gpu_time_against_counted_nanoseconds(read: Warehouse) -> None:
    launches = rows(read, "FROM selection", where="trace = 'one' AND timing = 'timeline' AND end_ns IS NOT NULL")

    def ticks(keep: Callable[[Row], bool]) -> set[int]:
        return union([(row["start_ns"], row["end_ns"]) for row in launches if keep(row)])

    copies = ticks(lambda row: row["kind"] == "memcpy")
    talk = ticks(lambda row: row["category"] == "COMMUNICATION")
    work = ticks(lambda row: row["kind"] != "memcpy" and row["category"] != "COMMUNICATION")
    everything = copies | talk | work
    total = sum(row["duration_ns"] for row in launches)
    (row,) = rows(read, "FROM gpu_time() WHERE trace = 'one'")
    assert row == {
        "trace": "one",
        "device": 0,
        "n": 9,
        "start_ns": 0,
        "end_ns": 623,
        "span_ns": 623,
        "busy_ns": len(everything),
        "idle_ns": 623 - len(everything),
        "busy_pct": pytest.approx(100 * len(everything) / 623),
        "total_ns": total,
        "kernel_ns": sum(row["duration_ns"] for row in launches if row["kind"] == "kernel"),
        "overlap_ns": total - len(everything),
        "computation_ns": len(work),
        "total_communication_ns": len(talk),
        "exposed_communication_ns": len(talk - work),
        "total_memcpy_ns": len(copies),
        "exposed_memcpy_ns": len(copies - talk - work),
    }


def test_devices_have_their_own_time(warehouse: Warehouse, make_trace: Make, launch: type[Any]) -> None:
    launches = (launch("gemm", 0, 10), launch("gemm", 0, 10, device=1), launch("gemm", 5, 10, device=1, stream=8))
    warehouse.commit(make_trace("one", launches))
    found = rows(warehouse, "SELECT device, busy_ns, overlap_ns FROM gpu_time()")
    assert found == [{"device": 0, "busy_ns": 10, "overlap_ns": 0}, {"device": 1, "busy_ns": 15, "overlap_ns": 5}]
    assert [row["busy_ns"] for row in rows(warehouse, "FROM stream_time()")] == [10, 10, 10]


def test_report_counts_where_the_run_has_no_launches(warehouse: Warehouse, make_trace: Make) -> None:
    report = {
        "origin": "report",
        "signature_id": "s:gemm:0:",
        "timing": "timeline",
        "n": 4,
        "total_ns": 400,
        "timed": 4,
    }
    make = {"launches": (), "reports": (report,), "kind": "summary"}
    other = {**make, "reports": ({**report, "n": 5, "total_ns": 500, "timed": 5},)}
    warehouse.commit(make_trace("alone", **make))
    warehouse.commit(make_trace("export", **other, source="nsys", stated_run="job"))
    assert [row["trace"] for row in rows(warehouse, "FROM top_kernels() ORDER BY trace")] == ["alone", "export"]
    warehouse.commit(make_trace("timeline", source="nsys", stated_run="job"))
    assert {row["trace"] for row in rows(warehouse, "FROM top_kernels()")} == {"alone", "timeline"}


def test_matches_by_id_launch_and_name(warehouse: Warehouse, make_trace: Make, launch: type[Any]) -> None:
    linked, bare = launch("gemm", 0, 5, op="aten::mm"), launch("gemm", 0, 5)
    warehouse.commit(make_trace("pytorch", (linked, launch("add", 9, 5), launch("gemm", 20, 5, grid=2))))
    assert rows(warehouse, "FROM signature_matches") == []
    warehouse.commit(make_trace("nsys", (bare, launch("add", 9, 5))))
    warehouse.commit(make_trace("other", (launch("gemm", 0, 5, grid=5),), arch="gfx942"))
    found = rows(warehouse, "FROM signature_matches ORDER BY ALL")
    assert [tuple(row.values()) for row in found] == [
        ("s:add:1:", "s:add:1:", "signature", 1),
        ("s:gemm:1:", "s:gemm:1:aten::mm", "launch_key", 1),
        ("s:gemm:1:", "s:gemm:2:", "match_name", 1),
        ("s:gemm:1:aten::mm", "s:gemm:1:", "launch_key", 1),
        ("s:gemm:2:", "s:gemm:1:", "match_name", 1),
    ]


def test_unknown_architecture_matches(warehouse: Warehouse, make_trace: Make, launch: type[Any]) -> None:
    warehouse.commit(make_trace("pytorch", (launch("gemm", 0, 5, op="aten::mm"),)))
    warehouse.commit(make_trace("csv", (launch("gemm", 0, 5),), arch=None))
    assert len(rows(warehouse, "FROM signature_matches")) == 2


@pytest.fixture
def plain(filled: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    """A plain client with relations of the same names, and the warehouse under another name."""
    with duckdb.connect() as con:
        for name in ("launches", "kernels", "traces", "rollups", "kernel_rollups", "signatures"):
            con.execute(f"CREATE TABLE {name} (nothing INTEGER)")
        con.execute(f"ATTACH '{filled.path}' AS other (READ_ONLY)")
        yield con


def test_views_work_under_another_name(filled: Warehouse, plain: duckdb.DuckDBPyConnection) -> None:
    names = [doc.object for doc in loader.docs() if doc.column_name is None and "view" in doc.kind]
    theirs = {name: plain.sql(f"FROM other.{name}").to_arrow_table() for name in names}
    plain.close()
    with filled.connection():
        for name in names:
            ours = filled.query(f"FROM {name}")
            assert theirs[name].column_names == ours.column_names, name
            columns = ours.column_names
            assert comparable(theirs[name].to_pylist(), columns) == comparable(ours.to_pylist(), columns), name


@pytest.mark.parametrize(("name", "call"), [("gpu_time", "gpu_time()"), ("time_by", "time_by(keys)")])
def test_a_macro_asked_like_a_table_says_how_it_is_asked(read: Warehouse, name: str, call: str) -> None:
    with pytest.raises(QueryError, match=re.escape(f"\n{name} is a macro: FROM {call}")):
        read.query(f"FROM {name}")


def test_macros_work_in_a_file_opened_directly(filled: Warehouse) -> None:
    with duckdb.connect(str(filled.path), read_only=True) as con:
        selected = con.sql("WITH s AS (FROM kernels WHERE trace = 'one' AND op = 'aten::mm') FROM top_kernels('s')")
        assert [row[8] for row in selected.fetchall()] == [210]


def test_macros_work_after_use(plain: duckdb.DuckDBPyConnection, mixed: tuple[Any, ...]) -> None:
    plain.execute("USE other")
    total = sum(launch.duration or 0 for launch in mixed if launch.timing == "timeline")
    assert plain.sql("SELECT sum(total_ns) FROM time_by('category') WHERE trace = 'one'").fetchall() == [(total,)]


def operators(plan: Any) -> Iterator[Row]:
    """All operators of a profile in JSON; the two DuckDB versions differ in how they nest it."""
    if isinstance(plan, list):
        for part in plan:
            yield from operators(part)
    elif isinstance(plan, dict):
        yield plan
        yield from operators(plan.get("children", []))
        yield from operators(plan.get("operator", []))


def rows_read(plan: str, table: str) -> list[int]:
    """How many rows the scans of `table` hand on."""
    scans = [part for part in operators(json.loads(plan)) if "Table" in part.get("extra_info", {})]
    chosen = [part for part in scans if part["extra_info"]["Table"].rpartition(".")[2] == table]
    keys = ("operator_cardinality", "intermediate_rows")
    return [part[key] for part in chosen for key in keys if key in part]


@pytest.mark.parametrize("name", [name for name in PER_TRACE if name not in (*OVER_METRICS, *ACROSS_TRACES)])
def test_one_trace_reads_its_own_rows_only(read: Warehouse, name: str) -> None:
    tables = {
        "trace_overview": "traces",
        "trace_commits": "traces",
        **dict.fromkeys(OVER_LAUNCHES, "launches"),
        **OVER_EVENTS,
    }
    table = tables.get(name, "rollups")
    (plan,) = rows(read, f"EXPLAIN (ANALYZE, FORMAT json) FROM {PER_TRACE[name]} WHERE trace = 'three'")
    (expected,) = rows(read, f"SELECT count(*) AS n FROM {table} WHERE trace_id = 't:three'")
    assert set(rows_read(plan["explain_value"], table)) == {expected["n"]}


METRICS = """
    INSERT INTO metrics BY NAME
    SELECT trace_id, launch_index, metric, 50 AS value, range AS pass
    FROM launches CROSS JOIN range(1000)
    CROSS JOIN (VALUES ('sm__throughput.avg.pct_of_peak_sustained_elapsed'), ('rule:CPIStall')) AS m (metric)
"""
PRINTS = """
    INSERT INTO launch_prints BY NAME
    SELECT trace_id, launch_index, 't:two' AS primary_trace_id, launch_index AS primary_launch_index
    FROM launches WHERE trace_id = 't:one'
"""
VECTOR = 2048
"""Rows that DuckDB reads at once, be it for a join with nothing."""


@pytest.fixture(scope="module")
def profiled(filled_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """Many metrics of each launch; `one` is a print of `two`."""
    warehouse = Warehouse(shutil.copy(filled_file, tmp_path_factory.mktemp("profiled")))
    for sql in ("UPDATE launches SET timing = 'profiled'", METRICS, PRINTS):
        warehouse.query(sql, write=True)
    with warehouse.connection():
        yield warehouse
    warehouse.release()


@pytest.mark.parametrize(("trace", "prints"), [("three", ["t:three"]), ("two", ["t:one", "t:two"])])
@pytest.mark.parametrize("name", OVER_METRICS)
def test_one_trace_reads_metrics_of_its_prints_only(
    profiled: Warehouse, name: str, trace: str, prints: list[str]
) -> None:
    (plan,) = rows(profiled, f"EXPLAIN (ANALYZE, FORMAT json) FROM {name} WHERE trace = '{trace}'")
    sql = "SELECT count(*) AS n FROM metrics WHERE list_contains($prints::VARCHAR[], trace_id)"
    (expected,) = profiled.query(sql, {"prints": prints}).to_pylist()
    found = rows_read(plan["explain_value"], "metrics")
    assert found
    assert max(found) <= max(expected["n"], VECTOR)


def test_optimizer_gives_the_same_quantiles_over_joins(filled: Warehouse) -> None:
    sql = """
        SELECT s.op, l.phase, median(l.duration_ns) AS m, quantile_cont(l.duration_ns, 0.9) AS q, count(*) AS n
        FROM launches AS l JOIN signatures AS s USING (signature_id) GROUP BY ALL ORDER BY ALL
    """
    with duckdb.connect(str(filled.path), read_only=True) as con:
        optimized = con.sql(sql).fetchall()
        con.execute("PRAGMA disable_optimizer")
        assert con.sql(sql).fetchall() == optimized
