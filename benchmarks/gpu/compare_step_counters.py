"""Counters of calls in a replayed step against those of the program, both by Nsight Compute in application replay.

    python -m benchmarks.gpu.compare_step_counters PLAN PROGRAM.csv COUNTERS.csv…

Kernels are matched by name, grid and block. The program has each launch, the step the last one of each distinct call,
which counts as often as the step has it. Prints a line per metric: the share of the program's time in which both are
within so much, and of how much of it the step has the kernel.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from kerneldb.replay.wire import plan

METRICS = {
    "dram__bytes.sum": 0.03, "lts__t_bytes.sum": 0.03, "sm__warps_active.avg.pct_of_peak_sustained_active": 1.0,
}  # fmt: skip
"""What is compared: a share of the program's value, or points."""
TIME = "gpu__time_duration.sum"
SECTOR = 32 * 1024
"""Bytes that are as good as none, per launch."""
ITEM = re.compile(r"kerneldb (\w+)")
Key = tuple[str, str, str]


def rows(path: Path) -> Iterator[Mapping[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    yield from list(csv.DictReader(lines[at:]))[1:]  # the first line has units


def key(row: Mapping[str, str]) -> Key:
    return row["Kernel Name"], row["Grid Size"], row["Block Size"]


def means(path: Path, weights: Mapping[str, int] | None) -> tuple[dict[Key, dict[str, float]], Counter[Key]]:
    """For each kernel the mean of each metric, and its time."""
    sums: dict[Key, Counter[str]] = defaultdict(Counter)
    for row in rows(path):
        label = next((value for name, value in row.items() if "Push/Pop" in name and value), "")
        found = ITEM.search(label)
        weight = 1 if weights is None else weights[found[1]] if found else 0
        for name in (*METRICS, TIME):
            sums[key(row)][name] += float(row[name].replace(",", "")) * weight  # type: ignore[assignment]
        sums[key(row)]["n"] += weight
    times = Counter({one: some[TIME] for one, some in sums.items()})
    return {one: {name: some[name] / some["n"] for name in METRICS} for one, some in sums.items() if some["n"]}, times


def near(name: str, mine: float, its: float) -> bool:
    if name.startswith("sm__"):
        return abs(mine - its) <= METRICS[name]
    return abs(mine - its) <= max(METRICS[name] * its, SECTOR)


def main() -> None:
    weights = Counter(call.item for step in plan.read(Path(sys.argv[1])).steps for call in step.calls)
    program, times = means(Path(sys.argv[2]), None)
    step: dict[Key, dict[str, float]] = {}
    for path in sys.argv[3:]:
        step |= means(Path(path), weights)[0]
    both = [one for one in program if one in step]
    whole, shared = sum(times.values()), sum(times[one] for one in both)
    sys.stdout.write(f"{len(program)} kernels, {len(both)} of them in the step: {100 * shared / whole:.2f} % of time\n")
    for name in METRICS:
        good = sum(times[one] for one in both if near(name, step[one][name], program[one][name]))
        sums = [sum(side[one][name] * times[one] for one in both) for side in (step, program)]
        sys.stdout.write(f"{name}: within for {100 * good / shared:.2f} % of time, {sums[0] / sums[1] - 1:+.2%}\n")
        worst = sorted(both, key=lambda one: -times[one] * (not near(name, step[one][name], program[one][name])))
        for one in worst[:6]:
            if not near(name, step[one][name], program[one][name]):
                values = f"{step[one][name]:,.1f} {program[one][name]:,.1f} {100 * times[one] / shared:.2f} %"
                sys.stdout.write(f"    {values} {one[0][:70]} {one[1]}\n")


if __name__ == "__main__":
    main()
