"""Replay from a warehouse and back: the plan of a selection, the run, what is stored, and the command."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.api import planning
from kerneldb.api.planning import Request
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.replay import plan

ROOT = Path(__file__).parents[2]
DECODER = ROOT / "examples" / "decoder-h200.json.gz"
SMALL = ROOT / "tests" / "fixtures" / "stacks-memory-h200.json.gz"
GRAPHS = ROOT / "tests" / "fixtures" / "compiled-graph-h200.json.gz"

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> kerneldb.Database:
    opened = kerneldb.open(tmp_path_factory.mktemp("replay") / "k.duckdb")
    opened.ingest([DECODER, SMALL, GRAPHS])
    return opened


def run(database: kerneldb.Database, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(database.path), "replay", *arguments])


def test_a_plan_covers_every_launch_of_an_eager_trace(database: kerneldb.Database) -> None:
    planned = database.plan_replay(Request(traces=("decoder-h200",)))
    launches = sum(kernel.launches for item in planned.plan.items for kernel in item.kernels)
    assert launches == 2458
    assert len({item.id for item in planned.plan.items}) == len(planned.plan.items)
    assert all(item.spec is not None for item in planned.plan.items if item.route == "aten")


def test_kernels_of_a_call_stand_in_launch_order(database: kerneldb.Database) -> None:
    items = database.plan_replay(Request(traces=("decoder-h200",))).plan.items
    split = next(item for item in items if any("splitKreduce" in kernel.name for kernel in item.kernels))
    assert [kernel.ordinal for kernel in split.kernels] == list(range(len(split.kernels)))
    assert "splitKreduce" in split.kernels[-1].name


def test_graph_launches_and_triton_kernels_have_a_reason(database: kerneldb.Database) -> None:
    lines = planning.feasibility(database.plan_replay(Request(traces=("compiled-graph-h200",))).routes)
    reasons = {line["reason"] for line in lines if line["route"] in {"triton", "inferred"}}
    assert any("graph" in reason for reason in reasons)
    assert any("Triton" in reason for reason in reasons)
    assert lines[-1]["launches"] == 9


def test_top_and_share_of_time_choose_signatures(database: kerneldb.Database) -> None:
    whole = database.plan_replay(Request(traces=("decoder-h200",))).routes.num_rows
    assert database.plan_replay(Request(traces=("decoder-h200",), top=3)).routes.num_rows == 3
    half = database.plan_replay(Request(traces=("decoder-h200",), until_share=0.5)).routes
    assert 0 < half.num_rows < whole
    assert sum(half["total_ns"].to_pylist()) >= 0.5 * 6_425_600


@pytest.mark.parametrize(("text", "share"), [("95%", 0.95), ("50", 0.5), (" 12.5 % ", 0.125), ("100%", 1.0)])
def test_shares_of_time(text: str, share: float) -> None:
    assert planning.share_of(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "0", "0.95", "101%", "most", "-5%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="share"):
        planning.share_of(text)


def test_nothing_selected_is_a_usage_error(database: kerneldb.Database) -> None:
    result = run(database, "--where", "category = 'nothing'", "--dry-run")
    assert result.exit_code == 2
    assert "no launch is selected" in result.stderr


def test_dry_run_prints_the_plan_in_every_format(database: kerneldb.Database) -> None:
    rows = json.loads(run(database, "--trace", "decoder-h200", "--dry-run", "--json").stdout)
    assert rows[-1]["category"] == "TOTAL"
    assert rows[-1]["launches"] == sum(row["launches"] for row in rows[:-1]) == 2458
    assert run(database, "--trace", "decoder-h200", "--dry-run", "--csv").stdout.startswith("category,route")


def test_resume_without_a_run_says_so(database: kerneldb.Database) -> None:
    result = run(database, "--resume", "--device", "cpu")
    assert result.exit_code == 2
    assert "no replay to resume" in result.stderr


@needs_torch
def test_a_run_on_the_cpu_is_written_back(database: kerneldb.Database) -> None:
    result = run(database, "--trace", "stacks-memory-h200", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)
    assert rows[-1]["category"] == "TOTAL"
    assert rows[-1]["launches"] == 23
    graded = database.sql("SELECT grade, count(*) AS n FROM replay_calls GROUP BY grade").rows()
    assert {row["grade"]: row["n"] for row in graded}.get("L0", 0) > 0
    unexplained = database.sql("SELECT count(*) AS n FROM replays WHERE grade <> 'L0' AND reason IS NULL").rows()
    assert unexplained[0]["n"] == 0
    seen = database.sql("SELECT count(*) AS n FROM kernels WHERE replay_grade = 'L4'").rows()
    assert seen[0]["n"] > 0
    assert not list(database.path.parent.glob("*.replay*"))


@needs_torch
def test_a_journal_made_elsewhere_is_committed(database: kerneldb.Database, tmp_path: Path) -> None:
    from kerneldb.replay import supervisor
    from kerneldb.replay.options import Options

    planned, journal = tmp_path / "p.plan", tmp_path / "p.journal"
    assert run(database, "--signature", "", "--top", "2", "--write-plan", str(planned)).exit_code == 0
    supervisor.run(planned, journal, Options(device="cpu", runs=6))
    result = run(database, "--write-plan", str(planned), "--read-journal", str(journal), "--json")
    assert result.exit_code == 0, result.stderr
    launches = sum(kernel.launches for item in plan.read(planned).items for kernel in item.kernels)
    assert json.loads(result.stdout)[-1]["launches"] == launches


def test_a_plan_says_whose_gpu_it_is_for(database: kerneldb.Database) -> None:
    assert database.plan_replay(Request(traces=("decoder-h200",))).plan.notes["vendor"] == "NVIDIA"


@needs_torch
def test_a_run_stopped_before_it_began_leaves_nothing_broken(database: kerneldb.Database) -> None:
    stopped = run(database, "--trace", "stacks-memory-h200", "--top", "1", "--device", "cpu", "--limit-seconds", "0")
    assert stopped.exit_code == 0, stopped.stderr
    assert "--resume --device cpu" in stopped.stderr
    resumed = run(database, "--resume", "--device", "cpu", "--json")
    assert resumed.exit_code == 0, resumed.stderr
    assert json.loads(resumed.stdout)[-1]["launches"] > 0
