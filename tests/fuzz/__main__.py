"""Damage files and look what becomes of them: `python -m tests.fuzz --minutes 60`, or one case again.

A worker process runs the cases; this one watches the time, and goes on with another worker where one died.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.fuzz import harness
from tests.fuzz.corpus import FORMATS
from tests.fuzz.harness import Finding
from tests.fuzz.totals import Totals

SLOWER: Final = 10
FLOOR_S: Final = 30.0
"""A damaged file may take so many times the time of the healthy one, and so long in any case: machines are busy."""
Case = tuple[str, int, int]


def work(cases: list[Case]) -> None:
    """In the worker: run the cases, and say of each when it begins and how it ended."""
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        room = harness.Room.make(Path(folder))
        for case in cases:
            out.write(json.dumps({"begun": case}) + "\n")
            found = harness.run(room, *case)
            out.write(json.dumps({"found": None if found is None else dataclasses.asdict(found)}) + "\n")


def watched(cases: list[Case]) -> Iterator[Finding | None]:
    """What became of each case, run in workers that are replaced when they hang or die."""
    while cases:
        command = [sys.executable, "-m", "tests.fuzz", "--worker"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(json.dumps(cases))
            worker.stdin.close()
            begun: Case | None = None
            done = 0
            while True:
                ready, _, _ = select.select([worker.stdout], [], [], FLOOR_S * SLOWER if begun is None else FLOOR_S)
                line = worker.stdout.readline() if ready else None
                if not line:
                    break
                said = json.loads(line)
                if "begun" in said:
                    begun = (said["begun"][0], said["begun"][1], said["begun"][2])
                else:
                    done, begun = done + 1, None
                    try:
                        yield Finding(**said["found"]) if said["found"] else None
                    except GeneratorExit:
                        worker.kill()
                        raise
            if line is None:
                worker.kill()
        if begun is not None:
            yield Finding(*begun, "hangs" if line is None else f"ends the process ({worker.returncode})")
            done += 1
        elif done == 0 and cases:
            raise RuntimeError("the worker does not start")
        cases = cases[done:]


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", action="append", choices=[*harness.NAMES], help="only this one; may be repeated")
    parser.add_argument("--case", type=int, help="only this one, in this process")
    parser.add_argument("--cases", type=int, default=10, help="so many of each format")
    parser.add_argument("--minutes", type=float, help="as many as there is time for, with one seed after the other")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="only every N-th seed, the I-th of them first")
    parser.add_argument("--keep", type=Path, help="with --case: write the files of the case into this folder")
    parser.add_argument("--totals", type=Path, help="a JSON file that has the counts of the inputs so far, at any time")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(json.load(sys.stdin))
        return 0
    names = given.format or [*harness.NAMES]
    if given.case is not None:
        return again(names, given.seed, given.case, given.keep)
    return campaign(names, given)


def campaign(names: list[str], given: argparse.Namespace) -> int:
    """Run the cases that were asked for; print each finding, and at the end how many there were of what."""
    totals, kinds = Totals(given.totals), collections.Counter[str]()
    totals.write()
    for seed, name, found in as_asked(names, given):
        totals.add(seed, name, None if found is None else str(found))
        if found is not None:
            kinds["sums" if " accounted for" in found.problem else found.problem] += 1
            sys.stdout.write(f"{found}\n")
            sys.stdout.flush()
    totals.finish()
    run = totals.done()
    sys.stdout.writelines(f"{count} × {name}\n" for name, count in run.items())
    sys.stdout.write(f"{run.total()} inputs from seed {given.seed} on: {kinds.total()} findings {dict(kinds)}\n")
    return min(kinds.total(), 1)


def as_asked(names: list[str], given: argparse.Namespace) -> Iterator[tuple[int, str, Finding | None]]:
    """The cases of a seed, or of one seed after the other as long as there is time, each with its seed and format."""
    ends = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    shard, shards = map(int, given.shard.split("/"))
    for seed in itertools.count(given.seed + shard - 1, shards):
        cases = [(name, seed, case) for case in range(given.cases) for name in names]
        for (name, _, _), found in zip(cases, watched(cases), strict=True):
            yield seed, name, found
            if ends is not None and time.monotonic() > ends:
                return
        if ends is None:
            return


def again(names: list[str], seed: int, case: int, keep: Path | None) -> int:
    """Run one case of each format here."""
    found = []
    for name in names:
        if keep is not None and name in FORMATS:
            harness.written(harness.damaged(name, seed, case), keep)
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            found.append(harness.run(harness.Room.make(Path(folder)), name, seed, case))
        sys.stdout.write(f"{found[-1] or 'as it should be'}\n")
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main())
