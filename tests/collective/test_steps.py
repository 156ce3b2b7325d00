"""Steps of a job whose ranks run at once: what they exchange, and transfer and waiting apart."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.host import fleet, together
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, Plan, PlannedKernel
from kerneldb.replay.wire.steps import Exchange, Step, StepCall, Storage, Tensor

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
