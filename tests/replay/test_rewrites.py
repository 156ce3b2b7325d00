"""Rewrites of a step: found in its dataflow, compared with float64, tried in the step, written as a patch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.options import Options
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall
from kerneldb.replay.wire.steps import Step, StepCall, Storage, Tensor

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
from kerneldb.replay import rewrites  # noqa: E402 (torch is needed)
from kerneldb.replay.errors import ReplayError  # noqa: E402
from kerneldb.replay.rewrites import patching, views  # noqa: E402
from kerneldb.replay.rewrites.attention import Attention  # noqa: E402
from kerneldb.replay.rewrites.base import Change, Proposal, Rewrite  # noqa: E402
from kerneldb.replay.rewrites.check import check  # noqa: E402
from kerneldb.replay.rewrites.copies import RoundTrips  # noqa: E402
from kerneldb.replay.rewrites.flow import Flow, Frame, Frames  # noqa: E402
from kerneldb.replay.rewrites.many import Foreach  # noqa: E402
from kerneldb.replay.rewrites.norms import LayerNorm, RmsNorm  # noqa: E402
from kerneldb.replay.rewrites.products import MergedProducts  # noqa: E402
from kerneldb.replay.rewrites.region import CannotTryError, graph, region  # noqa: E402
from kerneldb.replay.rewrites.search import Search  # noqa: E402
from kerneldb.replay.rewrites.settings import ReducedPrecision  # noqa: E402
from kerneldb.replay.rewrites.trial import Bench  # noqa: E402
from kerneldb.replay.worker.steps import StepRun  # noqa: E402

DTYPES = {torch.float32: "float", torch.bfloat16: "c10::BFloat16", torch.bool: "bool", torch.float64: "double"}


class Taped(torch.utils._python_dispatch.TorchDispatchMode):
    """Writes the operators of a program down as a step: what a trace with an Execution Trace holds of them."""

    QUIET = frozenset(
        {"view", "t", "transpose", "expand", "_unsafe_view", "unsqueeze", "detach", "permute", "empty_like"}
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
        if op == "aten::empty_like":
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
        outputs = (self.slot(result),)
        if outputs not in inputs:
            self.made.add(next(tensor.storage for tensor, place in self.tensors.items() if place == outputs[0]))
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
        tensors.append(drawn.copy_(torch.randn(known.dims, generator=made)))
    return tensors


def x(*dims: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(dims).to(dtype)


def rms_norm(value: Any, weight: Any) -> Any:
    high = torch.ops.aten.add.Scalar(value.pow(2).mean(-1, keepdim=True), 1e-6)
    return torch.mul(weight, torch.mul(value, high.rsqrt()))


def layer_norm(value: Any, weight: Any, bias: Any) -> Any:
    centred = torch.sub(value, value.mean(-1, keepdim=True))
    low = torch.ops.aten.add.Scalar(centred.pow(2).mean(-1, keepdim=True), 1e-5)
    return torch.add(torch.mul(torch.mul(centred, low.rsqrt()), weight), bias)


def attention(query: Any, key: Any, value: Any, mask: Any) -> Any:
    scores = torch.bmm(query, key.transpose(1, 2)).view(2, 2, 8, 8)
    scores = torch.ops.aten.mul.Scalar(scores, 0.5) + mask
    return torch.bmm(torch._softmax(scores, -1, half_to_float=False).view(4, 8, 8), value)


def products(value: Any, one: Any, other: Any) -> Any:
    return torch.add(torch.mm(value, one.t()), torch.mm(value, other.t()))


def updates(*tensors: Any) -> None:
    for one in tensors:
        torch.ops.aten.mul_.Scalar(one, 0.5)
        torch.ops.aten.add_.Scalar(one, 0.25)


def converted(value: Any) -> Any:
    low = [torch.empty_like(value, dtype=torch.bfloat16) for _ in range(2)]
    for one in low:
        one.copy_(value)
    return torch.add(*low)


CASES = {
    "rms_norm": (RmsNorm(), rms_norm, (x(4, 16), x(16))),
    "layer_norm": (LayerNorm(), layer_norm, (x(4, 16), x(16), x(16))),
    "attention": (Attention(), attention, (x(4, 8, 4), x(4, 8, 4), x(4, 8, 4), x(1, 1, 8, 8))),
    "merged_products": (MergedProducts(), products, (x(6, 8), x(5, 8), x(5, 8))),
    "foreach": (Foreach(), updates, tuple(x(3, 4) for _ in range(5))),
    "conversions": (RoundTrips(), converted, (x(4, 8),)),
}


LIMITS = {"layer_norm": 8.0}
"""That of torch on a CPU subtracts products: of uniform values it is less exact than one written by hand."""


@pytest.mark.parametrize("name", CASES)
def test_a_rewrite_computes_the_same_and_a_broken_one_is_caught(name: str) -> None:
    rewrite, program, given = CASES[name]
    flow = flow_of(program, *given)
    proposals = list(rewrite.find(flow))
    assert proposals, name
    proposal = proposals[0]
    assert proposal.region is not None
    assert proposal.make is not None
    function, recorded_inputs = proposal.make(), inputs_of(flow, proposal)
    limit = LIMITS.get(name, 2.0)
    found = check(proposal.region, function, recorded_inputs, limit)
    assert found.refused is None, found
    assert found.ratio <= limit

    def broken(*tensors: Any) -> list[Any]:
        return [one * 1.01 for one in function(*tensors)]

    assert check(proposal.region, broken, recorded_inputs, limit).refused is not None


def test_less_precision_is_said_in_numbers() -> None:
    flow = flow_of(torch.mm, x(8, 8), x(8, 8))
    (proposal,) = ReducedPrecision().find(flow)
    assert proposal.region is not None
    assert proposal.make is not None
    found = check(proposal.region, proposal.make(), inputs_of(flow, proposal))
    assert found.refused is not None
    assert found.ratio > 2


def test_an_intermediate_that_is_used_elsewhere_keeps_a_norm_as_it_is() -> None:
    def kept(value: Any, weight: Any) -> Any:
        root = torch.ops.aten.add.Scalar(value.pow(2).mean(-1, keepdim=True), 1e-6).rsqrt()
        return torch.add(torch.mul(weight, torch.mul(value, root)), root)

    assert not list(RmsNorm().find(flow_of(kept, x(4, 16), x(16))))


def test_a_region_is_refused_where_others_between_its_calls_use_its_tensors() -> None:
    def between(value: Any) -> None:
        torch.ops.aten.mul_.Scalar(value, 0.5)
        torch.ops.aten.neg_(value)
        torch.ops.aten.mul_.Scalar(value, 0.25)

    with pytest.raises(CannotTryError, match="between"):
        region(flow_of(between, x(4, 4)), [0, 2])


@pytest.mark.parametrize(
    "view",
    [
        lambda one: one.transpose(0, 2), lambda one: one[:, 1:3], lambda one: one.view(4, 40).t(), lambda one: one[1],
        lambda one: one.unsqueeze(1).expand(4, 3, 5, 8), lambda one: one[:, :, 2:6].transpose(1, 2),
        lambda one: one[::2],
    ],
)  # fmt: skip
def test_views_are_made_again_of_simple_operators(view: Callable[[Any], Any]) -> None:
    base = x(4, 5, 8)
    wanted = view(base)
    target = Tensor(0, tuple(wanted.shape), wanted.stride(), "float", wanted.storage_offset())
    made = base
    for name, arguments in views.moves(Tensor(0, tuple(base.shape), base.stride()), target):
        packet, _, overload = name.partition(".")
        made = getattr(getattr(torch.ops.aten, packet), overload)(made, *arguments)
    assert torch.equal(made, wanted)
    assert made.data_ptr() == wanted.data_ptr()


class Halved(Rewrite):
    """Leaves out what a step does twice."""

    name = "halved"
    removes_launches = True

    def find(self, flow: Flow) -> Any:
        covered = region(flow, [node.place for node in flow.nodes if node.op == "mm"])
        original = graph(region(flow, covered.places[:1]))
        frame = Frame("model.py", 3, "forward", "Model")
        yield Proposal(
            covered, lambda: lambda *given: [*original(*given)] * len(covered.outputs), Change("advice", frame)
        )


class Wrong(Halved):
    name = "wrong"

    def find(self, flow: Flow) -> Any:
        (one,) = super().find(flow)
        yield Proposal(one.region, lambda: lambda *given: [-made for made in one.make()(*given)], one.change)


def test_what_pays_in_the_step_is_accepted_and_what_is_wrong_rejected_with_the_number() -> None:
    def repeated(value: Any, weight: Any) -> Any:
        return torch.add(*[torch.mm(value, weight) for _ in range(2)])

    flow, sent = flow_of(repeated, x(192, 192), x(192, 192)), list[Any]()
    bench = Bench(flow.player, on_cpu=True, seconds=0.2, meter=lambda *_: (None, "no meter"))
    Search(flow, bench, sent.append, 60.0).run([Halved(), Wrong(), ReducedPrecision()], frozenset())
    by = {one.rewrite: one for one in sent}
    assert by["wrong"].status == "rejected"
    assert "where the original has" in by["wrong"].reason
    assert by["halved"].busy is not None
    if by["halved"].status == "accepted":  # a machine with much other work may hide half of a step
        assert by["halved"].busy.low > 0
        assert by["all accepted"].what == "halved"
    assert "bfloat16" not in by


def test_a_patch_needs_no_kerneldb_and_changes_functions_by_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script, patch = tmp_path / "program.py", tmp_path / "patch.py"
    lines = [
        "import torch", "def norm(x, weight):", "    high = x.pow(2).mean(-1, keepdim=True) + 1e-5",
        "    return x * torch.rsqrt(high) * weight", "torch.manual_seed(0)",
        "result = norm(torch.randn(4, 16), torch.ones(16))", "name = norm.__wrapped__.__name__",
    ]  # fmt: skip
    script.write_text("\n".join(lines), encoding="utf-8")
    frame = {"path": "program.py", "line": 2, "function": "norm", "module": None}
    gone = {**frame, "line": 9}
    changes = [{"kind": "rms_norm", "frame": one, "values": {}, "text": ""} for one in (frame, gone)]
    patch.write_text(patching.text(changes, "test"), encoding="utf-8")
    assert "kerneldb" not in patch.read_text(encoding="utf-8")
    done = patching.load(patch).run([str(script)])
    torch.manual_seed(0)
    wanted = torch.nn.functional.rms_norm(torch.randn(4, 16), (16,), torch.ones(16), 1e-5)
    assert torch.allclose(done["result"], wanted, atol=1e-6)
    assert done["name"] == "norm"
    said = capfd.readouterr().err
    assert "program.py:2 norm: rms_norm" in said
    assert "program.py:9 has no norm any more" in said


def test_only_rewrites_are_registered_and_each_name_once() -> None:
    with pytest.raises(ReplayError, match="is not a rewrite"):
        rewrites.register(object())
    with pytest.raises(ReplayError, match="already"):
        rewrites.register(RmsNorm())
    assert len({one.name for one in rewrites.known()}) == len(rewrites.known()) > 10
    assert Frames().calls == ()
