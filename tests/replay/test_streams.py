"""Calls of a step on several streams: whatever happens at once, no call sees or spoils what it must not."""

from __future__ import annotations

import random

import pytest

from kerneldb.replay.steps.streams import MAIN, Schedule, numbered, scheduled, uses
from kerneldb.replay.wire.steps import Step, StepCall, Storage, Tensor

STORAGES = 6


def step(*calls: StepCall) -> Step:
    storages = tuple(Storage(4, given=place < 2) for place in range(STORAGES))
    return Step("s", "t", "t1", "execution trace", storages, tuple(Tensor(n) for n in range(STORAGES)), calls)


def call(stream: int, takes: tuple[int, ...], gives: tuple[int, ...], frees: tuple[int, ...] = ()) -> StepCall:
    return StepCall("x", tuple((one,) for one in takes), gives, frees=frees, stream=stream)


def before(schedule: Schedule) -> list[set[int]]:
    """The calls that have ended when each begins: those before it on its stream, those waited for, and theirs."""
    found: list[set[int]] = []
    last: dict[int, int] = {}
    for place, stream in enumerate(schedule.streams):
        direct = [*schedule.waits.get(place, ()), *([last[stream]] if stream in last else [])]
        found.append(set(direct).union(*(found[one] for one in direct)))
        last[stream] = place
    return found


def test_the_stream_with_most_calls_is_the_first() -> None:
    made = step(call(20, (0,), (2,)), call(7, (0,), (3,)), call(7, (0,), (4,)), call(9, (0,), (5,)))
    assert numbered(made) == (1, MAIN, MAIN, 2)
    assert scheduled(step(call(7, (0,), (2,)), call(7, (2,), (3,)))).count == 1


def test_a_sum_beside_a_product_is_awaited_where_it_is_used() -> None:
    calls = (
        call(7, (0,), (2,)), call(20, (2,), (2,)), call(7, (0,), (3,)), call(7, (3,), (4,)), call(7, (2, 4), (5,)),
    )  # fmt: skip
    schedule = scheduled(step(*calls))
    assert schedule.waits == {1: (0,), 4: (1,)}
    assert schedule.noted == {0, 1}


def test_what_another_stream_may_still_read_is_not_given_away() -> None:
    read = (call(7, (0,), (2,)), call(20, (2,), (3,)), call(7, (0,), (4,), frees=(2,)), call(7, (4,), (4,)))
    assert scheduled(step(*read)).shared == {2: ((2, 1),)}
    awaited = (*read[:2], call(7, (3,), (4,), frees=(2,)), read[3])
    assert scheduled(step(*awaited)).shared == {}
    assert scheduled(step(*awaited)).homes == {3: 1}


@pytest.mark.parametrize("seed", range(20))
def test_calls_that_stand_in_each_others_way_run_in_the_recorded_order(seed: int) -> None:
    drawn = random.Random(seed)
    calls = [
        call(drawn.choice((7, 7, 20, 21)), tuple(drawn.sample(range(STORAGES), 2)), (drawn.randrange(STORAGES),))
        for _ in range(40)
    ]
    made = step(*calls)
    ended = before(scheduled(made))
    for place, later in enumerate(calls):
        taken, written = uses(made, later)
        for at, earlier in enumerate(calls[:place]):
            took, wrote = uses(made, earlier)
            if wrote & (taken | written) or took & written:
                assert at in ended[place]
