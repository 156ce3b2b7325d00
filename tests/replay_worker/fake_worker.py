"""A worker that speaks the protocol and does to each item what its route says. Arguments: folder, descriptor."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from pathlib import Path

from kerneldb.replay import plan, results
from kerneldb.replay.grades import CallMatch, Grade
from kerneldb.replay.journal import DeviceState
from kerneldb.replay.messages import Sender, job_from_text
from kerneldb.replay.results import Verdict

LOG = Path(sys.argv[1], "log")


def attempt(item: plan.Item, sender: Sender, batch: int) -> None:
    alone = item.route != "silent" or batch == 1
    with LOG.open("a") as log:
        log.write(f"{item.id}\n")
    sender.begin(item.id if alone else None, "rehearse")
    if item.route == "late":
        early = results.success(item, "mixed", Verdict(0, CallMatch(Grade.L1, ())))
        sender.result(dataclasses.replace(early, final=False))
    if item.route in {"kill", "late", "silent"}:
        os.kill(os.getpid(), signal.SIGKILL)
    if item.route in {"hang", "slow"}:
        time.sleep(60)
    if item.route == "raise":
        msg = "lost"
        raise KeyError(msg)
    if item.route == "broken":
        sender.broken("an illegal memory access")
        sys.exit(1)
    sender.result(results.success(item, "mixed", Verdict(0, CallMatch(Grade.L0, ()))))
    sender.state(DeviceState(sm_mhz=1980))


def main() -> None:
    sender = Sender(int(sys.argv[2]))
    job = job_from_text(sys.stdin.read())
    items = {item.id: item for item in plan.read(Path(job.plan)).items}
    routes = {items[name].route for name in job.items}
    if "unusable" in routes:
        sender.unusable("no GPU here")
        return
    if "stillborn" in routes:
        sys.exit(3)
    sender.ready({"torch": "0"})
    for name in job.items:
        attempt(items[name], sender, job.options.batch)
    sender.done()


main()
