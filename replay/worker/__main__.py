"""The worker process: opens the device, replays its items or measures their energy, and tells its host. Dies with it.

`python -m kerneldb.replay.worker DESCRIPTOR`, with a job (`wire.messages`) as the first line of standard input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from kerneldb import codec
from kerneldb.errors import KerneldbError
from kerneldb.replay import facts, processes, routes
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.messages import Broken, Done, Further, Job, Send, Sender, Unusable
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.steps import Step
from kerneldb.replay.worker import energy
from kerneldb.replay.worker.engine import Engine
from kerneldb.replay.worker.executor import BrokenDeviceError, Executor, GpuExecutor


def main() -> int:
    """Do the job on standard input; the exit code is 0 unless the device broke or cannot be used."""
    processes.die_with_parent()
    send = Sender(int(sys.argv[1]))
    job = codec.load(Job, sys.stdin.readline(), own=True)
    planned = plan.read(Path(job.plan))
    try:
        # The user's modules come first: one of them may register a route, or a meter.
        processes.import_all(job.options.modules)
        routes.provide(planned.sources, allowed=job.options.allow_code)
        if job.journal is not None:
            return energy.main(job, send, facts.open_device)
        if job.steps:
            facts.open_device(job.options, send)
            if job.options.on_cpu:
                processes.bound_memory()
            chosen = [one for one in planned.steps if one.id in job.steps]
            return _steps(chosen, planned, job, send)
        monitor, executor = facts.open_device(job.options, send), Executor(job.options)
        if job.options.on_cpu:
            processes.bound_memory()
        else:
            foreign = facts.foreign(planned.notes.get("vendor"), facts.vendor())
            executor = GpuExecutor(job.options, monitor, foreign)
    except KerneldbError as error:
        send(Unusable(str(error)))
        return 1
    try:
        further = _asking(planned.items, send) if job.further else None
        Engine(executor, job.options, send).run(_named(planned.items, job.items), further)
    except BrokenDeviceError as error:
        send(Broken(str(error)))
        return 1
    send(Done())
    return 0


def _steps(chosen: Sequence[Step], planned: plan.Plan, job: Job, send: Send) -> int:
    """Run steps in context; the exit code is 0 unless the device broke."""
    from kerneldb.replay.worker import steps

    try:
        steps.main(chosen, {item.id: item for item in planned.items}, job.options, send, job.filled)
    except BrokenDeviceError as error:
        send(Broken(str(error)))
        return 1
    send(Done())
    return 0


def _named(planned: Sequence[Item], names: Sequence[str]) -> list[Item]:
    items = {item.id: item for item in planned}
    return [items[name] for name in names]


def _asking(planned: Sequence[Item], send: Send) -> Callable[[], Sequence[Item]]:
    """Asks the host for further items, and waits for its answer."""

    def ask() -> Sequence[Item]:
        send(Further())
        answer = sys.stdin.readline()
        return _named(planned, json.loads(answer) if answer else ())

    return ask


if __name__ == "__main__":
    sys.exit(main())
