"""Replays plans with energy, several times, and sums up how well it repeats. Needs torch and nvidia-ml-py only.

    PYTHONPATH=. python3 benchmarks/gpu/repeat_energy.py PLAN[:REPEATS[:SECONDS]]… [--out FOLDER]
        [--repeats 3] [--top 40] [-- further options of python -m kerneldb.replay]

REPEATS and SECONDS (`--energy-seconds`) hold for one plan, `--repeats` for those that name none. For every plan and
repeat it writes a journal and a log into the folder (default $OUT), packed into `journals.tar.gz` where there are more
than eight files, and for all together `energy.json`: per repeat the seconds, the sum of energy over the `top` calls by
recorded time (times their launches), the powers of the run (idle, context, gaps), drift and repeatability; over the
repeats the spread of that sum, and the share of energies that lie within the 95 % intervals of another repeat's and of
the mean of the others; and every call by itself.

Without a GPU: `-- --device cpu --import tests.energy.process_meter` measures the CPU with a meter made up of time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kerneldb import codec
from kerneldb.replay.measure.energy.evaluate import free
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts
from kerneldb.replay.wire.plan import Item

Z95: Final = 1.96
MOST_FILES: Final = 8
QUANTITIES: Final = ("energy", "dynamic")


@dataclass(frozen=True)
class Given:
    """A plan, how often, and with which options."""

    path: Path
    repeats: int
    further: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return ".".join((self.path.stem, *self.further[1:]))


def given_of(text: str, repeats: int) -> Given:
    """`PLAN`, `PLAN:REPEATS` or `PLAN:REPEATS:SECONDS`."""
    path, _, rest = text.partition(":")
    count, _, seconds = rest.partition(":")
    return Given(Path(path), int(count or repeats), ("--energy-seconds", seconds) if seconds else ())


def replay(path: Path, out: Path, further: Sequence[str]) -> float:
    """Run one plan into the journal `out`; returns the seconds it took."""
    started = time.monotonic()
    command = [sys.executable, "-m", "kerneldb.replay", str(path), "--journal", str(out), *further]
    with out.with_suffix(".log").open("w") as log:
        subprocess.run(command, stderr=log, check=False)
    return time.monotonic() - started


def weight(item: Item) -> float:
    return float(sum(kernel.total_ns or 0 for kernel in item.kernels))


def calls_of(item: Item) -> int:
    return max((kernel.launches for kernel in item.kernels), default=1)


def measured(read: journal.Journal) -> dict[str, CallEnergy]:
    return {one.item: one.energy for one in read.calls if one.energy is not None and one.energy.energy_mj is not None}


def span(energy: CallEnergy, quantity: str) -> tuple[float, float]:
    """Value and standard deviation of a quantity, in millijoules."""
    low, high = getattr(energy, f"{quantity}_low_mj"), getattr(energy, f"{quantity}_high_mj")
    return float(getattr(energy, f"{quantity}_mj")), (high - low) / 2 / Z95


def one_repeat(items: Sequence[Item], read: journal.Journal, seconds: float) -> dict[str, Any]:
    found = measured(read)
    known = [one for one in items if one.id in found]
    sums = {f"{what}_mj": sum(span(found[one.id], what)[0] * calls_of(one) for one in known) for what in QUANTITIES}
    reasons = [one.energy.reason for one in read.calls if one.energy is not None and one.energy.energy_mj is None]
    facts = codec.encode(read.energy or EnergyFacts())
    shared = {name: value for name, value in facts.items() if name not in {"gaps", "anchors"}}
    return {
        "seconds": round(seconds, 1),
        **sums,
        "top_known": sum(one.id in found for one in items),
        "calls": len(read.calls),
        "known": len(found),
        "time_share_known": round(known_share(read, found), 5),
        "windows": windows_of(found.values()),
        "reasons": {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)},
        "facts": shared,
        "references": {name: facts.get(name, []) for name in ("gaps", "anchors")},
    }


def windows_of(found: Iterable[CallEnergy]) -> dict[str, int]:
    """How many windows there are, and of how many calls the power cap slowed some or all down."""
    windows = [one.windows for one in found]
    return {
        "windows": sum(map(len, windows)),
        "padded_calls": sum(any(one.pad_ns for one in held) for held in windows),
        "slowed_windows": sum(bool(one.slowed) for held in windows for one in held),
        "slowed_calls": sum(not free(held) for held in windows),
    }


def packed(out: Path) -> None:
    """Journals and logs as one file, where there are many."""
    files = sorted(path for path in out.iterdir() if path.suffix in {".jsonl", ".log"})
    if len(files) < MOST_FILES:
        return
    with tarfile.open(out / "journals.tar.gz", "w:gz") as tar:
        for path in files:
            tar.add(path, path.name)
            path.unlink()


def known_share(read: journal.Journal, found: Mapping[str, CallEnergy]) -> float:
    times = {one.item: one.time.mean_ns for one in read.calls if one.time is not None}
    return sum(times.get(name, 0.0) for name in found) / max(sum(times.values()), 1e-9)


def coverage(repeats: Sequence[Mapping[str, CallEnergy]], quantity: str) -> dict[str, float]:
    """How often a repeat lies within the interval of another, and of the mean of the others (errors of both sides)."""
    pairs: list[bool] = []
    means: list[bool] = []
    for name in {name for found in repeats for name in found}:
        known = [span(found[name], quantity) for found in repeats if name in found]
        pairs += [abs(a[0] - b[0]) <= Z95 * math.hypot(a[1], b[1]) for a, b in itertools.combinations(known, 2)]
        means += list(within_others(known))
    return {"pairs": share(pairs), "others": share(means), "n": len(means)}


def within_others(known: Sequence[tuple[float, float]]) -> Iterator[bool]:
    """Whether each value's own 95 % interval holds the mean of the others."""
    for place, (value, sd) in enumerate(known):
        others = [one for number, one in enumerate(known) if number != place]
        if others:
            yield abs(value - statistics.fmean(one for one, _ in others)) <= Z95 * sd


def share(hits: Sequence[bool]) -> float:
    return round(sum(hits) / len(hits), 4) if hits else math.nan


def spread(values: Sequence[float]) -> dict[str, float]:
    mean = statistics.fmean(values)
    return {"mean": mean, "max_over_min": max(values) / min(values) - 1 if min(values) > 0 else math.nan}


def every_call(items: Sequence[Item], reads: Sequence[journal.Journal]) -> Iterator[dict[str, Any]]:
    for item in items:
        calls = [{one.item: one for one in read.calls}.get(item.id) for read in reads]
        op = item.spec.call if item.spec is not None else None
        yield {
            "item": item.id,
            "op": op and op.op,
            "dims": op and op.input_dims,
            "name": item.kernels[0].name[:80],
            "launches": calls_of(item),
            "time_ns": [call.time.mean_ns if call and call.time else None for call in calls],
            "loop_ns": [call.loop.time.median_ns if call and call.loop else None for call in calls],
            "energy": [codec.encode(call.energy) if call and call.energy else None for call in calls],
        }


def figures(one: Given, out: Path, top: int, further: Sequence[str]) -> dict[str, Any]:
    planned = plan.read(one.path)
    ranked = sorted(planned.items, key=lambda item: -weight(item))
    reads: list[journal.Journal] = []
    rows: list[dict[str, Any]] = []
    for turn in range(one.repeats):
        target = out / f"{one.name}.energy.{turn}.jsonl"
        target.unlink(missing_ok=True)
        seconds = replay(one.path, target, (*further, *one.further))
        if not journal.exists(target):
            sys.stdout.write(f"{target.name}: no journal; {target.with_suffix('.log').read_text()[-500:]}\n")
            continue
        reads.append(journal.read(target))
        rows.append(one_repeat(ranked[:top], reads[-1], seconds))
        show(target.name, rows[-1])
    found = [measured(read) for read in reads]
    over = {
        quantity: {**spread([row[f"{quantity}_mj"] for row in rows]), "coverage": coverage(found, quantity)}
        for quantity in (QUANTITIES if rows else ())
    }
    for turn, row in enumerate(rows):
        sums = ", ".join(f"{quantity} {row[f'{quantity}_mj'] / 1000:.4f} J" for quantity in QUANTITIES)
        sys.stdout.write(
            f"{one.name} repeat {turn}: {sums}; {row['known']} of {row['calls']} calls, {row['windows']}\n"
        )
    sys.stdout.write(f"{one.name}: over {len(rows)} repeats {json.dumps(over)}\n")
    return {"repeats": rows, "over_repeats": over, "calls": list(every_call(ranked, reads))}


def show(name: str, row: Mapping[str, Any]) -> None:
    facts = {key: value for key, value in row["facts"].items() if key != "flush"}
    told = {key: value for key, value in row.items() if key not in {"facts", "references"}}
    sys.stdout.write(f"== {name}: {json.dumps(told)}\n   {json.dumps(facts)}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--top", type=int, default=40)
    given, further = parser.parse_known_args()
    further = [one for one in further if one != "--"]
    given.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for one in (given_of(text, given.repeats) for text in given.plans):
        found[one.name] = figures(one, given.out, given.top, further)
        (given.out / "energy.json").write_text(json.dumps(found))
    packed(given.out)


if __name__ == "__main__":
    main()
