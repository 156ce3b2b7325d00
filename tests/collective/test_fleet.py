"""One plan on several workers: every item once, all results kept, a dead worker costs what it was at."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kerneldb.errors import UsageError
from kerneldb.replay.errors import JournalExistsError, ReplayError, UnresolvedCallError
from kerneldb.replay.host import fleet
from kerneldb.replay.host import run as host
from kerneldb.replay.host.phases import Pool
from kerneldb.replay.host.run import Outcome
from kerneldb.replay.options import Options
from kerneldb.replay.routes.collective import CollectiveRoute
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, Plan, PlannedKernel
from kerneldb.replay.wire.results import OK, SKIPPED

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

CPU = Options(device="cpu", runs=3, warmup=1, energy=False, batch=4, modules=("tests.collective.breaking",))
WORKERS = ("cpu", "cpu")
HTOD = "Memcpy HtoD (Pageable -> Device)"
ELEMENTS = 1 << 12
INTERRUPTED = 130


def copy(number: int) -> Item:
    kernel = PlannedKernel(0, f"copy{number}", HTOD, kind="memcpy", bytes=1024 + number, copy_kind="HtoD")
    return Item(f"copy{number}", "memory", None, (kernel,))


def exchange(name: str, *, given: int = ELEMENTS, taken: int = ELEMENTS, ranks: int = 2, dtype: str = "Float") -> Item:
    said = {
        "Collective name": name,
        "dtype": dtype,
        "In msg nelems": given,
        "Out msg nelems": taken,
        "Group size": ranks,
    }
    kernel = PlannedKernel(0, name, f"ncclDevKernel_{name}_Sum_f32_RING_LL", grid=(8, 1, 1), block=(512, 1, 1))
    return Item(name, "collective", CallSpec(OpCall("record_param_comms", extra=json.dumps(said))), (kernel,))


def killer() -> Item:
    call = OpCall("kerneldb_fleet::kill", "[[4]]", "[[1]]", '["float"]', '[""]')
    return Item("kill", "aten", CallSpec(call), (PlannedKernel(0, "kill", "kill"),))


def planned(folder: Path, *items: Item) -> tuple[Path, Path]:
    path = folder / "p.plan"
    plan.write(Plan(items), path)
    return path, folder / "j"


def plan_of(folder: Path, *items: Item) -> Path:
    path = folder / "part.plan"
    plan.write(Plan(items), path)
    return path


def calls(path: Path) -> dict[str, journal.CallResult]:
    """The final results, each item of which must be in one journal only."""
    found = settled(path)
    assert len({call.item for call in found}) == len(found)
    return {call.item: call for call in found}


def settled(path: Path) -> list[journal.CallResult]:
    """What a resumed replay would not look at again."""
    found = [call for one in fleet.journals(path) for call in journal.read(one).calls]
    return [call for call in found if call.final and call.status != SKIPPED]


def test_a_pool_deals_every_item_once_in_ever_smaller_portions() -> None:
    pool = Pool([str(number) for number in range(100)], 4)
    portions = []
    while portion := pool.take():
        portions.append(list(portion))
    assert sorted(int(item) for portion in portions for item in portion) == list(range(100))
    assert all(sum(int(item) // 25 == part for item in portions[0]) >= 3 for part in range(4))
    assert [len(portion) for portion in portions[:3]] == [13, 11, 10]
    assert len(portions[-1]) <= 3
    pool.give_back(["7"])
    assert pool.take() == ["7"]


@pytest.mark.thorough
def test_two_workers_share_a_plan_and_a_dead_one_costs_its_item_only(tmp_path: Path) -> None:
    items = [*(copy(number) for number in range(12)), killer(), *(copy(number) for number in range(12, 24))]
    deaths = []

    def listen(event: Mapping[str, Any]) -> None:
        deaths.extend([event["item"]] if event["event"] == "worker" else [])

    outcome = fleet.run(*planned(tmp_path, *items), CPU, WORKERS, listen=listen)
    found = calls(tmp_path / "j")
    assert outcome.finished
    assert outcome.by_grade == {"L0": 24, "L4": 1}
    assert found.keys() == {item.id for item in items}
    assert deaths == ["kill"]
    assert "SIGKILL" in (found["kill"].reason or "")
    journals = [journal.read(path) for path in fleet.journals(tmp_path / "j")]
    assert len({one.run.run_id for one in journals}) == len(WORKERS)
    assert min(len(one.calls) for one in journals) > 0


@pytest.mark.thorough
def test_collectives_run_on_all_ranks_and_a_dead_rank_costs_its_collective_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with a file of a library's name, which no rank runs."""
    hostile, ran = tmp_path / "hostile", tmp_path / "ran"
    hostile.mkdir()
    (hostile / "numpy.py").write_text(f"open({str(ran)!r}, 'a').close()\n")
    monkeypatch.chdir(hostile)
    parts = {"_allgather_base": (ELEMENTS // 2, ELEMENTS), "broadcast": (ELEMENTS, ELEMENTS)}
    some = [exchange(name, given=given, taken=taken) for name, (given, taken) in parts.items()]
    shared = [exchange("all_to_all"), exchange("all_to_allv"), exchange("all_to_all_v", given=ELEMENTS // 2)]
    items = [exchange("allreduce"), exchange("unheard"), *shared, exchange("killing"), exchange("greedy"), *some]
    patient = dataclasses.replace(CPU, item_seconds=600.0)  # both ranks start anew for each collective
    outcome = fleet.run(*planned(tmp_path, *items), patient, WORKERS)
    found = calls(tmp_path / "j")
    assert not ran.exists()
    assert outcome.finished
    assert outcome.collectives_s > 0
    for name in ("allreduce", *parts):
        one = found[name]
        assert (one.status, one.grade) == ("ok", "L0"), one.reason
        assert one.inputs["ranks"] == 2
        assert one.time is not None
        assert one.time.n >= CPU.runs
        assert min(one.inputs["wait_ns"]) == pytest.approx(0.0, abs=one.time.high_ns)
    assert "unheard" in (found["unheard"].reason or "")
    assert found["killing"].reason == "worker exit code 1: rank 1 ended with signal 9"
    assert found["greedy"].reason == "worker exit code 1: rank 1: MemoryError: rank 1 has no memory left"
    assert [found[item.id].grade for item in shared] == ["L0", "L0", "L4"]
    notes = [[note for note in found[item.id].notes if "shares" in note] for item in shared[:2]]
    assert notes == [[], ["shares taken to be equal"]], "unequal shares are not taken for equal ones"
    assert "unequal shares" in (found["all_to_all_v"].reason or "")


def test_a_collective_alone_says_how_many_gpus_it_needs() -> None:
    with pytest.raises(UnresolvedCallError, match="a collective of 4 ranks needs as many GPUs: --gpus 4"):
        list(CollectiveRoute().prepare(exchange("reduce", ranks=4), "cpu"))


@pytest.mark.thorough
def test_a_replay_that_was_stopped_goes_on(tmp_path: Path) -> None:
    items = [copy(number) for number in range(60)]
    planned_path, journal_path = planned(tmp_path, *items)
    line = [sys.executable, "-m", "kerneldb.replay", str(planned_path), "--journal", str(journal_path), "--device"]
    line += ["cpu", "--gpus", "2", "--no-energy", "--runs", "3", "--batch", "2"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        next(text for text in process.stderr if '"progress"' in text)
        os.kill(process.pid, signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == INTERRUPTED, rest
    done = [call.item for call in calls(journal_path).values() if call.status == OK]
    assert 0 < len(done) < len(items)
    with pytest.raises(JournalExistsError):
        fleet.run(planned_path, journal_path, CPU, WORKERS)
    outcome = fleet.run(planned_path, journal_path, CPU, WORKERS[:1], resume=True)
    assert sum(outcome.by_grade.values()) == len(items) - len(done)
    assert {call.item for call in settled(journal_path)} == {item.id for item in items}


def test_devices_are_counted() -> None:
    assert fleet.chosen("3", "cpu") == ("cpu",) * 3
    with pytest.raises(UsageError, match="--gpus all counts GPUs"):
        fleet.chosen("all", "cpu")
    for text in ("none", "0", "-1", "0,1", "²"):
        with pytest.raises(UsageError, match=f"--gpus {text}: give a number"):
            fleet.chosen(text, "cuda:0")


class _Driver(types.ModuleType):
    """NVML as far as counting goes; what it tells of MIG is one mode per board, or that the board knows none."""

    class NVMLError(Exception): ...

    class NVMLError_NotSupported(NVMLError): ...  # noqa: N801, N818 (NVML's name)

    def __init__(self, modes: Sequence[int | None] | None) -> None:
        super().__init__("pynvml")
        self._modes = modes

    def nvmlInit(self) -> None:  # noqa: N802
        if self._modes is None:
            raise self.NVMLError

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._modes or ())

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMigMode(self, board: int) -> tuple[int, int]:  # noqa: N802
        mode = (self._modes or ())[board]
        if mode is None:
            raise self.NVMLError_NotSupported
        return mode, mode


@pytest.mark.parametrize(
    ("modes", "hidden", "expected"),
    [((0, None, 0), None, 3), ((0, 1), None, 7), (None, None, 7), ((0, 0), "1", 7), ((), None, 0)],
    ids=["boards", "divided", "no driver", "some hidden", "none"],
)
def test_the_driver_counts_boards_unless_some_are_hidden_or_divided(
    monkeypatch: pytest.MonkeyPatch, modes: Sequence[int | None] | None, hidden: str | None, expected: int
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _Driver(modes))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 7)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    if expected:
        assert fleet.chosen("all", "cuda:0") == tuple(f"cuda:{place}" for place in range(expected))
    else:
        with pytest.raises(ReplayError, match="this machine has 0"):
            fleet.chosen("all", "cuda:0")


def sleeper(number: int) -> Item:
    call = OpCall("kerneldb_fleet::sleep", "[[4]]", "[[1]]", '["float"]', '[""]')
    return Item(f"sleep{number}", "aten", CallSpec(call), (PlannedKernel(0, "sleep", "sleep"),))


class Clock:
    """Time that passes in a leap, when the first result is there."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def hear(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "progress":
            self.ahead = 3600.0


@pytest.mark.thorough
def test_a_time_limit_is_one_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [*(sleeper(number) for number in range(60)), exchange("allreduce"), exchange("reduce", ranks=3)]
    clock, real = Clock(), host.run
    ends: list[float | None] = []

    def run(*given: Any, until: float | None = None, **named: Any) -> Outcome:
        ends.append(until)
        return real(*given, until=until, **named)

    monkeypatch.setattr(host, "run", run)
    monkeypatch.setattr(host, "time", clock)
    monkeypatch.setattr(fleet, "time", clock)
    chosen = dataclasses.replace(CPU, limit_seconds=3600.0, batch=1)
    outcome = fleet.run(*planned(tmp_path, *items), chosen, WORKERS, listen=clock.hear)
    assert (outcome.finished, outcome.interrupted) == (False, False)
    assert len(ends) == len(WORKERS), "nothing starts after the limit"
    assert len(set(ends)) == 1
    read = [journal.read(one) for one in fleet.journals(tmp_path / "j")]
    assert not any(one.finished for one in read)
    found = {call.item: call for one in read for call in one.calls}
    assert found.keys() == {item.id for item in items}
    reasons = {call.reason for call in found.values() if call.status == SKIPPED}
    assert reasons == {"not attempted: the time limit of 3600 s was reached"}
    assert found["allreduce"].status == SKIPPED
    assert len(settled(tmp_path / "j")) < len(items) // 2


@pytest.mark.thorough
def test_a_replay_that_reached_its_limit_goes_on(tmp_path: Path) -> None:
    items = [copy(number) for number in range(4)]
    places = planned(tmp_path, *items, exchange("allreduce"))
    none = fleet.run(*places, dataclasses.replace(CPU, limit_seconds=0.0), WORKERS)
    assert (none.finished, none.by_grade, fleet.journals(places[1])) == (False, {}, [])
    first = fleet.run(plan_of(tmp_path, *items[:2]), places[1], CPU, WORKERS[:1])
    assert first.finished
    more = fleet.run(*places, dataclasses.replace(CPU, limit_seconds=0.0), WORKERS, resume=True)
    assert not more.finished
    left = [call.item for call in journal.read(fleet.journals(places[1])[0]).calls if call.status == SKIPPED]
    assert left == ["copy2", "copy3", "allreduce"]
