"""Runs a plan where the user says: on one device, on several of this host, or on those of a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kerneldb.codec import printable
from kerneldb.errors import UsageError
from kerneldb.replay import processes, routes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host import cluster, fleet, together
from kerneldb.replay.host import run as alone
from kerneldb.replay.host.phases import Listener, nobody
from kerneldb.replay.host.run import Outcome
from kerneldb.replay.options import Options
from kerneldb.replay.wire import plan as plans


def start(
    plan: Path,
    journal: Path,
    options: Options,
    *,
    gpus: str | None = None,
    ray: Any = None,
    resume: bool = False,
    listen: Listener | None = None,
) -> Outcome:
    """Replay `plan` into `journal`, or, on several devices, into one beside it for each.

    `gpus` (a number, or all) is on how many devices of this host, `ray` the connected package of a cluster. Raises
    ReplayError where the run cannot take place, PlanError, JournalError, and UsageError for a journal in the way, or
    where several devices were at work before and one is to go on.
    """
    hear = listen or nobody
    processes.import_all(options.modules)  # how many ranks an item takes is the route's to say
    # Raise ReplayError where the plan has items of a route that is not known here: they would all fail.
    known, planned = {route.name for route in routes.known()}, plans.read(plan)
    missing = sorted({item.route for item in planned.items} - known)
    if missing:
        raise ReplayError(
            f"{plan}: has items of the route {printable(missing[0])!r}, which is not known here: install its package, "
            "or name its module with --import"
        )
    if options.counters and (ray is not None or gpus is not None):
        raise UsageError("counters are read on one GPU: leave out --gpus and --ray")
    if ray is not None:
        return cluster.run(ray, plan, journal, options, resume=resume, listen=hear)
    if gpus is not None:
        chosen = fleet.chosen(gpus, options.device)
        if planned.steps:
            return together.run(plan, journal, options, chosen, resume=resume, listen=hear)
        return fleet.run(plan, journal, options, chosen, resume=resume, listen=hear)
    if any(path != journal for path in fleet.journals(journal)):
        raise UsageError("the replay that was stopped ran on several devices: give --gpus or --ray again")
    return alone.run(plan, journal, options, resume=resume, listen=hear)
