"""Runs a plan on one device: keeps a worker process going, and takes the blame off the neighbours of what breaks it.

A worker that dies (a signal, an illegal access, out of memory), breaks its device context, or is silent for too long,
costs the item that it was working on; a new worker goes on with the rest. An item that had a result by then keeps it.
Where a worker dies between items, the next takes fewer at a time, until the culprit is alone.

When all calls have run, other workers measure their energy (`kerneldb.replay.worker.energy`), with the same care: what
costs a worker there keeps its result, and has no energy, with the reason.

Several runs may share the items of one plan, each with a device of its own (`kerneldb.replay.host.fleet`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from kerneldb import codec
from kerneldb.codec import CodecError
from kerneldb.replay import processes
from kerneldb.replay.errors import LINE, ReplayError
from kerneldb.replay.host import profilers
from kerneldb.replay.host.counting import Counting
from kerneldb.replay.host.phases import EnergyPhase, Listener, Log, Phase, Pool, ReplayPhase, StepPhase, nobody
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.journal import Journal, Writer
from kerneldb.replay.wire.messages import Begin, Broken, Done, Further, Job, Message, Ready, Receiver, Unusable
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.steps import Step

TAIL_BYTES: Final = 4096
WORKER: Final = processes.command("kerneldb.replay.worker")
BARREN_WORKERS: Final = 4
INTERRUPTED: Final = "not attempted: interrupted"


class WorkerProcess:
    """A worker that does `job`, for as long as the context lasts. `command` gets the descriptor of its pipe added."""

    def __init__(self, command: Sequence[str], job: Job) -> None:
        self._job = job
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        ours, theirs = os.pipe()
        self._receiver = Receiver(ours)
        self.process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            [*command, str(theirs)],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            pass_fds=[theirs],
            start_new_session=True,
            env=processes.environment(),
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Hand over the job."""
        self.write(codec.dump(self._job))
        if not self._job.further:
            self._close_input()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close_input()
        self._receiver.close()
        self._output.close()

    @property
    def ended(self) -> bool:
        """Whether the worker has closed its end of the pipe."""
        return self._receiver.ended

    def next(self, seconds: float) -> Message | None:
        """The next message; None after `seconds` without one, or where the worker `ended`. Raises CodecError."""
        return self._receiver.next(seconds)

    def write(self, text: str) -> None:
        """Write a line to its input; a worker that died is noticed by its closed pipe."""
        assert self.process.stdin is not None  # noqa: S101 (it was asked for)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{text}\n".encode())
            self.process.stdin.flush()

    def _close_input(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            if self.process.stdin is not None:
                self.process.stdin.close()

    def death(self) -> str:
        """Why the worker has closed its pipe: its signal or exit code, and the last line it wrote."""
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            return "worker closed its pipe and did not end"
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - TAIL_BYTES))
        written = self._output.read().decode("utf-8", "replace").splitlines()
        lines = [line for line in written if line.strip() and not line.startswith("USDT:")]
        cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"worker {cause}: {codec.printable(lines[-1].strip(), LINE)}" if lines else f"worker {cause}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a replay ended: `finished` false where the time limit or the user stopped it, and `--resume` goes on.

    `run_ids` are those of its runs, one per device; `items` were to be done, `done` are, `by_grade` so many of them.
    `collectives_s` are the seconds in which collectives were replayed, apart from all else. `energy_reason` says why no
    energy was measured, once the results are stored.
    """

    run_ids: tuple[str, ...]
    items: int
    done: int
    by_grade: Mapping[str, int]
    finished: bool
    interrupted: bool
    wall_s: float
    collectives_s: float = 0.0
    energy_reason: str | None = None

    @property
    def run_id(self) -> str:
        """The first of its runs; empty where nothing ran."""
        return next(iter(self.run_ids), "")

    def announced(self, listen: Listener) -> Outcome:
        """The same, when `listen` has heard of it."""
        wall_s = round(self.wall_s, 3)
        listen({"event": "end", "finished": self.finished, "wall_s": wall_s, "grades": self.by_grade})
        return self


@dataclass(slots=True)
class _Ending:
    """How a worker ended. `reason` None: it did all it was asked to. `stopped`: no other may begin."""

    reason: str | None = None
    item: str | None = None
    progressed: bool = False
    stopped: bool = False


def run(
    plan_path: Path,
    journal_path: Path,
    chosen: Options,
    *,
    resume: bool = False,
    listen: Listener = nobody,
    worker: Sequence[str] = WORKER,
    pool: Pool | None = None,
    until: float | None = None,
) -> Outcome:
    """Replay the plan at `plan_path` into the journal at `journal_path`.

    `listen` gets events: `start`, `foreign` (the GPU is of another vendor than the plan's), `ready` (a worker
    is), `progress` (items done, ETA in seconds, clock, power, temperature), `energy` (the same while energy is
    measured), `counters` (the same while they are read), `worker` (one died) and `end`. With a `pool`, only the items
    (or steps) that it deals out are replayed. A time limit counts from here, or ends at `until` (of `time.monotonic`)
    where it has begun before. Raises ReplayError where the run cannot take place, PlanError, JournalError and
    JournalExistsError.
    """
    planned = plan.read(plan_path)
    before = journal.begun(journal_path) if resume else None
    if chosen.counters:
        if planned.steps:  # the caches are as the step leaves them
            chosen = dataclasses.replace(chosen, cache="mixed")
        profilers.require(chosen, planned.notes.get("vendor"))
    with Writer(journal_path, resume=resume) as writer:
        run_id = uuid.uuid4().hex[:16] if before is None else before.run.run_id
        log = Log(planned, chosen, writer, listen, run_id)
        settled = frozenset() if before is None else before.settled(chosen.cache)
        if pool is None:
            open_items: Sequence[Step | Item] = planned.steps or planned.items
            pool = Pool((item.id for item in open_items if item.id not in settled), 1, at_once=1.0)
        made = _Run(plan_path, journal_path, log, worker, pool, deadline(chosen) if until is None else until)
        log.listen({"event": "start", "items": len(pool), "settled": len(settled), "run": run_id})
        return made.go(before)


@dataclass(slots=True)
class _Run:
    """A run in progress."""

    plan_path: Path
    journal_path: Path
    log: Log
    worker: Sequence[str]
    pool: Pool
    until: float
    interrupted: bool = False

    def go(self, before: Journal | None) -> Outcome:
        """Replay what the pool deals out, then measure its energy, and that of `before`, and end the journal."""
        started, log = time.monotonic(), self.log
        done = [] if before is None else [step for step, _ in before.steps]
        replaying = StepPhase(log, done, self.pool.take()) if log.plan.steps else ReplayPhase(log, self.pool)
        finished = self._work(replaying)
        left = len(replaying.pending)
        if finished and log.options.counters:
            now = journal.begun(self.journal_path)
            reader = Counting(log, self.plan_path, self.journal_path, self.pool, self.until)
            finished = reader.run({} if now is None else {one.item: one for one in now.uncounted(log.options.cache)})
            left, self.interrupted = len(reader.left), self.interrupted or reader.interrupted
        elif finished and log.options.energy and isinstance(replaying, ReplayPhase):
            earlier = () if before is None else before.unmeasured(log.options.cache)
            phase: Phase = EnergyPhase(log, {call.item: call for call in earlier} | replaying.results)
            finished = self._measure(phase)
            left = len(phase.pending)
        wall = time.monotonic() - started
        if log.writer.begun:
            log.writer.end(finished=finished, remaining=left, wall_s=wall)
        progress, grades = replaying.progress, dict(sorted(replaying.by_grade.items()))
        ids = (log.run_id,)
        return Outcome(ids, progress.total, progress.done, grades, finished, self.interrupted, wall).announced(
            log.listen
        )

    def _measure(self, phase: Phase) -> bool:
        """Measure the energy of all calls that ran. Returns whether that came to its end."""
        try:
            return self._work(phase)
        except ReplayError as error:
            if not self.log.headed:  # nothing ran in this process: the run cannot go on here
                raise
            for name in list(phase.pending):
                phase.give_up(name, str(error))
            return True

    def _work(self, phase: Phase) -> bool:
        """Start workers until nothing is left. Returns whether all items were attempted."""
        barren, batch = 0, self.log.options.batch
        while phase.pending or phase.more():
            ending = self._one_worker(phase, batch) if self._time_left() > 0 else self._limit_reached()
            if ending.reason is None:
                break
            if ending.stopped:
                if self.log.writer.begun:
                    phase.stop(ending.reason)
                else:  # before a worker said where it runs there is no run yet
                    phase.leave()
                return False
            self.log.listen({"event": "worker", "reason": ending.reason, "item": ending.item})
            if ending.item is not None:
                phase.give_up(ending.item, ending.reason)
                batch = self.log.options.batch
            else:
                phase.lost(ending.reason)
                batch = max(1, batch // 8)
            barren = 0 if ending.progressed or ending.item is not None else barren + 1
            if barren >= BARREN_WORKERS:
                phase.leave()
                raise ReplayError(f"the worker died {barren} times without a result: {ending.reason}")
        return True

    def _one_worker(self, phase: Phase, batch: int) -> _Ending:
        of_energy = isinstance(phase, EnergyPhase)
        job = Job(
            str(self.plan_path),
            options=dataclasses.replace(self.log.options, batch=batch),
            journal=str(self.journal_path) if of_energy else None,
            further=len(self.pool) > 0 and not of_energy,
            **phase.asks(),
        )
        with WorkerProcess(self.worker, job) as worker, self.pool.attending(worker.process):
            worker.begin()
            return self._follow(worker, phase)

    def _follow(self, worker: WorkerProcess, phase: Phase) -> _Ending:
        """Follow one worker to its end."""
        ending, silence_s = _Ending(), self.log.options.start_seconds
        while True:
            match self._next(worker, silence_s, ending):
                case None | Done():
                    return ending
                case Unusable(reason):
                    phase.leave()
                    raise ReplayError(reason)
                case Broken(reason):
                    ending.reason = f"device context broken: {reason}"
                    return ending
                case Begin(item):  # what comes before the first item (libraries, clocks) belongs to the start
                    ending.item, silence_s = item, phase.patience_s
                case Ready(found):
                    self.log.head(found)
                case Further():
                    worker.write(json.dumps(list(phase.more())))
                case message:
                    ending.progressed = phase.take(message) or ending.progressed

    def _next(self, worker: WorkerProcess, silence_s: float, ending: _Ending) -> Message | None:
        """The next message of the worker; None where none is to come, and `ending` says why."""
        message = None
        try:
            message = worker.next(min(silence_s, self._time_left()))
            self.interrupted = self.pool.stopped
        except KeyboardInterrupt:
            self.interrupted = True
        except CodecError as error:
            ending.reason = f"the worker wrote something that is not a message: {error}"
            return None
        if self.interrupted:
            ending.reason, ending.stopped = INTERRUPTED, True
            return None
        if message is None:
            ending.reason = worker.death() if worker.ended else f"hung: silent for {silence_s:g} s, killed"
            if not worker.ended and self._time_left() <= 0:
                ending.reason, ending.stopped = over_limit(self.log.options), True
        return message

    def _limit_reached(self) -> _Ending:
        return _Ending(over_limit(self.log.options), stopped=True)

    def _time_left(self) -> float:
        return self.until - time.monotonic()


def deadline(chosen: Options) -> float:
    """When (of `time.monotonic`) a run that starts now reaches its time limit."""
    return float("inf") if chosen.limit_seconds is None else time.monotonic() + chosen.limit_seconds


def over_limit(chosen: Options) -> str:
    """Why an item was not attempted that the time limit leaves out."""
    return f"not attempted: the time limit of {chosen.limit_seconds:g} s was reached"
