"""The process that runs a program, with a patch or without, and says what its step takes.

A script marks its step with `torch.profiler.record_function`: the runs of a range with the given name are timed, digits
in names aside. Four are left for warming up, then every second one is timed and the others profiled. A model runs as
`kerneldb record` runs it.

Where the device has a meter, the runs after these tell the energy of one (`windows.py`).

Before each timed run or window it says `ready` on standard output, and goes on when it is told to: another process may
have the device in between (`proving.py`). What the program itself writes goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from kerneldb import codec
from kerneldb.errors import KerneldbError
from kerneldb.replay.recording import workloads
from kerneldb.replay.recording.settings import Settings
from kerneldb.replay.rewrites import patching
from kerneldb.replay.worker.windows import TOO_SHORT, Turn, Windows

WARM: Final = 4
"""Runs that are not timed: CUDA graphs of a compiled function are there after three."""
RUNS: Final = 12
"""Of each quantity."""
READY: Final = "ready"
DIGITS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: settings of a recording, the workload or the range of a script that counts, and a patch."""

    settings: Settings
    workload: str
    patch: str | None = None


@dataclass(slots=True)
class Timed:
    """Times of the runs of a step [ns]: of the clock, and of what it had the device (or the process) do.

    `energy_mj` is of a run, one value for each window; `energy_reason` says why there are no more.
    """

    wall_ns: list[float] = field(default_factory=list)
    busy_ns: list[float] = field(default_factory=list)
    energy_mj: list[float] = field(default_factory=list)
    energy_reason: str | None = None


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
    said.write(codec.dump(found) + "\n")
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
    timed = Timed()
    with _Steps(timed, job.settings, turn) as steps:
        while not steps.over:
            with steps.run():
                work()
    return timed


def _script(job: Job, patch: Any, turn: Turn) -> Timed:
    import torch.profiler

    timed, wanted = Timed(), DIGITS.sub("#", job.workload)
    steps = _Steps(timed, job.settings, turn)

    class Range(contextlib.ContextDecorator):
        """In place of `record_function`."""

        def __init__(self, name: str, args: str | None = None) -> None:
            del args
            self._counts = DIGITS.sub("#", name) == wanted
            self._stack = contextlib.ExitStack()

        def __enter__(self) -> Any:
            if self._counts:
                self._stack.enter_context(steps.run())
            return self

        def __exit__(self, *_: object) -> None:
            self._stack.close()

    torch.profiler.record_function = torch.autograd.profiler.record_function = Range
    with steps:
        try:
            if patch is None:
                workloads.Script(job.settings.script)()
            else:
                patch.run(list(job.settings.script))
        except SystemExit as ended:  # as many scripts end, also where all is well
            if ended.code:
                raise
    return timed


class _Steps:
    """The runs of a step, each with what is measured in it; with `with` until the program ends."""

    def __init__(self, timed: Timed, settings: Settings, turn: Turn) -> None:
        self._timed = timed
        self._settings = settings
        self._turn = turn
        self._number = 0
        self._meter: Windows | None = None
        timed.energy_reason = TOO_SHORT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._meter is not None:
            self._meter.close()

    @property
    def over(self) -> bool:
        """Whether all is measured."""
        return self._number >= WARM + 2 * RUNS and self._meter is not None and self._meter.over

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """The next run."""
        number, self._number = self._number, self._number + 1
        if number < WARM + 2 * RUNS:
            with _step(self._timed, number, self._turn, on_gpu=self._settings.on_gpu):
                yield
            return
        if self._meter is None:
            self._meter = Windows(self._timed, self._settings, self._turn)
        self._meter.before()
        yield
        self._meter.after()


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
