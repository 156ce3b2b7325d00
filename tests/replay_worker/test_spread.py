from __future__ import annotations

import pytest

from kerneldb.replay.measure.loops import interval_rank, settled, smallest_sample, spread


def test_statistics_of_a_sample() -> None:
    found = spread([10.0, 12.0, 11.0, 100.0, 9.0, 10.0, 11.0, 10.0, 12.0])
    assert found is not None
    assert (found.n, found.median_ns, found.mad_ns, found.min_ns) == (9, 11.0, 1.0, 9.0)
    assert (found.low_ns, found.high_ns) == (10.0, 12.0)
    assert found.mean_ns == pytest.approx(185 / 9)


@pytest.mark.parametrize(("n", "rank"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (36, 11)])
def test_ranks_of_the_interval_are_those_of_binomial_tables(n: int, rank: int) -> None:
    assert interval_rank(n) == rank


@pytest.mark.parametrize("n", [100, 1023, 1024, 5000])
def test_ranks_of_large_samples_are_those_of_the_normal_approximation(n: int) -> None:
    assert interval_rank(n) == pytest.approx((n - 1.96 * n**0.5) / 2 - 1, abs=1)  # counted from 0


def test_fewer_than_six_samples_bound_nothing() -> None:
    assert smallest_sample() == 6
    few = spread([5.0] * 5)
    assert few is not None
    assert not settled(few)


def test_settled_by_share_or_by_one_step_of_the_clock() -> None:
    wide = spread([2000.0, 2032.0] * 10)
    assert wide is not None
    assert settled(wide)
    assert not settled(wide, relative=0.001, step_ns=0.0)


def test_no_samples() -> None:
    assert spread([]) is None
