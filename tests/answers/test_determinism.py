"""The same question of the same rows has one answer, in whatever order the rows lie and on however many threads."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import pytest

from kerneldb.api import critical
from kerneldb.report.asking import KEPT
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse, reconciliation
from tests.conftest import made_once

Connection = duckdb.DuckDBPyConnection

pytestmark = pytest.mark.again

SCHEMAS = resources.files("kerneldb.schemas")
QUERIES = {
    file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
    for file in sorted(SCHEMAS.joinpath("queries").iterdir(), key=lambda file: file.name)
}
OBJECTS = {header.name: header.kind for header in loader.headers().values() if header.kind != "table"}
PLAIN = re.compile(r"(?:SELECT \* )?FROM \w+\([^()]*\)")
"""A statement that adds nothing to a macro, which is asked by itself."""
FOLLOWING = (
    "coverage_top", "idle_gaps",
    "report_changed_classes", "report_changed_metrics", "report_reconciliation", "report_collectives", "report_idle",
    "report_overhead", "report_roofline",
)  # fmt: skip
"""What only picks or names the rows of another answer."""
STEPS = (
    "_diff_kernels", "_diff_pairs", "_diff_places", "_diff_sides", "_diff_tests", "_kernel_order", "_kernel_periods",
    "_kernels_by_trace", "_labelled_launches", "_mann_whitney", "_matched", "_repeat_streaks", "_roofline_traffic",
    "_roofline_work", "_step_launches", "_window_energy",
    "_called_time", "_host_doing", "_host_waits", "_main_place", "_own_lines", "_wait_credits", "_wait_debts",
    "_wall_exchanges", "_wall_held",
    "_wall_causes", "_wall_cuts", "_wall_launches", "_wall_ordered", "_wall_pieces", "_wall_places", "_wall_sweep",
    "_wall_threads", "_wall_waits", "_wait_states", "_timeline_bins",
    "_launches_of_jobs",
)  # fmt: skip
"""Parts of other macros, views and statements, which are asked whole."""


def text_of(kind: str, name: str) -> str:
    """The SQL of a VIEW or a MACRO."""
    found = re.split(rf"CREATE OR REPLACE {kind} {name}\b.* AS(?: TABLE)?\n", loader.objects())[-1]
    return found.split(";\n")[0]


def without_comments(sql: str) -> str:
    return re.sub(r"^ *--.*\n", "", sql, flags=re.MULTILINE).strip().removesuffix(";")


VIEWS = [name for name, kind in OBJECTS.items() if kind == "view" and not PLAIN.fullmatch(text_of("VIEW", name))]
MACROS = {name: "'selection'" for name, kind in OBJECTS.items() if kind == "macro"} | {
    "_base_names": "'called'",
    "_reconciliation_flows": "'launched'",
    "_reconciliation_launches": "'selection', '_reconciliation_workloads'",
    "_reconciliation_steps": "'selection', '_reconciliation_workloads'",
    "_reconciliation_sums": "'launched'",
    "_counter_coverage": "'kernel_rollups'",
    "counter_histogram": "'my__counter.sum', 'selection'",
    "diff": "'before', 'after', threshold := 0.0",
    "diff_by": "'before', 'after', 'kernel'",
    "diff_classes": "'counters', 'counters after'",
    "_first_matches": "'matches'",
    "diff_metrics": "'counters', 'counters after'",
    "metric_histogram": "'duration_ns', 'selection'",
    "_names_agree": "'pairs'",
    "_printed_digits": "'prints'",
    "_profiled_matches": "'counters', 'counters after'",
    "_sums_by": "'kernel_rollups', 'category'",
    "time_by": "'category, op', 'selection'",
    "_traces_named": "'*'",
    "_value_histogram": "'valued'",
    "same_code": "'s0b'",
    "window_power": "",
}
"""What each macro is asked; a new one is asked about the selection."""
VALUES = ("_cache_order", "_is_library_frame", "_two_sided_p")
"""Macros that are a value and no table."""

ORDERED = re.compile(r"^ORDER BY|^(?:FROM|SELECT).* ORDER BY ", re.MULTILINE)
"""The order of the rows of a statement; that of a common table expression is indented."""
ORDERED_WITHIN = re.compile(r"report_|same_code_of")
"""Statements whose rows come in the order that a macro gives them."""

ASKED = [name for name, sql in QUERIES.items() if name not in FOLLOWING and not PLAIN.fullmatch(without_comments(sql))]

NAMES = ["before", "after", "printed"]
IDS = [f"s{number}{side}" for number in range(12) for side in "bag"]
COMMON: dict[str, Any] = {
    "after": "after", "before": "before", "bins": 8, "bound_ns": 24_000, "by": None, "call_id": "c0",
     "cause": "launching", "close": 0.1, "covered": [], "device": 0, "duration_ns": 1000,
     "everything": False, "kind": "short", "least": 1, "least_pct": 0.0, "near_pct": 60,
    "first_ns": 0, "hashes": ["hash 0", "hash 1"], "highest_ns": 24_000, "id": "s0b", "ids": [*IDS, "c0", "c1"],
    "iterations": None, "labels": ["both"], "lane": 0, "lanes": 3, "last_ns": 20_000, "launch_index": None,
    "launches": ["key 0"], "least_ns": 0, "lowest_ns": 0, "most": 30, "name": "*", "name_ids": ["n0", "n1"],
    "names": NAMES, "numbers": [0, 1], "object": "kernels", "ordinal": 0, "prefix": "s", "process": None,
    "language": "triton", "revived": ["printed"], "rule": "ncu", "sure": 0.0,
    "run_ids": ["run 0", "run 1"], "several": False, "shifts": [0, 0], "signature_id": "s0b", "signatures": IDS,
    "sort": "total", "late_rank": 1,
    "start_ns": 0, "step_ns": 3000, "text": "before", "texts": ["kernel_2"], "threshold": 0.0, "times": 3,
    "timing": "timeline", "top": 3, "trace": "before", "trace_id": "id before",
    "trace_ids": ["id before", "id after"],
    "first": 0, "from_ns": 0, "host": False, "label": "ProfilerStep#1", "last": 40, "phase": None, "until_ns": 10**9,
    "traces": ["counters", "counters after"], "wanted": "*", "whole": False,
    "signature": None, "branch": None, "lines": 5, "runs": 9, "series_id": "series", "since": None, "subject": None,
    "version": 1, "workload": None, "at_ns": 0, "forward": True, "sums": True,
}  # fmt: skip
"""A value for each name of a parameter."""
OTHER: dict[str, dict[str, Any]] = {
    "agents_top": {"by": "category", "selected": True},
    "analysis_steady_state": {"names": ["repeats"]},
    "analysis_memory": {"key": "op", "names": None},
    "reconciliation_measured": {"names": None},
    "compare_kernels": {"traces": ["before", "after"]},
    "advice_conversions": {"trace": "graph"},
    "inherit_operators": {"trace_id": "id graph"},
    "inherit_pool": {"trace_id": "id graph"},
    "ncu_names_sums": {"traces": []},
    "replay_found": {"trace_id": "id after"},
    "replay_unrecorded": {"signatures": [name for name in IDS if name.endswith("g")]},
    "report_conversions": {"trace": "graph"},
    "report_counted_sides": {"before": "counters", "after": "counters after"},
    "report_iteration_times": {"trace": "repeats"},
    "report_iterations": {"trace": "repeats"},
    **{
        f"tui_timeline_{part}": {"traces": ["id before", "id after"]}
        for part in ("counters", "gaps", "host", "labels", "longest", "near", "paired", "range", "few", "few_all")
    },
    "replay_below": {"trace_ids": ["id before", "id after"], "outer_ids": [4, 4], "op_ids": [5, 5]},
    "step_recorded": {"traces": 4, "launches": 5000, "graphs": ["id after"]},
    "tui_timeline_around": {"process": "1", "thread": "1", "ts_ns": 5000},
    "tui_timeline_caller": {"trace_id": "id before", "api_index": 5},
    "tui_timeline_linked": {"kind": "API calls", "id": 5},
    "tui_timeline_operator": {"trace_id": "id before", "op_id": 5},
    "tui_timeline_stored": {"traces": ["id before", "id after"], "step_ns": 4096},
    "tui_timeline_search": {"traces": ["id before", "id after"], "text": "kernel"},
    "tui_timeline_previous": {"bound_ns": -1, "start_ns": 9000, "launch_index": 18},
    "tui_timeline_next": {"launch_index": 0},
    "tui_timeline_told": {"launch_index": 5},
    "tui_launch_page": {"traces": ["id before", "id after"], "indexes": [0, 3, 5]},
}
"""What single statements mean by such a name."""

RELATIONS = {
    "selection": "kernels",
    "activities": "kernels",
    "launched": "_reconciliation_launches('_kernels', '_reconciliation_workloads')",
    "page": "kernels",
    "keyed": "(SELECT op AS key, * FROM _as_rollups('kernels'))",
    "named": "all_rollups",
    "sums": "kernel_rollups",
    "whole": "kernel_rollups",
    "chosen": "kernel_rollups",
    "valued": "(SELECT trace, duration_ns::DOUBLE AS value FROM kernels)",
    "called": "(SELECT name_id, name AS called FROM kernel_names)",
    "pairs": "(SELECT short_name AS base, name AS other_base FROM kernel_names)",
    "prints": "(SELECT trace AS report, launch_index, start_ns AS printed_ns FROM kernels)",
    "matches": """(
        SELECT trace_id, launch_index // 4 AS launch_index, trace_id AS other_id, launch_index AS other_index
        FROM launches
    )""",
}
"""What statements read that programs bind."""
FIRST = {
    "laned": "tui_timeline_laned",
    "near": "tui_timeline_near",
    **{f"critical_{part}": f"critical_{part}" for part in critical.PARTS},
    "found_conversions": "report_conversions",
    "found_fusion": "report_fusion",
    "found_wall": "report_wall",
    "found_marks": "report_marks",
    "found_places": "report_places",
    "found_typical": "report_typical",
}
"""Statements whose rows others read."""


def turn(path: Path, other: Path) -> None:
    """Copy a database, with the rows of each table the other way round."""
    with duckdb.connect(str(shutil.copy(path, other))) as con:
        tables = "SELECT table_name FROM duckdb_tables() WHERE NOT starts_with(table_name, 'schema_') ORDER BY 1"
        for (table,) in con.execute(tables).fetchall():
            con.execute(f"CREATE TEMP TABLE moved AS FROM {table}; DELETE FROM {table}")
            con.execute(f"INSERT INTO {table} SELECT * FROM moved ORDER BY rowid DESC; DROP TABLE moved")
    Warehouse(other).write(reconciliation.refresh)


def asked(path: Path, threads: int) -> Connection:
    """A connection on which everything is there that statements read; as tables, which take less time to plan."""
    con = duckdb.connect(str(path), read_only=True, config={"threads": threads})
    for name, sql in RELATIONS.items():
        con.execute(f"CREATE TEMP TABLE {name} AS FROM {sql}")
    for name, query in FIRST.items():
        con.register(name, con.sql(QUERIES[query], params=parameters(query)).to_arrow_table())
    return con


def parameters(query: str) -> dict[str, Any] | None:
    """A value for each parameter of a statement; None where it has none."""
    values = COMMON | OTHER.get(query, {})
    names = re.findall(r"\$(\w+)", re.sub(r"'[^']*'", "", without_comments(QUERIES[query])))
    return {name: values[name] for name in names} or None


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Connection, Connection]]:
    """The same rows in two orders, on one thread and on four."""

    def make(path: Path) -> None:
        with Warehouse.create_or_open(path).connection(read_only=False) as con:
            con.execute(Path(__file__).with_name("ties.sql").read_text(encoding="utf-8"))
            reconciliation.refresh(con)

    given = made_once(tmp_path_factory, "ties.duckdb", make)
    turned = made_once(tmp_path_factory, "turned-ties.duckdb", lambda path: turn(given, path))
    with asked(given, 1) as first, asked(turned, 4) as second:
        yield first, second


def compare(both: tuple[Connection, Connection], sql: str, params: dict[str, Any] | None, *, ordered: bool) -> None:
    first, second = (rounded(con.execute(sql, params).fetchall()) for con in both)
    if not ordered:
        first, second = sorted(first, key=repr), sorted(second, key=repr)
    assert first == second


def rounded(value: Any) -> Any:
    """Floats to nine digits: the last ones of a sum tell in which order it was added up."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", VIEWS)
def test_view(both: tuple[Connection, Connection], name: str) -> None:
    compare(both, f"FROM {name}", None, ordered=bool(ORDERED.search(text_of("VIEW", name))))


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in MACROS if name not in (*FOLLOWING, *STEPS, *VALUES)])
def test_macro(both: tuple[Connection, Connection], name: str) -> None:
    ordered = ORDERED.search(text_of("MACRO", name)) is not None
    compare(both, f"FROM {name}({MACROS[name]})", None, ordered=ordered)


@pytest.mark.parametrize(
    "table", ["reconciliation", "reconciliation_components", "reconciliation_kernels", "reconciliation_jobs"]
)
def test_balance(both: tuple[Connection, Connection], table: str) -> None:
    compare(both, f"FROM {table}", None, ordered=True)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ASKED)
def test_query(both: tuple[Connection, Connection], name: str) -> None:
    sql = without_comments(QUERIES[name])
    ordered = ORDERED.search(sql) is not None or ORDERED_WITHIN.match(name) is not None
    compare(both, sql, parameters(name), ordered=ordered and name.removeprefix("report_") not in KEPT)
