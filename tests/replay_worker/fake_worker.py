"""A worker that speaks the protocol and does to each item what its route says. Arguments: folder, descriptor."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from pathlib import Path

from kerneldb import codec
from kerneldb.recordings import Reading
from kerneldb.replay.routes.grades import CallMatch
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, Window
from kerneldb.replay.wire.messages import (
    Begin,
    Broken,
    Done,
    Energy,
    Job,
    Readings,
    Ready,
    Result,
    Sender,
    SharedEnergy,
    StepDone,
    Unusable,
)  # fmt: skip
from kerneldb.replay.wire.results import DeviceState, Grade
from kerneldb.replay.wire.step_results import StepResult
from kerneldb.replay.worker import executor
from kerneldb.replay.worker.executor import Verdict

LOG = Path(sys.argv[1], "log")
WINDOW = Window(at=0.0, seconds=1.4, power_w=500.0, power_sd_w=1.0, slot_ns=1e4, steps=14)


def attempt(item: plan.Item, sender: Sender, batch: int) -> None:
    alone = item.route != "silent" or batch == 1
    with LOG.open("a") as log:
        log.write(f"{item.id}\n")
    sender(Begin(item.id if alone else None, "rehearse"))
    if item.route == "late":
        early = executor.success(item, "mixed", Verdict(0, CallMatch(Grade.L1, ())))
        sender(Result(dataclasses.replace(early, final=False)))
    if item.route in {"kill", "late", "silent"}:
        os.kill(os.getpid(), signal.SIGKILL)
    if item.route in {"hang", "slow"}:
        time.sleep(60)
    if item.route == "raise":
        msg = "lost"
        raise KeyError(msg)
    if item.route == "broken":
        sender(Broken("an illegal memory access"))
        sys.exit(1)
    found = executor.success(item, "mixed", Verdict(0, CallMatch(Grade.L0, ())))
    sender(Result(dataclasses.replace(found, state=DeviceState(sm_mhz=1980))))


def weigh(item: plan.Item, sender: Sender) -> None:
    """What a worker does that measures energy: by the second word of the route."""
    with LOG.open("a") as log:
        log.write(f"weigh {item.id}\n")
    sender(Begin(item.id, "energy"))
    fate = item.route.removeprefix("ok ")
    if fate == "fatal":
        sender(Energy(item.id, CallEnergy(2.0, 1.9, 2.1, 1.0, 0.9, 1.1, final=False, windows=(WINDOW,))))
        os.kill(os.getpid(), signal.SIGKILL)
    if fate == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    if fate == "slow":
        time.sleep(60)
    sender(Energy(item.id, CallEnergy(5.0, 4.9, 5.1, 3.0, 2.9, 3.1, windows=(WINDOW,))))


def weigh_all(job: Job, items: dict[str, plan.Item], sender: Sender) -> None:
    known = journal.read(Path(str(job.journal)))
    facts = known.energy or EnergyFacts(meter="fake", seed=1)
    if any(items[name].route == "ok unborn" for name in job.items):
        sys.exit(3)
    if any(items[name].route == "ok meterless" for name in job.items):
        sender(SharedEnergy(EnergyFacts(reason="no meter here")))
        for name in job.items:
            sender(Energy(name, CallEnergy(reason="no meter here")))
        sender(Done())
        return
    sender(Ready({"torch": "0", "vendor": "NVIDIA"}))
    sender(SharedEnergy(dataclasses.replace(facts, spent_s=facts.spent_s + 1, launch_loop_power_w=100.0)))
    sender(Readings((Reading("gap", 1, energy_mj=2.0),)))
    for name in job.items:
        weigh(items[name], sender)
    sender(Done())


def main() -> None:
    sender = Sender(int(sys.argv[2]))
    job = codec.load(Job, sys.stdin.read())
    items = {item.id: item for item in plan.read(Path(job.plan)).items}
    if job.journal is not None:
        weigh_all(job, items, sender)
        return
    routes = {items[name].route for name in job.items}
    if "unusable" in routes:
        sender(Unusable("no GPU here"))
        return
    if "stillborn" in routes:
        sys.exit(3)
    sender(Ready({"torch": "0", "vendor": "NVIDIA"}))
    for step in job.steps:  # each breaks the device as a graph
        sender(Begin(None, "step"))
        sender(StepDone(StepResult(step, "eager", calls=3, rebuilt=2, filled=1)))
        sys.exit(1)
    for name in job.items:
        attempt(items[name], sender, job.options.batch)
    sender(Done())


main()
