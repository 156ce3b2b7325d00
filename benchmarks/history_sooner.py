"""How many nights a change of 2 % of one kernel takes to be found: python benchmarks/history_sooner.py NIGHTS.csv N.

Run it with PYTHONPATH=. from the top of the repository. Histories are drawn from the first N nights of a recording
(columns as in results/2026-11-26-h100-nights/nights.csv) that the search was not tuned on. A table says which share of
changes is found, one in each kernel in turn, by nights before and after it; false alarms are counted in histories that
grow night by night without a change, each line once in all its nights, so as somebody meets them who looks every day.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import functools
import itertools
from pathlib import Path

import numpy as np

from kerneldb.history import search
from tests.answers.nightly import Nightly

SUBJECTS = ("kernel", "operator", "budget", "total")
BEFORE = (5, 6, 8, 10, 15, 20, 30, 60)
AFTER = (5, 6, 8, 10, 15, 20, 30)
NEAR = 3
LONGEST = 60
STEADY_PCT = 1.0
"""Kernels that differ by less from night to night; the others are of few short launches."""

Made = functools.partial[Nightly]


def noise(nights: Nightly, name: str) -> float:
    """Standard deviation [%] of a kernel from night to night."""
    return 100 * float(np.std(np.log(nights.values["kernel", name])))


def share(made: Made, sides: tuple[int, int], histories: int, factor: float) -> dict[bool, tuple[int, int]]:
    """How many changes are found, and how many there are, of steady kernels (True) and of the others."""
    before, after = sides
    every = made(2_000)
    counted = collections.Counter[tuple[bool, bool]]()
    for seed, name in enumerate(histories * every.kernels()):
        nights = made(before + after, 100_000 * before + 1_000 * after + seed)
        nights.slow(name, before, factor)
        told = search.changes(*nights.searched(), before + after)
        found = any(
            (one.subject, one.name, one.cause) == ("kernel", name, "code") and abs(int(one.trace_id) - before) <= NEAR
            for one in told
        )
        counted[noise(every, name) < STEADY_PCT, found] += 1
    return {kind: (counted[kind, True], counted[kind, True] + counted[kind, False]) for kind in (True, False)}


def grown(made: Made, seed: int) -> tuple[int, int, int]:
    """Lines, lines with an alarm in any night up to the longest, and alarms of the last night."""
    ever: set[tuple[str, str]] = set()
    told = []
    whole = made(LONGEST, seed)
    for runs in range(10, LONGEST + 1):
        nights = made(runs, seed)
        nights.values = {key: found[:runs] for key, found in whole.values.items()}
        told = search.changes(*nights.searched(), runs)
        ever |= {(one.subject, one.name) for one in told}
    return len(whole.values), len(ever), len(told)


def upper(events: int) -> float:
    """The 95 % upper bound of the mean of a Poisson count."""
    from scipy.stats import chi2

    return float(chi2.ppf(0.95, 2 * events + 2)) / 2


def main() -> None:
    """Read the arguments, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recorded", type=Path)
    parser.add_argument("nights", type=int)
    parser.add_argument("--histories", type=int, default=10, help="per kernel and cell")
    parser.add_argument("--grown", type=int, default=100)
    parser.add_argument("--percent", type=float, default=2.0)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    made = functools.partial(Nightly, subjects=SUBJECTS, recorded=arguments.recorded.resolve(), nights=arguments.nights)
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        cells = list(itertools.product(BEFORE, AFTER))
        one = functools.partial(share, made, histories=arguments.histories, factor=1 + arguments.percent / 100)
        shares = dict(zip(cells, pool.map(one, cells), strict=True))
        for kind in (True, False):
            print("steady kernels" if kind else f"kernels that differ by {STEADY_PCT:g} % or more")
            print("before " + "".join(f"{after:>6}" for after in AFTER))
            for before in BEFORE:
                found = [shares[before, after][kind] for after in AFTER]
                print(f"{before:>6} " + "".join(f"{100 * n / of:6.0f}" if of else "     –" for n, of in found))
        counts = pool.map(functools.partial(grown, made), range(arguments.grown))
        lines, ever, last = map(sum, zip(*counts, strict=True))
    print(
        f"{lines:,} lines: an alarm in any of {LONGEST} nights in {ever} ({1e3 * ever / lines:.2f} in 1,000, at most "
        f"{1e3 * upper(ever) / lines:.2f}); in the last night {last} ({1e3 * last / lines:.2f})"
    )


if __name__ == "__main__":
    main()
