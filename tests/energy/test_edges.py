"""Power between edges: the period of a counter, and how sure the time between two edges is."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator

import pytest

from kerneldb.replay.measure.energy.clock import SystemClock
from kerneldb.replay.measure.energy.edges import (
    Beat,
    Edge,
    Rest,
    StuckCounterError,
    Watch,
    edges_of,
    find_beat,
    power,
    power_between_edges,
)
from kerneldb.replay.measure.energy.meter import MeterError, Sample
from tests.energy.simulated import IDLE_W, Device, SimulatedLoad, SimulatedMeter, Work


def ticks(count: int, *, half_s: float = 0.002, off: float = 0.0, watts: float = 500.0) -> list[Edge]:
    return [Edge(0.1 * n + off * (-1) ** n, half_s, 1000 * watts * 0.1 * n) for n in range(count)]


def test_the_period_comes_out_of_ten_edges() -> None:
    device = Device()
    watch = Watch(SimulatedMeter(device), device)
    begun = device.now()
    beat = find_beat(watch)
    assert device.now() - begun < 1.2
    assert beat.seconds == pytest.approx(0.1, rel=0.01)
    assert beat.steady


def test_the_period_gets_surer_with_every_window() -> None:
    device = Device()
    watch = Watch(SimulatedMeter(device), device)
    beat = find_beat(watch)
    first = beat.sd
    for _ in range(10):
        device.sleep(3.0)
        edges_of(Rest(), watch, beat, settle_s=0.0, window_s=1.0)
    assert beat.sd < first / 10
    assert abs(beat.seconds - 0.1) < 4 * beat.sd


def test_steps_that_can_be_counted_beat_the_readings() -> None:
    beat = Beat(0.1)
    beat.learn(ticks(200))
    measured = ticks(10)
    measured[-1] = Edge(0.9 + 0.0015, 0.002, measured[-1].energy_mj)
    assert power(measured, beat).power_w == pytest.approx(500.0, rel=1e-4)
    unsure = Beat(0.1)
    assert power(measured, unsure).power_w == pytest.approx(500.0 * 0.9 / 0.9015, rel=1e-6)
    assert power(measured, beat).sd_w < power(measured, unsure).sd_w


def test_a_counter_without_a_beat_is_read_at_its_ends() -> None:
    beat = Beat(0.1)
    beat.learn(ticks(40, off=0.012))
    assert not beat.steady
    assert power(ticks(10), beat).power_w == pytest.approx(500.0)


def test_missed_edges_do_not_count() -> None:
    edges = [edge for number, edge in enumerate(ticks(12)) if number not in {4, 5}]
    beat = Beat(0.1)
    beat.learn(ticks(50))
    found = power(edges, beat)
    assert found.power_w == pytest.approx(500.0)
    assert found.seconds == pytest.approx(1.1)


def test_a_trend_widens_the_error() -> None:
    beat = Beat(0.1)
    beat.learn(ticks(50))
    watts = [500.0 + 10 * n for n in range(12)]
    energy = [0.0, *itertools.accumulate(100 * one for one in watts)]
    edges = [Edge(0.1 * n, 0.002, mj) for n, mj in enumerate(energy)]
    found = power(edges, beat)
    assert found.trend == pytest.approx(60 / 555, rel=0.01)
    assert found.sd_w > 15


def test_one_edge_is_no_span() -> None:
    with pytest.raises(StuckCounterError, match="less than twice"):
        power(ticks(1), Beat(0.1))


@pytest.mark.parametrize("window_s", [0.45, 1.5])
def test_a_busy_span_has_the_power_of_its_work(window_s: float) -> None:
    errors = []
    for seed in range(20):
        device = Device(seed=seed, noise=0.005)
        work = Work(500.0, 98_000.0, 2_000.0)
        found = power_between_edges(
            SimulatedMeter(device), SimulatedLoad(device, work), device, window_s=window_s, beat=None
        )
        errors.append((found.power_w - (500 * 0.98 + 135 * 0.02)) / found.sd_w)
    assert statistics.fmean(errors) == pytest.approx(0, abs=0.7)
    assert 0.4 < statistics.pstdev(errors) < 2


def test_an_idle_device_needs_no_work() -> None:
    device = Device()
    found = power_between_edges(SimulatedMeter(device), Rest(), device, window_s=1.0, settle_s=0.0)
    assert found.power_w == pytest.approx(IDLE_W, rel=0.01)


def test_a_stuck_counter_is_told_in_time() -> None:
    device = Device()
    watch = Watch(SimulatedMeter(device, sticks_at=103.0), device)
    beat = find_beat(watch)
    with pytest.raises(StuckCounterError, match="does not move any more"):
        edges_of(Rest(), watch, beat, settle_s=5.0, window_s=1.0)
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
    watch = Watch(Listed(iter([5.0, 5.0, 6.0, 2.0])), SystemClock())
    assert [watch.poll() for _ in range(2)] == [None, None]
    edge = watch.poll()
    assert edge is not None
    assert edge.energy_mj == 6.0
    with pytest.raises(MeterError, match="backwards"):
        watch.poll()


def test_a_fast_counter_is_an_edge_at_every_reading() -> None:
    device = Device(period_s=0.001, duty=1.0, noise=0.0, jitter_s=0.0)
    meter = SimulatedMeter(device)
    meter._reading_s = 0.0001
    work = Work(80.0, 1e6, 0.0)
    beat = find_beat(Watch(meter, device))
    assert not beat.slow
    found = power_between_edges(meter, SimulatedLoad(device, work), device, window_s=0.5, beat=beat)
    assert found.power_w == pytest.approx(80.0, rel=0.005)
    assert math.isfinite(found.sd_w)
