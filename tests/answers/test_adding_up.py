"""A sum over traces whose times do not add up is told apart from one that takes one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from kerneldb.api import adding_up
from kerneldb.cli import cli
from kerneldb.warehouse import Warehouse
from tests.warehouse.conftest import Launch, Traces

SUM: Final = "SELECT sum(duration_ns) FROM kernels"
KINDS: Final = "profiled (one by one under a profiler), timeline (times of a program)"
JUDGED: Final = {
    SUM: True,
    "SELECT category, sum(k.duration_ns) / 1e6 AS ms FROM kernels AS k GROUP BY ALL": True,
    "WITH s AS (SELECT sum(duration_ns) AS ns FROM launches) FROM s": True,
    "SELECT sum(duration_ns) FROM kernels WHERE timing = 'timeline'": False,
    "SELECT trace, sum(duration_ns) FROM kernels GROUP BY trace": False,
    "SELECT sum(duration_ns) FROM kernels JOIN traces USING (trace_id) WHERE name = 'program'": False,
    "SELECT count(*), avg(duration_ns) FROM kernels": False,
    "SELECT sum(duration_ns) FROM api_calls": False,
    "FROM kernels": False,
    "not SQL": False,
}


@pytest.fixture
def both(tmp_path: Path) -> Warehouse:
    """A program, and launches under a profiler of counters."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    warehouse.commit(make("program", (Launch("gemm", 0, 10_000),), source="nsys"))
    warehouse.commit(make("counters", (Launch("gemm", 0, 9_000, timing="profiled"),), kind="profiled", source="ncu"))
    return warehouse


@pytest.mark.parametrize("sql", JUDGED)
def test_what_sums_all_kinds_is_warned_of(both: Warehouse, sql: str) -> None:
    said = adding_up.warnings(both, sql)
    assert bool(said) == JUDGED[sql]
    assert all(KINDS in line for line in said)


def test_query_says_it_on_stderr(both: Warehouse) -> None:
    command = ["--db", str(both.path), "query", "--format", "json"]
    ran = CliRunner().invoke(cli, [*command, SUM])
    assert KINDS in ran.stderr
    assert json.loads(ran.stdout) == [{"sum(duration_ns)": 19_000}]
    chosen = "SELECT sum(duration_ns) FROM selection"
    assert KINDS in CliRunner().invoke(cli, [*command, "--where", "kind = 'kernel'", chosen]).stderr
    assert not CliRunner().invoke(cli, [*command, "--where", "timing = 'timeline'", chosen]).stderr
