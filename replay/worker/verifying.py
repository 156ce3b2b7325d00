"""The process that runs a program, with a patch or without, and says what its step takes.

A script marks its step with `torch.profiler.record_function`: the runs of a range with the given name are timed, digits
in names aside. Four are left for warming up, then every second one is timed and the others profiled. A model runs as
`kerneldb record` runs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kerneldb import codec
from kerneldb.errors import KerneldbError, UsageError
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.recording import workloads
from kerneldb.replay.recording.measuring import Interval, interval
from kerneldb.replay.recording.settings import Settings
from kerneldb.replay.rewrites import patching
from kerneldb.replay.wire.improvements import Improvement, Times

WARM: Final = 4
"""Runs that are not timed: CUDA graphs of a compiled function are there after three."""
RUNS: Final = 7
VERIFICATIONS: Final = 2
"""Runs of a program without a patch, and as many with it."""
LEAST_RUNS: Final = 3
BUSY: Final = 1.1
"""Wall over busy time below which the device holds a step back."""
SLOWER: Final = "the program itself is slower with it"
ALL: Final = "all accepted"
GRAPH: Final = "cuda_graph"
DIGITS: Final = re.compile(r"\d+")


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
    """Run the job on standard input; writes one JSON line."""
    try:
        job = codec.load(Job, sys.stdin.read())
        found = run(job)
    except KerneldbError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(json.dumps({"wall_ns": found.wall_ns, "busy_ns": found.busy_ns}) + "\n")
    return 0


def run(job: Job) -> Timed:
    """Times of the step of a job."""
    patch = None if job.patch is None else patching.load(Path(job.patch))
    if job.settings.script:
        return _script(job, patch)
    if patch is not None:
        patch.apply()
    work = workloads.make(job.workload, "eager", job.settings, workloads.Models(job.settings))
    timed, on_gpu = Timed(), job.settings.on_gpu
    for number in range(WARM + 2 * RUNS):
        with _step(timed, number, on_gpu=on_gpu):
            work()
    return timed


def _script(job: Job, patch: Any) -> Timed:
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
                self._stack.enter_context(_step(timed, next(numbers), on_gpu=job.settings.on_gpu))
            return self

        def __exit__(self, *_: object) -> None:
            self._stack.close()

    torch.profiler.record_function = torch.autograd.profiler.record_function = Range
    if patch is None:
        workloads.Script(job.settings.script)()
    else:
        patch.run(list(job.settings.script))
    return timed


@contextlib.contextmanager
def _step(timed: Timed, number: int, *, on_gpu: bool) -> Iterator[None]:
    if number < WARM:
        yield
        return
    if not on_gpu:
        wall, busy = time.perf_counter_ns(), time.process_time_ns()
        yield
        timed.wall_ns.append(time.perf_counter_ns() - wall)
        timed.busy_ns.append(time.process_time_ns() - busy)
        return
    import torch

    torch.cuda.synchronize()
    if number % 2:
        begun = time.perf_counter_ns()
        yield
        torch.cuda.synchronize()
        timed.wall_ns.append(time.perf_counter_ns() - begun)
        return
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        yield
        torch.cuda.synchronize()
    events = profiler.events() or []
    on_device = [one for one in events if one.device_type == torch.autograd.DeviceType.CUDA]
    timed.busy_ns.append(1000.0 * sum(one.device_time for one in on_device))


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """What a program's step took without and with a patch [ns], and the share saved with its 95 % interval."""

    quantity: str
    before_ns: float
    after_ns: float
    gain: Interval

    def row(self, change: str, promised: Improvement | None) -> dict[str, Any]:
        """A row with what was promised beside it."""
        told = promised and promise(promised, self.quantity)
        ends = {"promised_pct": "gain", "promised_low_pct": "low", "promised_high_pct": "high"}
        return {
            "change": change,
            "quantity": f"{self.quantity}_ns",
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "measured_pct": 100 * self.gain.value,
            "measured_low_pct": 100 * self.gain.low,
            "measured_high_pct": 100 * self.gain.high,
            **{name: told and 100 * getattr(told, field) for name, field in ends.items()},
        }


def promise(one: Improvement, quantity: str) -> Times | None:
    """What a result says of the program: wall time only where the device, not the host, holds the step back.

    Otherwise the wall time of the step is that of our loop over its calls, which is another host than the program.
    """
    if quantity == "busy" or one.wall is None or one.busy is None:
        return one.busy if quantity == "busy" else None
    pairs = (one.wall.before_ns, one.busy.before_ns), (one.wall.after_ns, one.busy.after_ns)
    return one.wall if all(wall < BUSY * busy for wall, busy in pairs) else None


def verify(settings: Settings, workload: str, patch: Path) -> list[Verified]:
    """Run a program as recorded and with a patch, in turns, each time in a process of its own.

    Raises ReplayError where it does not run, UsageError where its step was not seen often enough.
    """
    sides: tuple[list[Timed], list[Timed]] = ([], [])
    for number in range(2 * VERIFICATIONS):
        with_patch = number % 2 if number < VERIFICATIONS else 1 - number % 2
        sides[with_patch].append(timed(Job(settings, workload, str(patch.resolve()) if with_patch else None)))
    return compared(*sides)


def compared(before: Sequence[Timed], after: Sequence[Timed]) -> list[Verified]:
    """Busy and wall time of runs of a program without and with a patch."""
    return [_verified(name, (before, after)) for name in ("busy", "wall")]


def prove(
    found: Sequence[Improvement], measure: Callable[[Sequence[Improvement]], list[Verified]]
) -> tuple[list[Improvement], list[dict[str, Any]]]:
    """Measure what a patch makes in the program: each change, and all of them; what makes it slower is taken back.

    `measure` runs the program with the accepted ones of what it is given. Returns all of `found` as it is then, and
    rows of what was measured beside what was promised.
    """
    changes = [one for one in found if one.status == "accepted" and not by_hand(one)]
    graphs = [one for one in changes if one.rewrite == GRAPH]
    plain = [one for one in changes if one.rewrite != GRAPH]
    slower, rows = list[Improvement](), list[dict[str, Any]]()
    for one in plain if len(changes) > 1 else ():
        measured = measure([one])
        rows += [each.row(f"{one.rewrite}: {one.place or one.what}", one) for each in measured]
        slower += [one] if _loses(measured) else []
    left = [one for one in changes if one not in slower]
    if left:
        measured = measure(left)
        rows += [each.row(ALL, _promise(found) if not slower else None) for each in measured]
        if _loses(measured) or (graphs and plain and _loses_by_graph(rows)):
            slower += graphs or left
    taken_back = [*slower, *(one for one in found if slower and one.status == "together")]
    return [
        dataclasses.replace(one, status="rejected", reason=SLOWER) if one in taken_back else one for one in found
    ], rows


def _loses(measured: Sequence[Verified]) -> bool:
    return any(each.gain.high < 0 for each in measured)


def _promise(found: Sequence[Improvement]) -> Improvement | None:
    """What was promised for all that a patch makes."""
    return next((one for one in reversed(found) if one.status == "together"), None)


def _loses_by_graph(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the program takes longer with a CUDA graph than with the best of the other changes."""
    walls = [row for row in rows if row["quantity"] == "wall_ns"]
    with_graph = next(row["after_ns"] for row in walls if row["change"] == ALL)
    return bool(with_graph > min(row["after_ns"] for row in walls))


def by_hand(one: Improvement) -> bool:
    """Whether no patch makes a change."""
    return any(change["kind"] == "advice" for change in one.change.get("changes", ()))


def timed(job: Job) -> Timed:
    """Run a job in a process of its own. Raises ReplayError and UsageError as `verify`."""
    command = [sys.executable, "-P", "-m", __spec__.name]
    given = json.dumps(codec.encode(job))
    ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False)  # noqa: S603 (this program)
    sys.stderr.write("".join(f"{one}\n" for one in ended.stderr.splitlines() if one.startswith("patch: ")))
    if ended.returncode:
        said = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ReplayError(f"the program ended with exit code {ended.returncode}: {said}")
    found = codec.load(Timed, ended.stdout.splitlines()[-1])
    if len(found.wall_ns) < LEAST_RUNS or len(found.busy_ns) < LEAST_RUNS:
        raise UsageError(
            f"the step {job.workload!r} ran too seldom to be timed: mark it with torch.profiler.record_function, "
            f"and run it {WARM + 2 * LEAST_RUNS} times or more"
        )
    return found


def _verified(name: str, sides: tuple[Sequence[Timed], Sequence[Timed]]) -> Verified:
    """Medians of each run, in pairs; the interval is that of their scatter and of the runs' own."""
    before, after = ([statistics.median(getattr(one, f"{name}_ns")) for one in side] for side in sides)
    old, new = ([value for one in side for value in getattr(one, f"{name}_ns")] for side in sides)
    gain = 1 - statistics.fmean(after) / statistics.fmean(before)
    spread = [interval([value / statistics.fmean(some) for value in some]) for some in (old, new)]
    half = (1 - gain) * sum((one.high - one.value) ** 2 for one in spread) ** 0.5
    return Verified(name, statistics.fmean(before), statistics.fmean(after), Interval(gain, gain - half, gain + half))


if __name__ == "__main__":
    sys.exit(main())
