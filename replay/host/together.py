"""Runs the steps of a plan on many devices: those of a job of k ranks on k of them at once, all others on the first.

Each has a journal of its own: `JOURNAL.0` of the steps that run alone, `JOURNAL.ranksK` of those of k ranks.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kerneldb.replay.host import fleet
from kerneldb.replay.host import run as one_run
from kerneldb.replay.host.phases import Listener, Pool, nobody
from kerneldb.replay.host.run import Outcome
from kerneldb.replay.options import Options
from kerneldb.replay.wire import plan as plans
from kerneldb.replay.wire.steps import Step


def run(
    plan: Path,
    journal: Path,
    options: Options,
    devices: Sequence[str],
    *,
    resume: bool = False,
    listen: Listener = nobody,
) -> Outcome:
    """Run the steps of the plan. Raises ReplayError where a run cannot take place, PlanError and JournalExistsError."""
    fleet.begun(journal, resume=resume)
    begun, until = time.monotonic(), one_run.deadline(options)
    steps = plans.read(plan).steps
    listen({"event": "start", "items": len(steps), "devices": list(devices)})
    outcomes = list(_each(plan, journal, options, devices, listen, until))
    grades = dict(sorted(sum((Counter(one.by_grade) for one in outcomes), Counter[str]()).items()))
    return Outcome(
        run_ids=tuple(name for one in outcomes for name in one.run_ids),
        items=len(steps),
        done=sum(one.done for one in outcomes),
        by_grade=grades,
        finished=all(one.finished for one in outcomes),
        interrupted=any(one.interrupted for one in outcomes),
        wall_s=time.monotonic() - begun,
    ).announced(listen)


def _each(
    plan: Path, journal: Path, options: Options, devices: Sequence[str], listen: Listener, until: float
) -> Iterator[Outcome]:
    """A run for all steps that run alone, and one for those of each number of ranks; none after an interrupted one."""
    for ranks, steps in sorted(sizes(plans.read(plan).steps, len(devices)).items()):
        used = ",".join(devices[:ranks])
        more: dict[str, Any] = {} if ranks == 1 else {"worker": (*fleet.GROUP_WORKER, used)}
        path = journal.with_name(f"{journal.name}.{'0' if ranks == 1 else f'ranks{ranks}'}")
        chosen = dataclasses.replace(options, device=devices[0])
        heard = _heard(listen, used)
        pool = Pool((step.id for step in steps), 1, at_once=1.0)
        outcome = one_run.run(plan, path, chosen, resume=True, listen=heard, until=until, pool=pool, **more)
        yield outcome
        if outcome.interrupted:
            return


def sizes(steps: Sequence[Step], devices: int) -> dict[int, list[Step]]:
    """The steps by the number of ranks that run them at once: 1 for those of a job with more ranks than devices."""
    found: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        found[step.ranks if step.job is not None and 1 < step.ranks <= devices else 1].append(step)
    return found


def _heard(listen: Listener, device: str) -> Listener:
    def hear(event: Mapping[str, Any]) -> None:
        if event["event"] not in {"start", "end"}:
            listen({**event, "device": device})

    return hear
