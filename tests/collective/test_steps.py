"""Steps of a job whose ranks run at once: what they exchange, and transfer and waiting apart."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api.planning import Request
from kerneldb.replay.host import fleet, together
from kerneldb.replay.options import Options
from kerneldb.replay.recording.ranks import Place, Ranks
from kerneldb.replay.steps.exchanges import Together
from kerneldb.replay.steps.streams import scheduled
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, Plan, PlannedKernel
from kerneldb.replay.wire.results import Grade
from kerneldb.replay.wire.steps import Exchange, Step, StepCall, Storage, Tensor
from kerneldb.replay.worker.steps import Played, take_apart
from tests.collective import two_ranks

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

SIDE = 4
BYTES = SIDE * SIDE * 4


def product() -> Item:
    texts = [json.dumps([[SIDE, SIDE]] * 2), None, json.dumps(["float"] * 2), json.dumps(["", ""])]
    return Item("mm", "aten", CallSpec(OpCall("aten::mm", *texts)), (PlannedKernel(0, "of mm", "gemm"),))


def exchange(operation: str) -> Item:
    given = SIDE * SIDE // 2 if operation == "allgather" else SIDE * SIDE
    taken = SIDE * SIDE // 2 if operation == "reducescatter" else SIDE * SIDE
    said = {"Collective name": operation, "dtype": "Float", "In msg nelems": given, "Out msg nelems": taken}
    call = OpCall("record_param_comms", extra=json.dumps({**said, "Group size": 2}))
    kernel = PlannedKernel(0, operation, f"ncclDevKernel_{operation}_Sum_f32_RING_LL")
    return Item(operation, "collective", CallSpec(call), (kernel,))


def step(rank: int, operations: Sequence[str]) -> Step:
    """A product, and exchanges of it one after the other; halves where a rank gives or takes its part."""
    whole = ((SIDE, SIDE), (SIDE, 1))
    half = ((SIDE // 2, SIDE), (SIDE, 1))
    tensors = (Tensor(0, *whole), Tensor(1, *whole), Tensor(2, *whole), Tensor(3, *half))
    storages = (Storage(BYTES, given=True), Storage(BYTES, given=True), Storage(BYTES), Storage(BYTES // 2, given=True))
    calls = [StepCall("mm", ((0,), (1,)), (2,), recorded_ns=(100,))]
    for one in operations:
        given, taken = {"allgather": (3, 2), "reducescatter": (2, 3)}.get(one, (2, 2))
        places: dict[str, Any] = {"recorded_ns": (900,), "waited_ns": (500 * rank,)}
        calls.append(StepCall(one, ((given,),), (taken,), exchange=Exchange(one, (0, 1), root=1), **places))
    return Step(
        f"step{rank}", f"t{rank}", f"t{rank}", "execution trace", storages, tensors, tuple(calls), rank=rank, ranks=2,
        job="job",
    )  # fmt: skip


@pytest.mark.thorough
def test_two_ranks_run_a_step_at_once_with_their_exchanges(tmp_path: Path) -> None:
    operations = ("allreduce", "allgather", "broadcast", "reducescatter")
    items = (product(), *map(exchange, operations))
    path = tmp_path / "p.plan"
    plan.write(Plan(items, steps=(step(0, operations), step(1, operations))), path)
    options = Options(device="cpu", energy=False, runs=2)
    outcome = together.run(path, tmp_path / "j", options, ("cpu", "cpu"))
    (one,) = fleet.journals(tmp_path / "j")
    found = journal.read(one).steps
    assert outcome.finished
    assert one.name == "j.ranks2"
    assert {step for step, _ in found} == {"step0", "step1"}
    for (name, _), result in found.items():
        assert (result.calls, result.rebuilt, result.filled, result.ranks) == (5, 5, 0, 2)
        sums = next(kernel for kernel in result.kernels if kernel.item == "allreduce")
        assert (sums.recorded_ns, sums.waited_ns) == ((900, 0) if name == "step0" else (400, 500))


@pytest.mark.thorough
def test_an_exchange_that_fails_on_one_rank_ends_no_wait_and_is_stood_in_for_on_all(tmp_path: Path) -> None:
    operations = ("allreduce", "raising")
    path, heard = tmp_path / "p.plan", list[Any]()
    plan.write(Plan((product(), *map(exchange, operations)), steps=(step(0, operations), step(1, operations))), path)
    options = Options(device="cpu", energy=False, runs=2, modules=("tests.collective.breaking",))
    assert together.run(path, tmp_path / "j", options, ("cpu", "cpu"), listen=heard.append).finished
    (one,) = fleet.journals(tmp_path / "j")
    found = journal.read(one).steps
    (lost,) = [event for event in heard if event["event"] == "worker"]
    assert lost["item"] == "raising"
    assert {(result.rebuilt, result.filled) for result in found.values()} == {(2, 1)}
    assert len(found) == 2


def planned(folder: Path, where: str | None = None, **more: Any) -> list[Step]:
    with kerneldb.open(folder / "k.duckdb") as opened:
        opened.ingest([path.parent for path in two_ranks.make(folder / "job", **more)], run="job")
        steps = opened.plan_replay(Request(in_context=True, where=where)).plan.steps
    return sorted(steps, key=lambda one: one.rank)


def test_the_same_iteration_of_all_ranks_is_one_step_of_the_job(tmp_path: Path) -> None:
    first, second = planned(tmp_path)
    assert (first.rank, second.rank, first.ranks, first.alone) == (0, 1, 2, None)
    assert first.job == second.job is not None
    assert first.iteration == second.iteration == "ProfilerStep#2"
    for one, waited in ((first, two_ranks.WAIT_US), (second, 0)):
        product, total, last = one.calls
        assert total.exchange == Exchange("allreduce", (0, 1))
        assert total.waited_ns == (1000 * waited,)
        assert total.own_ns == (1000 * two_ranks.TRANSFER_US,)
        assert total.inputs == (product.outputs,)
        assert last.inputs[0] == total.outputs
        assert last.after == (1,)
    assert scheduled(first).told
    assert scheduled(first).waits == {1: (0,), 2: (1,)}


def test_one_rank_alone_says_who_is_missing_and_knows_its_transfers(tmp_path: Path) -> None:
    (one,) = planned(tmp_path, "rank = 0", waits=False)
    assert (one.job, one.ranks) == (None, 2)
    assert one.alone == "no step of rank 1 of the job is selected"
    assert one.calls[1].own_ns == (1000 * two_ranks.TRANSFER_US,)
    assert not scheduled(one).told
    assert scheduled(one).waits == {1: (0,), 2: (1,)}
    assert together.sizes([one], 2) == {1: [one]}


@dataclasses.dataclass
class Others(Ranks):
    """The first of two ranks, beside one whose answer is known."""

    answer: Any = None
    place: Place = dataclasses.field(default_factory=lambda: Place(0, 2))

    def gather(self, value: Any) -> list[Any]:
        return [value, self.answer]


def test_the_shortest_of_the_ranks_is_the_transfer_run_by_run() -> None:
    group = (0, 1)
    ranks = Others([[list(group), [[[30.0, 20.0, 45.0]]]]])
    played = [[Played(Grade.L0, [9.0, 9.0, 9.0])], [Played(Grade.L0, [25.0, 50.0, 40.0])]]
    take_apart(Together(ranks, {group: None}), step(0, ["allreduce"]), played)
    assert played[1][0].durations == [25.0, 20.0, 40.0]
    assert played[1][0].waits == [0.0, 30.0, 0.0]
    assert (played[0][0].durations, played[0][0].waits) == ([9.0, 9.0, 9.0], ())
