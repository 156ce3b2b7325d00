from __future__ import annotations

import collections

import pytest

from kerneldb.replay.measure.energy.phase import Entry, schedule


def entries(*weights: float) -> list[Entry]:
    return [Entry(f"k{number}", weight) for number, weight in enumerate(weights)]


def windows(planned: object) -> dict[str, int]:
    return dict(collections.Counter(window.id for window in planned.windows))  # type: ignore[attr-defined]


def test_calls_up_to_95_percent_of_the_time_get_three_windows() -> None:
    planned = schedule(entries(900, 60, 30, 10), 420.0, 1)
    assert windows(planned) == {"k0": 3, "k1": 3, "k2": 1, "k3": 1}
    assert {(window.settle_s, window.window_s) for window in planned.windows} == {(0.4, 1.5), (0.15, 0.45)}


def test_200_calls_fit_into_the_usual_budget() -> None:
    planned = schedule(entries(*[1000.0] * 40, *[1.0] * 160), 420.0, 1)
    assert planned.dropped == ()
    spent = sum(window.settle_s + window.window_s + 0.2 for window in planned.windows)
    assert spent + len(planned.windows) / planned.anchor_every * 2.2 + 8 < 420
    assert set(windows(planned).values()) == {3, 1}


def test_a_tight_budget_goes_for_breadth_and_then_leaves_out_the_least() -> None:
    many = entries(*range(200, 0, -1))
    fewer = schedule(many, 240.0, 1)
    assert (fewer.dropped, set(windows(fewer).values())) == ((), {1})
    least = schedule(many, 60.0, 1)
    assert least.dropped == tuple(f"k{number}" for number in range(len(least.windows), 200))
    assert 40 < len(least.windows) < 60


@pytest.mark.parametrize("budget", [0.0, 5.0])
def test_no_budget_at_all(budget: float) -> None:
    planned = schedule(entries(3, 2, 1), budget, 1)
    assert (planned.windows, planned.dropped) == ((), ("k0", "k1", "k2"))


def test_what_was_measured_before_is_not_measured_again() -> None:
    before = [Entry("a", 900, done=2), Entry("b", 90, done=3), Entry("c", 10, done=1)]
    assert windows(schedule(before, 420.0, 1)) == {"a": 1}
    assert schedule(before, 0.0, 1).dropped == ()


def test_rounds_have_orders_of_their_own_by_the_seed() -> None:
    planned = schedule(entries(*[1.0] * 20), 420.0, 5)
    names = [window.id for window in planned.windows[:57]]
    rounds = [names[:19], names[19:38], names[38:]]
    assert sorted(rounds[0]) == sorted(rounds[1]) == sorted(rounds[2])
    assert rounds[0] != rounds[1]
    assert planned == schedule(entries(*[1.0] * 20), 420.0, 5)


def test_references_are_measured_six_times_in_short_runs() -> None:
    assert schedule(entries(*[1.0] * 8), 420.0, 1).anchor_every == 4
    assert schedule(entries(*[1.0] * 100), 4000.0, 1).anchor_every == 15
