"""Counters of replayed calls against those of the program, or of two runs of the program, by Nsight Compute.

    python -m benchmarks.gpu.compare_step_counters [--plan PLAN] PROGRAM.csv COUNTERS.csv…

Kernels are matched by name, grid and block, and single launches where both sides have as many of a kernel, by their
order. With PLAN the COUNTERS are of replayed calls, each of which counts as often as it was recorded. Prints, in shares
of PROGRAM's time, how much is within the bounds, by kernel (means) and by launch, and which kernels are not.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerneldb.replay.wire import plan

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
FIGURES: dict[str, tuple[tuple[str, ...], ...]] = {
    "DRAM bytes": ((READ, WRITTEN), ("dram__bytes.sum",)),
    "DRAM bytes read": ((READ,),),
    "DRAM bytes written": ((WRITTEN,),),
    "L2 bytes": (("lts__t_bytes.sum",),),
    "L2 sectors for SMs": (("lts__t_sectors_srcunit_tex.sum",),),
    "L2 sectors between its halves": (("lts__t_sectors_srcunit_ltcfabric.sum",),),
    "occupancy": (("sm__warps_active.avg.pct_of_peak_sustained_active",),),
}
"""What is compared, as sums of metrics: of the first ones that a page has."""
POINTS = "occupancy"
SERVED = "L2 bytes"
SHARE = 0.03
SMALL = 32 * 1024
"""Bytes (a thousand sectors) that are as good as none, per launch."""
TIME = "gpu__time_duration.sum"
ITEM = re.compile(r"kerneldb (\w+)(#\d+)?")
WORST = 6
Key = tuple[str, str, str]


@dataclass(slots=True)
class Launch:
    """A profiled launch: its figures, its time and how often it counts."""

    figures: dict[str, float]
    time: float
    weight: float = 1.0


Side = Mapping[Key, Sequence[Launch]]


@dataclass(slots=True)
class Agreement:
    """How near a figure is: shares of time within the bound, the ratio of sums, offsets with time, kernels outside.

    `or_served_pct` also takes kernels whose DRAM bytes are off by at most as small a share of what the L2 served: what
    of it came from DRAM is what the L2 did not happen to have. `apart_pct` adds up how far kernels are off.
    """

    kernels_pct: float = 0.0
    or_served_pct: float | None = None
    apart_pct: float = 0.0
    launches_pct: float = 0.0
    sum_off_pct: float = 0.0
    median_off: float = 0.0
    p90_off: float = 0.0
    worst: list[str] = field(default_factory=list)


def rows(path: Path) -> Iterator[Mapping[str, str]]:
    """The kernels of a page."""
    lines = path.read_text(encoding="utf-8").splitlines()
    at = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    yield from list(csv.DictReader(lines[at:]))[1:]  # the first line has units


def read(paths: Iterable[Path], planned: plan.Plan | None = None) -> Side:
    """The launches of these pages by kernel; of a plan, those of the last page that has a call."""
    items: dict[str, list[tuple[Key, Launch, str]]] = {}
    for path in paths:
        pages: dict[str, list[tuple[Key, Launch, str]]] = defaultdict(list)
        for row in rows(path):
            label = next((value for name, value in row.items() if "Push/Pop" in name and value), "")
            found = ITEM.search(label)
            name, number = (found[1], found[2] or "") if found and planned else ("", "")
            key = row["Kernel Name"], row["Grid Size"], row["Block Size"]
            pages[name].append((key, Launch(_figures(row), _number(row[TIME])), number))
        items |= pages
    weights = {} if planned is None else _weights(planned)
    side: dict[Key, list[Launch]] = defaultdict(list)
    for name, listed in items.items():
        calls = len({number for _, _, number in listed})
        for key, launch, _ in listed:
            launch.weight = 1.0 if planned is None else weights.get(name, 0) / calls
            side[key].append(launch)
    return side


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _figures(row: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for name, choices in FIGURES.items():
        for metrics in choices:
            if all(row.get(one) for one in metrics):
                found[name] = sum(_number(row[one]) for one in metrics)
                break
    return found


def _weights(planned: plan.Plan) -> Mapping[str, float]:
    """How often each item was called."""
    if planned.steps:
        return Counter(call.item for step in planned.steps for call in step.calls)
    return {item.id: max((one.launches for one in item.kernels), default=0) for item in planned.items}


def compare(mine: Side, its: Side, bound: float = SHARE) -> dict[str, Any]:
    """How near `mine` is to `its`, in shares of the time of `its`; `bound`: off by how much of a value is near."""
    times = {key: sum(one.time for one in some) for key, some in its.items()}
    both = [key for key in its if key in mine and sum(one.weight for one in mine[key])]
    shared = sum(times[key] for key in both)
    whole = sum(times.values()) or 1.0
    report: dict[str, Any] = {"kernels": len(its), "in_both": len(both), "time_in_both_pct": 100 * shared / whole}
    for name in FIGURES:
        known = [key for key in both if all(name in one.figures for one in (*mine[key], *its[key]))]
        if known:
            report[name] = _agreement(name, known, mine, its, times, bound)
    return report


def _agreement(
    name: str, keys: Sequence[Key], mine: Side, its: Side, times: Mapping[Key, float], bound: float
) -> Agreement:
    found, shared = Agreement(), sum(times[key] for key in keys)
    means = {key: (_mean(name, mine[key]), _mean(name, its[key])) for key in keys}
    found.kernels_pct = 100 * sum(times[key] for key in keys if near(name, *means[key], bound)) / shared
    if name.startswith("DRAM") and all(SERVED in one.figures for key in keys for one in its[key]):
        served = {key: bound * _mean(SERVED, its[key]) for key in keys}
        agreeing = (key for key, (a, b) in means.items() if near(name, a, b, bound) or abs(a - b) <= served[key])
        found.or_served_pct = 100 * sum(times[key] for key in agreeing) / shared
    weights = {key: sum(one.weight for one in its[key]) for key in keys}
    whole = sum(pair[1] * weights[key] for key, pair in means.items())
    if whole:
        found.apart_pct = 100 * sum(abs(a - b) * weights[key] for key, (a, b) in means.items()) / whole
    sums = [sum(pair[side] * times[key] for key, pair in means.items()) for side in (0, 1)]
    found.sum_off_pct = 100 * (sums[0] / sums[1] - 1) if sums[1] else 0.0
    found.median_off, found.p90_off = (_quantile(name, means, times, share) for share in (0.5, 0.9))
    pairs = [
        (a.figures[name], b.figures[name], b.time)
        for key in keys
        if len(mine[key]) == len(its[key])
        for a, b in zip(mine[key], its[key], strict=True)
    ]
    compared = sum(time for _, _, time in pairs)
    found.launches_pct = (
        100 * sum(time for a, b, time in pairs if near(name, a, b, bound)) / compared if compared else 0.0
    )
    outside = sorted((key for key in keys if not near(name, *means[key], bound)), key=lambda key: -times[key])
    found.worst = [
        f"{means[key][0]:,.1f} {means[key][1]:,.1f} {100 * times[key] / shared:.2f} % {key[0][:70]} {key[1]}"
        for key in outside[:WORST]
    ]
    return found


def _mean(name: str, launches: Sequence[Launch]) -> float:
    return sum(one.figures[name] * one.weight for one in launches) / sum(one.weight for one in launches)


def _off(name: str, mine: float, its: float) -> float:
    """Points, or percent."""
    return abs(mine - its) if name == POINTS else 100 * abs(mine - its) / max(its, 1.0)


def _quantile(name: str, means: Mapping[Key, tuple[float, float]], times: Mapping[Key, float], share: float) -> float:
    """How far kernels are off for at most this share of the time."""
    offs = sorted((_off(name, *pair), times[key]) for key, pair in means.items())
    passed = itertools.accumulate(time for _, time in offs)
    whole = sum(time for _, time in offs)
    return next(off for (off, _), until in zip(offs, passed, strict=True) if until >= share * whole)


def near(name: str, mine: float, its: float, share: float = SHARE) -> bool:
    """Whether two values are as good as one."""
    if name == POINTS:
        return abs(mine - its) <= 1.0
    return abs(mine - its) <= max(share * its, SMALL if "bytes" in name else SMALL / 32)


def text(report: Mapping[str, Any]) -> str:
    """A comparison in lines."""
    lines = [f"{report['kernels']} kernels, {report['in_both']} in both: {report['time_in_both_pct']:.2f} % of time"]
    for name, one in report.items():
        if isinstance(one, Agreement):
            served = "" if one.or_served_pct is None else f", or of L2 bytes {one.or_served_pct:.2f} %"
            lines += [
                f"{name}: within for {one.kernels_pct:.2f} % by kernel{served}, {one.launches_pct:.2f} % by launch",
                f"    sum {one.sum_off_pct:+.2f} %, apart {one.apart_pct:.2f} %, off by {one.median_off:.2f} (median), "
                f"{one.p90_off:.2f} (90 % of time)",
            ]
            lines += [f"    {kernel}" for kernel in one.worst]
    return "\n".join(lines)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--bound", type=float, default=SHARE, help="off by how much of a value is near")
    parser.add_argument("program", type=Path)
    parser.add_argument("counters", type=Path, nargs="+")
    given = parser.parse_args()
    planned = None if given.plan is None else plan.read(given.plan)
    sys.stdout.write(text(compare(read(given.counters, planned), read([given.program]), given.bound)) + "\n")


if __name__ == "__main__":
    main()
