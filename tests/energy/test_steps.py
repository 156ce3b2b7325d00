"""Power between steps of a counter: its period, and how sure the time between two steps is."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator

import pytest

from kerneldb.replay.measure.energy.meter import Meter, MeterError, Sample
from kerneldb.replay.measure.energy.steps import (
    Clock,
    CounterPeriod,
    CounterStep,
    Load,
    Power,
    StuckCounterError,
    Watch,
    find_period,
    power,
    steps_of,
)
from tests.energy.simulated import IDLE_W, Device, SimulatedLoad, SimulatedMeter, Work


def ticks(count: int, *, half_s: float = 0.002, off: float = 0.0, watts: float = 500.0) -> list[CounterStep]:
    return [CounterStep(0.1 * n + off * (-1) ** n, half_s, 1000 * watts * 0.1 * n) for n in range(count)]


def power_between_steps(
    meter: Meter,
    load: Load,
    clock: Clock,
    *,
    window_s: float,
    settle_s: float = 0.4,
    period: CounterPeriod | None = None,
) -> Power:
    """Mean power of the device while `load` is kept queued for about `window_s` seconds."""
    watch = Watch(meter, clock)
    known = period or find_period(watch)
    steps, _ = steps_of(load, watch, known, settle_s=settle_s, window_s=window_s)
    return power(steps, known)


def test_the_period_comes_out_of_ten_steps() -> None:
    device = Device()
    watch = Watch(SimulatedMeter(device), device)
    begun = device.now()
    period = find_period(watch)
    assert device.now() - begun < 1.2
    assert period.seconds == pytest.approx(0.1, rel=0.01)
    assert period.steady


def test_the_period_gets_surer_with_every_window() -> None:
    device = Device()
    watch = Watch(SimulatedMeter(device), device)
    period = find_period(watch)
    first = period.sd
    for _ in range(10):
        device.sleep(3.0)
        steps_of(Load(), watch, period, settle_s=0.0, window_s=1.0)
    assert period.sd < first / 10
    assert abs(period.seconds - 0.1) < 4 * period.sd


def test_periods_that_can_be_counted_beat_the_readings() -> None:
    period = CounterPeriod(0.1)
    period.learn(ticks(200))
    measured = ticks(10)
    measured[-1] = CounterStep(0.9 + 0.0015, 0.002, measured[-1].energy_mj)
    assert power(measured, period).power_w == pytest.approx(500.0, rel=1e-4)
    unsure = CounterPeriod(0.1)
    assert power(measured, unsure).power_w == pytest.approx(500.0 * 0.9 / 0.9015, rel=1e-6)
    assert power(measured, period).sd_w < power(measured, unsure).sd_w


def test_a_counter_that_is_not_periodic_is_read_at_its_ends() -> None:
    period = CounterPeriod(0.1)
    period.learn(ticks(40, off=0.012))
    assert not period.steady
    assert power(ticks(10), period).power_w == pytest.approx(500.0)


def test_missed_steps_do_not_count() -> None:
    steps = [step for number, step in enumerate(ticks(12)) if number not in {4, 5}]
    period = CounterPeriod(0.1)
    period.learn(ticks(50))
    found = power(steps, period)
    assert found.power_w == pytest.approx(500.0)
    assert found.seconds == pytest.approx(1.1)


def test_a_trend_widens_the_error() -> None:
    period = CounterPeriod(0.1)
    period.learn(ticks(50))
    watts = [500.0 + 10 * n for n in range(12)]
    energy = [0.0, *itertools.accumulate(100 * one for one in watts)]
    steps = [CounterStep(0.1 * n, 0.002, mj) for n, mj in enumerate(energy)]
    found = power(steps, period)
    assert found.trend == pytest.approx(60 / 555, rel=0.01)
    assert found.sd_w > 15


def test_one_step_is_no_span() -> None:
    with pytest.raises(StuckCounterError, match="less than twice"):
        power(ticks(1), CounterPeriod(0.1))


@pytest.mark.parametrize("window_s", [0.45, 1.5])
def test_a_busy_span_has_the_power_of_its_work(window_s: float) -> None:
    errors = []
    for seed in range(20):
        device = Device(seed=seed, noise=0.005)
        work = Work(500.0, 98_000.0, 2_000.0)
        found = power_between_steps(
            SimulatedMeter(device), SimulatedLoad(device, work), device, window_s=window_s, period=None
        )
        errors.append((found.power_w - (500 * 0.98 + 135 * 0.02)) / found.sd_w)
    assert statistics.fmean(errors) == pytest.approx(0, abs=0.7)
    assert 0.4 < statistics.pstdev(errors) < 2


def test_an_idle_device_needs_no_work() -> None:
    device = Device()
    found = power_between_steps(SimulatedMeter(device), Load(), device, window_s=1.0, settle_s=0.0)
    assert found.power_w == pytest.approx(IDLE_W, rel=0.01)


def test_a_stuck_counter_is_reported_in_time() -> None:
    device = Device()
    watch = Watch(SimulatedMeter(device, sticks_at=103.0), device)
    period = find_period(watch)
    with pytest.raises(StuckCounterError, match="does not move any more"):
        steps_of(Load(), watch, period, settle_s=5.0, window_s=1.0)
    assert device.now() < 112


class Listed:
    """A counter whose readings are given."""

    name = "listed"

    def __init__(self, readings: Iterator[float]) -> None:
        self._readings = readings

    def energy_mj(self) -> float:
        return next(self._readings)

    def sample(self) -> Sample:
        return Sample(0, 0)

    def close(self) -> None: ...


def test_a_counter_that_runs_backwards_is_an_error() -> None:
    watch = Watch(Listed(iter([5.0, 5.0, 6.0, 2.0])), Clock())
    assert [watch.poll() for _ in range(2)] == [None, None]
    step = watch.poll()
    assert step is not None
    assert step.energy_mj == 6.0
    with pytest.raises(MeterError, match="backwards"):
        watch.poll()


def test_a_fast_counter_is_a_step_at_every_reading() -> None:
    device = Device(period_s=0.001, duty=1.0, noise=0.0, jitter_s=0.0)
    meter = SimulatedMeter(device)
    meter._reading_s = 0.0001
    work = Work(80.0, 1e6, 0.0)
    period = find_period(Watch(meter, device))
    assert not period.slow
    found = power_between_steps(meter, SimulatedLoad(device, work), device, window_s=0.5, period=period)
    assert found.power_w == pytest.approx(80.0, rel=0.005)
    assert math.isfinite(found.sd_w)
