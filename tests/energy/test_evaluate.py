"""The formulas of energy, by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest

from kerneldb.replay.measure.energy.evaluate import (
    Common,
    Drift,
    Kernels,
    LaunchLoop,
    above,
    drift_of,
    evaluate,
    launch_loop_of,
    repeatability,
    student,
)
from kerneldb.replay.measure.energy.phase import with_upkeep
from kerneldb.replay.wire.energy import Window

LAUNCH_LOOP = LaunchLoop(127.0, 0.2, 41.0)
ALONE = Window(at=0.0, seconds=1.4, power_w=300.0, power_sd_w=1.0, slot_ns=5000.0, steps=14, temperature_c=41.0)


def windows(*powers: float, **fields: object) -> list[Window]:
    return [dataclasses.replace(ALONE, power_w=one, at=10.0 * n, **fields) for n, one in enumerate(powers)]  # type: ignore[arg-type]


def test_energy_is_above_the_gap_and_the_gap_for_the_time_of_the_kernels() -> None:
    found = evaluate([ALONE], Kernels(4200.0), Common(LAUNCH_LOOP))
    assert found.dynamic_mj == pytest.approx((300 - 127) * 5000 * 1e-6)
    assert found.energy_mj == pytest.approx((300 - 127) * 5000 * 1e-6 + 127 * 4200 * 1e-6)
    assert (found.power_w, found.busy_share, found.seconds) == (300.0, 0.84, 1.4)
    assert found.method == "CUDA-graph loop between counter steps"


def test_the_length_of_the_gap_between_calls_does_not_matter() -> None:
    """4 µs at 343.25 W, then gaps of 1 or 6 µs at 127 W: the same energy."""
    found = [
        evaluate([dataclasses.replace(ALONE, power_w=(343.25 * 4000 + 127 * gap) / (4000 + gap), slot_ns=4000.0 + gap)],
                 Kernels(4000.0), Common(LAUNCH_LOOP)).energy_mj
        for gap in (1000.0, 6000.0)
    ]  # fmt: skip
    assert found == pytest.approx([343.25 * 4000 * 1e-6] * 2)


def test_upkeep_is_taken_off_with_its_error() -> None:
    upkeep = dataclasses.replace(ALONE, power_w=400.0, power_sd_w=3.0, slot_ns=50_000.0)
    whole = with_upkeep(ALONE, upkeep, 1 / 100)
    assert above(whole, LAUNCH_LOOP) == pytest.approx((300 - 127) * 5000 - (400 - 127) * 500)
    assert (whole.upkeep_ns, whole.upkeep_w, whole.upkeep_sd_w) == (500.0, 400.0, 3.0)
    exact = dataclasses.replace(whole, upkeep_sd_w=0.0)
    plain, kept = (evaluate([one], Kernels(4200.0), Common(LAUNCH_LOOP)) for one in (exact, whole))
    assert (kept.dynamic_high_mj or 0) - (kept.dynamic_mj or 0) > (plain.dynamic_high_mj or 0) - (plain.dynamic_mj or 0)
    assert "upkeep" in str(kept.method)


def test_two_kinds_of_upkeep_add_up() -> None:
    first = dataclasses.replace(ALONE, power_w=400.0, power_sd_w=3.0, slot_ns=50_000.0)
    second = dataclasses.replace(ALONE, power_w=200.0, power_sd_w=4.0, slot_ns=10_000.0)
    both = with_upkeep(with_upkeep(ALONE, first, 0.01), second, 0.05)
    assert both.upkeep_ns == 1000.0
    assert both.upkeep_w == pytest.approx(300.0)
    assert both.upkeep_sd_w == pytest.approx(2.5)


def test_small_cold_inputs_are_added() -> None:
    cold = dataclasses.replace(ALONE, memory_nj=300.0)
    assert above(cold, LAUNCH_LOOP) == pytest.approx(above(ALONE, LAUNCH_LOOP) + 300.0)
    assert "small cold inputs added" in str(evaluate([cold], Kernels(4200.0), Common(LAUNCH_LOOP)).method)


def test_single_calls_that_leave_the_device_idle_have_no_energy() -> None:
    eager = dataclasses.replace(ALONE, loop="eager")
    assert evaluate([eager], Kernels(2400.0), Common(LAUNCH_LOOP)).energy_mj is None
    assert evaluate([eager], Kernels(2600.0), Common(LAUNCH_LOOP)).energy_mj is not None


def test_launch_loop_power_rises_with_temperature_where_that_is_sure() -> None:
    rising = [
        dataclasses.replace(one, power_w=127.0 + 0.4 * n, power_sd_w=0.2, temperature_c=40.0 + n)
        for n, one in enumerate(windows(*[0.0] * 8))
    ]
    found = launch_loop_of(rising)
    assert found.slope == pytest.approx(0.4)
    assert found.at(50.0) == pytest.approx(131.0)
    assert found.sd_at(60.0) > found.sd_at(43.5)
    assert launch_loop_of([dataclasses.replace(one, temperature_c=41.0) for one in rising]).slope == 0.0
    unknown = launch_loop_of([dataclasses.replace(one, temperature_c=None) for one in rising])
    assert (unknown.temperature_c, unknown.at(90.0)) == (None, unknown.power_w)
    assert unknown.power_w == pytest.approx(128.4)


def test_a_drift_within_its_errors_is_none() -> None:
    steady = drift_of(windows(300.0, 301.0, 299.5, 300.2, 300.6), LAUNCH_LOOP)
    assert (steady.times, steady.factor(20.0)) == ((), 1.0)


def test_a_drift_beyond_its_errors_is_followed() -> None:
    drift = drift_of(windows(300.0, 304.0, 308.0, 312.0, 316.0, 320.0), LAUNCH_LOOP)
    values = [above(one, LAUNCH_LOOP, drift) for one in windows(300.0, 304.0, 308.0, 312.0, 316.0, 320.0)]
    assert max(values) / min(values) - 1 < 0.001
    assert drift.factor(25.0) == pytest.approx(1.0, abs=1e-6)
    assert drift.factor(-5.0) == drift.factor(0.0)
    assert drift.factor(99.0) == drift.factor(50.0) > 1.03


def test_anchors_that_jump_about_are_an_error_of_all() -> None:
    drift = drift_of(windows(300.0, 320.0, 300.0, 320.0, 300.0, 320.0), LAUNCH_LOOP)
    assert drift.times == ()
    assert drift.sd == pytest.approx(0.06, rel=0.15)
    wide, narrow = (evaluate([ALONE], Kernels(4200.0), Common(LAUNCH_LOOP, one)) for one in (drift, Drift()))
    assert (wide.energy_high_mj or 0) - (wide.energy_low_mj or 0) > (narrow.energy_high_mj or 0) - (
        narrow.energy_low_mj or 0
    )


def test_repetitions_beyond_their_errors_are_pooled() -> None:
    found, freedom = repeatability([windows(300.0, 310.0, 305.0), windows(400.0, 380.0), [ALONE]], LAUNCH_LOOP, Drift())
    assert freedom == 3
    assert found == pytest.approx(math.sqrt((2 * (25 / 305**2 - 1 / 305**2) + (200 - 1) / 390**2) / 3), rel=0.02)
    assert repeatability([[ALONE]], LAUNCH_LOOP, Drift())[1] == 0


def test_more_windows_make_it_surer() -> None:
    halves = []
    for count in (1, 3):
        found = evaluate(windows(*[300.0, 300.5, 299.5][:count]), Kernels(4200.0), Common(LAUNCH_LOOP))
        halves.append((found.energy_high_mj or 0) - (found.energy_mj or 0))
    assert halves[1] < 0.75 * halves[0]


@pytest.mark.parametrize(("freedom", "quantile"), [(3, 3.182), (4, 2.776), (6, 2.447), (10, 2.228), (100, 1.984)])
def test_quantiles_of_student(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, rel=0.01)
