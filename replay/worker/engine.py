"""Works through the items of a plan: rehearse, judge, try again or time, report.

Calls are rehearsed in batches, one profiler session each. What misses, or needs more runs, goes to the back of the
queue, so that second tries share sessions too. Each item reports a result as soon as there is one; results that later
tries may better are reported as not final.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kerneldb.replay import routes
from kerneldb.replay.errors import FAILURES, Reason, UnresolvedCallError, first_line
from kerneldb.replay.measure.loops import CAP_NS, settled, smallest_sample
from kerneldb.replay.options import Options
from kerneldb.replay.routes.base import Call, Search
from kerneldb.replay.wire.messages import Begin, Result, Send
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import CallResult, Grade, failure
from kerneldb.replay.worker.executor import Executor, Ring, Timed, Verdict, success

TOP_UPS: Final = 2
TOP_UP_FACTOR: Final = 3
TRYING_SECONDS: Final = 10.0
SEARCHING_SECONDS: Final = 30.0
FEW: Final = 4
MEMORY_SIGNS: Final = ("OutOfMemoryError", "out of memory", "MemoryError", "can't allocate memory")
"""How torch and Python say that there is no memory, the last on a host."""


@dataclass(slots=True)
class Task:
    """An item on its way: which attempt is next, the best verdict so far, and why the last attempt failed.

    `search` chooses the attempts of an item whose call is not recorded. `glance` tells that the best call was first run
    only to see its kernels, `filling` that it is run as often as was asked for since.
    """

    item: Item
    attempt: int = 0
    tries: int = 0
    top_ups: int = 0
    best: Verdict | None = None
    failure: str | None = None
    crowded_out: bool = False
    glance: bool = False
    filling: bool = False
    spent_s: float = 0.0
    search: Search | None = None

    @property
    def retried(self) -> bool:
        """Whether the next attempt is a second try of a recorded call: a look at its kernels is enough at first."""
        return self.search is None and self.attempt > 0 and not self.settling

    @property
    def settling(self) -> bool:
        """Whether the best call is run again, for its time."""
        return self.filling or self.top_ups > 0

    @property
    def played(self) -> Item:
        """The item, with the call of the attempt as its recorded one where a search chose it."""
        return self.item if self.search is None else self.search.played(self.attempt)


@dataclass(slots=True)
class Rehearsed:
    """A call that ran in the session now open."""

    task: Task
    call: Call
    ring: Ring
    label: str


class Engine:
    """Replays items on an executor."""

    def __init__(self, executor: Executor, options: Options, report: Send) -> None:
        self._executor = executor
        self._options = options
        self._report = report
        self._labels = itertools.count()

    def run(self, items: Iterable[Item], further: Callable[[], Sequence[Item]] | None = None) -> None:
        """Replay all of them. Raises BrokenDeviceError where the device context broke.

        `further` is asked for more when few are left, until it has none.
        """
        queue = deque(self._tasks(items))
        while queue or further is not None:
            if further is not None and len(queue) <= FEW:
                given = further()
                queue.extend(self._tasks(given))
                further = further if given else None
            if queue:
                self._batch(queue)

    def _tasks(self, items: Iterable[Item]) -> Iterator[Task]:
        """Tasks of items; one whose route fails to begin a search is reported as failed."""
        for item in items:
            try:
                yield Task(item, search=routes.search(item))
            except FAILURES as error:
                self._report(Result(failure(item, self._options.cache, first_line(error))))

    def _batch(self, queue: deque[Task]) -> None:
        ready: list[Rehearsed] = []
        with self._executor.session() as session:
            while queue and len(ready) < self._options.batch and (not ready or self._executor.room()):
                task = queue.popleft()
                rehearsed = self._timed_rehearsal(task)
                if rehearsed is not None:
                    ready.append(rehearsed)
                elif task.crowded_out and ready:
                    queue.appendleft(task)
                    break
                else:
                    self._give_up(task, queue)
            self._report(Begin(ready[0].task.item.id if len(ready) == 1 else None, "collect"))
        for rehearsed in ready:
            marked = session.seen.get(rehearsed.label, [])
            task = rehearsed.task
            try:
                verdict = self._executor.judge(task.item, rehearsed.call, task.attempt, marked)
            except FAILURES as error:  # of the route, which compares what came out
                task.failure = first_line(error)
                self._give_up(task, queue)
                continue
            verdict.cold_bytes, verdict.copies = rehearsed.ring.cold_bytes, rehearsed.ring.copies
            self._decide(task, verdict, rehearsed.call, queue)

    def _timed_rehearsal(self, task: Task) -> Rehearsed | None:
        started = time.perf_counter()
        self._report(Begin(task.item.id, "rehearse"))
        rehearsed = self._rehearse(task)
        task.spent_s += time.perf_counter() - started
        return rehearsed

    def _rehearse(self, task: Task) -> Rehearsed | None:
        """Run the next attempt that runs at all; None where there is none left, or no memory beside the others."""
        task.crowded_out = False
        while task.attempt < (self._options.tries if task.search is None else len(task.search.attempts)):
            call, label = None, str(next(self._labels))
            try:
                call = self._call(task)
                if call is None:
                    return None
                return Rehearsed(task, call, self._executor.rehearse(call, task.played, label, self._runs(task)), label)
            except FAILURES as error:
                task.failure = first_line(error)
                if task.search is not None:
                    task.search.failed(task.attempt, task.failure)
            self._executor.check()
            if any(sign in task.failure for sign in MEMORY_SIGNS):
                del call
                self._executor.release()
                task.crowded_out = True
                return None
            if task.settling or (call is None and task.search is None):
                return None
            task.attempt += 1
        return None

    def _runs(self, task: Task) -> int:
        asked = self._options.runs
        if task.top_ups:
            return asked * TOP_UP_FACTOR
        if task.filling:
            return asked - smallest_sample()
        return min(asked, smallest_sample()) if task.retried else asked

    def _call(self, task: Task) -> Call | None:
        """The call of the next attempt; None where the route has no further one."""
        task.tries = max(task.tries, task.attempt + 1)
        if task.search is not None:
            return task.search.build(task.attempt, self._options.device)
        prepared = routes.find(task.item.route).prepare(task.item, self._options.device)
        return next(itertools.islice(prepared, task.attempt, None), None)

    def _decide(self, task: Task, verdict: Verdict, call: Call, queue: deque[Task]) -> None:
        if task.best is not None and task.settling and task.best.attempt == verdict.attempt:
            task.best.extend(verdict)
            if task.search is not None:
                task.search.judged(task.best)
        elif self._better(task, verdict):
            task.best, task.glance = verdict, task.retried
        assert task.best is not None  # noqa: S101 (for the type checker: one of the branches has set it)
        further = self._may_try_again(task)
        if further or self._runs_again(task):
            self._report(Result(self._result(task, final=False)))
            task.attempt = task.attempt + 1 if further else task.best.attempt
            queue.append(task)
        else:
            self._finish(task, call if task.best.attempt == verdict.attempt else None)

    def _better(self, task: Task, verdict: Verdict) -> bool:
        if task.search is None:
            return task.best is None or verdict.match.rank < task.best.match.rank  # the earlier one wins a tie
        task.search.judged(verdict)
        return task.search.better(verdict, task.best)

    def _may_try_again(self, task: Task) -> bool:
        if task.search is not None:
            return not task.top_ups and task.spent_s < SEARCHING_SECONDS and task.search.goes_on(task.attempt)
        missed = task.best is not None and task.best.grade is not Grade.L0
        left = task.attempt + 1 < self._options.tries and task.spent_s < TRYING_SECONDS
        return missed and left and not task.settling

    def _runs_again(self, task: Task) -> bool:
        """Whether the best call is to be run again: as often as was asked for, and until its time has settled."""
        found = None if task.best is None else task.best.time
        if found is None:
            return False
        lasted = found.n * found.mean_ns
        if task.glance and not task.settling and found.n < self._options.runs and lasted < CAP_NS:
            task.filling = True
            return True
        if task.top_ups >= TOP_UPS or settled(found) or lasted * (1 + TOP_UP_FACTOR) >= CAP_NS:
            return False
        task.top_ups += 1
        return True

    def _give_up(self, task: Task, queue: deque[Task]) -> None:
        """No further attempt can run: the best one is kept, if there is one, and is run as often as any other."""
        if task.best is None:
            reason = task.failure or str(UnresolvedCallError(Reason.NO_OVERLOAD, "no call to try"))
            trail = () if task.search is None else task.search.trail()
            spent, failed = round(task.spent_s, 4), failure(task.item, self._options.cache, reason)
            self._report(Result(dataclasses.replace(failed, tries=task.tries, wall_s=spent, trail=trail)))
        elif not task.settling and self._runs_again(task):
            task.attempt = task.best.attempt
            queue.append(task)
        else:
            self._finish(task, None)

    def _finish(self, task: Task, call: Call | None) -> None:
        """Time the best call outside of the profiler, and report the item."""
        assert task.best is not None  # noqa: S101 (callers check)
        self._report(Result(self._result(task, final=False)))
        self._report(Begin(task.item.id, "time"))
        started, timed = time.perf_counter(), Timed()
        try:
            if call is None:
                task.attempt = task.best.attempt
                call = self._call(task)
            if call is not None:
                timed = self._executor.measure(call, task.played, task.best)
        except FAILURES as error:
            timed = Timed(note=first_line(error))
            self._executor.check()
        task.spent_s += time.perf_counter() - started
        result = self._result(task, final=True)
        wall, state = timed.time or result.time, timed.state or self._executor.state()
        self._report(Result(dataclasses.replace(result, loop=timed.loop, loop_note=timed.note, time=wall, state=state)))

    def _result(self, task: Task, *, final: bool) -> CallResult:
        assert task.best is not None  # noqa: S101 (callers check)
        result = success(task.item, self._options.cache, task.best)
        if task.search is not None:
            result = dataclasses.replace(result, trail=task.search.trail(), found=task.search.found())
        spent, warmup = round(task.spent_s, 4), self._options.warmup
        return dataclasses.replace(result, tries=task.tries, warmup=warmup, wall_s=spent, final=final)
