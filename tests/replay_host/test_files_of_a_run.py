"""Plans of several files of one run: each work is replayed once, and the sums are those that `top` prints."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import planning
from kerneldb.api.planning import Request
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.tui.model import Choice
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, text_of
from tests.warehouse.conftest import Launch, Traces

pytestmark = pytest.mark.thorough

STEPS = tuple(
    launch
    for base in range(0, 4_000, 1_000)
    for launch in (Launch("gemm", base, 300), Launch("add", base + 400, 50), Launch("nccl", base + 500, 400, stream=20))
)
"""Four steps of 750 ns."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> kerneldb.Database:
    """Two files of the same launches; two ranks of a job, the second half as long; one under a counter profiler."""
    folder = tmp_path_factory.mktemp("runs")
    warehouse, make = Warehouse.create_or_open(folder / "k.duckdb"), Traces(folder)
    for name in ("sqlite", "printed"):
        warehouse.commit(make(name, STEPS, source="nsys", stated_run="program", era=name, base_ns=1))
    later = tuple(dataclasses.replace(launch, start=launch.start + 7_000) for launch in STEPS)
    for rank, launches in enumerate((later, later[:6])):
        warehouse.commit(make(f"rank{rank}", launches, stated_run="job", rank=rank))
    profiled = tuple(Launch("gemm", 0, 250, timing="profiled") for _ in range(3))
    warehouse.commit(make("counted", profiled, kind="profiled", source="ncu"))
    return kerneldb.open(warehouse.path)


def total(database: kerneldb.Database, **wanted: Any) -> tuple[int, int, int]:
    """Signatures, launches and time of the plan."""
    row = planning.feasibility(database.plan_replay(Request(**wanted)).routes)[-1]
    return row["signatures"], row["launches"], row["total_ns"]


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        (("sqlite",), (3, 12, 3_000)),
        (("sqlite", "printed"), (3, 12, 3_000)),
        ((), (3, 30, 7_500)),
        (("counted",), (1, 3, 750)),
    ],
)
def test_the_plan_is_of_all_files_and_of_each_work_once(
    runs: kerneldb.Database, traces: tuple[str, ...], expected: tuple[int, int, int]
) -> None:
    assert total(runs, traces=traces) == expected
    timing = "profiled" if traces == ("counted",) else "timeline"  # no sum adds both, nor does a plan hold both
    printed = list(runs.top("signature", where=f"timing = '{timing}'", traces=traces).rows())
    assert (sum(row["n"] for row in printed), sum(row["total_ns"] for row in printed)) == expected[1:]


def test_a_condition_selects_from_what_ran_once_and_the_file_must_be_named(runs: kerneldb.Database) -> None:
    (row,) = runs.sql("SELECT trace FROM trace_overview WHERE NOT is_primary").rows()
    with pytest.raises(UsageError, match="no launch is selected"):
        total(runs, where=f"trace = '{row['trace']}'")
    assert total(runs, where=f"trace IN ('{row['trace']}', 'rank1')") == (3, 6, 1_500)
    assert total(runs, traces=(row["trace"],), where=f"trace = '{row['trace']}'") == (3, 12, 3_000)


def test_a_named_file_answers_with_all_it_holds_where_another_holds_most_of_it(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    own, facts = tuple(Launch("add", start, 60) for start in (5_000, 6_000)), {"source": "nsys", "base_ns": 1}
    more = tuple(Launch("gemm", start, 310) for start in range(10_000, 20_000, 1_000))
    warehouse.commit(make("part", (*STEPS, *own), **facts))
    warehouse.commit(make("merged", (*STEPS, *more), **facts))
    database = kerneldb.open(warehouse.path)
    primary = database.sql("SELECT trace, count(*) AS n FROM kernels GROUP BY 1 ORDER BY 1").rows()
    assert [tuple(row.values()) for row in primary] == [("merged", len(STEPS) + 10), ("part", 2)]
    for traces, expected in ((("part",), 14), (("merged",), 22), (("part", "merged"), 24), ((), 24)):
        assert sum(row["n"] for row in database.top(traces=traces).rows()) == expected


def test_a_share_of_time_is_one_of_all_files(runs: kerneldb.Database) -> None:
    # Of 7,500 ns communication takes 4,000, gemm 3,000.
    assert total(runs, until_share=0.5) == (1, 10, 4_000)
    assert total(runs, until_share=0.9) == (2, 20, 7_000)


def test_the_command_and_the_screen_print_the_same_sums(runs: kerneldb.Database) -> None:
    traces = ("sqlite", "printed")
    options = [part for name in traces for part in ("--trace", name)]
    done = CliRunner().invoke(cli, ["--db", str(runs.path), "replay", "--dry-run", "--json", *options])
    rows = json.loads(done.stdout)
    assert tuple(sum(row[name] for row in rows) for name in ("signatures", "launches", "total_ns")) == (3, 12, 3_000)
    assert "sqlite holds the same launches as printed (run program)" in done.stderr

    async def flow() -> None:
        async with opened(runs.path, Choice(traces=traces), first="replay") as (app, _):
            assert "of 3.00 µs, 12 launches, 3 signatures" in text_of(app)

    driven(flow)
