"""Input sets on the CPU: which data a call sees in which run."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldb.replay.measure.inputs import Layouts, Role, Sets, written
from kerneldb.replay.resolve import candidates
from tests.replay.specs import numbers, op_call, scalar, spec, tensor, tensors

torch = pytest.importorskip("torch", reason="torch is not installed")

L2 = 4096


def built(op: str, *arguments: Any) -> Any:
    return next(iter(candidates(spec(op, *arguments), "cpu")))


def sets(call: Any, *roles: Role, runs: int = 8, memory: int = 1 << 30) -> Sets:
    return Sets(call, roles, runs=runs, l2_bytes=L2, memory_bytes=memory)


def addresses(call: Any) -> list[int]:
    return [one.tensor.data_ptr() for one in call.inputs]


def test_cold_inputs_rotate_through_memory_of_their_own() -> None:
    call = built("aten::mm", tensor([4, 16]), tensor([16, 64]))
    values = call.inputs[1].tensor.clone()
    given = sets(call, Role.WARM, Role.COLD)
    before, seen = addresses(call), []
    for _ in range(given.copies):
        given.advance()
        seen.append(addresses(call))
        assert call.inputs[1].tensor.equal(values)
    assert len({second for _, second in seen} | {before[1]}) == given.copies + 1
    assert {first for first, _ in seen} == {before[0]}
    given.reset()
    assert addresses(call) == before


def test_the_ring_is_larger_than_three_caches_or_as_long_as_the_runs() -> None:
    large = built("aten::relu", tensor([1024]))
    assert sets(large, Role.COLD, runs=100).copies == 4
    small = built("aten::relu", tensor([16]))
    assert sets(small, Role.COLD, runs=8).copies == 8


def test_without_memory_for_a_ring_the_cache_is_read_full_before_each_run() -> None:
    call = built("aten::relu", tensor([16]))
    given = sets(call, Role.COLD, memory=64)
    assert (given.copies, given.flush_each) == (1, True)


def test_copies_keep_strides_and_offset() -> None:
    variants = candidates(spec("aten::relu", tensor([4, 8], strides=[1, 4])), "cpu")
    call = next(one for one in variants if any("misaligned" in note for note in one.notes))
    layout = (call.inputs[0].tensor.stride(), call.inputs[0].tensor.storage_offset())
    given = sets(call, Role.COLD)
    given.advance()
    assert (call.inputs[0].tensor.stride(), call.inputs[0].tensor.storage_offset()) == layout == ((1, 4), 1)


def test_fresh_inputs_keep_their_values_bit_by_bit() -> None:
    call = built("aten::relu", tensor([7], "c10::Half"))
    call.inputs[0].tensor[0] = float("nan")
    bits = call.inputs[0].tensor.view(torch.int16).clone()
    sets(call, Role.FRESH).touch()
    assert call.inputs[0].tensor.view(torch.int16).equal(bits)


@pytest.mark.parametrize("role", [Role.FRESH, Role.WARM])
def test_what_a_call_changes_is_restored(role: Role) -> None:
    call = built("aten::mul_", tensor([16]), tensor([16]))
    assert written(call) == {"self"}
    values = call.inputs[0].tensor.clone()
    given = sets(call, role, role)
    for _ in range(50):
        given.touch()
        call.call()
    given.touch()
    assert call.inputs[0].tensor.equal(values)


def test_rings_of_changed_inputs_are_restored() -> None:
    call = built("aten::mul_", tensor([16]), tensor([16]))
    given = sets(call, Role.COLD, Role.COLD, runs=2)
    given.advance()
    values = call.inputs[0].tensor.clone()
    call.call()
    assert not call.inputs[0].tensor.equal(values)
    given.restore()
    assert call.inputs[0].tensor.equal(values)


def test_cold_inputs_without_a_ring_are_restored_too() -> None:
    call = built("aten::mul_", tensor([4096]), tensor([4096]))
    given = sets(call, Role.COLD, Role.COLD)
    values = call.inputs[0].tensor.clone()
    assert (given.copies, given.flush_each) == (1, False)
    call.call()
    given.restore()
    assert call.inputs[0].tensor.equal(values)


def test_dims_that_a_call_changes_are_put_back_with_their_values() -> None:
    call = built("aten::t_", tensor([2, 3]))
    given, tensor_ = call.inputs[0].tensor.clone(), call.inputs[0].tensor
    layouts = Layouts(call)
    call.call()
    assert (tuple(tensor_.shape), layouts.changed) == ((3, 2), True)
    layouts.put_back()
    assert tensor_.equal(given)
    assert not layouts.changed


def test_memory_that_a_call_makes_larger_is_small_again() -> None:
    call = built("aten::resize_", tensor([2, 3]), numbers("[4, 4]"), scalar(0))
    layouts, tensor_ = Layouts(call), call.inputs[0].tensor
    for _ in range(2):
        assert (tuple(tensor_.shape), tensor_.untyped_storage().nbytes()) == ((2, 3), 24)
        call.call()
        assert (tuple(tensor_.shape), tensor_.untyped_storage().nbytes()) == ((4, 4), 64)
        layouts.put_back()


def test_lists_are_changed_entry_by_entry() -> None:
    near = op_call("aten::relu", tensor([2]))
    call = next(iter(candidates(spec("aten::_foreach_mul_", tensors([2], [3]), scalar("2."), near=[near]), "cpu")))
    assert written(call) == {"self[0]", "self[1]"}
