"""Replay from a warehouse and back: the plan of a selection, the run, what is stored, and the command."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.api import planning
from kerneldb.api.planning import Request
from kerneldb.api.resuming import Files
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.recordings import Reading
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, Window

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


@pytest.fixture(scope="module")
def decoder(database: kerneldb.Database) -> planning.Planned:
    """The plan of one trace."""
    return database.plan_replay(Request(traces=("decoder-h200",)))


def run(database: kerneldb.Database, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(database.path), "replay", *arguments])


def test_a_plan_covers_every_launch_of_an_eager_trace(decoder: planning.Planned) -> None:
    items = decoder.plan.items
    assert sum(kernel.launches for item in items for kernel in item.kernels) == 2458
    assert len({item.id for item in items}) == len(items)
    assert all(item.spec is not None for item in items if item.route == "aten")
    assert decoder.plan.notes["vendor"] == "NVIDIA"


def test_kernels_of_a_call_stand_in_launch_order(decoder: planning.Planned) -> None:
    split = next(item for item in decoder.plan.items if any("splitKreduce" in kernel.name for kernel in item.kernels))
    assert [kernel.ordinal for kernel in split.kernels] == list(range(len(split.kernels)))
    assert "splitKreduce" in split.kernels[-1].name


def test_graph_launches_inherit_the_calls_of_those_without_a_graph(database: kerneldb.Database) -> None:
    lines = planning.feasibility(database.plan_replay(Request(traces=("compiled-graph-h200",))).routes)
    by_name = {line["category"]: line for line in lines}
    assert sum(line["launches"] for line in lines if line["route"] == "inherited") == 6
    assert by_name["TOTAL"]["launches"] == 9
    (sourceless,) = database.sql(
        """
        SELECT 100 * sum(duration_ns) FILTER (library = 'Triton') / sum(duration_ns) AS share_pct
        FROM kernels WHERE trace = 'compiled-graph-h200'
        """
    ).rows()
    replayable = by_name["TOTAL"]["replayable_pct"]
    assert replayable == pytest.approx(100 - sourceless["share_pct"])
    assert all("no source of" in line["reason"] for line in lines if line["route"] == "triton")


def test_top_and_share_of_time_choose_signatures(database: kerneldb.Database, decoder: planning.Planned) -> None:
    whole = decoder.routes.num_rows
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
    assert sum(row["launches"] for row in rows) == 2458, "a total among the rows would be counted twice"
    assert run(database, "--trace", "decoder-h200", "--dry-run", "--csv").stdout.startswith("category,route")


def test_a_module_that_fails_is_named(
    database: kerneldb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clumsy_route.py").write_text("raise ValueError('odd')\n")
    monkeypatch.chdir(tmp_path)
    result = run(database, "--dry-run", "--import", "clumsy_route")
    assert (result.exit_code, result.stderr) == (1, "Error: cannot import clumsy_route: ValueError: odd\n")


def test_resume_without_a_run_says_so(database: kerneldb.Database) -> None:
    result = run(database, "--resume", "--device", "cpu")
    assert result.exit_code == 2
    assert "no replay to resume" in result.stderr


def test_a_cluster_that_is_not_there_leaves_nothing_to_resume(
    database: kerneldb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    result = run(database, "--top", "1", "--ray", "head.example:6379")
    assert result.exit_code == 2
    assert "kerneldb[cluster]" in result.stderr
    assert not Files.beside(database.path).resumable
    assert "no replay to resume" in run(database, "--resume", "--device", "cpu").stderr


def interrupt(_: object, event: Mapping[str, object]) -> None:
    """Ctrl-C while the command tells of the first result, and not while it waits for one."""
    if event["event"] == "progress":
        raise KeyboardInterrupt


def replayed(database: kerneldb.Database) -> int:
    """How many calls have run."""
    (row,) = database.sql("SELECT count(*) AS n FROM replay_calls WHERE status = 'ok'").rows()
    return int(row["n"])


@pytest.mark.thorough
@needs_torch
@pytest.mark.slow
def test_a_run_stopped_twice_is_written_back_at_each_step(
    database: kerneldb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it began by the time limit, then by Ctrl-C at the first result; resumed, it ends with all results."""
    on_cpu, before = ("--device", "cpu", "--no-energy"), replayed(database)
    late = run(database, "--trace", "stacks-memory-h200", *on_cpu, "--limit-seconds", "0")
    assert late.exit_code == 0, late.stderr
    assert "--resume --device cpu" in late.stderr
    with monkeypatch.context() as patched:
        patched.setattr(importlib.import_module("kerneldb.cli.replay")._Teller, "hear", interrupt)
        stopped = run(database, "--resume", *on_cpu)
    assert stopped.exit_code == 130
    assert "go on with: kerneldb replay --resume --device cpu" in stopped.stderr
    assert replayed(database) > before
    done = run(database, "--resume", *on_cpu, "--json")
    assert done.exit_code == 0, done.stderr
    assert "no energy: not asked for" in done.stderr
    total = json.loads(done.stdout)[-1]
    assert (total["category"], total["launches"]) == ("TOTAL", 23)
    (last,) = database.sql("SELECT run_id, energy_reason FROM replay_runs ORDER BY started DESC LIMIT 1").rows()
    assert last["energy_reason"] == "not asked for"
    graded = database.sql("SELECT grade, count(*) AS n FROM replay_calls GROUP BY grade").rows()
    assert {row["grade"]: row["n"] for row in graded}.get("L0", 0) > 0
    mine = f"SELECT count(*) AS n FROM replays WHERE run_id = '{last['run_id']}'"
    unexplained = database.sql(f"{mine} AND grade <> 'L0' AND reason IS NULL").rows()
    assert unexplained[0]["n"] == 0
    seen = database.sql("SELECT count(*) AS n FROM kernels WHERE replay_grade = 'L4'").rows()
    assert seen[0]["n"] > 0
    assert not list(database.path.parent.glob("*.replay*"))


def test_a_journal_made_elsewhere_is_committed(database: kerneldb.Database, tmp_path: Path) -> None:
    from kerneldb.replay.host import run as host
    from kerneldb.replay.options import Options

    planned, journal = tmp_path / "p.plan", tmp_path / "p.journal"
    wrote = run(database, "--signature", "", "--top", "2", "--write-plan", str(planned))
    assert wrote.exit_code == 0
    assert f"a GPU: python -P -m kerneldb.replay {planned} --journal {journal}\n" in wrote.stderr
    assert f"replay --write-plan {planned} --read-journal {journal}\n" in wrote.stderr
    worker = (sys.executable, str(ROOT / "tests" / "replay_worker" / "fake_worker.py"), str(tmp_path))
    host.run(planned, journal, Options(device="cpu", energy=False), worker=worker)
    result = run(database, "--write-plan", str(planned), "--read-journal", str(journal), "--json")
    assert result.exit_code == 0, result.stderr
    launches = sum(kernel.launches for item in plan.read(planned).items for kernel in item.kernels)
    assert json.loads(result.stdout)[-1]["launches"] == launches
    assert "did not end" not in result.stderr

    there = f"python -P -m kerneldb.replay {planned} --journal {journal}"
    journal.write_bytes(journal.read_bytes()[:-9])
    cut = run(database, "--write-plan", str(planned), "--read-journal", str(journal), "--json")
    assert cut.exit_code == 0, cut.stderr
    stored = "what came of it so far is stored (a last line that was cut is left out)"
    assert f"{journal}: the replay did not end; {stored}. To go on: {there} --resume\n" in cut.stderr
    journal.write_bytes(b"")
    empty = run(database, "--write-plan", str(planned), "--read-journal", str(journal))
    assert f"{journal}: an empty file; the replay on the other machine writes it: {there}\n" in empty.stderr
    journal.unlink()
    missing = run(database, "--write-plan", str(planned), "--read-journal", str(journal))
    assert f"{journal}: no such journal; the replay on the other machine writes it: {there}\n" in missing.stderr
    assert (empty.exit_code, missing.exit_code) == (2, 2)


@pytest.fixture(scope="module")
def weighed(database: kerneldb.Database, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of a replay with energies, which the database has read twice: a second time replaces the first."""
    planned, journal = journal_with_energy(database, tmp_path_factory.mktemp("weighed"))
    for _ in range(2):
        assert database.read_journal(planned, journal) == "energyrun"
    return planned


def journal_with_energy(database: kerneldb.Database, folder: Path) -> tuple[Path, Path]:
    """The plan of a trace, and a journal in which all but the last call came out the same, with known energies."""
    from kerneldb.replay.measure.loops import spread
    from kerneldb.replay.wire.journal import Writer
    from kerneldb.replay.wire.results import Activity, CallResult, KernelResult, RunFacts

    planned = database.plan_replay(Request(traces=("decoder-h200",), top=12)).plan
    plan.write(planned, folder / "e.plan")
    *weighed, last = planned.items
    window = Window(1.7e9, 1.4, 515.2, 1.7, 2000.0, 14, temperature_c=48.5, throttle="software power cap")
    with Writer(folder / "e.journal") as writer:
        writer.run(RunFacts("energyrun", "2024-01-01T00:00:00+00:00", "mixed", "cuda:0", 0, "NVIDIA H200"))
        for one in weighed:
            share = 1 / len(one.kernels)
            kernels = tuple(
                KernelResult(k.ordinal, k.signature_id, k.name, "L0", None, Activity("kernel", k.name), (), share,
                             spread([2000.0] * 12))
                for k in one.kernels
            )  # fmt: skip
            energy = CallEnergy(8.0, 7.9, 8.1, 6.0, 5.8, 6.2, 515.2, 0.9, 4.2, "CUDA-graph loop", windows=(window,))
            writer.call(CallResult(one.id, one.route, "mixed", "ok", "L0", kernels=kernels, energy=energy))
        writer.call(CallResult(last.id, last.route, "mixed", "failed", "L4", reason="no"))
        facts = EnergyFacts(
            "nvml", None, 100.0, 0.001, 0.5, 83.5, 0.2, 124.5, 0.4, 126.9, 0.2, gap_ns=565.0, drift=0.001
        )
        writer.energy(facts)
        writer.power(
            [Reading("gap", 1_700_000_000_000_000_000, energy_mj=1.0), Reading("i", 2, energy_mj=3.0, power_w=127.0)]
        )
        writer.end(finished=True, remaining=0, wall_s=1.0)
    return folder / "e.plan", folder / "e.journal"


@pytest.mark.usefixtures("weighed")
def test_energies_are_stored_with_their_errors(database: kerneldb.Database) -> None:
    run_row = database.sql("SELECT * FROM replay_runs WHERE run_id = 'energyrun'").rows()[0]
    assert (run_row["meter"], run_row["meter_period_ms"], run_row["launch_loop_power_w"]) == ("nvml", 100.0, 126.9)
    assert run_row["launch_loop_power_error_w"] == pytest.approx(0.392)
    assert (run_row["idle_power_w"], run_row["context_power_w"], run_row["energy_reason"]) == (83.5, 124.5, None)
    calls = database.sql("SELECT * FROM replay_calls WHERE run_id = 'energyrun'").rows()
    assert {(row["energy_mj"], row["energy_windows"], row["energy_reason"]) for row in calls} == {
        (8.0, 1, None), (None, None, "not replayed")
    }  # fmt: skip
    assert json.loads(max(row["energy_details"] or "" for row in calls))[0]["throttle"] == "software power cap"
    kernels = database.sql("SELECT * FROM replays WHERE run_id = 'energyrun'").rows()
    assert all((row["energy_mj"] is None) == (row["energy_reason"] is not None) for row in kernels)
    sums = database.sql("SELECT item_id, sum(energy_mj) AS mj, sum(dynamic_high_mj) AS high FROM replays "
                        "WHERE run_id = 'energyrun' AND energy_mj IS NOT NULL GROUP BY item_id").rows()  # fmt: skip
    assert all(row["mj"] == pytest.approx(8.0) and row["high"] == pytest.approx(6.2) for row in sums)
    samples = database.sql("SELECT * FROM power_samples WHERE run_id = 'energyrun' ORDER BY epoch_ns").rows()
    assert [(row["source"], row["workload"], row["power_w"]) for row in samples] == [
        ("replay", "i", 127.0), ("replay", "gap", None)
    ]  # fmt: skip


@pytest.mark.usefixtures("weighed")
def test_kernels_are_selected_by_their_energy(database: kerneldb.Database) -> None:
    result = CliRunner().invoke(cli, ["--db", str(database.path), "top", "--where", "energy_mj > 5", "--json"])
    assert result.exit_code == 0, result.stderr
    assert sum(row["n"] for row in json.loads(result.stdout)) > 0
    none = CliRunner().invoke(cli, ["--db", str(database.path), "top", "--where", "energy_mj > 9", "--json"])
    assert json.loads(none.stdout) == []


def test_results_sum_energy_with_its_error(database: kerneldb.Database, weighed: Path) -> None:
    rows = database.replay_results("energyrun").rows()
    total = rows[-1]
    items = plan.read(weighed).items
    launches = [max(kernel.launches for kernel in one.kernels) for one in items[:-1]]
    assert total["energy_mj"] == pytest.approx(8.0 * sum(launches), rel=0.01)
    quadrature = sum((0.1 * n) ** 2 for n in launches) ** 0.5
    drift = 1.96 * 0.001 * 6.0 * sum(launches)
    assert total["energy_error_mj"] == pytest.approx((quadrature**2 + drift**2) ** 0.5, rel=0.05)
    assert total["dynamic_mj"] == pytest.approx(6.0 * sum(launches), rel=0.01)
    assert total["dynamic_error_mj"] > total["energy_error_mj"]
    assert 0 < total["energy_time_pct"] < 100
    assert sum(row["energy_mj"] or 0 for row in rows[:-1]) == pytest.approx(total["energy_mj"])


@needs_torch
@pytest.mark.slow
@pytest.mark.thorough
def test_a_run_on_the_cpu_is_weighed_where_there_is_a_meter(database: kerneldb.Database) -> None:
    arguments = ("--trace", "stacks-memory-h200", "--device", "cpu", "--top", "2", "--energy-seconds", "11")
    done = run(database, *arguments, "--import", "tests.energy.process_meter", "--json")
    assert done.exit_code == 0, done.stderr
    assert "energy of" in done.stderr
    last = database.sql("SELECT * FROM replay_runs ORDER BY started DESC").rows()[0]
    assert (last["meter"], last["energy_reason"]) == ("process", None)
    assert last["meter_period_ms"] == pytest.approx(100.0, rel=0.1)
    calls = database.sql(f"SELECT * FROM replay_calls WHERE run_id = '{last['run_id']}' AND status = 'ok'").rows()
    assert any(row["energy_power_w"] for row in calls)
    assert all((row["energy_mj"] is None) == (row["energy_reason"] is not None) for row in calls)
