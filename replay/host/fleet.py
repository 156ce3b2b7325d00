"""Runs a plan on many devices: one supervisor each, in a thread, all dealt from one pool; then collectives in groups.

Each device has a run and a journal of its own, `JOURNAL.0`, `JOURNAL.1`, …, since clocks, power and energy are facts of
one board. Collectives of k ranks are replayed by k workers in lockstep, into `JOURNAL.ranksK`. A worker that dies costs
what the supervisor says; a device that cannot be used leaves its items to the others. A time limit is one for all of
it: no round and no group begins after it.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final

from kerneldb.replay import processes
from kerneldb.replay.errors import JournalExistsError, ReplayError
from kerneldb.replay.host import supervisor
from kerneldb.replay.host.devices import CPU
from kerneldb.replay.host.share import Member, Pool
from kerneldb.replay.host.supervisor import Listener, Outcome
from kerneldb.replay.options import Options
from kerneldb.replay.routes import collective
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.worker import results

GROUP_WORKER: Final = processes.command("kerneldb.replay.worker.group")
ENOUGH_S: Final = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class FleetOutcome:
    """How the runs ended, one per device and group that had anything to do.

    `collectives_s` are the seconds in which collectives were replayed, apart from all else.
    """

    runs: tuple[Outcome, ...]
    by_grade: Mapping[str, int]
    finished: bool
    interrupted: bool
    wall_s: float
    collectives_s: float


def journals(path: Path) -> list[Path]:
    """The journals of a replay on many devices that are there, or the one at `path`."""
    parts = sorted(one for one in path.parent.glob(f"{path.name}.*") if _is_part(one.name[len(path.name) + 1 :]))
    return [one for one in (path, *parts) if journal.exists(one)]


def _is_part(suffix: str) -> bool:
    return suffix.removeprefix("ranks").isdigit()


def run(
    plan_path: Path,
    journal_path: Path,
    chosen: Options,
    devices: Sequence[str],
    *,
    resume: bool = False,
    listen: Listener | None = None,
) -> FleetOutcome:
    """Replay the plan at `plan_path` on `devices`. `listen` is told events of all runs, each with its `device`.

    Raises ReplayError where no device can be used, PlanError, and JournalExistsError.
    """
    planned = plan.read(plan_path)
    before = [journal.read(one) for one in journals(journal_path)]
    if before and not resume:
        message = f"{journal_path}: there is a journal already; resume it, or name another file"
        raise JournalExistsError(message)
    settled = {name for one in before for name in one.settled(chosen.cache)}
    left = [item for item in planned.items if item.id not in settled]
    made = _Fleet((plan_path, journal_path), chosen, devices, _Merged(listen, len(left)))
    return made.go(left)


class _Merged:
    """Passes the events of several threads on, one at a time, with the figures of all together."""

    def __init__(self, listen: Listener | None, total: int) -> None:
        self._listen = listen
        self._lock = threading.Lock()
        self._total = total
        self._done = 0
        self._weighed: dict[str, tuple[int, int]] = {}
        self._started = time.monotonic()

    def of(self, device: str) -> Listener:
        """A listener for one of the runs."""

        def hear(event: Mapping[str, Any]) -> None:
            with self._lock:
                if self._listen is not None and event["event"] not in ("start", "end"):
                    self._listen({**event, **self._sums(event, device), "device": device})

        return hear

    def _sums(self, event: Mapping[str, Any], device: str) -> dict[str, Any]:
        spent = time.monotonic() - self._started
        if event["event"] == "progress":
            self._done += 1
            left = spent / self._done * max(self._total - self._done, 0)
            return {"done": self._done, "total": self._total, "elapsed_s": round(spent, 2), "eta_s": round(left, 2)}
        if event["event"] == "energy":
            self._weighed[device] = event["done"], event["total"]
            done, total = (sum(one) for one in zip(*self._weighed.values(), strict=True))
            return {"done": done, "total": total}
        return {}

    def tell(self, event: Mapping[str, Any]) -> None:
        """Tell an event of the whole."""
        if self._listen is not None:
            self._listen(event)


class _Fleet:
    def __init__(self, paths: tuple[Path, Path], chosen: Options, devices: Sequence[str], merged: _Merged) -> None:
        self._plan_path, self._journal_path = paths
        self._options = chosen
        self._devices = list(devices)
        self._merged = merged
        self._outcomes: list[Outcome] = []
        self._errors: dict[int, ReplayError] = {}
        self._interrupted = False
        self._until = supervisor.deadline(chosen)
        self._left: list[str] = []

    def go(self, items: Sequence[Item]) -> FleetOutcome:
        """Replay `items`: each alone first, then collectives, which take several devices at once."""
        begun = time.monotonic()
        self._merged.tell({"event": "start", "items": len(items), "devices": self._devices})
        groups: dict[int, list[str]] = defaultdict(list)
        alone: list[str] = []
        for item in items:
            size = collective.group_size(item)
            (alone if size is None or size > len(self._devices) else groups[size]).append(item.id)
        whole = self._spread(alone)
        between = time.monotonic()
        for size, some in sorted(groups.items()):
            whole = self._together(size, some) and whole
        self._skip([item for item in items if item.id in set(self._left)])
        now = time.monotonic()
        grades = dict(sorted(sum((Counter(one.by_grade) for one in self._outcomes), Counter[str]()).items()))
        self._merged.tell({"event": "end", "finished": whole, "wall_s": round(now - begun, 3), "grades": grades})
        return FleetOutcome(tuple(self._outcomes), grades, whole, self._interrupted, now - begun, now - between)

    def _spread(self, items: Sequence[str]) -> bool:
        """Replay items one by one, each on any device; whether all were attempted, and their energy measured.

        Where a device leaves items when the others are through already, these begin again.
        """
        pool = Pool(items, len(self._devices))
        places = [place for place in range(len(self._devices)) if items or journal.exists(self._journal(str(place)))]
        while places and not self._over:
            self._round(pool, places)
            places = [place for place in places if place not in self._errors] if len(pool) else []
        self._left += pool.rest()
        if self._interrupted:
            return False
        if self._errors and len(self._errors) == len(self._devices):
            raise next(iter(self._errors.values()))
        return not (places or len(pool)) and all(one.finished for one in self._outcomes)

    def _round(self, pool: Pool, places: Sequence[int]) -> None:
        """One supervisor per device, until none has anything to do."""
        members = [Member(pool) for _ in places]
        with ThreadPoolExecutor(len(places)) as threads:
            runs = [threads.submit(self._one, place, own) for place, own in zip(places, members, strict=True)]
            try:
                while wait(runs, timeout=ENOUGH_S).not_done:
                    pass
            except KeyboardInterrupt:
                self._interrupted = pool.stopped = True
                for member in members:
                    member.stop()
        outcomes = [one.result() for one in runs]
        self._outcomes += [one for one in outcomes if one is not None]

    def _one(self, place: int, member: Member) -> Outcome | None:
        device = self._devices[place]
        try:
            return supervisor.run(
                self._plan_path,
                self._journal(str(place)),
                dataclasses.replace(self._options, device=device),
                resume=True,
                listen=self._merged.of(device if device != CPU else f"{CPU} {place}"),
                share=member,
                until=self._until,
            )
        except ReplayError as error:
            self._errors[place] = error
            return None

    def _together(self, size: int, items: Sequence[str]) -> bool:
        """Replay collectives of `size` ranks, in lockstep on the first devices; whether all were attempted."""
        if self._over:
            self._left += items
            return False
        pool = Pool(items, 1, at_once=1.0)
        devices = ",".join(self._devices[:size])
        outcome = supervisor.run(
            self._plan_path,
            self._journal(f"ranks{size}"),
            dataclasses.replace(self._options, device=self._devices[0], energy=False),
            resume=True,
            listen=self._merged.of(devices),
            worker=(*GROUP_WORKER, devices),
            share=Member(pool),
            until=self._until,
        )
        self._left += pool.rest()
        self._outcomes.append(outcome)
        self._interrupted = self._interrupted or outcome.interrupted
        return outcome.finished

    @property
    def _over(self) -> bool:
        """Whether nothing more may begin."""
        return self._interrupted or time.monotonic() >= self._until

    def _skip(self, items: Sequence[Item]) -> None:
        """Note in the first journal, if there is any, why items that no run had were not attempted."""
        found = [one for one in journals(self._journal_path) if one != self._journal_path]
        if not (items and found):
            return
        reason = supervisor.INTERRUPTED if self._interrupted else supervisor.over_limit(self._options)
        with journal.Writer(found[0], resume=True) as writer:
            for item in items:
                writer.call(results.failure(item, self._options.cache, reason, journal.SKIPPED))
            writer.end(finished=False, remaining=len(items), wall_s=0.0)

    def _journal(self, part: str) -> Path:
        return self._journal_path.with_name(f"{self._journal_path.name}.{part}")
