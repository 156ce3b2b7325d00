"""Programs written down as steps, for tests of rewrites: what a trace with an Execution Trace holds of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kerneldb.replay.options import Options
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall
from kerneldb.replay.wire.steps import Step, StepCall, Storage, Tensor

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
from kerneldb.replay.rewrites.base import Proposal  # noqa: E402 (torch is needed)
from kerneldb.replay.rewrites.flow import Flow  # noqa: E402
from kerneldb.replay.worker.steps import StepRun  # noqa: E402

DTYPES = {
    torch.float32: "float", torch.bfloat16: "c10::BFloat16", torch.bool: "bool", torch.float64: "double",
    torch.int64: "long int",
}  # fmt: skip


class Taped(torch.utils._python_dispatch.TorchDispatchMode):
    """Writes the operators of a program down as a step: what a trace with an Execution Trace holds of them."""

    QUIET = frozenset(
        {"view", "t", "transpose", "expand", "_unsafe_view", "unsqueeze", "detach", "permute", "empty_like", "empty"}
    )

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, int] = {}
        self.made: set[int] = set()
        self.held: list[Any] = []
        self.tensors: dict[Tensor, int] = {}
        self.calls: list[StepCall] = []
        self.items: dict[str, Item] = {}

    def slot(self, tensor: Any) -> int:
        self.held.append(tensor)
        storage = self.storages.setdefault(tensor.untyped_storage().data_ptr(), len(self.storages))
        known = Tensor(storage, tuple(tensor.shape), tensor.stride(), DTYPES[tensor.dtype], tensor.storage_offset())
        return self.tensors.setdefault(known, len(self.tensors))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        op = function._schema.name
        if op in {"aten::empty_like", "aten::empty"}:
            slot = self.slot(result)
            self.made.add(list(self.tensors)[slot].storage)
        if op.split("::")[1] in self.QUIET:
            return result
        values = list(args)
        rest = function._schema.arguments[len(args) :]
        values += [(kwargs or {}).get(parameter.name, parameter.default_value) for parameter in rest]
        inputs = [(self.slot(one),) if isinstance(one, torch.Tensor) else () for one in values]
        spec = CallSpec(OpCall(op, *recorded(values)))
        name = json.dumps([op, *recorded(values)])
        self.items[name] = Item(name, "aten", spec)
        results = result if isinstance(result, tuple) else [result]
        outputs = tuple(self.slot(one) for one in results if one is not None)
        if outputs not in inputs:
            self.made.update(tensor.storage for tensor, place in self.tensors.items() if place in outputs)
        self.calls.append(StepCall(name, tuple(inputs), outputs, recorded_ns=(1000,)))
        return result

    def step(self) -> Step:
        last = {tensor.storage: 0 for tensor in self.tensors}
        for place, call in enumerate(self.calls):
            for slots in call.inputs:
                last.update({list(self.tensors)[slot].storage: place for slot in slots})
        sizes = {one: 8 * max(held.untyped_storage().nbytes() for held in self.held) for one in self.storages.values()}
        storages = tuple(Storage(sizes[one], given=one not in self.made) for one in sizes)
        freed = [tuple(one for one in self.made if last[one] == place) for place in range(len(self.calls))]
        calls = [
            StepCall(call.item, call.inputs, call.outputs, (), some, 0, (1000,))
            for call, some in zip(self.calls, freed, strict=True)
        ]
        return Step("s", "trace", "t1", "execution trace", storages, tuple(self.tensors), tuple(calls))


def recorded(values: Sequence[Any]) -> list[str]:
    """Dims, strides, types and numbers of arguments as the profiler writes them."""
    tensors = [one if isinstance(one, torch.Tensor) else None for one in values]
    dims = [[] if one is None else list(one.shape) for one in tensors]
    strides = [[] if one is None else list(one.stride()) for one in tensors]
    kinds, texts = [], []
    for one in values:
        plain = isinstance(one, torch.Tensor) or one is None
        number = "" if one is None else "ScalarList" if isinstance(one, list) else "Scalar"
        kinds.append(DTYPES[one.dtype] if isinstance(one, torch.Tensor) else number)
        text = "15" if one is torch.bfloat16 else "6" if one is torch.float32 else str(one)
        texts.append("" if plain else text)
    return [json.dumps(one) for one in (dims, strides, kinds, texts)]


def flow_of(program: Callable[..., Any], *given: Any) -> Flow:
    tape = Taped()
    with torch.no_grad(), tape:
        program(*given)
    run = StepRun(tape.step(), tape.items, Options(device="cpu", energy=False), lambda _: None)
    run._rehearse()
    assert not run._player.filled
    return Flow(run._player)


def inputs_of(flow: Flow, proposal: Proposal) -> list[Any]:
    assert proposal.region is not None
    made = torch.Generator().manual_seed(1)
    tensors = []
    for slot in proposal.region.inputs:
        known, dtype = flow.tensor(slot), flow.player.dtype(slot)
        drawn = torch.empty_strided(known.dims, known.strides, dtype=dtype)
        values = torch.randn(known.dims, generator=made)
        tensors.append(drawn.copy_(values if dtype.is_floating_point else values.abs()))
    return tensors
