"""Rewrites of a step: found in its dataflow, compared with float64, tried in the step, written as a patch."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.wire.steps import Tensor

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
from kerneldb.replay import rewrites  # noqa: E402 (torch is needed)
from kerneldb.replay.errors import ReplayError  # noqa: E402
from kerneldb.replay.recording.measuring import Interval  # noqa: E402
from kerneldb.replay.rewrites import images, patching, search, trial, views  # noqa: E402
from kerneldb.replay.rewrites.attention import Attention  # noqa: E402
from kerneldb.replay.rewrites.backends import AttentionBackend  # noqa: E402
from kerneldb.replay.rewrites.bags import EmbeddingBags  # noqa: E402
from kerneldb.replay.rewrites.base import Change, Proposal, Rewrite  # noqa: E402
from kerneldb.replay.rewrites.check import check  # noqa: E402
from kerneldb.replay.rewrites.compiled import Autotuned, Batched, Compiled  # noqa: E402
from kerneldb.replay.rewrites.copies import RoundTrips  # noqa: E402
from kerneldb.replay.rewrites.float8 import Float8  # noqa: E402
from kerneldb.replay.rewrites.flow import Flow, Frame, Frames  # noqa: E402
from kerneldb.replay.rewrites.grouped import GroupedProducts  # noqa: E402
from kerneldb.replay.rewrites.layout import ChannelsLast  # noqa: E402
from kerneldb.replay.rewrites.many import Foreach, FusedAdam  # noqa: E402
from kerneldb.replay.rewrites.norms import LayerNorm, RmsNorm  # noqa: E402
from kerneldb.replay.rewrites.products import MergedProducts  # noqa: E402
from kerneldb.replay.rewrites.region import CannotTryError, graph, region  # noqa: E402
from kerneldb.replay.rewrites.search import BROKEN_OFF, ELSEWHERE, FASTER, Search, slowest  # noqa: E402
from kerneldb.replay.rewrites.settings import ReducedPrecision  # noqa: E402
from kerneldb.replay.rewrites.trial import Bench, Compared  # noqa: E402
from tests.replay.taped import flow_of, inputs_of  # noqa: E402


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


def adam(*tensors: Any) -> None:
    aten = torch.ops.aten
    for parameter, grad, first, second in zip(*[iter(tensors)] * 4, strict=True):
        aten.mul_.Scalar(parameter, 0.999)
        aten.lerp_.Scalar(first, grad, 0.1)
        aten.mul_.Scalar(second, 0.99)
        aten.addcmul_(second, grad, grad, value=0.01)
        root = aten.add_.Scalar(aten.div_.Scalar(aten.sqrt(second), 0.5), 1e-8)
        aten.addcdiv_(parameter, first, root, value=-0.01)


def convolved(image: Any, weight: Any, other: Any) -> Any:
    def conv(one: Any, by: Any) -> Any:
        return torch.ops.aten.convolution(one, by, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)

    return conv(torch.ops.aten.clamp_min(conv(image, weight), 0), other)


def bags(weight: Any, indices: Any) -> Any:
    offsets = torch.ops.aten.arange.start_out(0, 12, 3, out=torch.empty(4, dtype=torch.int64))
    made = torch.ops.aten._embedding_bag(weight, indices, offsets)[0]
    return torch.ops.aten.mul.Scalar(made, 2.0)


def fused_attention(query: Any, key: Any, value: Any) -> Any:
    made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, True)[0]
    return torch.ops.aten.mul.Scalar(made, 2.0)


def experts(value: Any, *weights: Any) -> Any:
    """Each product with a part of the rows, whose results are added up in place, one after the other."""
    result = torch.ops.aten.mul.Scalar(value, 0.0)
    for number, weight in enumerate(weights):
        chosen = torch.ops.aten.add.Scalar(value, 0.5 * number)
        made = torch.ops.aten.clamp_min(torch.mm(chosen, weight.t()), 0.0)
        torch.ops.aten.add_.Tensor(result, made)
    return torch.ops.aten.mul.Scalar(result, 2.0)


def sums(*tensors: Any) -> None:
    """Sums in tensors that nobody wrote: what a step does that is recorded from its middle on."""
    for one in tensors:
        torch.ops.aten.add_.Tensor(torch.empty_like(one), one)


def test_a_loop_over_tensors_of_which_it_is_not_known_where_they_come_from_is_left_alone() -> None:
    assert not list(Foreach().find(flow_of(sums, *(x(3, 4) for _ in range(5)))))
    assert list(Foreach().find(flow_of(updates, *(x(3, 4) for _ in range(5)))))


CASES = {
    "rms_norm": (RmsNorm(), rms_norm, (x(4, 16), x(16))),
    "layer_norm": (LayerNorm(), layer_norm, (x(4, 16), x(16), x(16))),
    "attention": (Attention(), attention, (x(4, 8, 4), x(4, 8, 4), x(4, 8, 4), x(1, 1, 8, 8))),
    "merged_products": (MergedProducts(), products, (x(6, 8), x(5, 8), x(5, 8))),
    "foreach": (Foreach(), updates, tuple(x(3, 4) for _ in range(5))),
    "conversions": (RoundTrips(), converted, (x(4, 8),)),
    "fused_optimizer": (FusedAdam(), adam, tuple(x(3, 4) for _ in range(16))),
    "channels_last": (ChannelsLast(), convolved, (x(2, 4, 6, 6), x(4, 4, 3, 3), x(4, 4, 3, 3))),
    "compile": (Compiled(), layer_norm, (x(4, 16), x(16), x(16))),
    "autotune": (Autotuned(), layer_norm, (x(4, 16), x(16), x(16))),
    "batched_launches": (Batched(), layer_norm, (x(4, 16), x(16), x(16))),
    "grouped_products": (GroupedProducts(), experts, (x(6, 8), *(x(8, 8) for _ in range(4)))),
    "embedding_bags": (EmbeddingBags(), bags, (x(9, 8), torch.randint(0, 9, (12,)))),
    "attention_backend": (AttentionBackend(), fused_attention, tuple(x(2, 2, 8, 4) for _ in range(3))),
}


LIMITS = {"layer_norm": 8.0, "attention_backend": 4.0}
"""That of torch on a CPU subtracts products: of uniform values it is less exact than one written by hand."""


@pytest.mark.parametrize("name", CASES)
def test_a_rewrite_computes_the_same_and_a_broken_one_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # what a compiler is given is what counts
    rewrite, program, given = CASES[name]
    flow = flow_of(program, *given)
    flow.frames = Frames((Frame("model.py", 3, "forward"),), tuple((0,) for _ in flow.nodes))
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


def test_every_rewrite_of_a_cpu_has_a_case_and_the_others_say_that_they_need_a_gpu() -> None:
    flow = flow_of(torch.mm, x(2, 2), x(2, 2))
    for one in rewrites.known():
        reduced = one.name in {"tf32", "bfloat16", "float8"}
        assert one.name in CASES or reduced or one.lacks(flow) == "needs a GPU", one.name


def test_a_mask_made_of_numbers_is_the_causal_flag_and_attention_is_also_tried_inside_of_what_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def causal(query: Any, key: Any, value: Any) -> Any:
        mask = torch.ops.aten.fill_.Scalar(torch.empty(1, 1, 8, 8), float("-inf"))
        made = attention(torch.ops.aten.mul.Scalar(query, 2.0), key, value, torch.triu(mask, 1))
        return torch.ops.aten.mul.Scalar(made, 3.0)

    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    flow = flow_of(causal, x(4, 8, 4), x(4, 8, 4), x(4, 8, 4))
    (part,) = Attention().find(flow)
    assert part.change.values["causal"]
    assert part.region is not None
    assert part.make is not None
    whole = Proposal(region(flow, range(len(flow.nodes))), None, Change("advice"))
    composed = Compiled().containing(whole, [(part.region, part.make())])
    assert composed.make is not None
    assert "softmax" not in composed.make().code
    assert check(whole.region, composed.make(), inputs_of(flow, whole)).refused is None


def test_a_given_mask_stays_a_mask() -> None:
    (part,) = Attention().find(flow_of(attention, x(4, 8, 4), x(4, 8, 4), x(4, 8, 4), x(1, 1, 8, 8)))
    assert not part.change.values["causal"]


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


def test_what_pays_in_the_step_is_accepted_and_what_is_wrong_rejected_with_the_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def repeated(value: Any, weight: Any) -> Any:
        return torch.add(*[torch.mm(value, weight) for _ in range(2)])

    monkeypatch.setattr(trial, "LEAST_SECONDS", 0.002)
    flow, sent = flow_of(repeated, x(192, 192), x(192, 192)), list[Any]()
    bench = Bench(flow.player, on_cpu=True, seconds=0.02, meter=lambda *_: (None, "no meter"))
    Search(flow, bench, sent.append, 60.0).run([Halved(), Wrong(), ReducedPrecision()], frozenset())
    by = {one.rewrite: one for one in sent}
    assert by["wrong"].status == "rejected"
    assert "where the original has" in by["wrong"].reason
    assert by["halved"].busy is not None
    if by["halved"].status == "accepted":  # a machine with much other work may hide half of a step
        assert by["halved"].busy.low > 0
        assert by["all accepted"].what == "halved"
    assert "bfloat16" not in by


def test_a_variant_makes_its_function_in_the_step_and_what_follows_takes_the_result() -> None:
    flow = flow_of(lambda value, weight: torch.add(torch.mm(value, weight), value), x(4, 4), x(4, 4))
    bench = Bench(flow.player, on_cpu=True, seconds=0.02, meter=lambda *_: (None, "no meter"))
    (value, weight), (out,) = (
        (slots[0] for slots in flow.player.step.calls[0].inputs),
        flow.player.step.calls[1].outputs,
    )
    proposal = Proposal(region(flow, [0]), None, Change("advice", Frame("model.py", 3, "forward", "Model")))
    given = list[Any]()

    def thrice(*tensors: Any) -> list[Any]:
        given.append(tensors)
        return [3 * torch.mm(*tensors)]

    bench.play(bench.variant([(proposal, thrice)]))
    assert len(given) == 1
    one, by = flow.player.view(value), flow.player.view(weight)
    assert torch.allclose(flow.player.view(out), 3 * one @ by + one)


def test_calls_that_take_little_of_the_time_are_left_alone_and_said_so() -> None:
    flow, sent = flow_of(lambda one, by: torch.add(torch.mm(one, by), by), x(4, 4), x(4, 4)), list[Any]()
    assert set(slowest(flow, 1.0, range(2))) == {0, 1}
    for node, time in zip(flow.nodes, (10, 90), strict=True):
        node.call = dataclasses.replace(node.call, recorded_ns=(time,))
    assert set(slowest(flow, 0.9, range(2))) == {1}
    assert set(slowest(flow, 0.9, [0])) == {0}
    bench = Bench(flow.player, on_cpu=True, seconds=0.02, meter=lambda *_: (None, "no meter"))
    Search(flow, bench, sent.append, 60.0, share=0.9).run([ReducedPrecision()], frozenset({"precision"}))
    Search(flow, bench, sent.append, 60.0, among=[1]).run([ReducedPrecision()], frozenset({"precision"}))
    assert [(one.status, one.reason) for one in sent] == [("not tried", FASTER), ("not tried", ELSEWHERE)]


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


def test_a_patch_lets_bags_be_sums_of_embeddings_and_leaves_alone_what_asks_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions, patch = torch.nn.functional, tmp_path / "patch.py"
    monkeypatch.setattr(torch.nn.EmbeddingBag, "forward", torch.nn.EmbeddingBag.forward)  # put back afterwards
    patch.write_text(patching.text([{"kind": "embedding_bags"}], "test"), encoding="utf-8")
    patching.load(patch).apply()
    table, ids = torch.nn.EmbeddingBag(9, 8, mode="sum"), torch.randint(0, 9, (4, 3))
    seen: list[Any] = []
    monkeypatch.setattr(
        functions, "embedding", lambda *given: seen.append(given) or torch.embedding(given[1], given[0])
    )
    assert torch.allclose(table(ids), functions.embedding_bag(ids, table.weight, mode="sum"))
    assert seen
    del seen[:]
    starts = torch.tensor([0, 5])
    assert torch.equal(
        table(ids.flatten(), starts), functions.embedding_bag(ids.flatten(), table.weight, starts, mode="sum")
    )
    for more in ({"padding_idx": 0}, {"mode": "max"}):
        other = torch.nn.EmbeddingBag(9, 8, **{"mode": "sum", **more})
        assert torch.equal(other(ids), functions.embedding_bag(ids, other.weight, **{"mode": "sum", **more}))
    assert not seen


class Doubled(Halved):
    """Another way to do what `halved` does."""

    name = "doubled"
    refines = "halved"


def test_products_that_need_each_other_or_what_is_changed_meanwhile_stay_apart() -> None:
    def chained(value: Any, *weights: Any) -> Any:
        for weight in weights:
            value = torch.mm(value, weight.t())
        return value

    def changing(value: Any, *weights: Any) -> Any:
        value = torch.ops.aten.mul.Scalar(value, 2.0)
        made = []
        for weight in weights:
            made.append(torch.mm(torch.ops.aten.neg(value), weight.t()))
            torch.ops.aten.add_.Scalar(value, 1.0)
        return torch.ops.aten.add.Tensor(torch.add(*made[:2]), torch.add(*made[2:]))

    for program in (chained, changing):
        flow = flow_of(program, x(6, 8), *(x(8, 8) for _ in range(4)))
        flow.frames = Frames((Frame("model.py", 3, "forward"),), tuple((0,) for _ in flow.nodes))
        assert not list(GroupedProducts().find(flow))


def test_another_way_is_tried_only_where_the_first_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    flow, tried = (
        flow_of(lambda one, by: torch.add(torch.mm(one, by), torch.mm(one, by)), x(4, 4), x(4, 4)),
        list[str](),
    )
    bench = Bench(flow.player, on_cpu=True, seconds=0.02, meter=lambda *_: (None, "no meter"))
    for status, wanted in (("accepted", ["halved", "doubled"]), ("rejected", ["halved"])):
        search = Search(flow, bench, lambda _: None, 60.0)
        monkeypatch.setattr(search, "_try", lambda one, status=status: setattr(one, "status", status))
        monkeypatch.setattr(search, "_together", list)
        search.run([Halved(), Doubled()], frozenset())
        tried = [one.rewrite.name for one in search.tried]
        assert tried == wanted


def test_another_way_comes_before_parts_and_is_broken_off_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compiler that chooses among many kernels takes minutes, and would take them from all that comes after it."""

    class Endless(Halved):
        name, refines = "endless", "halved"

        def find(self, flow: Flow) -> Any:
            (one,) = super().find(flow)
            yield dataclasses.replace(one, make=lambda: endless)

    def endless(*_: Any) -> Any:
        while True:  # as an autotuner does, which takes each failure for a slow kernel
            with contextlib.suppress(Exception):
                threading.Event().wait(0.01)

    def program(one: Any, by: Any) -> Any:
        return torch.add(torch.mm(one, by), torch.mm(one, by))

    flow = flow_of(program, x(4, 4), x(4, 4))
    bench = Bench(flow.player, on_cpu=True, seconds=0.02, meter=lambda *_: (None, "no meter"))
    monkeypatch.setattr(Bench, "compare", lambda *_: [Compared(2.0, 1.0, Interval(0.5, 0.4, 0.6))] * 2)
    sent = list[Any]()
    monkeypatch.setattr(search, "limited", lambda _: trial.limited(0.2))
    Search(flow, bench, sent.append, 600.0).run([Halved(), Endless()], frozenset())
    by = {one.rewrite: one for one in sent}
    assert by["halved"].status == "accepted"
    assert (by["endless"].status, by["endless"].reason) == ("not tried", BROKEN_OFF)


def test_memory_that_nothing_in_the_recording_wrote_is_zeros_wherever_calls_are_compared() -> None:
    """Left as the allocator gives it, it would be other numbers in the original than in what is to replace it."""
    flow = flow_of(sums, x(3, 4), x(3, 4))
    covered = region(flow, [0, 1])
    given = inputs_of(flow, Proposal(covered, None, Change("advice")))
    made = graph(covered)
    assert "zero_" in made.code
    torch.testing.assert_close(list(made(*given)), given)


def test_what_is_nothing_but_rounding_is_not_compared_and_what_is_no_number_is_refused() -> None:
    def lost(value: Any) -> Any:
        return torch.ops.aten.add.Scalar(torch.ops.aten.add.Scalar(value, 1e12), -1e12)

    flow = flow_of(lost, x(3, 4))
    covered = region(flow, [0, 1])
    given = inputs_of(flow, Proposal(covered, None, Change("advice")))
    found = check(covered, lambda one: [3 * one], given)
    assert (found.refused, found.compared) == (None, False)
    assert "error" in str(check(covered, lambda one: [1e9 * one + 7e20], given).refused)
    assert "no number" in str(check(covered, lambda one: [one / 0 - one / 0], given).refused)


def test_a_wrong_element_is_caught_and_one_that_is_rounded_otherwise_is_not() -> None:
    flow = flow_of(torch.mm, x(64, 64, dtype=torch.bfloat16), x(64, 64, dtype=torch.bfloat16))
    covered = region(flow, [0])
    given, original = inputs_of(flow, Proposal(covered, None, Change("advice"))), graph(covered)

    def moved(times: float) -> Callable[..., list[Any]]:
        def call(*tensors: Any) -> list[Any]:
            (made,), (exact,) = original(*tensors), graph(covered, exact=torch.float64)(*(t.double() for t in tensors))
            made = made.clone()
            worst = (made.double() - exact).abs()
            place = torch.argmax(worst)
            made.view(-1)[place] = (exact.view(-1)[place] + times * worst.max()).to(made.dtype)
            return [made]

        return call

    assert check(covered, moved(2.9), given).refused is None
    assert "of the largest element" in str(check(covered, moved(9.0), given).refused)
    noise = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) * 0.01
    noisy = check(covered, lambda *some: [(original(*some)[0] * (1 + noise)).to(torch.bfloat16)], given)
    assert "root mean square" in str(noisy.refused)


def test_slight_errors_pass_where_less_precision_is_allowed() -> None:
    flow = flow_of(torch.mm, x(8, 8), x(8, 8))
    covered = region(flow, [0])
    given, original = inputs_of(flow, Proposal(covered, None, Change("advice"))), graph(covered)

    def off(by: float) -> Callable[..., list[Any]]:
        return lambda *some: [one * (1 + by) for one in original(*some)]

    assert check(covered, off(1e-5), given).refused is not None
    found = check(covered, off(1e-5), given, slight=1e-4)
    assert (found.refused, found.ratio > 2) == (None, True)
    assert check(covered, off(1e-3), given, slight=1e-4).refused is not None


def test_a_training_step_with_images_is_compiled_with_them_in_channels_last() -> None:
    def step(image: Any, first: Any, second: Any, loss: Any) -> None:
        rest = ([0, 0], [1, 1], [1, 1], 1)
        middle = torch.ops.aten.mkldnn_convolution(image, first, None, *rest)
        last = torch.ops.aten.mkldnn_convolution(middle, second, None, *rest)
        given = torch.ops.aten.add.Tensor(last, loss)
        settings = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        back, _, _ = torch.ops.aten.convolution_backward(given, middle, second, *settings, [True, True, False])
        torch.ops.aten.convolution_backward(back, image, first, *settings, [False, True, False])

    dims = (2, 96, 5, 5), (96, 96, 1, 1), (96, 96, 1, 1), (2, 96, 5, 5)
    flow = flow_of(step, *(x(*one) for one in dims))
    covered = region(flow, range(len(flow.nodes)))
    assert images.trains_images(covered)

    def beside(volume: Any, weight: Any, *tensors: Any) -> None:
        torch.ops.aten.mkldnn_convolution(volume, weight, None, [0] * 3, [1] * 3, [1] * 3, 1)
        step(*tensors)

    mixed = flow_of(beside, x(1, 4, 4, 4, 4), x(4, 4, 1, 1, 1), *(x(*one) for one in dims))
    assert not images.trains_images(region(mixed, range(len(mixed.nodes))))
    made = images.in_channels_last(graph(covered, any_layout=True))
    assert made.code.count("aten.clone.default(") == 3  # the image and both weights, once each
    seen = list[Any]()

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.convolution_backward.default:
                seen.extend(one.is_contiguous(memory_format=torch.channels_last) for one in args[:3])
            return func(*args, **(kwargs or {}))

    given = inputs_of(flow, Proposal(covered, None, Change("advice")))
    with Watch():
        changed = made(*given)
    assert seen == [True] * 6
    for one, other in zip(graph(covered)(*given), changed, strict=True):
        torch.testing.assert_close(one, other)
    assert check(covered, made, given, 8.0).refused is None


def test_products_of_what_nobody_knows_are_left_alone_by_float8() -> None:
    wide = {"dtype": torch.bfloat16}
    flow = flow_of(torch.mm, x(16, 32, **wide), x(48, 32, **wide).t())
    (proposal,) = Float8().find(flow)
    assert proposal.region is not None
    taken = flow.nodes[0].argument("self")
    storages = list(flow.step.storages)
    storages[flow.storage(taken)] = dataclasses.replace(storages[flow.storage(taken)], given=False)
    flow.player.step = dataclasses.replace(flow.step, storages=tuple(storages))
    assert not list(Float8().find(flow))


def test_wall_time_is_saved_of_the_step_as_it_was_recorded_where_our_loop_is_slower() -> None:
    slower = Compared(50.0, 38.0, Interval(0.24, 0.2, 0.28))
    found = trial.at_most(40.0, slower)
    assert (found.before_ns, found.after_ns) == (40.0, 38.0)
    assert (found.gain.value, found.gain.low, found.gain.high) == pytest.approx((0.05, 0.0, 0.1))
    assert trial.at_most(60.0, slower) == slower
    assert trial.at_most(0.0, slower) == slower


def test_a_graph_is_not_tried_where_the_device_hardly_waited() -> None:
    flow = flow_of(torch.mm, x(8, 8), x(8, 8))
    flow.player.step = dataclasses.replace(flow.step, span_ns=100, busy_ns=95)
    bench = Bench(flow.player, on_cpu=True, seconds=0.02, meter=lambda *_: (None, "no meter"))
    with pytest.raises(CannotTryError, match="busy for 95%"):
        bench.whole(bench.variant([]))
    flow.player.step = dataclasses.replace(flow.step, busy_ns=80)
    with pytest.raises(CannotTryError, match="cannot be captured"):  # there is no GPU
        bench.whole(bench.variant([]))


def test_states_of_an_optimizer_are_as_they_were_for_each_comparison() -> None:
    """Of a variance below zero the first run would make parameters that are no numbers, and compare nothing."""

    def step(weight: Any, gradient: Any, variance: Any) -> None:
        torch.ops.aten.mul_.Tensor(variance, torch.ops.aten.mul.Tensor(gradient, gradient))
        torch.ops.aten.addcdiv_(weight, gradient, torch.ops.aten.sqrt(variance))

    flow = flow_of(step, x(3, 4), x(3, 4), x(3, 4).abs())
    weight = flow.player.view(flow.player.step.calls[-1].inputs[0][0])
    assert bool(torch.isfinite(weight).all())
    weight.fill_(float("nan"))
    flow.player.renew()
    assert bool(torch.isfinite(weight).all())


def test_float8_says_its_error_in_numbers() -> None:
    flow = flow_of(torch.mm, x(16, 32, dtype=torch.bfloat16), x(48, 32, dtype=torch.bfloat16).t())
    (proposal,) = Float8().find(flow)
    assert proposal.region is not None
    assert proposal.make is not None
    function, given = proposal.make(), inputs_of(flow, proposal)
    found = check(proposal.region, function, given, float("inf"))
    assert found.refused is None
    assert 2 * found.original < found.rewritten < 0.1
    broken = check(proposal.region, lambda *some: [-one for one in function(*some)], given)
    assert broken.rewritten > 1


def test_only_rewrites_are_registered_and_each_name_once() -> None:
    with pytest.raises(ReplayError, match="is not a rewrite"):
        rewrites.register(object())
    with pytest.raises(ReplayError, match="already"):
        rewrites.register(RmsNorm())
    assert len({one.name for one in rewrites.known()}) == len(rewrites.known()) > 10
    assert Frames().calls == ()


@pytest.mark.parametrize(
    "name", ["a\nreached = 1", "a\r\nreached = 1", "coding: utf_7 +AAo-reached = 1", "'''\\", "é😀\u2028x"]
)
def test_a_name_in_a_patch_is_no_statement(name: str, tmp_path: Path) -> None:
    change = {"kind": "advice", "frame": {"path": name, "line": 1, "function": name, "module": None}, "what": name}
    text = patching.text([change], name)
    (patch := tmp_path / "patch.py").write_text(text, encoding="utf-8")
    made = patching.load(patch)
    assert (vars(made)["ABOUT"], vars(made)["CHANGES"]) == (name, [change])
    told = [
        sys.executable,
        "-c",
        "import ast, patch; print(ascii([patch.ABOUT, patch.CHANGES, hasattr(patch, 'reached')]))",
    ]
    done = subprocess.run(told, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == [name, [change], False]


def test_a_patch_says_names_harmlessly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    frame = {"path": "/x/\x1b]0;owned\x07.py", "line": 1, "function": "f\x1b[2J\u202e", "module": None}
    changes = [{"kind": kind, "frame": frame, "values": {}, "text": "a\x1bb"} for kind in ("rms_norm", "advice")]
    (patch := tmp_path / "patch.py").write_text(patching.text(changes, "test"), encoding="utf-8")
    patching.load(patch).apply()
    said = capfd.readouterr().err
    assert "owned" in said
    assert all(line.isprintable() for line in said.splitlines())
