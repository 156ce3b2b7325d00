"""The process that runs a program, with a patch or without, and says what its step takes.

A script marks its step with `torch.profiler.record_function`: the runs of a range with the given name are timed, digits
in names aside. Four are left for warming up, then every second one is timed and the others profiled. A model runs as
`kerneldb record` runs it.

Before each timed run it says `ready` on standard output, and goes on when it is told to: another process may have the
device in between (`proving.py`). What the program itself writes goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kerneldb import codec
from kerneldb.errors import KerneldbError
from kerneldb.replay.recording import workloads
from kerneldb.replay.recording.settings import Settings
from kerneldb.replay.rewrites import patching

WARM: Final = 4
"""Runs that are not timed: CUDA graphs of a compiled function are there after three."""
RUNS: Final = 12
"""Of each quantity."""
READY: Final = "ready"
DIGITS: Final = re.compile(r"\d+")

Turn = Callable[[], bool]
"""Waits until it is this process's turn; False where nobody asks any more."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: settings of a recording, the workload or the range of a script that counts, and a patch."""

    settings: Settings
    workload: str
    patch: str | None = None


@dataclass(slots=True)
class Timed:
    """Times of the runs of a step [ns]: of the clock, and of what it had the device (or the process) do."""

    wall_ns: list[float] = field(default_factory=list)
    busy_ns: list[float] = field(default_factory=list)


def main() -> int:
    """Run the job of the first line of standard input; the last line that it writes is the result in JSON."""
    given = sys.stdin.readline()
    asked, said = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)

    def turn() -> bool:
        said.write(f"{READY}\n")
        said.flush()
        return bool(asked.readline())

    try:
        found = run(codec.load(Job, given), turn)
    except KerneldbError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    said.write(json.dumps({"wall_ns": found.wall_ns, "busy_ns": found.busy_ns}) + "\n")
    said.flush()
    return 0


def run(job: Job, turn: Turn = lambda: True) -> Timed:
    """Times of the step of a job."""
    patch = None if job.patch is None else patching.load(Path(job.patch))
    if job.settings.script:
        return _script(job, patch, turn)
    if patch is not None:
        patch.apply()
    work = workloads.make(job.workload, "eager", job.settings, workloads.Models(job.settings))
    timed, on_gpu = Timed(), job.settings.on_gpu
    for number in range(WARM + 2 * RUNS):
        with _step(timed, number, turn, on_gpu=on_gpu):
            work()
    return timed


def _script(job: Job, patch: Any, turn: Turn) -> Timed:
    import torch.profiler

    timed, wanted = Timed(), DIGITS.sub("#", job.workload)
    numbers = iter(range(1 << 60))

    class Range(contextlib.ContextDecorator):
        """In place of `record_function`."""

        def __init__(self, name: str, args: str | None = None) -> None:
            del args
            self._counts = DIGITS.sub("#", name) == wanted
            self._stack = contextlib.ExitStack()

        def __enter__(self) -> Any:
            if self._counts:
                self._stack.enter_context(_step(timed, next(numbers), turn, on_gpu=job.settings.on_gpu))
            return self

        def __exit__(self, *_: object) -> None:
            self._stack.close()

    torch.profiler.record_function = torch.autograd.profiler.record_function = Range
    try:
        if patch is None:
            workloads.Script(job.settings.script)()
        else:
            patch.run(list(job.settings.script))
    except SystemExit as ended:  # as many scripts end, also where all is well
        if ended.code:
            raise
    return timed


@contextlib.contextmanager
def _step(timed: Timed, number: int, turn: Turn, *, on_gpu: bool) -> Iterator[None]:
    if on_gpu:
        _synchronize()
    if not WARM <= number < WARM + 2 * RUNS or not turn():
        yield
    elif not on_gpu:
        wall, busy = time.perf_counter_ns(), time.process_time_ns()
        yield
        timed.wall_ns.append(time.perf_counter_ns() - wall)
        timed.busy_ns.append(time.process_time_ns() - busy)
    else:
        _synchronize(after=1)
        yield from (_clocked if number % 2 else _profiled)(timed)


def _synchronize(after: int | None = None) -> None:
    """Wait for the device; `after` so many cycles of work, with which it comes back from another process."""
    import torch

    if after is not None:
        torch.cuda._sleep(after)
    torch.cuda.synchronize()


def _clocked(timed: Timed) -> Iterator[None]:
    begun = time.perf_counter_ns()
    yield
    _synchronize()
    timed.wall_ns.append(time.perf_counter_ns() - begun)


def _profiled(timed: Timed) -> Iterator[None]:
    import torch.profiler

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        yield
        torch.cuda.synchronize()
    events = profiler.events() or []
    on_device = [one for one in events if one.device_type == torch.autograd.DeviceType.CUDA]
    timed.busy_ns.append(1000.0 * sum(one.device_time for one in on_device))


if __name__ == "__main__":
    sys.exit(main())
