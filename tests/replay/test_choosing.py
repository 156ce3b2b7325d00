"""Which call of a step it was: all that fit are tried, and the time in another recorded iteration chooses."""

from __future__ import annotations

import dataclasses
import json

import pytest

from kerneldb.replay.wire.plan import CallSpec, Candidate, Item, PlannedKernel
from kerneldb.replay.wire.results import Grade
from kerneldb.replay.wire.steps import Step, StepCall, Storage, Tensor
from tests.replay.specs import ABSENT, scalar, spec, tensor

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
from kerneldb.replay.steps.choosing import Seen, choose  # noqa: E402 (torch is needed)
from kerneldb.replay.steps.player import Player  # noqa: E402
from kerneldb.replay.steps.rehearsal import rehearse  # noqa: E402

DIMS, STRIDES = (2, 4, 8, 16), (512, 128, 16, 1)


def attention() -> CallSpec:
    rows = tensor(list(DIMS), "float", list(STRIDES))
    return spec("aten::scaled_dot_product_attention", rows, rows, rows, ABSENT, scalar("0."), scalar("True"))


def item(*candidates: Candidate) -> Item:
    kernels = (PlannedKernel(0, "signature", "attends"),)
    return Item("a", "inferred" if candidates else "aten", None if candidates else attention(), kernels, candidates)


def player(one: Item, again: int) -> Player:
    tensors = tuple(Tensor(place, DIMS, STRIDES) for place in range(4))
    call = StepCall("a", ((0,), (1,), (2,), (), (), ()), (3,), recorded_ns=(1000,))
    storages = tuple(Storage(4096, given=place < 3) for place in range(4))
    made = Step("s", "graph", "t", "execution trace", storages, tensors, (call, call), calls_from="eager")
    return Player(dataclasses.replace(made, again_ns=(("signature", again),)), {"a": one}, "cpu")


def measured(made: Player) -> dict[str, Seen]:
    """Without a mask 700 ns, causal 300, with a mask in proportion to the keys: 1000 for as many as queries."""
    made.prepare()
    rehearse(made, lambda _: None, lambda: None)
    made.run()
    how = made.prepared[0]
    if how.resolved is None:
        return {"a": Seen(Grade.L4)}
    values = how.resolved.values
    keys = values[1].dims[2]
    time = 1000 * keys / 8 if values[3] is not None else 300 if values[5] else 700
    return {"a": Seen(Grade.L0, 2.0 * time)}


@pytest.mark.parametrize(
    ("again", "masked", "keys"), [(610, False, 8), (1400, False, 8), (1990, True, 8), (4000, True, 16)]
)
def test_the_call_is_chosen_by_the_time_in_another_iteration(again: int, masked: bool, keys: int) -> None:
    made = player(item(), again)
    (trail,) = choose(made, lambda: measured(made))
    measured(made)
    values = made.prepared[0].resolved.values  # type: ignore[union-attr]
    assert (values[3] is not None, values[1].dims[2]) == (masked, keys)
    accepted = [one for one in trail.tried if one.accepted]
    assert [json.loads(one.call.input_dims or "")[1][2] for one in accepted] == [keys]
    assert (accepted[0].recorded_ns, made.filled) == (again / 2, {})
    assert all("another iteration" in one.why for one in trail.tried)
    assert tuple(made.view(3).shape) == DIMS


def test_a_call_that_was_recorded_has_no_other() -> None:
    made = player(item(), 2000)
    made.step = dataclasses.replace(made.step, calls_from=None)
    assert choose(made, lambda: pytest.fail("nothing is to be tried")) == ()


def test_candidates_of_a_launch_without_a_call_are_tried_in_the_step() -> None:
    given = tuple(Candidate(attention(), why) for why in ("first", "second"))
    made = player(item(*given), 2000)
    times = iter((Seen(Grade.L3, 1990.0), Seen(Grade.L0, 1900.0)))
    (trail,) = choose(made, lambda: {"a": next(times)})
    assert [(one.candidate, one.accepted) for one in trail.tried] == [(0, False), (1, True)]


def test_a_proposed_call_that_launches_other_kernels_is_not_made() -> None:
    made = player(item(Candidate(attention(), "only")), 2000)
    choose(made, lambda: {"a": Seen(Grade.L3, 1990.0)})
    assert made.filled == {"a": "no proposed call launches its kernels"}
