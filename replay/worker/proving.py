"""Whether a patch makes a program faster: processes of it without and with the patch, in turns, a run of the step each.

They are there at once, and one has the device at a time: what drifts (clocks, other work) is the same on both sides of
a pair of runs. A gain is the median over pairs, its interval that of the median by order statistics [1]: runs
that another program disturbed do not count for more than others, and where pairs of processes disagree it is as wide as
they are apart.

[1] H. A. David, H. N. Nagaraja, Order Statistics, 3rd ed., 7.1: the coverage is a sum of binomial probabilities.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb import codec
from kerneldb.errors import UsageError
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.recording.measuring import Interval
from kerneldb.replay.recording.settings import Settings
from kerneldb.replay.rewrites import patching
from kerneldb.replay.rewrites.trial import BUSY
from kerneldb.replay.wire.improvements import Improvement, Times
from kerneldb.replay.worker import improving, verifying
from kerneldb.replay.worker.verifying import READY, WARM, Job, Timed

REPEATS: Final = 2
"""Pairs of processes."""
MOST_REPEATS: Final = 4
"""Where those do not decide."""
LEAST_RUNS: Final = 3
SHORT: Final = re.compile("memory|ALLOC_FAILED|NOT_INITIALIZED", re.IGNORECASE)
"""How programs end that find too little memory."""
CONFIDENCE: Final = 0.95
MARGIN: Final = 0.01
"""A loss of more than this share must be ruled out, in busy time and in wall time."""
COST: Final = 0.1
"""How much of what one of them surely gains the other may lose: a CUDA graph copies its inputs."""
WIDEST: Final = 0.05
"""An interval of wall time that is wider, as a share of the step, is no promise."""
QUANTITIES: Final = ("busy", "wall")
ENERGY: Final = "energy"
"""Told beside them, and not judged: a change is one of time."""
SLOWER: Final = "the program itself is slower with it"
UNDECIDED: Final = "the runs of the program do not rule out that it is slower"
NO_GAIN: Final = "the program itself gains nothing"
BROKEN: Final = "the program does not run with it"
KEPT: Final = "kept"
OPEN: Final = frozenset({UNDECIDED, NO_GAIN})
ALL: Final = "all accepted"
GRAPH: Final = "cuda_graph"
SOME: Final = "all but the graph"
BESIDE: Final = "beside the graph"


class BrokenByPatchError(ReplayError):
    """A program runs, but not with a patch."""


Sides = Sequence[tuple[Timed, Timed]]
"""Of each pair of processes: without a patch, and with it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """What a program's step took without and with a patch [ns, mJ], and the share saved with its 95 % interval."""

    quantity: str
    before: float
    after: float
    gain: Interval

    def row(self, change: str, promised: Improvement | None, outcome: str | None = None) -> dict[str, Any]:
        """A row with what was promised beside it, and what became of the change."""
        told = promised and promise(promised, self.quantity)
        ends = {"promised_pct": "gain", "promised_low_pct": "low", "promised_high_pct": "high"}
        return {
            "change": change,
            "quantity": f"{self.quantity}_{'mj' if self.quantity == ENERGY else 'ns'}",
            "before": self.before,
            "after": self.after,
            "measured_pct": 100 * self.gain.value,
            "measured_low_pct": 100 * self.gain.low,
            "measured_high_pct": 100 * self.gain.high,
            **{name: told and 100 * getattr(told, field) for name, field in ends.items()},
            "outcome": outcome,
        }


def promise(one: Improvement, quantity: str) -> Times | None:
    """What a result says of the program: wall time only where the device, not the host, holds the step back.

    Otherwise the wall time of the step is that of our loop over its calls, which is another host than the program. Nor
    does it say anything where the loop was disturbed, so that its interval is wide.
    """
    if quantity == ENERGY:
        return one.energy
    if quantity == "busy" or one.wall is None or one.busy is None:
        return one.busy if quantity == "busy" else None
    pairs = (one.wall.before_ns, one.busy.before_ns), (one.wall.after_ns, one.busy.after_ns)
    settled = one.wall.high - one.wall.low < WIDEST
    return one.wall if settled and all(wall < BUSY * busy for wall, busy in pairs) else None


# Runs of the program.


def verify(settings: Settings, workload: str, patch: Path, beside: Path | None = None) -> list[Verified]:
    """Run a program as recorded (or with the patch `beside`) and with a patch, in turns, until that decides.

    Raises BrokenByPatchError where it runs only without that patch, ReplayError where it never does, UsageError where
    its step was not seen often enough.
    """
    before, after = (Job(settings, workload, None if one is None else str(one.resolve())) for one in (beside, patch))
    try:
        sides = pairs(before, after, REPEATS)
    except ReplayError as error:
        in_turns([before])
        raise BrokenByPatchError(str(error)) from error
    while len(sides) < MOST_REPEATS and judged(compared(sides)) in OPEN:
        sides += pairs(before, after, 1)
    return compared(sides)


def pairs(before: Job, after: Job, count: int) -> list[tuple[Timed, Timed]]:
    """So many pairs of processes in turns; fewer beside each other where memory is too short for all."""
    jobs = [before, after] * count
    for size in (len(jobs), 2, 1):
        try:
            found = [one for at in range(0, len(jobs), size) for one in in_turns(jobs[at : at + size])]
            break
        except ReplayError as error:
            if size == 1 or not SHORT.search(str(error)):
                raise
    return list(zip(found[::2], found[1::2], strict=True))


def in_turns(jobs: Sequence[Job]) -> list[Timed]:
    """Run jobs in processes of their own, of which one at a time runs a step that is timed; the order changes.

    Raises ReplayError and UsageError as `verify`.
    """
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(_started(job)) for job in jobs]
        for number in itertools.count():
            waiting = [side.waits for side in sides]
            if not all(waiting):
                break
            for side in sides[:: -1 if number // 2 % 2 else 1]:
                side.go()
        for side in sides:
            side.release()
        found = [side.result() for side in sides]  # of all: where one fails, the others have had few turns
    for job, one in zip(jobs, found, strict=True):
        _often(job, one)
    return found


def _often(job: Job, found: Timed) -> None:
    if len(found.wall_ns) < LEAST_RUNS or len(found.busy_ns) < LEAST_RUNS:
        raise UsageError(
            f"the step {job.workload!r} ran too seldom to be timed: mark it with "
            f"torch.profiler.record_function, and run it {WARM + 2 * LEAST_RUNS} times or more"
        )


class _Side:
    """A process that waits for its turn, or has ended."""

    def __init__(self, job: Job, process: subprocess.Popen[str], said: Any) -> None:
        self._process = process
        self._said = said
        self._line: str | None = None
        self._write(json.dumps(codec.encode(job)))

    @property
    def waits(self) -> bool:
        """Whether it is ready for its turn, after waiting until it is or has ended."""
        if self._line is None and self._process.stdout is not None:
            self._line = self._process.stdout.readline()
        return self._line == f"{READY}\n"

    def go(self) -> None:
        """Let it have its turn, and wait until that is over."""
        self._line = None
        self._write("go")
        _ = self.waits

    def release(self) -> None:
        """Let it run to its end, untimed."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if self.waits:
            self._line = None

    def result(self) -> Timed:
        """Its times, when it has ended. Raises ReplayError."""
        line = self._line if self._line is not None else "".join(self._process.stdout or ())
        code = self._process.wait()
        self._said.seek(0)
        said = self._said.read().splitlines()
        for one in said:
            if one.startswith("patch: "):
                _tell(one)
        if code:
            raise ReplayError(f"the program ended with exit code {code}: {(said or ['it said nothing'])[-1]}")
        return codec.load(Timed, line.splitlines()[-1])

    def _write(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended: `waits` says so
            assert self._process.stdin is not None  # noqa: S101 (it is a pipe)
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()


@contextlib.contextmanager
def _started(job: Job) -> Iterator[_Side]:
    command = [sys.executable, "-P", "-m", verifying.__name__]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, text=True)  # noqa: S603 (this program)
        with process:
            try:
                yield _Side(job, process, said)
            finally:
                process.kill()


@functools.cache
def _tell(line: str) -> None:
    """What a patch says, or is not known, once."""
    sys.stderr.write(f"{line}\n")


# What they say.


def compared(sides: Sides) -> list[Verified]:
    """Busy and wall time of pairs of processes without and with a patch, and their energy where there is a meter."""
    found = [_verified(name, sides, f"{name}_ns") for name in QUANTITIES]
    if all(one.energy_mj for pair in sides for one in pair):
        return [*found, _verified(ENERGY, sides, "energy_mj")]
    reason = next((one.energy_reason for pair in sides for one in pair if one.energy_reason), None)
    if reason is not None:
        _tell(f"energy of the program: {reason}")
    return found


def _verified(name: str, sides: Sides, values: str) -> Verified:
    pairs = [both for side in sides for both in zip(*(getattr(one, values) for one in side), strict=False)]
    old, new = (statistics.median(some) for some in zip(*pairs, strict=True))
    return Verified(name, old, new, median([1 - after / before if before else 0.0 for before, after in pairs]))


def median(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median with its interval by order statistics: the narrowest that covers it with this probability.

    Of few values no interval does: it is the whole range of fewer than six, at 95 %.
    """
    ordered, n = sorted(values), len(values)
    outside, place = 0.5**n, 0
    while place + 1 < n / 2:
        outside += math.comb(n, place + 1) * 0.5**n
        if 2 * outside > 1 - confidence:
            break
        place += 1
    return Interval(statistics.median(ordered), ordered[place], ordered[-1 - place])


def judged(measured: Sequence[Verified]) -> str:
    """`KEPT` where a time gains and no time may be longer by more than a small part of that; else why not."""
    measured = [each for each in measured if each.quantity in QUANTITIES]
    most = COST * max(each.gain.low for each in measured)
    if any(each.gain.high < 0 and each.gain.low < -most for each in measured):
        return SLOWER
    if any(each.gain.low < -max(MARGIN, most) for each in measured):
        return UNDECIDED
    return KEPT if any(each.gain.low > 0 for each in measured) else NO_GAIN


Measure = Callable[[Sequence[Improvement], Sequence[Improvement]], list[Verified]]
"""Runs the program with some accepted changes, and with others that it is compared with (none: as it is)."""


def prove(found: Sequence[Improvement], measure: Measure) -> tuple[list[Improvement], list[dict[str, Any]]]:
    """Measure what a patch makes in the program: each change, and all of them; what may make it slower is taken back.

    Changes that only lose in company go one by one, the least first; CUDA graphs must gain beside the others, and those
    that save time of the device but cost the host more are tried again beside a graph. Returns all of `found` as it is
    then, and rows of what was measured beside what was promised.
    """
    proof = _Proof(found, measure)
    changes = [one for one in found if one.status == "accepted" and not by_hand(one)]
    plain = [one for one in changes if one.rewrite != GRAPH]
    graphs = [one for one in changes if one.rewrite == GRAPH and not _advised(one, plain)]
    is_alone = len(plain) + len(graphs) == 1
    left = plain[:] if is_alone else [one for one in plain if proof.of(_name(one), [one], promised=one)]
    if graphs:
        left = proof.company(SOME, left) if len(left) > 1 else left
        whole = None if plain else proof.whole
        left += [one for one in graphs if proof.of(_name(one) if plain else ALL, [one], left, promised=whole)]
        if left and left[-1] in graphs:
            left += [one for one in plain if proof.saves(one) and proof.of(f"{_name(one)}, {BESIDE}", [one], left)]
    if len(left) > 1 or not graphs:
        proof.company(ALL, left, promised=True)
    return [proof.outcome(one) for one in found], proof.rows


def in_program(
    found: Sequence[Improvement], settings: Settings, workload: str
) -> tuple[list[Improvement], list[dict[str, Any]]]:
    """The same with a program: patches are written and it runs with them. Raises as `verify`."""
    with tempfile.TemporaryDirectory() as folder:

        def patch(name: str, some: Sequence[Improvement]) -> Path:
            path = Path(folder) / name
            path.write_text(patching.text(improving.changes(some), "tried by kerneldb improve --verify"), "utf-8")
            return path

        def measure(some: Sequence[Improvement], beside: Sequence[Improvement]) -> list[Verified]:
            other = patch("beside.py", beside) if beside else None
            return verify(settings, workload, patch("changed.py", some), other)

        return prove(found, measure)


class _Proof:
    """What was measured so far, and what is taken back for which reason."""

    def __init__(self, found: Sequence[Improvement], measure: Measure) -> None:
        self._found = found
        self._measure = measure
        self._measured: dict[int, Sequence[Verified]] = {}
        self.rows: list[dict[str, Any]] = []
        self.taken_back: dict[int, str] = {}

    def of(
        self,
        name: str,
        chosen: Sequence[Improvement],
        beside: Sequence[Improvement] = (),
        *,
        promised: Improvement | None = None,
    ) -> bool:
        """Measure some changes on top of others; where they do not pay, the one that gains least is taken back."""
        try:
            measured = self._measure([*beside, *chosen], beside)
        except BrokenByPatchError as error:
            self.taken_back[id(min(chosen, key=self._gain))] = f"{BROKEN}: {error}"
            return False
        outcome = judged(measured)
        self.rows += [each.row(name, promised, outcome) for each in measured]
        if len(chosen) == 1:
            self._measured[id(chosen[0])] = measured
        if outcome == KEPT:
            for one in chosen:
                self.taken_back.pop(id(one), None)
        else:
            self.taken_back[id(min(chosen, key=self._gain))] = outcome
        return outcome == KEPT

    def company(self, name: str, left: list[Improvement], *, promised: bool = False) -> list[Improvement]:
        """What pays together, of what pays alone."""
        while left and not self.of(name, left, promised=self.whole if promised else None):
            left = [one for one in left if id(one) not in self.taken_back]
        return left

    def _gain(self, one: Improvement) -> float:
        times = (each for each in self._measured.get(id(one), ()) if each.quantity in QUANTITIES)
        return max((each.gain.value for each in times), default=0.0)

    def saves(self, one: Improvement) -> bool:
        """Whether a change that was taken back saves time of the device."""
        busy = (each for each in self._measured.get(id(one), ()) if each.quantity == QUANTITIES[0])
        return id(one) in self.taken_back and any(each.gain.low > 0 for each in busy)

    @property
    def whole(self) -> Improvement | None:
        """What was promised for all that a patch makes; None where that is no longer what it makes.

        Of a training step a compiler makes graphs of parts, so that the wall time of one graph is no promise.
        """
        together = next((one for one in reversed(self._found) if one.status == "together"), None)
        if self.taken_back or together is None:
            return None
        trained = any(_in_parts(one) for one in self._found if one.status == "accepted")
        return dataclasses.replace(together, wall=None) if trained else together

    def outcome(self, one: Improvement) -> Improvement:
        """A result as it is now; where anything was taken back, nobody may read the sum as that of what is left."""
        reason = self.taken_back.get(id(one))
        if reason is None and one.status == "together" and self.taken_back:
            reason = next(iter(self.taken_back.values()))
        return one if reason is None else dataclasses.replace(one, status="rejected", reason=reason)


def _name(one: Improvement) -> str:
    return f"{one.rewrite}: {one.place or one.what}"


def by_hand(one: Improvement) -> bool:
    """Whether no patch makes a change."""
    return any(change["kind"] == "advice" for change in one.change.get("changes", ()))


def _advised(graph: Improvement, plain: Sequence[Improvement]) -> bool:
    """Whether no patch makes a graph beside these changes: that of a training step is a mode of its compiler."""
    made = improving.changes([*plain, graph])
    return any(change["rewrite"] == GRAPH and change["kind"] == improving.ADVICE for change in made)


def _in_parts(one: Improvement) -> bool:
    """Whether a change makes graphs of parts of a step only."""
    changes = one.change.get("changes", ())
    return one.rewrite == GRAPH and any(change["values"].get("training") for change in changes)
