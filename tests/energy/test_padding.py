"""When a loop was held down by the power cap, and how long its idle padding is: figures of an H200 (700 W)."""

from __future__ import annotations

import dataclasses

import pytest

from kerneldb.replay.measure.energy.evaluate import Limits, free, held_down, padding_ns, slowed, usable
from kerneldb.replay.measure.energy.meter import Sample
from kerneldb.replay.wire.energy import Window

LIMITS = Limits(700.0, 1980.0)
CAP = "software power cap"
GEMM = Window(0.0, 0.7, 677.8, 27.0, 153_762.0, 7, sm_mhz=1282.5, throttle=CAP)
TIMED_NS = 127_397.0


@pytest.mark.parametrize(
    ("power_w", "slot_ns", "sm_mhz", "throttle", "timed_ns", "expected"),
    [
        (677.8, 153_762.0, 1282.5, CAP, 127_397.0, 0.544),
        (664.5, 30_272.0, 1972.5, CAP, 26_754.0, 0.131),  # by its time alone
        (664.3, 178_696.0, 1860.0, CAP, 183_199.0, 0.065),  # by its clock alone
        (684.3, 47_474.0, 1980.0, CAP, 49_277.0, 0.0),  # the reason alone
        (306.4, 360_000.0, 1965.0, CAP, 336_223.0, 0.0),  # the reason of the kernel before
        (650.0, 153_762.0, 1282.5, "hardware thermal slowdown", 127_397.0, 0.0),
        (650.0, 153_762.0, 1282.5, None, 127_397.0, 0.0),
    ],
)
def test_only_loops_that_lost_clock_or_time_were_slowed(
    power_w: float, slot_ns: float, sm_mhz: float, throttle: str | None, timed_ns: float, expected: float
) -> None:
    window = Window(0.0, 0.7, power_w, 1.0, slot_ns, 7, sm_mhz=sm_mhz, throttle=throttle)
    assert slowed(window, LIMITS, timed_ns) == pytest.approx(expected, abs=0.001)


def test_a_padded_loop_is_judged_by_its_clock() -> None:
    padded = dataclasses.replace(GEMM, power_w=540.0, slot_ns=270_000.0, upkeep_ns=127_000.0, pad_ns=127_000.0)
    assert slowed(padded, LIMITS, TIMED_NS) == pytest.approx(0.544, abs=0.001)
    assert slowed(dataclasses.replace(padded, sm_mhz=1965.0), LIMITS, TIMED_NS) == 0


def test_without_known_limits_the_time_shows() -> None:
    assert slowed(GEMM, Limits(), TIMED_NS) == pytest.approx(0.207, abs=0.001)


def test_a_sample_shows_the_cap_by_its_clock() -> None:
    sample = Sample(0, 0, sm_mhz=1680.0, throttle=CAP)
    assert held_down(sample, LIMITS)
    assert not held_down(dataclasses.replace(sample, sm_mhz=1965.0), LIMITS)
    assert not held_down(dataclasses.replace(sample, throttle=""), LIMITS)
    assert not held_down(dataclasses.replace(sample, sm_mhz=None), LIMITS)


def test_padding_is_at_least_as_long_as_the_call_and_grows() -> None:
    capped = dataclasses.replace(GEMM, slowed=0.544)
    assert padding_ns([], 125.0, LIMITS, TIMED_NS) == 0
    assert padding_ns([GEMM], 125.0, LIMITS, TIMED_NS) == 0
    first = padding_ns([capped], 125.0, LIMITS, TIMED_NS)
    assert first == TIMED_NS
    padded = dataclasses.replace(capped, pad_ns=first, upkeep_ns=first, upkeep_w=127.0, slot_ns=first + 130_000)
    assert padding_ns([capped, padded], 125.0, LIMITS, TIMED_NS) >= 1.5 * first
    enough = dataclasses.replace(padded, slowed=0.0)
    assert padding_ns([capped, enough], 125.0, LIMITS, TIMED_NS) == first


def test_padding_brings_the_mean_power_to_four_fifths_of_the_limit() -> None:
    """A loop that was slowed down by half, and costs more at full clock by as much."""
    capped = Window(0.0, 0.7, 700.0, 1.0, 150_000.0, 7, slowed=0.5)
    pause_ns = padding_ns([capped], 125.0, LIMITS, 100_000.0)
    above_nj = (700.0 - 125.0) * 150_000.0 * 1.5
    assert 125.0 + above_nj / (100_000.0 + pause_ns) == pytest.approx(560.0)


def test_slowed_windows_count_where_there_are_no_others() -> None:
    capped = dataclasses.replace(GEMM, slowed=0.5)
    assert usable([capped, GEMM]) == free([capped, GEMM]) == [GEMM]
    assert usable([capped]) == [capped]
    assert free([capped]) == []
