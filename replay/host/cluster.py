"""Replays one plan on the GPUs of a Ray cluster: portions of it as tasks, one per GPU at a time.

Every portion is a run with a journal of its own (`JOURNAL.0`, `JOURNAL.1`, …), which comes back when the portion is
done: nodes share no files. A portion whose worker or node is lost is given to another one, and costs time only.
Collectives of k ranks are a portion that takes k GPUs of one node. Ray itself is handed in: nothing here imports it.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb.replay import options
from kerneldb.replay.errors import JournalExistsError, ReplayError, first_line
from kerneldb.replay.host import fleet, supervisor
from kerneldb.replay.host.devices import CPU
from kerneldb.replay.host.fleet import FleetOutcome
from kerneldb.replay.host.supervisor import Listener
from kerneldb.replay.options import Options
from kerneldb.replay.routes import collective
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import Item, Plan

PORTIONS: Final = 3
"""Portions per GPU: what a lost node costs is a part of the whole, what a start costs is paid as often."""
RETRIES: Final = 5
"""How many workers in a row a portion may lose."""
TRIES: Final = 3
"""How often a portion is given out whose device cannot be used."""
PATIENCE_S: Final = 1.0
ROOM_PATIENCE_S: Final = 120.0
"""How long a portion waits for a node with as many GPUs as it takes, once none is left."""


@dataclasses.dataclass(frozen=True, slots=True)
class Portion:
    """Items for a task, with the GPUs that it takes."""

    number: int
    items: tuple[Item, ...]
    devices: int = 1
    tries: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """What a task brings back: the text of its journals, results by grade, and whether nothing was left."""

    journals: tuple[str, ...]
    by_grade: Mapping[str, int]
    finished: bool


def replay_portion(text: str, given: Mapping[str, Any], devices: int, until: float | None) -> Done:
    """Replay the plan `text` on the GPUs of this task; `until` (seconds since the epoch) nothing more is begun."""
    chosen = options.from_dict(given)
    if until is not None:
        chosen = dataclasses.replace(chosen, limit_seconds=max(until - time.time(), 0.0))
    with tempfile.TemporaryDirectory(prefix="kerneldb-replay-") as folder:
        plan_path, journal_path = Path(folder, "plan"), Path(folder, "journal")
        plan_path.write_text(text, encoding="utf-8")
        if devices == 1:
            alone = supervisor.run(plan_path, journal_path, chosen)
            grades, finished = alone.by_grade, alone.finished
        else:
            places = [CPU if chosen.on_cpu else f"cuda:{number}" for number in range(devices)]
            together = fleet.run(plan_path, journal_path, chosen, places)
            grades, finished = together.by_grade, together.finished
        texts = tuple(one.read_text(encoding="utf-8") for one in fleet.journals(journal_path))
    return Done(texts, dict(grades), finished)


def run(
    ray: Any,
    plan_path: Path,
    journal_path: Path,
    chosen: Options,
    *,
    resume: bool = False,
    listen: Listener | None = None,
) -> FleetOutcome:
    """Replay the plan at `plan_path` on all GPUs of the cluster (its CPUs, where the options name that device).

    `ray` is the package, connected. Raises ReplayError where the cluster has no such device or none can be used,
    PlanError, and JournalExistsError.
    """
    planned = plan.read(plan_path)
    before = fleet.journals(journal_path)
    if before and not resume:
        message = f"{journal_path}: there is a journal already; resume it, or name another file"
        raise JournalExistsError(message)
    settled = {name for one in before for name in journal.read(one).settled(chosen.cache)}
    left = [item for item in planned.items if item.id not in settled]
    made = _Cluster(ray, planned, journal_path, chosen, listen or _nobody)
    return made.go(left, first=_next_number(before, journal_path))


def _nobody(event: Mapping[str, Any]) -> None:
    """Hears events where nobody else does."""
    del event


def _next_number(before: Sequence[Path], path: Path) -> int:
    suffixes = [one.name[len(path.name) + 1 :] for one in before]
    return 1 + max((int(one) for one in suffixes if one.isdigit()), default=-1)


def portions(items: Sequence[Item], slots: int, largest: int, *, first: int = 0) -> list[Portion]:
    """Deal items out for `slots` devices, of which a node has `largest` at most, into portions of about equal work.

    Collectives of as many ranks as a node has room for go together, the others alone, to be told what they lack.
    """
    groups: dict[int, list[Item]] = defaultdict(list)
    for item in items:
        size = collective.group_size(item)
        groups[size if size is not None and size <= largest else 1].append(item)
    alone = groups.pop(1, [])
    count = min(len(alone), PORTIONS * slots)
    dealt = [(tuple(alone[number::count]), 1) for number in range(count)]
    dealt += [(tuple(some), size) for size, some in sorted(groups.items())]
    return [Portion(number, some, size) for number, (some, size) in enumerate(dealt, first)]


class _Cluster:
    def __init__(self, ray: Any, planned: Plan, journal_path: Path, chosen: Options, listen: Listener) -> None:
        self._ray = ray
        self._plan = planned
        self._journal_path = journal_path
        self._options = chosen
        self._listen = listen
        self._unit = "CPU" if chosen.on_cpu else "GPU"
        self._next = 0
        self._total = self._attempted = 0
        self._grades: Counter[str] = Counter()
        self._whole = True
        self._error: str | None = None
        self._begun = self._roomy = time.monotonic()
        self._until = None if chosen.limit_seconds is None else time.time() + chosen.limit_seconds

    def go(self, items: Sequence[Item], *, first: int) -> FleetOutcome:
        """Replay `items`, the journals numbered from `first` on."""
        slots, largest = self._room()
        dealt = portions(items, slots, largest, first=first)
        self._next, self._total = first + len(dealt), len(items)
        self._listen({"event": "start", "items": len(items), "devices": [f"{slots} {self._unit} of a Ray cluster"]})
        pending = {self._submit(one): one for one in dealt}
        interrupted = False
        try:
            self._collect(pending)
        except KeyboardInterrupt:
            interrupted = True
            for task in pending:
                self._ray.cancel(task, force=True)
        if self._error is not None and not self._attempted:
            raise ReplayError(self._error)
        wall, grades = time.monotonic() - self._begun, dict(sorted(self._grades.items()))
        whole = self._whole and not interrupted
        self._listen({"event": "end", "finished": whole, "wall_s": round(wall, 3), "grades": grades})
        return FleetOutcome((), grades, whole, interrupted, wall, 0.0)

    def _room(self) -> tuple[int, int]:
        """Devices of the cluster, and of its largest node."""
        alive = self._alive()
        if not sum(alive):
            message = f"the Ray cluster has no {self._unit}"
            raise ReplayError(message)
        return sum(alive), max(alive)

    def _alive(self) -> list[int]:
        """Devices of each node that is there."""
        return [int(node["Resources"].get(self._unit, 0)) for node in self._ray.nodes() if node["Alive"]]

    def _submit(self, portion: Portion) -> Any:
        """Give a portion out; Ray finds a place, and another one where that is lost."""
        text = "".join(f"{line}\n" for line in plan.to_lines(dataclasses.replace(self._plan, items=portion.items)))
        needed = {"num_cpus": portion.devices if self._options.on_cpu else 1}
        if not self._options.on_cpu:
            needed["num_gpus"] = portion.devices
        task = self._ray.remote(max_retries=RETRIES, **needed)(replay_portion)
        share = dataclasses.replace(self._options, energy_seconds=self._options.energy_seconds / PORTIONS)
        return task.remote(text, options.to_dict(share), portion.devices, self._until)

    def _collect(self, pending: dict[Any, Portion]) -> None:
        """Take what comes back, until nothing is missing."""
        while pending:
            for task in self._ready(pending):
                portion = pending.pop(task)
                try:
                    found: Done = self._ray.get(task)
                except self._ray.exceptions.RayError as error:
                    again = self._failed(portion, first_line(getattr(error, "cause", None) or error))
                    pending |= {self._submit(one): one for one in again}
                else:
                    self._keep(portion, found)
            self._give_up(pending)

    def _give_up(self, pending: dict[Any, Portion]) -> None:
        """Take what no node has had room for since a while out of `pending`: for Ray, such a task waits for ever."""
        largest = max(self._alive(), default=0)
        homeless = [task for task, portion in pending.items() if portion.devices > largest]
        if not homeless:
            self._roomy = time.monotonic()
        elif time.monotonic() - self._roomy > ROOM_PATIENCE_S:
            for task in homeless:
                self._ray.cancel(task, force=True)
                needed = pending.pop(task).devices
                self._whole, self._error = False, f"no node with {needed} {self._unit}s is left in the Ray cluster"
                self._listen({"event": "worker", "reason": self._error, "item": None})

    def _ready(self, pending: Mapping[Any, Portion]) -> Iterator[Any]:
        done, _ = self._ray.wait(list(pending), num_returns=1, timeout=PATIENCE_S)
        yield from done

    def _failed(self, portion: Portion, reason: str) -> list[Portion]:
        """Tell of it; the portion to give out again, if that may help."""
        self._listen({"event": "worker", "reason": reason, "item": None})
        if portion.tries + 1 < TRIES:
            return [dataclasses.replace(portion, tries=portion.tries + 1)]
        self._whole, self._error = False, reason
        return []

    def _keep(self, portion: Portion, found: Done) -> None:
        """Write the journals of a portion down, and tell how far all is."""
        for count, text in enumerate(found.journals):
            number = portion.number if not count else self._next
            self._next += bool(count)
            path = self._journal_path.with_name(f"{self._journal_path.name}.{number}")
            unfinished = path.with_name(f"{path.name}.part")
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(path)
        self._whole = self._whole and found.finished
        self._grades.update(found.by_grade)
        self._attempted += len(portion.items)
        spent = time.monotonic() - self._begun
        left = spent / self._attempted * (self._total - self._attempted)
        figures = {"done": self._attempted, "total": self._total, "elapsed_s": round(spent, 2)}
        self._listen({"event": "progress", **figures, "eta_s": math.ceil(left)})
