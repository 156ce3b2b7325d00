"""The worker process: opens the device, replays its items, and tells the supervisor. Dies with the supervisor.

`python -m kerneldb.replay.worker DESCRIPTOR`, with a job (`wire.messages`) as the first line of standard
input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kerneldb.errors import KerneldbError
from kerneldb.replay import facts
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.options import Options
from kerneldb.replay.triton import code
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.journal import CallResult
from kerneldb.replay.wire.messages import Job, Sender, job_from_text
from kerneldb.replay.worker import energy as weighing
from kerneldb.replay.worker.device import die_with_parent, import_modules, open_device
from kerneldb.replay.worker.engine import Engine
from kerneldb.replay.worker.executor import Bench, BrokenDeviceError, CpuBench, GpuBench


class _Report:
    """Passes on what the engine tells, with a reading of the device after each final result."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def begin(self, item: str | None, phase: str) -> None:
        self._sender.begin(item, phase)

    def result(self, result: CallResult) -> None:
        self._sender.result(result)
        self._sender.state(result.state)


def main() -> int:
    """Do the job on standard input; the exit code is 0 unless the device broke or cannot be used."""
    die_with_parent()
    sender = Sender(int(sys.argv[1]))
    job = job_from_text(sys.stdin.readline())
    planned = plan.read(Path(job.plan))
    code.provide(planned.sources, allowed=job.options.allow_code)
    if job.journal is not None:
        return _weigh(job, sender)
    try:
        bench = _open(job.options, sender, planned.notes)
    except KerneldbError as error:
        sender.unusable(str(error))
        return 1
    try:
        further = _asking(planned.items, sender) if job.further else None
        Engine(bench, job.options, _Report(sender)).run(_named(planned.items, job.items), further)
    except BrokenDeviceError as error:
        sender.broken(str(error))
        return 1
    sender.done()
    return 0


def _weigh(job: Job, sender: Sender) -> int:
    """Measure energy. The user's modules come first: one of them may register a meter."""
    try:
        import_modules(job.options.modules)
    except ReplayError as error:
        sender.unusable(str(error))
        return 1
    return weighing.main(job, sender, open_device)


def _open(options: Options, sender: Sender, notes: Mapping[str, object]) -> Bench:
    monitor = open_device(options, sender)
    if options.on_cpu:
        return CpuBench(options)
    return GpuBench(options, monitor, facts.foreign(notes.get("vendor"), facts.vendor()))


def _named(planned: Sequence[plan.Item], names: Sequence[str]) -> list[plan.Item]:
    items = {item.id: item for item in planned}
    return [items[name] for name in names]


def _asking(planned: Sequence[plan.Item], sender: Sender) -> Callable[[], Sequence[plan.Item]]:
    """Asks the supervisor for further items, and waits for its answer."""

    def ask() -> Sequence[plan.Item]:
        sender.further()
        answer = sys.stdin.readline()
        return _named(planned, json.loads(answer) if answer else ())

    return ask


if __name__ == "__main__":
    sys.exit(main())
