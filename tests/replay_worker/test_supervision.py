"""A worker that dies or hangs costs one item; every item ends in the journal with its reason. No torch needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.errors import JournalExistsError, ReplayError
from kerneldb.replay.host import run as host
from kerneldb.replay.host.run import Outcome
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.steps import Step
from tests.replay_worker.plans import item, kernel, write

WORKER = Path(__file__).with_name("fake_worker.py")


class Run:
    """Runs plans of items whose route says what the worker does with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal.jsonl"
        self.events: list[Mapping[str, Any]] = []

    def __call__(self, *routes: str, resume: bool = False, **options: Any) -> Outcome:
        items = [item(f"{number}-{route}", route, None, kernel()) for number, route in enumerate(routes)]
        path = write(self.folder / "plan.jsonl", *items)
        chosen = Options(device="cpu", **{"item_seconds": 2.0, "energy": False, **options})
        worker = (sys.executable, str(WORKER), str(self.folder))
        return host.run(
            path, self.journal, chosen, resume=resume, listen=self.events.append, worker=worker
        )  # fmt: skip

    @property
    def grades(self) -> dict[str, tuple[str, str | None]]:
        return {one.item.split("-")[1]: (one.grade, one.reason) for one in journal.read(self.journal).calls}

    @property
    def attempts(self) -> list[str]:
        """Items in the order in which workers began them."""
        return (self.folder / "log").read_text().split()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_killed_worker_costs_one_item(run: Run) -> None:
    outcome = run("ok", "kill", "fine")
    assert run.grades == {"ok": ("L0", None), "kill": ("L4", "worker killed by SIGKILL"), "fine": ("L0", None)}
    assert (outcome.finished, outcome.done, outcome.by_grade) == (True, 3, {"L0": 2, "L4": 1})
    assert run.attempts == ["0-ok", "1-kill", "2-fine"]
    assert journal.read(run.journal).finished


def test_steps_that_cost_a_worker_as_a_graph_are_closed_with_the_reason(run: Run) -> None:
    steps = tuple(Step(name, "trace", "t1", "execution trace", (), (), ()) for name in ("first", "second"))
    path = run.folder / "plan.jsonl"
    plan.write(plan.Plan(steps=steps), path)
    worker = (sys.executable, str(WORKER), str(run.folder))
    assert host.run(path, run.journal, Options(device="cuda:0", energy=False), worker=worker).finished
    found = [(one.step, one.mode, one.filled, one.reason) for one in journal.read(run.journal).steps.values()]
    why = "no CUDA graph: worker exit code 1"
    assert found == [
        ("first", "eager", 1, None), ("first", "cuda_graph", 1, why),
        ("second", "eager", 1, None), ("second", "cuda_graph", 1, why),
    ]  # fmt: skip


def test_a_plan_for_other_gpus_runs_and_says_so(run: Run) -> None:
    path = run.folder / "plan.jsonl"
    plan.write(plan.Plan((item("0-ok", "ok", None, kernel()),), {"vendor": "AMD"}), path)
    worker = (sys.executable, str(WORKER), str(run.folder))
    chosen = Options(device="cpu", energy=False)
    assert host.run(path, run.journal, chosen, listen=run.events.append, worker=worker).finished
    said = [event["reason"] for event in run.events if event["event"] == "foreign"]
    assert said == ["recorded on a GPU of AMD, replayed on one of NVIDIA: the same operation at best"]


def test_an_exception_is_quoted(run: Run) -> None:
    run("raise", "ok")
    assert run.grades == {"raise": ("L4", "worker exit code 1: KeyError: 'lost'"), "ok": ("L0", None)}


def test_a_broken_device_context_costs_one_item(run: Run) -> None:
    run("broken", "ok")
    assert run.grades["broken"] == ("L4", "device context broken: an illegal memory access")
    assert run.grades["ok"] == ("L0", None)


def test_a_hang_is_killed_after_the_stated_time(run: Run) -> None:
    run("hang", "ok")
    assert run.grades == {"hang": ("L4", "hung: silent for 2 s, killed"), "ok": ("L0", None)}


def test_an_item_that_had_a_result_keeps_it(run: Run) -> None:
    run("late", "ok")
    read = journal.read(run.journal)
    late = read.calls[0]
    assert (late.item, late.grade, late.final, late.loop_note) == ("0-late", "L1", True, "worker killed by SIGKILL")


def test_death_between_items_makes_batches_smaller_until_the_culprit_is_alone(run: Run) -> None:
    run("ok", "silent", "fine", batch=16)
    assert run.grades["silent"] == ("L4", "worker killed by SIGKILL")
    assert [run.grades[name][0] for name in ("ok", "fine")] == ["L0", "L0"]


def test_what_failed_is_not_tried_again_on_resume(run: Run) -> None:
    run("ok", "kill")
    first = journal.read(run.journal)
    outcome = run("ok", "kill", "new", resume=True)
    second = journal.read(run.journal)
    assert run.attempts == ["0-ok", "1-kill", "2-new"]
    assert (outcome.items, outcome.run_id, len(second.calls)) == (1, first.run.run_id, 3)


def test_resume_goes_on_behind_a_cut_line(run: Run) -> None:
    run("ok", "fine")
    lines = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(b"".join(lines[:2]) + lines[2][:-9])
    run("ok", "fine", resume=True)
    assert run.attempts == ["0-ok", "1-fine", "1-fine"]
    assert run.grades == {"ok": ("L0", None), "fine": ("L0", None)}


def test_a_journal_is_not_mixed_up_with_another(run: Run) -> None:
    run("ok")
    with pytest.raises(JournalExistsError):
        run("ok")


def test_the_time_limit_skips_the_rest_and_resume_takes_it_up(run: Run) -> None:
    outcome = run("ok", "slow", "fine", limit_seconds=4.0, item_seconds=30.0)
    assert not outcome.finished
    assert run.grades["fine"] == ("L4", "not attempted: the time limit of 4 s was reached")
    assert {one.status for one in journal.read(run.journal).calls} == {"ok", "skipped"}
    assert run("ok", "fine", "fine", resume=True, limit_seconds=None).done == 2


def test_what_is_missing_is_said_in_one_line(run: Run) -> None:
    with pytest.raises(ReplayError, match=r"^no GPU here$"):
        run("unusable")
    assert not journal.exists(run.journal)


def test_workers_that_never_get_anywhere_end_the_run(run: Run) -> None:
    with pytest.raises(ReplayError, match="died 4 times without a result: worker exit code 3"):
        run("stillborn")


def test_progress_has_count_time_and_device(run: Run) -> None:
    run("ok", "fine")
    told = [event for event in run.events if event["event"] == "progress"]
    assert [(event["done"], event["total"]) for event in told] == [(1, 2), (2, 2)]
    assert told[-1]["eta_s"] == 0.0
    assert [event["sm_mhz"] for event in told] == [1980, 1980]


def energies(run: Run) -> dict[str, tuple[float | None, str | None, bool]]:
    """Energy, reason and whether that is final, by item."""
    found = journal.read(run.journal).calls
    return {
        one.item.split("-")[1].removeprefix("ok "): (one.energy.energy_mj, one.energy.reason, one.energy.final)
        for one in found
        if one.energy is not None
    }


def test_energy_is_measured_when_all_calls_have_run(run: Run) -> None:
    outcome = run("ok", "kill", "ok fine", energy=True)
    assert run.attempts == ["0-ok", "1-kill", "2-ok", "fine", "weigh", "0-ok", "weigh", "2-ok", "fine"]
    assert energies(run) == {"ok": (5.0, None, True), "fine": (5.0, None, True)}
    read = journal.read(run.journal)
    assert (outcome.finished, outcome.items, outcome.done, read.finished) == (True, 3, 3, True)
    assert (read.energy and read.energy.launch_loop_power_w, [one.workload for one in read.readings]) == (
        100.0,
        ["gap"],
    )
    told = [(event["item"], event["done"], event["total"]) for event in run.events if event["event"] == "energy"]
    assert told == [("0-ok", 1, 2), ("2-ok fine", 2, 2)]


def test_a_worker_killed_by_a_measurement_costs_the_energy_of_one_call(run: Run) -> None:
    assert run("ok", "ok deadly", "ok fatal", "ok fine", energy=True).finished
    assert energies(run) == {
        "ok": (5.0, None, True),
        "deadly": (None, "worker killed by SIGKILL", True),
        "fatal": (2.0, None, True),
        "fine": (5.0, None, True),
    }
    read = journal.read(run.journal)
    assert {one.grade for one in read.calls} == {"L0"}
    assert read.energy is not None
    assert read.energy.spent_s == 3.0


def test_resume_goes_on_with_the_energy(run: Run) -> None:
    stopped = run("ok", "ok slow", "ok fine", energy=True, limit_seconds=6.0)
    assert not stopped.finished
    reason = "not attempted: the time limit of 6 s was reached"
    assert energies(run) == {"ok": (5.0, None, True), "slow": (None, reason, False), "fine": (None, reason, False)}
    (run.folder / "log").unlink()
    plans = [item("0-ok", "ok", None, kernel()), item("1-ok slow", "ok", None, kernel()),
             item("2-ok fine", "ok", None, kernel())]  # fmt: skip
    path = write(run.folder / "plan.jsonl", *plans)
    worker = (sys.executable, str(WORKER), str(run.folder))
    chosen = Options(device="cpu", item_seconds=2.0)
    assert host.run(path, run.journal, chosen, resume=True, worker=worker).finished
    assert run.attempts == ["weigh", "1-ok", "slow", "weigh", "2-ok", "fine"]
    assert set(energies(run).values()) == {(5.0, None, True)}


def test_without_a_meter_every_call_has_the_reason(run: Run) -> None:
    assert run("ok", "ok meterless", energy=True).finished
    assert energies(run) == dict.fromkeys(("ok", "meterless"), (None, "no meter here", True))
    assert journal.read(run.journal).finished


def test_workers_that_never_measure_cost_the_energy_and_not_the_run(run: Run) -> None:
    assert run("ok", "ok unborn", energy=True).finished
    reasons = {reason for _, reason, _ in energies(run).values()}
    assert reasons == {"the worker died 4 times without a result: worker exit code 3"}


def test_energy_that_is_not_asked_for_starts_no_worker(run: Run) -> None:
    run("ok", energy=False)
    assert run.attempts == ["0-ok"]
    assert energies(run) == {}
