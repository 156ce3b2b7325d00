"""Runs a plan on many devices: one run each, in a thread, all dealt from one pool; then collectives in groups.

Each device has a run and a journal of its own, `JOURNAL.0`, `JOURNAL.1`, …, since clocks, power and energy are facts of
one board. Collectives of k ranks are replayed by k workers in lockstep, into `JOURNAL.ranksK`. A worker that dies costs
what a run says of it; a device that cannot be used leaves its items to the others. A time limit is one for all of
it: no round and no group begins after it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import UsageError
from kerneldb.replay import facts, processes, routes
from kerneldb.replay.errors import JournalExistsError, ReplayError
from kerneldb.replay.host import run as alone
from kerneldb.replay.host.phases import Listener, Pool, Progress, nobody
from kerneldb.replay.host.run import Outcome
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import Item, Plan
from kerneldb.replay.wire.results import SKIPPED, failure

GROUP_WORKER: Final = processes.command("kerneldb.replay.worker.group")
ALL: Final = "all"
CPU: Final = "cpu"


def journals(path: Path) -> list[Path]:
    """The journals of a replay on many devices that are there, or the one at `path`."""
    beside = sorted(path.parent.glob(f"{path.name}.*"))
    parts = [one for one in beside if one.name[len(path.name) + 1 :].removeprefix("ranks").isdigit()]
    return [one for one in (path, *parts) if journal.exists(one)]


def begun(path: Path, *, resume: bool) -> list[Path]:
    """The same. Raises JournalExistsError for a journal unless `resume`."""
    found = journals(path)
    if found and not resume:
        raise JournalExistsError(f"{path}: a journal exists already; resume it, or give another file")
    return found


def run(
    plan_path: Path,
    journal_path: Path,
    chosen: Options,
    devices: Sequence[str],
    *,
    resume: bool = False,
    listen: Listener = nobody,
) -> Outcome:
    """Replay the plan at `plan_path` on `devices`. `listen` gets the events of all runs, each with its `device`.

    Raises ReplayError where no device can be used, PlanError, and JournalExistsError.
    """
    left = unsettled(plan.read(plan_path), journal_path, chosen.cache, resume=resume)
    merged = _Merged(listen, Progress(len(left)))
    return _Fleet(plan_path, journal_path, chosen, devices, merged, alone.deadline(chosen)).go(left)


def unsettled(planned: Plan, journal_path: Path, cache: str, *, resume: bool) -> list[Item]:
    """The items that no journal of the replay has settled. Raises JournalExistsError for a journal unless `resume`."""
    before = begun(journal_path, resume=resume)
    found = (journal.begun(one) for one in before)
    settled = {name for one in found if one is not None for name in one.settled(cache)}
    return [item for item in planned.items if item.id not in settled]


def run_ids(journal_path: Path) -> tuple[str, ...]:
    """The runs whose journals are there."""
    found = (journal.begun(one) for one in journals(journal_path))
    return tuple(one.run.run_id for one in found if one is not None)


@dataclass(slots=True)
class _Merged:
    """Passes the events of several threads on, one at a time, with the figures of all together."""

    tell: Listener
    progress: Progress
    weighed: dict[str, tuple[int, int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, device: str) -> Listener:
        """A listener for one of the runs."""

        def hear(event: Mapping[str, Any]) -> None:
            with self.lock:
                if event["event"] not in ("start", "end"):
                    self.tell({**event, **self._sums(event, device), "device": device})

        return hear

    def _sums(self, event: Mapping[str, Any], device: str) -> dict[str, Any]:
        if event["event"] == "progress":
            return self.progress.more()
        if event["event"] == "energy":
            self.weighed[device] = event["done"], event["total"]
            done, total = (sum(one) for one in zip(*self.weighed.values(), strict=True))
            return {"done": done, "total": total}
        return {}


@dataclass(slots=True)
class _Fleet:
    """A replay in progress: `left` are items that no run could have, `errors` why a device cannot be used."""

    plan_path: Path
    journal_path: Path
    options: Options
    devices: Sequence[str]
    merged: _Merged
    until: float
    outcomes: list[Outcome] = field(default_factory=list)
    errors: dict[int, ReplayError] = field(default_factory=dict)
    interrupted: bool = False
    left: list[str] = field(default_factory=list)

    def go(self, items: Sequence[Item]) -> Outcome:
        """Replay `items`: each alone first, then collectives, which take several devices at once."""
        begun = time.monotonic()
        self.merged.tell({"event": "start", "items": len(items), "devices": list(self.devices)})
        groups: dict[int, list[str]] = defaultdict(list)
        for item in items:
            size = routes.ranks(item)
            groups[size if 1 < size <= len(self.devices) else 1].append(item.id)
        whole = self._spread(groups.pop(1, []))
        between = time.monotonic()
        for size, some in sorted(groups.items()):
            whole = self._together(size, some) and whole
        self._skip([item for item in items if item.id in set(self.left)])
        now = time.monotonic()
        grades = dict(sorted(sum((Counter(one.by_grade) for one in self.outcomes), Counter[str]()).items()))
        ids = run_ids(self.journal_path)
        done = sum(outcome.done for outcome in self.outcomes)
        found = Outcome(ids, len(items), done, grades, whole, self.interrupted, now - begun, now - between)
        return found.announced(self.merged.tell)

    def _spread(self, items: Sequence[str]) -> bool:
        """Replay items one by one, each on any device; whether all were attempted, and their energy measured.

        Where a device leaves items when the others are through already, these begin again.
        """
        pool = Pool(items, len(self.devices))
        places = [place for place in range(len(self.devices)) if items or journal.exists(self._journal(str(place)))]
        while places and not self._over:
            self._round(pool, places)
            places = [place for place in places if place not in self.errors] if len(pool) else []
        self.left += pool.rest()
        if self.interrupted:
            return False
        if self.errors and len(self.errors) == len(self.devices):
            raise next(iter(self.errors.values()))
        return not (places or len(pool)) and all(one.finished for one in self.outcomes)

    def _round(self, pool: Pool, places: Sequence[int]) -> None:
        """One run per device, until none has anything to do.

        Meanwhile this thread takes no lock: an interrupt in the middle of that would keep it, and runs wait forever.
        """
        ended: list[int] = []

        def run(place: int) -> Outcome | None:
            try:
                return self._one(place, pool)
            finally:
                ended.append(place)

        with ThreadPoolExecutor(len(places)) as threads:
            runs = [threads.submit(run, place) for place in places]
            try:
                while len(ended) < len(places):
                    time.sleep(0.02)
            except KeyboardInterrupt:
                self.interrupted = True
                pool.stop()
        self.outcomes += [outcome for one in runs if (outcome := one.result()) is not None]

    def _one(self, place: int, pool: Pool) -> Outcome | None:
        device = self.devices[place]
        chosen = dataclasses.replace(self.options, device=device)
        try:
            return self._run(str(place), chosen, pool, device if device != CPU else f"{CPU} {place}")
        except ReplayError as error:
            self.errors[place] = error
            return None

    def _together(self, size: int, items: Sequence[str]) -> bool:
        """Replay collectives of `size` ranks, in lockstep on the first devices; whether all were attempted."""
        if self._over:
            self.left += items
            return False
        pool = Pool(items, 1, at_once=1.0)
        devices = ",".join(self.devices[:size])
        chosen = dataclasses.replace(self.options, device=self.devices[0], energy=False)
        outcome = self._run(f"ranks{size}", chosen, pool, devices, worker=(*GROUP_WORKER, devices))
        self.left += pool.rest()
        self.outcomes.append(outcome)
        self.interrupted = self.interrupted or outcome.interrupted
        return outcome.finished

    def _run(self, part: str, chosen: Options, pool: Pool, shown: str, **more: Any) -> Outcome:
        """A run of what `pool` deals out, reported as that of the device `shown`."""
        heard, path = self.merged.of(shown), self._journal(part)
        return alone.run(self.plan_path, path, chosen, resume=True, listen=heard, pool=pool, until=self.until, **more)

    @property
    def _over(self) -> bool:
        """Whether nothing more may begin."""
        return self.interrupted or time.monotonic() >= self.until

    def _skip(self, items: Sequence[Item]) -> None:
        """Note in the first journal, if there is any, why items that no run had were not attempted."""
        found = [one for one in journals(self.journal_path) if one != self.journal_path]
        if not (items and found):
            return
        reason = alone.INTERRUPTED if self.interrupted else alone.over_limit(self.options)
        with journal.Writer(found[0], resume=True) as writer:
            for item in items:
                writer.call(failure(item, self.options.cache, reason, SKIPPED))
            writer.end(finished=False, remaining=len(items), wall_s=0.0)

    def _journal(self, part: str) -> Path:
        return self.journal_path.with_name(f"{self.journal_path.name}.{part}")


def chosen(wanted: str, device: str) -> tuple[str, ...]:
    """The devices for `--gpus` (`all`, or how many): the first ones; that many workers where `device` is cpu.

    Raises UsageError for another text, ReplayError where there are fewer.
    """
    if wanted != ALL and not (wanted.isdecimal() and int(wanted)):
        raise UsageError(f"--gpus {wanted}: give a number, or all")
    if device == CPU:
        if wanted == ALL:
            raise UsageError("--gpus all counts GPUs; give the number of workers with --device cpu")
        return (CPU,) * int(wanted)
    there = _count()
    count = there if wanted == ALL else int(wanted)
    if count > there or not there:
        raise ReplayError(f"--gpus {wanted}: this machine has {there}")
    return tuple(f"cuda:{number}" for number in range(count))


def _count() -> int:
    """GPUs that PyTorch would see; this process gets no context on them.

    The driver counts boards in milliseconds, where nothing hides any and none is divided (MIG); PyTorch takes seconds
    to import, and its workers wait for that.
    """
    if "CUDA_VISIBLE_DEVICES" not in os.environ:
        with contextlib.suppress(ImportError):
            import pynvml

            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                boards = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
                if not any(_divided(pynvml, board) for board in boards):
                    return len(boards)
    return int(facts.pytorch().cuda.device_count())


def _divided(nvml: Any, board: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(board)[0])
    except nvml.NVMLError_NotSupported:
        return False
