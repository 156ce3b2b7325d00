"""One plan on several workers: every item once, all results kept, a dead worker costs what it was at."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kerneldb.errors import UsageError
from kerneldb.replay import journal, plan
from kerneldb.replay.errors import JournalExistsError
from kerneldb.replay.fleet import devices
from kerneldb.replay.fleet import run as fleet
from kerneldb.replay.fleet.share import Pool
from kerneldb.replay.options import Options
from kerneldb.replay.plan import CallSpec, Item, OpCall, Plan, PlannedKernel
from kerneldb.replay.resolve.errors import UnresolvedCallError
from kerneldb.replay.routes.collective import CollectiveRoute

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


def calls(path: Path) -> dict[str, journal.CallResult]:
    """The final results, each item of which must be in one journal only."""
    found = settled(path)
    assert len({call.item for call in found}) == len(found)
    return {call.item: call for call in found}


def settled(path: Path) -> list[journal.CallResult]:
    """What a resumed replay would not look at again."""
    found = [call for one in fleet.journals(path) for call in journal.read(one).calls]
    return [call for call in found if call.final and call.status != journal.SKIPPED]


def test_a_pool_deals_every_item_once_in_ever_smaller_portions() -> None:
    pool = Pool([str(number) for number in range(100)], 4)
    portions = []
    while portion := pool.take():
        portions.append(list(portion))
    assert [item for portion in portions for item in portion] == [str(number) for number in range(100)]
    assert [len(portion) for portion in portions[:3]] == [13, 11, 10]
    assert len(portions[-1]) <= 3
    pool.give_back(["7"])
    assert pool.take() == ["7"]


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


def test_collectives_run_on_all_ranks_and_a_dead_rank_costs_its_collective_only(tmp_path: Path) -> None:
    parts = {"_allgather_base": (ELEMENTS // 2, ELEMENTS), "broadcast": (ELEMENTS, ELEMENTS)}
    some = [exchange(name, given=given, taken=taken) for name, (given, taken) in parts.items()]
    items = [exchange("allreduce"), exchange("unheard"), exchange("killing"), *some]
    outcome = fleet.run(*planned(tmp_path, *items), CPU, WORKERS)
    found = calls(tmp_path / "j")
    assert outcome.finished
    assert outcome.collectives_s > 0
    for name in ("allreduce", *parts):
        one = found[name]
        assert (one.status, one.grade, one.inputs["ranks"]) == ("ok", "L0", 2)
        assert one.time is not None
        assert one.time.n >= CPU.runs
        assert min(one.inputs["wait_ns"]) == pytest.approx(0.0, abs=one.time.high_ns)
    assert "unheard" in (found["unheard"].reason or "")
    assert found["killing"].reason == "worker exit code 1: rank 1 ended with signal 9"


def test_a_collective_alone_says_how_many_gpus_it_needs() -> None:
    with pytest.raises(UnresolvedCallError, match="a collective of 4 ranks needs as many GPUs: --gpus 4"):
        list(CollectiveRoute().prepare(exchange("reduce", ranks=4), "cpu"))


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
    done = [call.item for call in calls(journal_path).values() if call.status == journal.OK]
    assert 0 < len(done) < len(items)
    with pytest.raises(JournalExistsError):
        fleet.run(planned_path, journal_path, CPU, WORKERS)
    outcome = fleet.run(planned_path, journal_path, CPU, WORKERS[:1], resume=True)
    assert sum(outcome.by_grade.values()) == len(items) - len(done)
    assert {call.item for call in settled(journal_path)} == {item.id for item in items}


def test_devices_are_counted() -> None:
    assert devices.chosen("3", "cpu") == ("cpu",) * 3
    with pytest.raises(UsageError, match="--gpus all counts GPUs"):
        devices.chosen("all", "cpu")
    with pytest.raises(UsageError, match="--gpus none"):
        devices.chosen("none", "cuda:0")
