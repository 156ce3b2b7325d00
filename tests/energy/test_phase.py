"""The energy phase on a simulated device: known energies come out again, and errors are as large as they say."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping
from typing import Any

import pytest

from kerneldb.replay.measure.energy.evaluate import Common, Kernels, LaunchLoop, Limits, evaluate, free
from kerneldb.replay.measure.energy.phase import Phase, Task
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts
from tests.energy.simulated import EMPTY_NS, GAP_NS, GAP_W, Device, Notes, SimulatedLoads, SimulatedMeter, Work, planned

WORKS = {
    "gemm": Work(640.0, 400_000.0),
    "gemv": Work(380.0, 12_500.0),
    "norm": Work(260.0, 4_000.0),
    "add": Work(230.0, 1_900.0),
    "slow": Work(500.0, 61_000_000.0),
}
BUDGET_S = 420.0
CAP_W = 700.0
LIMITS = Limits(CAP_W, 1980.0)
HOT = {"gemm": Work(1000.0, 127_000.0), "silu": Work(800.0, 12_200.0), "norm": Work(460.0, 11_400.0)}


def tasks(works: Mapping[str, Work] = WORKS, **totals: int) -> list[Task]:
    return [
        Task(planned(name, totals.get(name, 1_000_000)), 0, Kernels(work.kernel_ns, slot_ns=work.slot_s * 1e9))
        for name, work in works.items()
    ]


def measured(
    device: Device | None = None,
    todo: list[Task] | None = None,
    facts: EnergyFacts | None = None,
    *,
    budget_s: float = BUDGET_S,
    meter: Mapping[str, float] | None = None,
    **loads: Any,
) -> Notes:
    device = device or Device()
    notes = Notes()
    made = SimulatedLoads(device, **{"works": WORKS, **loads})
    meter_of = SimulatedMeter(device, **(meter or {}))
    phase = Phase(made, meter_of, device, notes, facts or EnergyFacts(seed=7), LIMITS)
    phase.run(tasks() if todo is None else todo, budget_s)
    return notes


def within(energy: CallEnergy, work: Work) -> tuple[bool, bool]:
    assert energy.energy_low_mj is not None
    assert energy.energy_high_mj is not None
    assert energy.dynamic_low_mj is not None
    assert energy.dynamic_high_mj is not None
    whole = energy.energy_low_mj <= work.energy_mj <= energy.energy_high_mj
    return whole, energy.dynamic_low_mj <= work.above_mj <= energy.dynamic_high_mj


def test_known_energies_come_out_within_one_percent() -> None:
    notes = measured()
    for name, work in WORKS.items():
        found = notes.energies[name]
        assert found.energy_mj == pytest.approx(work.energy_mj, rel=0.01), name
        assert found.dynamic_mj == pytest.approx(work.above_mj, rel=0.01), name
        assert (found.final, len(found.windows), found.reason) == (True, 3, None)
    assert notes.facts.launch_loop_power_w == pytest.approx(GAP_W, rel=0.005)
    assert notes.facts.period_ms == pytest.approx(100.0, rel=0.001)
    assert notes.facts.context_power_w == pytest.approx(120.0, rel=0.01)


def test_sums_close_exactly() -> None:
    """Σ n·above + G·T is Σ n·energy + G·(T - Σ n·t), whatever the launches and the wall time."""
    notes = measured()
    gap, wall_ns = notes.facts.launch_loop_power_w, 5e9
    assert gap is not None
    launches = dict(zip(WORKS, (3, 170, 400, 900, 2), strict=True))
    above = sum(n * (notes.energies[name].dynamic_mj or 0) for name, n in launches.items())
    energy = sum(n * (notes.energies[name].energy_mj or 0) for name, n in launches.items())
    busy_ns = sum(n * WORKS[name].kernel_ns for name, n in launches.items())
    assert above + gap * wall_ns / 1e6 == pytest.approx(energy + gap * (wall_ns - busy_ns) / 1e6, rel=1e-9)


def test_error_bars_hold_what_they_promise() -> None:
    """95 % intervals hold the truth in at least 90 % of repeats, with noise, and scatter from window to window."""
    hits: list[tuple[bool, bool]] = []
    for seed in range(24):
        notes = measured(Device(seed=seed, spread=0.004), facts=EnergyFacts(seed=seed))
        hits += [within(notes.energies[name], work) for name, work in WORKS.items()]
    for held in zip(*hits, strict=True):
        assert sum(held) / len(held) >= 0.9


def test_error_bars_hold_on_a_warming_device() -> None:
    held: list[bool] = []
    for seed in range(24):
        notes = measured(Device(seed=seed, spread=0.004, leak=0.3), facts=EnergyFacts(seed=seed))
        held += [within(notes.energies[name], work)[1] for name, work in WORKS.items()]
    assert sum(held) / len(held) >= 0.9


def test_error_bars_are_no_wider_than_useful() -> None:
    found = measured().energies["gemm"]
    assert found.energy_mj is not None
    assert ((found.energy_high_mj or 0) - (found.energy_low_mj or 0)) / 2 < 0.015 * found.energy_mj


def test_a_warm_device_is_compared_with_warm_gaps() -> None:
    notes = measured(Device(leak=0.8))
    assert max(one.temperature_c or 0 for one in notes.facts.gaps) > 43
    for name, work in WORKS.items():
        assert notes.energies[name].dynamic_mj == pytest.approx(work.above_mj, rel=0.02), name


def test_drift_of_the_meter_is_taken_out() -> None:
    """A meter that reads 4 % more in the end than in the beginning."""
    works = {f"gemm{number}": Work(500.0 + number, 300_000.0) for number in range(40)}
    device = Device()
    device.gain = lambda at: 1.0 + 0.04 * min((at - 100.0) / 250.0, 1.0)
    notes = Notes()
    phase = Phase(SimulatedLoads(device, works), SimulatedMeter(device), device, notes, EnergyFacts(seed=3))
    phase.run(tasks(works), 1000.0)
    long = {name: work for name, work in works.items() if len(notes.energies[name].windows) > 1}
    ratios = [(notes.energies[name].dynamic_mj or 0) / work.above_mj for name, work in long.items()]
    anchors = [one.power_w for one in notes.facts.anchors]
    assert max(anchors) / min(anchors) > 1.03
    assert statistics.stdev(ratios) < 0.004
    assert statistics.fmean(ratios) == pytest.approx(1.02, abs=0.015)


def test_upkeep_is_taken_off() -> None:
    notes = measured(upkeep={"gemv": Work(300.0, 6_000.0)})
    found = notes.energies["gemv"]
    assert found.dynamic_mj == pytest.approx(WORKS["gemv"].above_mj, rel=0.02)
    assert "upkeep" in str(found.method)


def test_what_does_not_keep_the_device_busy_has_no_energy() -> None:
    found = measured(uncapturable=frozenset({"add"})).energies["add"]
    assert (found.energy_mj, found.dynamic_mj) == (None, None)
    assert found.reason == "the device was not kept busy: kernels ran for 9% of the time"


def test_what_fails_has_its_reason_and_harms_no_other() -> None:
    notes = measured(failing=frozenset({"norm"}))
    assert notes.energies["norm"].reason == "RuntimeError: operation not permitted when stream is capturing"
    assert notes.energies["gemm"].energy_mj is not None


def test_a_counter_that_never_moves() -> None:
    notes = measured(meter={"sticks_at": 0.0})
    assert {one.reason for one in notes.energies.values()} == {
        "the energy counter of simulated does not move: 2 s without a change"
    }
    assert "does not move" in str(notes.facts.reason)


@pytest.mark.parametrize("cause", ["dies_at", "sticks_at"])
def test_a_meter_that_fails_on_the_way_keeps_what_was_measured(cause: str) -> None:
    notes = measured(meter={cause: 112.0})
    known = [one for one in notes.energies.values() if one.energy_mj is not None]
    lost = [one for one in notes.energies.values() if one.energy_mj is None]
    assert 0 < len(known) < len(WORKS)
    assert all(one.final and one.reason for one in lost)
    assert notes.facts.reason is not None


def test_the_budget_leaves_out_what_took_least_time() -> None:
    totals = {"gemm": 10**9, "gemv": 10**8, "norm": 10**5, "add": 10**4, "slow": 10**3}
    notes = measured(todo=tasks(**totals), budget_s=11.0)
    reasons = {name: notes.energies[name].reason for name in totals}
    assert reasons["gemm"] is None
    assert reasons["slow"] == "budget"
    assert notes.facts.spent_s < 16.0


def test_each_window_is_reported_and_a_later_part_of_the_run_goes_on() -> None:
    first = measured(meter={"dies_at": 116.0})
    windows = {name: list(one.windows) for name, one in first.energies.items()}
    counts = {name: len(held) for name, held in windows.items()}
    assert 0 < sum(counts.values()) < 15
    todo = [Task(one.item, 0, one.kernels, windows=windows[one.item.id]) for one in tasks()]
    second = measured(Device(seed=5), todo, first.facts)
    assert {len(one.windows) for one in second.energies.values()} == {3}
    assert second.facts.seed == first.facts.seed == 7
    assert len(second.facts.gaps) > len(first.facts.gaps)
    assert second.facts.spent_s > first.facts.spent_s


def test_orders_differ_by_seed_and_are_the_same_for_the_same() -> None:
    orders = [[name for name, _ in measured(facts=EnergyFacts(seed=seed)).history] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_readings_are_in_order_and_say_what_ran() -> None:
    notes = measured()
    assert {one.workload for one in notes.read} == {*WORKS, "gap", "anchor"}
    counted = [one.energy_mj for one in notes.read if one.energy_mj is not None]
    assert all(a <= b for a, b in itertools.pairwise(counted))
    assert {one.sm_mhz for one in notes.read} == {None, 1980.0}


def hot(**chosen: Any) -> Notes:
    """Calls that draw more than the board may, and one that does not."""
    return measured(Device(cap_w=CAP_W), tasks(HOT), works=HOT, **chosen)


def test_a_loop_that_the_power_cap_slows_down_is_padded() -> None:
    """The energy at full clock comes out within 1 %; without idle padding it would be off by more than 5 %."""
    notes = hot()
    for name, work in HOT.items():
        found = notes.energies[name]
        assert found.dynamic_mj == pytest.approx(work.above_mj, rel=0.01), name
        assert found.energy_mj == pytest.approx(work.energy_mj, rel=0.01), name
        assert len(free(found.windows)) == 3, name
    gemm = notes.energies["gemm"]
    slowed = [one for one in gemm.windows if one.slowed]
    assert len(slowed) == 1
    assert slowed[0].seconds < 1.0
    law = HOT["gemm"].under(CAP_W)
    assert gemm.capped_mhz == pytest.approx(1980.0 * law.clock, rel=0.01)
    assert gemm.capped_stretch == pytest.approx(law.slot_s / HOT["gemm"].slot_s, rel=0.01)
    assert gemm.capped_dynamic_mj == pytest.approx(law.above_mj, rel=0.02)
    assert notes.energies["norm"].capped_mhz is None
    capped = evaluate(slowed, Kernels(HOT["gemm"].kernel_ns), Common(LaunchLoop(GAP_W, 0.1)))
    assert (capped.dynamic_mj or 0) < 0.95 * HOT["gemm"].above_mj
    assert gemm.method == "CUDA-graph loop between counter steps, padded"
    assert (gemm.sm_mhz, gemm.throttle) == (1980.0, None)
    assert max(one.power_w for one in free(gemm.windows)) < 0.82 * CAP_W
    assert "padded" not in str(notes.energies["norm"].method)
    assert notes.facts.pad is not None


def test_intervals_of_padded_calls_hold_what_they_promise() -> None:
    held: list[tuple[bool, bool]] = []
    for seed in range(12):
        device = Device(seed=seed, spread=0.004, cap_w=CAP_W)
        notes = measured(device, tasks(HOT), EnergyFacts(seed=seed), works=HOT)
        held += [within(notes.energies[name], work) for name, work in HOT.items()]
    for quantity in zip(*held, strict=True):
        assert sum(quantity) / len(quantity) >= 0.9


def test_without_time_for_padding_the_interval_says_how_little_is_known() -> None:
    first = hot()
    task = tasks(HOT)[0]
    task.windows.append(first.energies["gemm"].windows[0])
    found = measured(Device(cap_w=CAP_W), [task], first.facts, works=HOT, budget_s=1.0).energies["gemm"]
    assert (len(found.windows), found.final) == (1, True)
    assert found.method == "CUDA-graph loop between counter steps, held down by the power cap"
    assert found.throttle == "software power cap"
    assert (found.dynamic_mj or 0) < 0.95 * HOT["gemm"].above_mj
    assert within(found, HOT["gemm"]) == (True, True)


def test_a_later_part_of_the_run_goes_on_with_the_same_padding() -> None:
    first = hot()
    todo = [Task(one.item, 0, one.kernels, windows=list(first.energies[one.item.id].windows[:2])) for one in tasks(HOT)]
    notes = measured(Device(seed=4, cap_w=CAP_W), todo, first.facts, works=HOT, budget_s=1000.0)
    gemm = notes.energies["gemm"].windows
    assert [bool(one.slowed) for one in gemm] == [True, False, False, False]
    assert len({one.pad_ns for one in gemm[1:]}) == 1


def test_windows_with_padding_leave_time_for_calls_that_have_none() -> None:
    works = {**{f"gemm{number}": Work(1000.0, 127_000.0) for number in range(12)}, "add": Work(300.0, 2_000.0)}
    totals = dict.fromkeys(works, 10**9) | {"add": 10**4}
    notes = measured(Device(cap_w=CAP_W), tasks(works, **totals), works=works, budget_s=62.0)
    assert all(free(one.windows) for one in notes.energies.values())
    assert notes.energies["add"].energy_mj is not None
    assert notes.facts.spent_s < 65.0


def test_a_queue_that_ran_dry_is_tried_once_more_and_deeper() -> None:
    found = measured(dries={"gemm": 0.2}).energies["gemm"]
    assert (found.reason, len(found.windows)) == (None, 3)
    lost = measured(dries={"gemm": 5.0}).energies["gemm"]
    assert "ran out of work" in str(lost.reason)
    assert lost.energy_mj is None


def test_a_host_too_slow_to_keep_up_gets_time_from_padding() -> None:
    """Calls that cannot be captured, enqueued at half the speed at which they run."""
    work = Work(400.0, 30_000.0)
    found = measured(works={"sdpa": work}, todo=tasks({"sdpa": work}), slow_host=frozenset({"sdpa"})).energies["sdpa"]
    assert found.dynamic_mj == pytest.approx(work.above_mj, rel=0.01)
    assert all(one.pad_ns >= 200_000 for one in found.windows)


def test_the_gap_is_the_slot_without_the_empty_kernel() -> None:
    facts = measured().facts
    assert (facts.gap_slot_ns, facts.empty_ns) == (pytest.approx(GAP_NS), EMPTY_NS)
    assert facts.gap_ns == pytest.approx(GAP_NS - EMPTY_NS)


@pytest.mark.parametrize("empty_ns", [None, 2 * GAP_NS])
def test_a_gap_that_is_not_known_is_none(empty_ns: float | None) -> None:
    facts = measured(empties=empty_ns).facts
    assert (facts.gap_ns, facts.empty_ns) == (None, empty_ns)
    assert facts.gap_slot_ns == pytest.approx(GAP_NS)
