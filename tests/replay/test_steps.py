"""Recorded steps: identity of memory against what really shares it, the plan made of it, and runs of the plan."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from kerneldb import codec
from kerneldb.api import host_steps
from kerneldb.errors import KerneldbError
from kerneldb.ingest.bundle import execution
from kerneldb.ingest.output import Report
from kerneldb.replay.steps import memory
from kerneldb.replay.steps.addresses import Moment
from kerneldb.replay.steps.memory import Op, View
from kerneldb.replay.steps.orders import ordered
from kerneldb.replay.steps.plan import Builder, Unit, owners
from kerneldb.replay.wire import plan as plans
from kerneldb.replay.wire.plan import Plan
from kerneldb.replay.wire.steps import Step, StepCall, Storage, Tensor
from tests.replay import flows
from tests.replay.flows import Watched


def view(storage: int, *dims: int) -> View:
    strides = [1] * len(dims)
    for place in range(len(dims) - 2, -1, -1):
        strides[place] = strides[place + 1] * dims[place + 1]
    return View(storage, 0, dims, tuple(strides), "float", "cuda:0")


def op(number: int, start: int, end: int, takes: tuple[View, ...] = (), gives: tuple[View, ...] = ()) -> Op:
    return Op(number, None, start, end, "aten::op", tuple((one,) for one in takes), gives)


def chain() -> list[Op]:
    """Id 7 is a parameter; id 8 is two allocations, one after the other."""
    return [
        op(1, 0, 10, (view(7, 4),), (view(8, 4),)),
        op(2, 20, 30, (view(8, 4),), (view(9, 4),)),
        op(3, 40, 50, (view(9, 4),), (view(8, 4),)),
        op(4, 60, 70, (view(8, 4), view(9, 4)), (view(9, 4),)),
    ]


def test_an_id_stands_for_one_allocation_after_the_other() -> None:
    found = memory.traced(chain())
    assert [one.made_by for one in found.epochs] == [None, 1, 2, 3]
    assert found.ops[1].outputs[0].storage != found.ops[3].outputs[0].storage
    assert found.ops[4].outputs == (dataclasses.replace(view(9, 4), storage=2),)
    assert [one.bytes for one in found.epochs] == [16] * 4


def test_what_a_call_below_returned_is_no_new_allocation() -> None:
    outer, inner = op(1, 0, 10, (), (view(3, 2),)), op(2, 2, 5, (), (view(3, 2),))
    found = memory.traced([outer, inner])
    assert [one.made_by for one in found.epochs] == [2]
    assert found.ops[1].outputs == found.ops[2].outputs


def test_memory_events_say_when_an_allocation_was_freed() -> None:
    found = memory.traced(chain())
    moments = [Moment(5, "a", 512), Moment(25, "b", 512), Moment(33, "a", -512), Moment(45, "a", 512)]
    assert memory.settle(found, moments)
    assert [one.freed_ns for one in found.epochs[1:]] == [33, None, None]
    found = memory.traced(chain())
    assert not memory.settle(found, ())
    assert [one.freed_ns for one in found.epochs[1:]] == [20, 70, 60]


def test_launches_of_triton_without_strides_of_their_last_number_are_read(tmp_path: Path) -> None:
    sides = {
        "values": [[3, 7, 0, 8, 4, "cuda:0"], 8, 0],
        "shapes": [[2, 4], [], []],
        "types": ["Tensor(float)", "Int", "Int"],
    }
    node = {
        "name": "triton_poi_fused_add_0",
        "inputs": {**sides, "strides": [[4, 1], []]},
        "attrs": [{"name": "rf_id", "value": 5}],
    }
    node["outputs"] = dict.fromkeys(("values", "shapes", "types", "strides"), ())
    (tmp_path / "et.json").write_text(json.dumps({"nodes": [node]}))
    report = Report()
    rows = execution.op_tensors(tmp_path / "et.json", pl.DataFrame({"op_id": [1], "record_function_id": [5]}), report)
    assert json.loads(rows["inputs"][0]) == [[7, 0, [2, 4], [4, 1], "float", "cuda:0"], None, None]
    assert not report.counts


def test_an_id_is_an_address_whose_blocks_are_the_allocations() -> None:
    """Id 8 is freed and another allocation, which no operator returned, is there when it is taken again."""
    ops = [
        op(1, 0, 10, (view(7, 4),), (view(8, 4),)),
        op(2, 20, 30, (view(8, 4),), (view(9, 8),)),
        op(3, 40, 50, (view(8, 4), view(9, 8)), (view(9, 8),)),
    ]
    moments = [Moment(4, "b", 64), Moment(5, "a", 16), Moment(12, "b", -64), Moment(25, "b", 32), Moment(33, "a", -16),
               Moment(36, "a", 16), Moment(55, "a", -16)]  # fmt: skip
    found, told = memory.recalled(ops, [], moments, host=False)
    assert told
    first, second = (found.ops[number].inputs[0][0] for number in (2, 3))
    assert first is not None
    assert second is not None
    epochs = [found.epochs[one.storage] for one in (first, second, found.ops[3].outputs[0])]
    assert [(one.made_by, one.freed_ns) for one in epochs] == [(1, 33), (None, 55), (2, None)]


def test_what_was_there_before_is_freed_when_the_operators_before_say_where_it_is() -> None:
    earlier = [op(1, 0, 10, (), (view(8, 4),)), op(2, 11, 19, (), (view(9, 4),))]
    moments = [Moment(5, "a", 16), Moment(15, "b", 16), Moment(33, "a", -16)]
    found, _ = memory.recalled([op(3, 20, 30, (view(8, 4), view(9, 4)))], earlier, moments, host=False)
    assert [(one.made_by, one.freed_ns) for one in found.epochs] == [(None, 33), (None, None)]
    parts = Builder(found, [Unit("x", 3, 20)]).parts()
    assert [one.given for one in parts.storages] == [True, True]
    assert parts.calls[0].frees == (0,)


def test_an_address_that_alone_fits_an_id_is_not_given_to_another() -> None:
    """Two numbers of one operator fit either block; id 8 is allocated again, inside a shorter operator, at `a` only."""
    ops = [
        op(1, 0, 10, (), (view(8, 1), view(9, 1))),
        op(2, 20, 30, (view(8, 1), view(9, 1))),
        op(3, 40, 42, (), (view(8, 1),)),
    ]
    moments = [Moment(4, "a", 4), Moment(5, "b", 4), Moment(33, "a", -4), Moment(37, "b", -4), Moment(41, "a", 4)]
    found, _ = memory.recalled(ops, [], moments, host=False)
    assert [found.epochs[one.storage].freed_ns for one in found.ops[1].outputs] == [33, 37]


def test_a_number_that_is_added_to_several_tensors_does_not_free_the_first() -> None:
    """Id 5 is memory for a number, made and freed around each operator; 7 and 8 are there before and after."""
    ops = [op(1, 10, 20, (view(7, 4), view(5, 4)), ()), op(2, 30, 40, (view(8, 4), view(5, 4)), ())]
    moments = [Moment(8, "a", 16), Moment(22, "a", -16), Moment(28, "a", 16), Moment(42, "a", -16)]
    found, _ = memory.recalled(ops, [], moments, host=False)
    freed = {number: [found.epochs[one.storage].freed_ns for one in found.ops[number].taken()] for number in found.ops}
    assert freed == {1: [None, 22], 2: [None, 42]}


def test_an_operator_that_prepares_with_others_and_computes_itself_is_the_call() -> None:
    def named(one: Op, name: str, parent: int | None = None) -> Op:
        return dataclasses.replace(one, name=name, parent=parent)

    ops = [
        named(op(1, 0, 10, (view(7, 4),), (view(8, 4),)), "aten::sum"),
        named(op(2, 1, 2, (view(8, 4),), (view(8, 4),)), "aten::fill_", 1),
        named(op(3, 20, 30, (view(8, 4),), (view(8, 4),)), "aten::dropout"),
        named(op(4, 40, 60, (view(8, 4),), (view(10, 4),)), "aten::linear"),
        named(op(5, 41, 45, (view(8, 4),), (view(9, 4),)), "aten::clone", 4),
        named(op(6, 42, 44, (view(9, 4), view(8, 4)), (view(9, 4),)), "aten::copy_", 5),
        named(op(7, 46, 50, (view(9, 4),), (view(10, 4),)), "aten::mm", 4),
        named(op(8, 70, 90, (view(10, 4),), (view(12, 4),)), "aten::index"),
        named(op(9, 71, 80, (view(10, 4),), (view(11, 4),)), "aten::nonzero", 8),
    ]
    assert [one.op_id for one in host_steps.working(ops)] == [1, 6, 7, 8]


def test_the_plan_frees_what_the_program_freed_and_numbers_what_it_used() -> None:
    found = memory.traced(chain())
    memory.settle(found, [Moment(5, "a", 512), Moment(33, "a", -512)])
    parts = Builder(found, [Unit("x", number, number * 20 - 20) for number in (1, 2, 3, 4)]).parts()
    assert [one.given for one in parts.storages] == [True, False, False, False]
    assert [call.frees for call in parts.calls] == [(), (1,), (), (2, 3)]
    assert parts.calls[3].inputs == ((3,), (2,))
    assert parts.calls[3].outputs == (2,)


def test_what_no_call_makes_is_allocated_before_the_call_that_uses_it() -> None:
    given = [op(1, 0, 10, (), (view(3, 2),)), op(2, 20, 30, (view(3, 2),), (view(3, 2),))]
    parts = Builder(memory.traced(given), [Unit("x", 2, 20)]).parts()
    assert parts.calls[0].allocates == (0,)


def test_the_outermost_operator_that_launches_is_the_call() -> None:
    parents = {1: None, 2: 1, 3: 2, 4: None}
    callable_ = {1: True, 2: True, 3: True, 4: True}
    assert owners([1, 3], parents, callable_) == {1: 1, 3: 1}
    assert owners([3, 4], parents, callable_) == {3: 3, 4: 4}
    assert owners([1, 3], parents, {**callable_, 1: False}) == {1: 1, 3: 3}


STEP = Step(
    id="s",
    trace="t",
    trace_id="i",
    method="execution trace",
    storages=(Storage(16, given=True), Storage(16)),
    tensors=(Tensor(0, (4,), (1,)), Tensor(1, (4,), (1,))),
    calls=(StepCall("x", ((0,), ()), (1,), recorded_ns=(5,)),),
)


def test_a_plan_file_carries_steps() -> None:
    planned = Plan(steps=(STEP,))
    assert plans.from_lines(plans.to_lines(planned)) == planned


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"tensors": [{"storage": 2, "dims": [], "strides": []}]}, "tensors"),
        ({"calls": [{"item": "x", "inputs": [[7]]}]}, r"calls\[0\]"),
        ({"calls": [{"item": "x", "frees": [9]}]}, r"calls\[0\]"),
        ({"tensors": [{"storage": 0, "dims": [2], "strides": []}]}, "strides"),
        ({"storages": [{"bytes": -1}]}, "bytes"),
        ({"method": "guess"}, "method"),
    ],
)
def test_a_damaged_step_is_refused_with_its_place(change: dict[str, Any], place: str) -> None:
    text = codec.dump(plans._Step(STEP))
    damaged = orjson.loads(text)
    damaged["step"] |= change
    header = next(iter(plans.to_lines(Plan())))
    with pytest.raises(KerneldbError, match=place):
        plans.from_lines([header, orjson.dumps(damaged).decode()])


FAMILIES = ("llama", "resnet")
"""A decoder, and a CNN with running statistics and momentum: each with its backward pass and optimizer."""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Watched]:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("steps")
    return {name: flows.record(name, folder) for name in FAMILIES}


@pytest.mark.parametrize("name", FAMILIES)
def test_allocations_of_an_execution_trace_are_those_of_the_program(recorded: dict[str, Watched], name: str) -> None:
    one = recorded[name]
    found = memory.traced(one.ops)
    together: list[dict[int, set[int]]] = [{}, {}]
    compared = 0
    for number, (took, gave) in one.truth.items():
        views = [*found.ops[number].taken(), *found.ops[number].outputs]
        if len(views) != len(took) + len(gave):  # a number that became a tensor below the mode
            continue
        compared += 1
        for ours, theirs in zip([view.storage for view in views], [*took, *gave], strict=True):
            if found.epochs[ours].bytes:
                together[0].setdefault(ours, set()).add(theirs)
                together[1].setdefault(theirs, set()).add(ours)
    assert compared >= 0.93 * len(one.truth) > 150
    assert not [some for direction in together for some in direction.values() if len(some) != 1]


@pytest.mark.thorough
def test_data_flow_is_inferred_where_no_execution_trace_says_it(recorded: dict[str, Watched]) -> None:
    score = flows.compare(recorded["llama"])
    assert score.operators > 500
    assert score.right >= 0.98 * score.bytes
    score = flows.compare(recorded["resnet"])
    assert score.right >= 0.99 * score.bytes


def test_a_list_of_parameters_goes_on_beside_the_one_before() -> None:
    weight, bias = (4, 4), (4,)
    used = [weight, bias, (2,), weight, bias, (2,)]
    assert ordered(used, [weight, bias, (2,)] * 2) == [0, 1, 2, 3, 4, 5]
    assert ordered(used, [(2,), weight, bias, weight, bias]) == [2, 3, 4, 0, 1]
    assert ordered(used, [weight, (9,), bias]) == [0, None, 1]
