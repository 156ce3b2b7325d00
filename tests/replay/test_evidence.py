from __future__ import annotations

import pytest

from kerneldb.replay.plan.evidence import GRADIENT, Trace
from kerneldb.replay.resolve import candidates
from kerneldb.replay.wire.plan import OpCall
from tests.replay.specs import op_call, scalar, tensor, tensors

DROPPED = ([], [], "TensorList", "")


def test_children_are_distinct_with_depth_and_count() -> None:
    calls = [OpCall("a"), OpCall("b"), OpCall("c"), OpCall("b"), OpCall("d")]
    spec = Trace(calls, [None, 0, 1, 0, None]).spec(0)
    assert [(child.call.op, child.depth, child.times) for child in spec.children] == [("b", 1, 2), ("c", 2, 1)]


def test_parent_is_the_call_around() -> None:
    calls = [OpCall("outer"), OpCall("inner")]
    trace = Trace(calls, [None, 0])
    assert trace.spec(1).parent == calls[0]
    assert trace.spec(0).parent is None


def test_neighbour_has_the_dims_and_strides_of_a_list_entry() -> None:
    near = op_call("aten::mul", tensor([2, 3], "c10::Half"))
    nearer = op_call("aten::mul", tensor([2, 3], "double", [1, 2]))
    cat = op_call("aten::cat", tensors([2, 3], [2, 3]), scalar(0))
    assert [child.call for child in Trace([near, nearer, cat], [None] * 3).spec(2).neighbours] == [near]


def test_neighbour_falls_back_to_equal_dims() -> None:
    other = op_call("aten::mul", tensor([2, 3], "double", [1, 2]))
    cat = op_call("aten::cat", tensors([2, 3]), scalar(0))
    assert [child.call for child in Trace([other, cat], [None] * 2).spec(1).neighbours] == [other]


def test_calls_without_lists_need_no_neighbours() -> None:
    call = op_call("aten::mul", tensor([2]), tensor([2]))
    assert Trace([call, call], [None, None]).spec(1).neighbours == ()


def test_gradients_of_the_step_in_reverse() -> None:
    old, weight, bias = (op_call(GRADIENT, tensor(dims)) for dims in ([9], [4, 4], [4]))
    optimizer = op_call("aten::_foreach_add_", DROPPED, scalar(1))
    spec = Trace([old, optimizer, bias, weight, weight, optimizer], [None] * 6).spec(5)
    assert [(child.call, child.times) for child in spec.neighbours] == [(weight, 2), (bias, 1)]


def test_concatenation_inside_a_stack_sees_its_unsqueezed_entries() -> None:
    stack = op_call("aten::stack", DROPPED, scalar(0))
    unsqueeze = op_call("aten::unsqueeze", tensor([3]), scalar(0))
    cat = op_call("aten::cat", DROPPED, scalar(0))
    spec = Trace([stack, unsqueeze, unsqueeze, cat], [None, 0, 0, 0]).spec(3)
    assert [(child.call, child.times) for child in spec.neighbours] == [(unsqueeze, 2)]


def masked(mask: list[int]) -> Trace:
    """Attention scores, a mask of these dims added, and their softmax inside of another call."""
    scores = tensor([2, 4, 8, 16], "c10::Half")
    added = op_call("aten::add", scores, tensor(mask, "c10::Half"), scalar(1))
    softmax = op_call("aten::_softmax", scores, scalar(-1), scalar(False))
    outer = op_call("aten::softmax", scores, scalar(-1))
    calls = [op_call("aten::add", tensor([3]), tensor([3]), scalar(1)), added, outer, softmax]
    return Trace(calls, [None, None, None, 2])


def test_the_mask_of_scores_is_found_before_their_softmax() -> None:
    trace = masked([2, 1, 8, 16])
    assert [one.call for one in trace.spec(3).neighbours] == [trace.calls[1]]


@pytest.mark.parametrize(("mask", "hidden"), [([2, 1, 8, 16], True), ([8, 16], True), ([2, 1, 1, 16], False)])
def test_only_a_mask_over_queries_hides_scores(mask: list[int], hidden: bool) -> None:
    torch = pytest.importorskip("torch")
    (built, *_) = candidates(masked(mask).spec(3), "cpu", hidden=False)
    scores = built.inputs[0].tensor
    lowest = torch.finfo(scores.dtype).min
    above = 2 * 4 * sum(range(8))
    for _ in range(2):
        assert int((scores == lowest).sum()) == (above if hidden else 0)
        built.refill(1)
    assert ("values:masked" in built.notes) is hidden
    assert not bool((scores[..., 0] == lowest).any())


def test_calls_that_take_what_another_found_are_kept() -> None:
    """Not those that it made itself, and not calls without tensors."""
    mask, own, places = tensor([4, 4], "bool"), tensor([5, 2], "long int"), tensor([3, 2], "long int")
    calls = [op_call("aten::nonzero", mask), op_call("aten::as_strided_", own), OpCall("aten::empty"),
             op_call("aten::unbind", places)]  # fmt: skip
    spec = Trace(calls, [None, 0, None, None]).spec(0)
    assert [child.call.op for child in spec.neighbours] == ["aten::unbind"]


def test_lists_of_optimizers_are_not_taken_for_the_masks_near_them() -> None:
    gradient, mask = op_call("aten::mul", tensor([2, 3], "c10::BFloat16")), op_call("aten::all", tensor([2, 3], "bool"))
    added = op_call("aten::_foreach_add_", tensors([2, 3]), scalar(1))
    spec = Trace([gradient, mask, added], [None] * 3).spec(2)
    assert [child.call for child in spec.neighbours] == [gradient]
    (call, *_) = candidates(spec, "cpu")
    assert [str(one.dtype) for one in call.args[0]] == ["torch.bfloat16"]
