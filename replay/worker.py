"""The worker process: opens the device, replays its items, and tells the supervisor. Dies with the supervisor.

`python -m kerneldb.replay.worker DESCRIPTOR`, with a job (`kerneldb.replay.messages`) as first line of standard input.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kerneldb.errors import KerneldbError
from kerneldb.replay import facts, plan, routes, weighing
from kerneldb.replay.bench import Bench, BrokenDeviceError, CpuBench, GpuBench
from kerneldb.replay.engine import Engine
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.journal import CallResult
from kerneldb.replay.messages import Sender, job_from_text
from kerneldb.replay.monitor import Monitor
from kerneldb.replay.options import Options
from kerneldb.replay.triton import code

PR_SET_PDEATHSIG: Final = 1


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
    code.provide(plan.read(Path(job.plan)).sources, allowed=job.options.allow_code)
    if job.journal is not None:
        return weighing.main(job, sender, open_device)
    try:
        bench = _open(job.options, sender)
    except KerneldbError as error:
        sender.unusable(str(error))
        return 1
    try:
        planned = plan.read(Path(job.plan)).items
        further = _asking(planned, sender) if job.further else None
        Engine(bench, job.options, _Report(sender)).run(_named(planned, job.items), further)
    except BrokenDeviceError as error:
        sender.broken(str(error))
        return 1
    sender.done()
    return 0


def _open(options: Options, sender: Sender) -> Bench:
    monitor = open_device(options, sender)
    return CpuBench(options) if options.on_cpu else GpuBench(options, monitor)


def open_device(options: Options, sender: Sender) -> Monitor:
    """Make the device current, register routes and the user's modules, and report ready. Raises ReplayError."""
    # CUPTI must stay attached: CUDA graphs captured between two profiler sessions break where it is torn down.
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    facts.require(options.device)
    routes.register_defaults()
    for module in options.modules:
        _import(module)
    monitor = Monitor(facts.uuid(options.device), facts.index(options.device) or 0)
    sender.ready(facts.gather(options.device, monitor))
    gc.freeze()
    return monitor


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:
        msg = f"cannot import {module}: {error}"
        raise ReplayError(msg) from error


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


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the supervisor dies: a hung call would otherwise hold the GPU for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
