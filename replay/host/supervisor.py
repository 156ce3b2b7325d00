"""Runs a plan: keeps a worker process going, journals what it reports, and takes the blame off its neighbours.

A worker that dies (a signal, an illegal access, out of memory), breaks its device context, or is silent for too long,
costs the item that it was working on, graded L4 with the reason; a new worker goes on with the rest. An item that had
a result by then keeps it. Where a worker dies between items, the next takes fewer
at a time, until the culprit is alone.

Several supervisors may share the items of one plan, each with a device of its own (`kerneldb.replay.host`): a `Share`
deals them out.

When all calls have run, a second kind of worker measures their energy (`kerneldb.replay.worker.energy`), one after the
other, with the same care: what costs a worker there keeps its result, and has no energy, with the reason.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Protocol

from kerneldb.replay import facts, options, processes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.options import Options
from kerneldb.replay.wire import energy as records
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts
from kerneldb.replay.wire.journal import SKIPPED, CallResult, DeviceState, Journal, Writer
from kerneldb.replay.wire.messages import Job, Receiver, job_to_text
from kerneldb.replay.wire.plan import Item, Plan
from kerneldb.replay.worker import results

WORKER: Final = processes.command("kerneldb.replay.worker")
BARREN_WORKERS: Final = 4
BATCH_DIVISOR: Final = 8
EXIT_SECONDS: Final = 10
WEIGHING_SECONDS: Final = 30.0
TAIL_BYTES: Final = 4096
REASON_LENGTH: Final = 300
INTERRUPTED: Final = "not attempted: interrupted"
PROFILER_CHATTER: Final = "USDT:"

Listener = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `finished` false where the time limit or the user stopped it."""

    run_id: str
    items: int
    done: int
    by_grade: Mapping[str, int]
    finished: bool
    interrupted: bool
    wall_s: float


class Share(Protocol):
    """Deals out the items of a plan that several runs share."""

    @property
    def stopped(self) -> bool:
        """Whether the user has stopped all of them."""
        ...

    def take(self) -> Sequence[str]:
        """Ids of further items; none where all are dealt out."""
        ...

    def give_back(self, items: Sequence[str]) -> None:
        """Items that this run leaves to others."""
        ...

    def attend(self, process: subprocess.Popen[bytes] | None) -> None:
        """The worker that runs now."""
        ...


@dataclass(slots=True)
class _Ending:
    """How a worker ended. `reason` None: it did all it was asked to."""

    reason: str | None = None
    item: str | None = None
    progressed: bool = False
    stopped: bool = False


@dataclass(slots=True)
class _Progress:
    started: float
    total: int
    done: int = 0
    begun: float = 0.0
    by_grade: dict[str, int] = field(default_factory=dict)
    state: DeviceState | None = None


def run(
    plan_path: Path,
    journal_path: Path,
    chosen: Options,
    *,
    resume: bool = False,
    listen: Listener | None = None,
    worker: Sequence[str] = WORKER,
    share: Share | None = None,
    until: float | None = None,
) -> Outcome:
    """Replay the plan at `plan_path` into the journal at `journal_path`.

    `listen` is told of events: `start`, `foreign` (the GPU is of another vendor than the plan's), `ready` (a worker
    is), `progress` (items done, ETA in seconds, clock, power, temperature), `energy` (the same while energy is
    measured), `worker` (one died) and `end`. With a `share`, only the items that it deals out are replayed. A time
    limit counts from here, or ends at `until` (of `time.monotonic`) where it has begun before. Raises ReplayError where
    the run cannot take place, PlanError, and JournalExistsError.
    """
    planned = plan.read(plan_path)
    with Writer(journal_path, resume=resume) as writer:
        before = journal.read(journal_path) if journal.exists(journal_path) else None
        made = _Run(
            (plan_path, journal_path), planned, chosen, writer, listen or _nobody, worker, share=share, until=until
        )
        return made.go(before)


class _Run:
    def __init__(
        self,
        paths: tuple[Path, Path],
        planned: Plan,
        chosen: Options,
        writer: Writer,
        listen: Listener,
        worker: Sequence[str],
        *,
        share: Share | None = None,
        until: float | None = None,
    ) -> None:
        self._plan_path, self._journal_path = paths
        self._plan = planned
        self._share = share
        self._options = chosen
        self._writer = writer
        self._listen = listen
        self._worker = worker
        self._run_id = ""
        self._provisional: dict[str, CallResult] = {}
        self._pending: dict[str, Item] = {}
        self._results: dict[str, CallResult] = {}
        self._weighing = False
        self._energy_facts = EnergyFacts()
        self._header_written = False
        self._interrupted = False
        self._progress = _Progress(time.monotonic(), 0)
        self._until = deadline(chosen) if until is None else until

    def go(self, before: Journal | None) -> Outcome:
        """Replay what `before` has not settled, then measure its energy, and end the journal."""
        settled = frozenset() if before is None else before.settled(self._options.cache)
        self._run_id = facts.new_run_id() if before is None else before.run.run_id
        if self._share is None:
            self._pending = {item.id: item for item in self._plan.items if item.id not in settled}
        self._progress.total = len(self._pending)
        self._listen({"event": "start", "items": len(self._pending), "settled": len(settled), "run": self._run_id})
        self._results = {} if before is None else {call.item: call for call in before.unmeasured(self._options.cache)}
        self._energy_facts = (before and before.energy) or EnergyFacts()
        finished = self._work()
        total, done = self._progress.total, self._progress.done
        if finished and self._options.energy:
            finished = self._weigh()
        wall = time.monotonic() - self._progress.started
        if self._writer.begun:
            self._writer.end(finished=finished, remaining=len(self._pending), wall_s=wall)
        grades = dict(sorted(self._progress.by_grade.items()))
        self._listen({"event": "end", "finished": finished, "wall_s": round(wall, 3), "grades": grades})
        return Outcome(self._run_id, total, done, grades, finished, self._interrupted, wall)

    def _weigh(self) -> bool:
        """Measure the energy of all calls that ran. Returns whether that came to its end."""
        self._weighing = True
        items = {item.id: item for item in self._plan.items}
        self._pending = {name: items[name] for name in self._results if name in items}
        self._progress.total, self._progress.done = len(self._pending), 0
        self._progress.begun = time.monotonic()
        try:
            return self._work()
        except ReplayError as error:
            if not self._header_written:  # nothing ran in this process: the run cannot go on here
                raise
            for name in list(self._pending):
                self._no_energy(name, str(error))
            return True

    def _work(self) -> bool:
        """Start workers until nothing is left. Returns whether all items were attempted."""
        barren = 0
        chosen = self._options
        while self._pending or self._deal():
            ending = self._one_worker(chosen) if self._time_left() > 0 else self._limit_reached()
            if ending.stopped:
                self._skip_rest(ending.reason or "stopped")
                return False
            if ending.reason is None:
                break
            self._listen({"event": "worker", "reason": ending.reason, "item": ending.item})
            if ending.item is not None:
                self._blame(ending.item, ending.reason)
                chosen = self._options
            else:
                chosen = dataclasses.replace(chosen, batch=max(1, chosen.batch // BATCH_DIVISOR))
            barren = 0 if ending.progressed or ending.item is not None else barren + 1
            if barren >= BARREN_WORKERS:
                self._leave()
                msg = f"the worker died {barren} times without a result: {ending.reason}"
                raise ReplayError(msg)
        return True

    def _deal(self) -> list[str]:
        """Take further items of the share; their ids."""
        if self._share is None or self._weighing:
            return []
        given = set(self._share.take())
        self._pending |= {item.id: item for item in self._plan.items if item.id in given}
        self._progress.total += len(given)
        return list(given)

    def _leave(self) -> None:
        """Leave what is still to be done to the other runs of the share."""
        if self._share is not None and not self._weighing:
            self._share.give_back(list(self._pending))
            self._pending = {}

    def _one_worker(self, chosen: Options) -> _Ending:
        ours, theirs = os.pipe()
        receiver = Receiver(ours)
        with tempfile.TemporaryFile() as output:
            command = [*self._worker, str(theirs)]
            process = subprocess.Popen(  # noqa: S603 (our own interpreter)
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[theirs],
                start_new_session=True,
                env=processes.environment(),
            )
            os.close(theirs)
            try:
                if self._share is not None:
                    self._share.attend(process)
                journal_path = str(self._journal_path) if self._weighing else None
                further = self._share is not None and not self._weighing
                job = Job(str(self._plan_path), tuple(self._pending), chosen, journal_path, further)
                _tell_worker(process, job_to_text(job), more=further)
                return self._attend(process, receiver, output)
            finally:
                _kill(process)
                if self._share is not None:
                    self._share.attend(None)
                receiver.close()

    def _attend(self, process: subprocess.Popen[bytes], receiver: Receiver, output: IO[bytes]) -> _Ending:
        """Follow one worker to its end."""
        ending = _Ending()
        silence, begun = self._options.start_seconds, False
        while True:
            left = self._time_left()
            try:
                message = receiver.next(min(silence, left))
            except KeyboardInterrupt:
                self._interrupted = True
                return dataclasses.replace(ending, stopped=True, reason=INTERRUPTED)
            if self._share is not None and self._share.stopped:
                self._interrupted = True
                return dataclasses.replace(ending, stopped=True, reason=INTERRUPTED)
            if message is None and not receiver.ended:
                if self._time_left() <= 0:
                    return self._limit_reached()
                return dataclasses.replace(ending, reason=f"hung: silent for {silence:g} s, killed")
            if message is None:
                return dataclasses.replace(ending, reason=_death(process, output))
            if message["event"] == "begin":  # what comes before the first item (libraries, clocks) belongs to the start
                begun = True
            silence = self._patience if begun else self._options.start_seconds
            if message["event"] == "unusable":
                self._leave()
                raise ReplayError(message["reason"])
            if message["event"] == "broken":
                return dataclasses.replace(ending, reason=f"device context broken: {message['reason']}")
            if message["event"] == "done":
                return _Ending()
            if message["event"] == "further":
                _tell_worker(process, json.dumps(self._deal()), more=True)
            else:
                self._take(message, ending)

    @property
    def _patience(self) -> float:
        least = WEIGHING_SECONDS if self._weighing else 0.0
        return max(self._options.item_seconds, least)

    def _take(self, message: Mapping[str, Any], ending: _Ending) -> None:
        event = message["event"]
        if event == "ready":
            self._write_header(message["facts"])
            self._listen({"event": "ready", "device": self._options.device})
        elif event == "begin":
            ending.item = message["item"]
        elif event == "state":
            self._progress.state = journal.state_from_dict(message["state"])
        elif event == "result":
            result = journal.call_from_dict(message["call"])
            ending.progressed = True
            self._record(result)
        elif event == "energy":
            ending.progressed = True
            self._weighed(message["item"], records.call_energy(message["energy"]))
        elif event == "energy_facts":
            self._energy_facts = records.energy_facts(message["energy"])
            self._writer.energy(self._energy_facts)
        elif event == "power":
            self._writer.power([records.power_reading(one) for one in message["readings"]])

    def _weighed(self, item: str, energy: CallEnergy) -> None:
        """Note the energy of a call; what is final is done with."""
        had = self._results[item]
        known = had.energy is not None and bool(had.energy.windows)
        self._results[item] = dataclasses.replace(had, energy=energy)
        self._writer.call(self._results[item])
        if energy.final:
            self._pending.pop(item, None)
        if energy.windows and not known:
            self._progress.done += 1
            self._tell("energy", item, had.grade)

    def _no_energy(self, item: str, reason: str) -> None:
        """Close a call without further energy; what was measured of it stays."""
        had = self._results[item].energy or CallEnergy()
        said = had.reason if had.energy_mj is None else None
        told = had if had.energy_mj is not None else dataclasses.replace(had, reason=said or reason[:REASON_LENGTH])
        self._weighed(item, dataclasses.replace(told, final=True))

    def _write_header(self, found: Mapping[str, Any]) -> None:
        if self._header_written:
            return
        foreign = facts.foreign(self._plan.notes.get("vendor"), found.get("vendor"))
        if foreign is not None:
            self._listen({"event": "foreign", "reason": foreign})
        header = {
            "device": self._options.device,
            **found,
            "run_id": self._run_id,
            "started": facts.now(),
            "cache": self._options.cache,
            "arguments": options.to_dict(self._options),
            "plan_notes": dict(self._plan.notes),
        }
        self._writer.run(journal.facts_from_dict(header))
        self._header_written = True

    def _record(self, result: CallResult) -> None:
        self._writer.call(result)
        if not result.final:
            self._provisional[result.item] = result
            return
        self._provisional.pop(result.item, None)
        self._pending.pop(result.item, None)
        if result.status == journal.OK:
            self._results[result.item] = result
        progress = self._progress
        progress.done += 1
        progress.by_grade[result.grade] = progress.by_grade.get(result.grade, 0) + 1
        self._tell("progress", result.item, result.grade)

    def _tell(self, event: str, item: str, grade: str) -> None:
        progress = self._progress
        state = progress.state or DeviceState()
        spent = time.monotonic() - (progress.begun or progress.started)
        left = spent / max(progress.done, 1) * max(progress.total - progress.done, 0)
        self._listen({
            "event": event,
            "item": item,
            "grade": grade,
            "done": progress.done,
            "total": progress.total,
            "elapsed_s": round(spent, 2),
            "eta_s": round(left, 2),
            "sm_mhz": state.sm_mhz,
            "power_w": state.power_w,
            "temperature_c": state.temperature_c,
        })  # fmt: skip

    def _blame(self, item: str, reason: str) -> None:
        """Close an item that cost a worker: with the result it had, or L4."""
        if item in self._pending and self._weighing:
            self._no_energy(item, reason)
        elif item in self._pending:
            self._record(self._last_word(self._pending[item], reason, journal.FAILED))

    def _limit_reached(self) -> _Ending:
        return _Ending(over_limit(self._options), stopped=True)

    def _skip_rest(self, reason: str) -> None:
        if not self._writer.begun:  # stopped before a worker said where it runs: there is no run yet
            self._leave()
            return
        if self._weighing:
            self._leave_energy(reason)
            return
        for item in list(self._pending.values()):
            self._writer.call(self._last_word(item, reason, SKIPPED))

    def _leave_energy(self, reason: str) -> None:
        """Say why calls have no energy yet; a resumed run goes on with them."""
        for name in self._pending:
            had = self._results[name]
            if had.energy is None:
                self._writer.call(dataclasses.replace(had, energy=CallEnergy(reason=reason, final=False)))

    def _last_word(self, item: Item, reason: str, status: str) -> CallResult:
        had = self._provisional.get(item.id)
        if had is None:
            return results.failure(item, self._options.cache, reason[:REASON_LENGTH], status)
        return dataclasses.replace(had, final=True, loop_note=reason[:REASON_LENGTH])

    def _time_left(self) -> float:
        return self._until - time.monotonic()


def deadline(chosen: Options) -> float:
    """When (of `time.monotonic`) a run that starts now reaches its time limit."""
    return float("inf") if chosen.limit_seconds is None else time.monotonic() + chosen.limit_seconds


def over_limit(chosen: Options) -> str:
    """Why an item was not attempted that the time limit leaves out."""
    return f"not attempted: the time limit of {chosen.limit_seconds:g} s was reached"


def _tell_worker(process: subprocess.Popen[bytes], text: str, *, more: bool) -> None:
    """Write a line, the last one unless there may be `more`; a worker that died is noticed by its closed pipe."""
    assert process.stdin is not None  # noqa: S101 (it was asked for)
    try:
        process.stdin.write(f"{text}\n".encode())
        process.stdin.flush()
        if not more:
            process.stdin.close()
    except BrokenPipeError:
        return


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _death(process: subprocess.Popen[bytes], output: IO[bytes]) -> str:
    """Why a worker has closed its pipe: its signal or exit code, and the last line it wrote."""
    try:
        code = process.wait(EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        return "worker closed its pipe and did not end"
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - TAIL_BYTES))
    written = output.read().decode("utf-8", "replace").splitlines()
    lines = [line for line in written if line.strip() and not line.startswith(PROFILER_CHATTER)]
    cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"worker {cause}: {lines[-1].strip()}" if lines else f"worker {cause}"


def _nobody(event: Mapping[str, Any]) -> None:
    """Listens to nothing."""
    del event
