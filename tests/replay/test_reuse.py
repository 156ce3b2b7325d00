"""How long before a call its inputs were used, by the tensors of a recorded step."""

from __future__ import annotations

from kerneldb.replay.steps.reuse import distances
from kerneldb.replay.wire.steps import Step, StepCall, Storage, Tensor

KB = 1024


def step(*calls: StepCall, given: tuple[int, ...] = (0, 1), host: tuple[int, ...] = ()) -> Step:
    """Storages of 4 KB, a tensor of 1,024 floats in each."""
    places = {one for call in calls for one in (*call.outputs, *(x for some in call.inputs for x in some)) if one >= 0}
    n = max(places) + 1
    storages = tuple(Storage(4 * KB, place in given, place in host) for place in range(n))
    return Step("s", "t", "t0", "execution trace", storages, tuple(Tensor(one, (KB,), (1,)) for one in range(n)), calls)


def test_what_the_call_before_wrote_is_as_far_as_half_of_both() -> None:
    """4 + 4 + 4 KB are moved by each: from the middle of one to the middle of the next are 12."""
    made = step(StepCall("a", ((0,), (1,)), (2,)), StepCall("b", ((2,), (1,)), (3,)))
    assert distances(made)["b"] == ((12 * KB,), (12 * KB,))


def test_parameters_were_used_in_the_step_before() -> None:
    """The first call takes what the last call of the step before took, too, and what only it takes: a step ago."""
    made = step(StepCall("a", ((0,),), (2,)), StepCall("b", ((2,), (1,)), (3,)), StepCall("c", ((3,), (0,)), (4,)))
    whole = 8 * KB + 12 * KB + 12 * KB
    assert distances(made) == {
        "a": ((6 * KB + 4 * KB,),),
        "b": ((10 * KB,), (whole,)),
        "c": ((12 * KB,), (4 * KB + 12 * KB + 6 * KB,)),
    }


def test_what_no_call_used_before_is_as_far_as_the_step() -> None:
    made = step(StepCall("a", ((0,),), (1,)), StepCall("b", ((2,), (1,)), ()), given=(0, 1))
    assert distances(made)["b"][0] == (16 * KB,)


def test_calls_of_an_item_have_their_median_and_unknown_tensors_none() -> None:
    again = [StepCall("b", ((1,), (-1,)), ()) for _ in range(3)]
    made = step(StepCall("a", ((0,),), (1,)), *again, given=(0,))
    assert distances(made)["b"] == ((4 * KB,), (-1,))


def test_parameters_in_one_buffer_are_told_apart() -> None:
    """Halves of one allocation are used by turns, 8 KB by each call; then all of it is written."""
    halves = (Tensor(0, (KB,), (1,)), Tensor(0, (KB,), (1,), offset=KB), Tensor(0, (2 * KB,), (1,)))
    calls = [StepCall(name, ((place,),), (place,)) for name, place in (("a", 0), ("b", 1), ("a", 0), ("b", 1))]
    made = Step("s", "t", "t0", "execution trace", (Storage(8 * KB, given=True),), halves, tuple(calls))
    assert distances(made) == {"a": ((16 * KB,),), "b": ((16 * KB,),)}
    filled = Step("s", "t", "t0", "execution trace", made.storages, halves, (*calls, StepCall("fill", (), (2,))))
    assert distances(filled)["a"] == ((8 * KB,),)  # the first of two, half of the fill and half of it


def test_host_memory_is_not_in_the_cache() -> None:
    made = step(StepCall("a", ((0,),), (1,)), StepCall("b", ((0,), (1,)), (2,)), given=(0,), host=(0,))
    assert distances(made)["b"] == ((-1,), (6 * KB,))
