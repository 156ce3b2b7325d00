"""What a search found is the same call when it is built again: for its energy, and by a later replay."""

from __future__ import annotations

import dataclasses
import json

import pytest

from kerneldb.replay import routes
from kerneldb.replay.infer import infer
from kerneldb.replay.infer.search import Attempt, Search, again, build
from kerneldb.replay.measure.energy.phase import Task
from kerneldb.replay.measure.loops import spread
from kerneldb.replay.plan.unknowns import Clues, Kind
from kerneldb.replay.resolve import BuiltCall
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import CallResult
from kerneldb.replay.worker import energy as weighing
from tests.inferring import traces
from tests.inferring.test_search import depth, find, item, item_at

torch = pytest.importorskip("torch")

POWERS = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::(anonymous namespace)::"
    "pow_tensor_tensor_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda()#7}::operator()() "
    "const::{lambda(float, float)#1}> >(int)"
)
MASK = (
    "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel_impl"
    "<at::native::OpaqueType<1> >(at::TensorIteratorBase&)::{lambda(char*, char const*, long)#1}> >(long)"
)
RANGE = (
    "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(c10::Scalar const&, "
    "at::Tensor&)::{lambda()#1}::operator()() const::{lambda()#3}::operator()() const::{lambda(long)#1}>(int)"
)
NEXT = (
    "void at::native::vectorized_elementwise_kernel<2, at::native::CUDAFunctorOnSelf_add<long>, "
    "std::array<char*, 2ul> >(int, at::native::CUDAFunctorOnSelf_add<long>, std::array<char*, 2ul>)"
)


def small(item: Item) -> Item:
    """The item with a softmax of a few rows, which a CPU makes quickly."""
    candidate = item.candidates[0]
    call = dataclasses.replace(
        candidate.spec.call, input_dims="[[1, 2, 8, 8], [], []]", input_strides="[[128, 64, 8, 1], [], []]"
    )
    spec = dataclasses.replace(candidate.spec, call=call)
    return dataclasses.replace(item, candidates=(dataclasses.replace(candidate, spec=spec),))


def timed(result: CallResult) -> CallResult:
    """A result with a time, as those of GPUs have."""
    return dataclasses.replace(result, time=spread([100.0] * 9))


def masked(attempt: Attempt) -> tuple[str, float]:
    """A GPU on which only masked values take the recorded time."""
    return "", 1.0 if attempt.values == "masked" else 0.79


def test_energy_is_that_of_the_variant_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = small(item_at(5))
    with monkeypatch.context() as patched:
        result = timed(find(wanted, masked, patched))
    task = weighing._task(wanted, result)
    assert isinstance(task, Task)
    assert task.attempt == 0
    call = next(iter(routes.find("inferred").prepare(task.item, "cpu")))
    assert isinstance(call, BuiltCall)
    assert "hidden:values:masked" in call.notes
    scores = call.inputs[0].tensor
    lowest = torch.finfo(scores.dtype).min
    assert (scores == lowest).sum() == 2 * 28
    call.refill(1)
    assert (scores == lowest).sum() == 2 * 28


def test_a_call_made_by_refinement_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = item_at(3)
    few = Item(wanted.id, wanted.route, None, wanted.kernels, wanted.candidates[:1])
    result = find(few, lambda one: ("", 0.1 if one.cache else depth(one) / 1536), monkeypatch)
    searched = again(few, timed(result))
    assert searched is not None
    assert searched.spec is not None
    assert json.loads(searched.spec.call.input_dims or "[]")[1][-1] == 1536
    assert [one.note for one in Search(searched).attempts] == [""]


def test_what_nobody_believes_is_still_the_call_that_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = item_at(12)
    result = find(wanted, lambda one: ("", 2.0 if one.cache == "cold" else 3.0), monkeypatch)
    assert result.found is None
    searched = again(wanted, timed(result))
    assert searched is not None
    (attempt,) = Search(searched).attempts
    assert attempt.cache == "cold"


def test_journals_that_do_not_tell_the_call_have_no_energy(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = item_at(3)
    result = find(wanted, lambda _: ("", 1.02), monkeypatch)
    assert weighing._task(wanted, timed(dataclasses.replace(result, trail=(), found=None))) == weighing.OLD


def first(kind: Kind) -> Item:
    """The item of a launch in a step of 8 tokens of a model with 16 heads."""
    lookup, norm = traces.kernel(traces.GATHER, (8, 1, 1)), traces.kernel(traces.NORM, (8, 1, 1), (32, 4, 1))
    sequence = traces.sequence([(lookup, 2000), (norm, 3000), (kind, 1800)])
    guess = next(one for one in infer(sequence, Clues((), traces.CONFIG)) if one.kernels[0] == (2,))
    return item(sequence, guess)


def test_powers_of_one_base_are_proposed_for_heads() -> None:
    call = first(traces.kernel(POWERS, (1, 1, 1))).candidates[0].spec.call
    assert (call.op, call.input_dims, call.input_dtypes) == ("aten::pow", "[[], [16]]", '["float", "int"]')


def test_short_ranges_are_told_from_long_ones() -> None:
    named = {text: first(traces.kernel(text, (1, 1, 1), (64, 1, 1))) for text in (RANGE, RANGE.replace("#3", "#4"))}
    dtypes = [json.loads(one.candidates[0].spec.call.input_dtypes or "")[-1] for one in named.values()]
    assert dtypes == ["int", "long int"]


def test_masks_of_tokens_are_indexed_with_indices_that_can_be_built() -> None:
    wanted = first(traces.kernel(MASK, (1, 1, 1)))
    call = build(Search(wanted).attempts[0], "cpu")
    assert call.overload == "aten::index.Tensor"
    assert call.call().shape == (1, 1, 1, 8)


def test_numbers_are_passed_as_numbers() -> None:
    attempts = Search(first(traces.kernel(NEXT, (1, 1, 1)))).attempts
    call = build(next(one for one in attempts if "add" in one.spec.call.op), "cpu")
    assert "wrapped-number" in call.notes
