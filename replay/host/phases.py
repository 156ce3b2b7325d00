"""What a run does with its items, one phase after the other: replay them, then measure the energy of those that ran.

A phase knows what is left to do, takes what a worker reports, and says what becomes of an item that cost a worker or
was not reached. `kerneldb.replay.host.run` starts the workers. A `Pool` deals the items out to them: large portions
first, small ones at the end, so that all end together.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import math
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kerneldb.replay import facts
from kerneldb.replay.options import Options
from kerneldb.replay.wire.energy import CallEnergy
from kerneldb.replay.wire.journal import Writer
from kerneldb.replay.wire.messages import Energy, Message, Readings, Result, SharedEnergy, StepDone
from kerneldb.replay.wire.plan import Item, Plan
from kerneldb.replay.wire.results import FAILED, OK, SKIPPED, CallResult, DeviceState, RunFacts, Status, failure
from kerneldb.replay.wire.step_results import StepResult

DEALT_AT_ONCE: Final = 0.5
SMALLEST: Final = 3
"""Items share a profiler session; fewer are not worth one."""
ENERGY_SECONDS: Final = 30.0
"""A worker that measures energy is given at least so long for a sign of life."""
STEP_SECONDS: Final = 300.0
"""The same for a worker that runs steps: between two signs of life it captures and times one."""
REASON_LENGTH: Final = 300

Listener = Callable[[Mapping[str, Any]], None]


class Pool:
    """The items that nobody has yet, for `devices` workers. Its methods may be called from several threads.

    `at_once` is the part of what is left that all of them together get in one round.
    """

    def __init__(self, items: Iterable[str], devices: int, *, at_once: float = DEALT_AT_ONCE) -> None:
        self._lock = threading.Lock()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._items = list(items)
        self._part = at_once / devices
        self.stopped = False

    def __len__(self) -> int:
        return len(self._items)

    def take(self) -> Sequence[str]:
        """The next portion, from all over what is left; none where nothing is left, or all is to stop.

        Neighbours in a plan are alike: those that take many tries would all fall to one worker.
        """
        with self._lock:
            if self.stopped:
                return ()
            left = len(self._items)
            size = min(left, max(SMALLEST, math.ceil(left * self._part)))
            portion = [self._items[number * left // size] for number in range(size)]
            taken = set(portion)
            self._items = [item for item in self._items if item not in taken]
            return portion

    def rest(self) -> Sequence[str]:
        """What nobody has."""
        with self._lock:
            return tuple(self._items)

    def give_back(self, items: Sequence[str]) -> None:
        """Take items back for others."""
        with self._lock:
            self._items = [*items, *self._items]

    @contextlib.contextmanager
    def attending(self, worker: subprocess.Popen[bytes]) -> Iterator[None]:
        """Within this block, `stop` ends the worker."""
        with self._lock:
            self._workers.append(worker)
        try:
            yield
        finally:
            with self._lock:
                self._workers.remove(worker)

    def stop(self) -> None:
        """Deal out nothing more, and end the workers; their runs notice, and write down what they left."""
        with self._lock:
            self.stopped = True
            for worker in self._workers:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)


def nobody(event: Mapping[str, Any]) -> None:
    """Listens to nothing."""
    del event


class Progress:
    """How many of `total` items are done, and how long the others will take."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self._begun = time.monotonic()

    def more(self, done: int = 1) -> dict[str, Any]:
        """Further items are done with: the figures of an event, with seconds since the start and until the end."""
        self.done += done
        spent = time.monotonic() - self._begun
        left = spent / self.done * max(self.total - self.done, 0)
        return {"done": self.done, "total": self.total, "elapsed_s": round(spent, 2), "eta_s": round(left, 2)}


@dataclasses.dataclass(slots=True)
class Log:
    """The run's journal, and who listens to it. `state` is the last reading of the device."""

    plan: Plan
    options: Options
    writer: Writer
    listen: Listener
    run_id: str
    state: DeviceState = dataclasses.field(default_factory=DeviceState)
    headed: bool = False

    def head(self, found: Mapping[str, Any]) -> None:
        """Write down where the run takes place, when the first worker says so."""
        if not self.headed:
            foreign = facts.foreign(self.plan.notes.get("vendor"), found.get("vendor"))
            if foreign is not None:
                self.listen({"event": "foreign", "reason": foreign})
            ours: dict[str, Any] = {"run_id": self.run_id, "started": facts.now(), "cache": self.options.cache}
            ours |= {"arguments": dataclasses.asdict(self.options), "plan_notes": dict(self.plan.notes)}
            self.writer.run(RunFacts(**{"device": self.options.device, **found, **ours}))
            self.headed = True
        self.listen({"event": "ready", "device": self.options.device})


class Phase(abc.ABC):
    """A phase with the items that are still `pending`. Progress is reported as events named `event`.

    `patience_s` is how long a worker may be silent over an item.
    """

    event: str

    def __init__(self, log: Log, items: Iterable[Item]) -> None:
        self.log = log
        self.pending = {item.id: item for item in items}
        self.progress = Progress(len(self.pending))
        self.patience_s = log.options.item_seconds

    def more(self) -> Sequence[str]:
        """Take further items, if there may be any; their ids."""
        return ()

    def asks(self) -> dict[str, tuple[str, ...]]:
        """What a worker is to do: fields of its `Job`."""
        return {"items": tuple(self.pending)}

    def leave(self) -> None:  # noqa: B027 (mostly there are no others)
        """Leave what is pending to others, if there are any."""

    @abc.abstractmethod
    def take(self, message: Message) -> bool:
        """Take what a worker reports; whether that is a result."""

    @abc.abstractmethod
    def give_up(self, item: str, reason: str) -> None:
        """Close an item that cost a worker."""

    def lost(self, reason: str) -> None:  # noqa: B027 (a worker that did nothing is started again)
        """Take that a worker died over none of the items."""

    @abc.abstractmethod
    def stop(self, reason: str) -> None:
        """Say why what is pending was not reached."""

    def tell(self, item: str, grade: str) -> None:
        """One more item is done with: tell how far all is, and how the device is."""
        device = {name: getattr(self.log.state, name) for name in ("sm_mhz", "power_w", "temperature_c")}
        self.log.listen({"event": self.event, "item": item, "grade": grade, **self.progress.more(), **device})


class ReplayPhase(Phase):
    """Items are replayed: those that a `pool` deals out."""

    event = "progress"

    def __init__(self, log: Log, pool: Pool) -> None:
        super().__init__(log, ())
        self.by_grade: Counter[str] = Counter()
        self.results: dict[str, CallResult] = {}
        self._provisional: dict[str, CallResult] = {}
        self._pool = pool

    def more(self) -> Sequence[str]:
        """Take further items of the pool."""
        given = self._pool.take()
        wanted = set(given)
        self.pending |= {item.id: item for item in self.log.plan.items if item.id in wanted}
        self.progress.total += len(wanted)
        return given

    def leave(self) -> None:
        """Leave what is still to be done to the other runs that share the pool."""
        self._pool.give_back(list(self.pending))
        self.pending = {}

    def take(self, message: Message) -> bool:
        """Take a result."""
        if isinstance(message, Result):
            self._record(message.call)
        return isinstance(message, Result)

    def give_up(self, item: str, reason: str) -> None:
        """Close an item that cost a worker: with the result it had, or L4."""
        if item in self.pending:
            self._record(self._last_word(self.pending[item], reason, FAILED))

    def stop(self, reason: str) -> None:
        """Say why items were not attempted."""
        for item in list(self.pending.values()):
            self.log.writer.call(self._last_word(item, reason, SKIPPED))

    def _record(self, result: CallResult) -> None:
        self.log.writer.call(result)
        if not result.final:
            self._provisional[result.item] = result
            return
        self._provisional.pop(result.item, None)
        self.pending.pop(result.item, None)
        if result.status == OK:
            self.results[result.item] = result
        self.by_grade[result.grade] += 1
        self.log.state = result.state or self.log.state
        self.tell(result.item, result.grade)

    def _last_word(self, item: Item, reason: str, status: Status) -> CallResult:
        had = self._provisional.get(item.id)
        if had is None:
            return failure(item, self.log.options.cache, reason[:REASON_LENGTH], status)
        return dataclasses.replace(had, final=True, loop_note=reason[:REASON_LENGTH])


class StepPhase(Phase):
    """The `wanted` steps of the plan are run in context, all but those that the journal has (`done`).

    A call that costs a worker is stood in for by the next one.
    """

    event = "progress"

    def __init__(self, log: Log, done: Iterable[str], wanted: Iterable[str]) -> None:
        super().__init__(log, ())
        self.by_grade: Counter[str] = Counter()
        left = set(wanted) - set(done)
        self.steps = {one.id: one for one in log.plan.steps if one.id in left}
        self.pending = {name: Item(name, "step") for name in self.steps}
        self.progress = Progress(len(self.pending))
        self.patience_s = max(self.patience_s, STEP_SECONDS)
        self._filled: list[str] = []
        self._half: dict[str, StepResult] = {}

    def asks(self) -> dict[str, tuple[str, ...]]:
        """The steps that are left, and the calls to stand in for."""
        return {"items": (), "steps": tuple(self.pending), "filled": tuple(self._filled)}

    def take(self, message: Message) -> bool:
        """Take a result; a step is done with its last mode."""
        if not isinstance(message, StepDone):
            return False
        result = message.result
        self.log.writer.step(result)
        if result.mode == "cuda_graph" or self.log.options.on_cpu or not self.log.options.loops:
            self._half.pop(result.step, None)
            self._done(result.step)
        else:
            self._half[result.step] = result
            self.by_grade.update({kernel.grade: kernel.launches for kernel in result.kernels})
        return True

    def give_up(self, item: str, reason: str) -> None:
        """Let a call that cost a worker be stood in for, once; a second time its step is given up."""
        del reason
        if item in self._filled:
            for name in list(self.pending):
                self._done(name)
        self._filled.append(item)

    def lost(self, reason: str) -> None:
        """Close a step that cost a worker as a graph, after its calls had been run one by one."""
        for step, had in list(self._half.items()):
            why = f"no CUDA graph: {reason}"[:REASON_LENGTH]
            self.log.writer.step(
                StepResult(step, "cuda_graph", had.calls, had.rebuilt, had.apart, had.filled, reason=why)
            )
            self._done(step)
        self._half.clear()

    def stop(self, reason: str) -> None:
        """What was not reached is done by a resumed run."""
        del reason

    def _done(self, step: str) -> None:
        if self.pending.pop(step, None) is not None:
            self.tell(step, "")


class EnergyPhase(Phase):
    """The energy of `results`, calls that ran, is measured."""

    event = "energy"

    def __init__(self, log: Log, results: Mapping[str, CallResult]) -> None:
        super().__init__(log, (item for item in log.plan.items if item.id in results))
        self._results = dict(results)
        self.patience_s = max(self.patience_s, ENERGY_SECONDS)  # a window takes seconds

    def take(self, message: Message) -> bool:
        """Take an energy, or what goes with it."""
        match message:
            case Energy(item, energy):
                self._measured(item, energy)
            case SharedEnergy(energy):
                self.log.writer.energy(energy)
            case Readings(readings):
                self.log.writer.power(readings)
        return isinstance(message, Energy)

    def give_up(self, item: str, reason: str) -> None:
        """Close a call without further energy; what was measured of it stays."""
        if item not in self.pending:
            return
        had = self._results[item].energy or CallEnergy()
        if had.energy_mj is None:
            had = dataclasses.replace(had, reason=had.reason or reason[:REASON_LENGTH])
        self._measured(item, dataclasses.replace(had, final=True))

    def stop(self, reason: str) -> None:
        """Say why calls have no energy yet; a resumed run goes on with them."""
        for result in map(self._results.__getitem__, self.pending):
            if result.energy is None:
                unknown = CallEnergy(reason=reason, final=False)
                self.log.writer.call(dataclasses.replace(result, energy=unknown))

    def _measured(self, item: str, energy: CallEnergy) -> None:
        """Note the energy of a call; what is final is done with."""
        had = self._results[item]
        known = had.energy is not None and bool(had.energy.windows)
        self._results[item] = dataclasses.replace(had, energy=energy)
        self.log.writer.call(self._results[item])
        if energy.final:
            self.pending.pop(item, None)
        if energy.windows and not known:
            self.tell(item, had.grade)
