"""Replays one plan on the GPUs of a Ray cluster: portions of it as tasks, one per GPU at a time.

Every portion is a run with a journal of its own (`JOURNAL.0`, `JOURNAL.1`, …), which comes back when the portion is
done: nodes share no files. A portion whose worker or node is lost is given to another one, and costs time only.
Collectives of k ranks are a portion that takes k GPUs of one node. Ray itself is handed in: nothing here imports it.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb import codec, files
from kerneldb.replay import routes
from kerneldb.replay.errors import ReplayError, first_line
from kerneldb.replay.host import fleet
from kerneldb.replay.host import run as alone
from kerneldb.replay.host.fleet import CPU
from kerneldb.replay.host.phases import Listener, Progress, nobody
from kerneldb.replay.host.run import Outcome
from kerneldb.replay.options import Options
from kerneldb.replay.wire import plan
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


def replay_portion(
    text: str, given: Mapping[str, Any], devices: int, until: float | None
) -> tuple[Outcome, tuple[str, ...]]:
    """Replay the plan `text` on the GPUs of this task; how that ended, with the texts of its journals.

    From `until` (seconds since the epoch) on, nothing more is begun.
    """
    chosen = codec.decode(Options, given)
    if until is not None:
        chosen = dataclasses.replace(chosen, limit_seconds=max(until - time.time(), 0.0))
    with tempfile.TemporaryDirectory(prefix="kerneldb-replay-") as folder:
        plan_path, journal_path = Path(folder, "plan"), Path(folder, "journal")
        plan_path.write_text(text, encoding="utf-8")
        if devices == 1:
            outcome = alone.run(plan_path, journal_path, chosen)
        else:
            places = [CPU if chosen.on_cpu else f"cuda:{number}" for number in range(devices)]
            outcome = fleet.run(plan_path, journal_path, chosen, places)
        texts = tuple(one.read_text(encoding="utf-8") for one in fleet.journals(journal_path))
    return outcome, texts


def run(
    ray: Any, plan_path: Path, journal_path: Path, chosen: Options, *, resume: bool = False, listen: Listener = nobody
) -> Outcome:
    """Replay the plan at `plan_path` on all GPUs of the cluster (its CPUs, where the options name that device).

    `ray` is the package, connected. Raises ReplayError where the cluster has no such device or none can be used,
    PlanError, and JournalExistsError.
    """
    planned = plan.read(plan_path)
    before = fleet.journals(journal_path)
    left = fleet.unsettled(planned, journal_path, chosen.cache, resume=resume)
    suffixes = [one.name[len(journal_path.name) + 1 :] for one in before]
    first = 1 + max((int(one) for one in suffixes if one.isdigit()), default=-1)
    until = None if chosen.limit_seconds is None else time.time() + chosen.limit_seconds
    return _Cluster(ray, planned, journal_path, chosen, listen, until, first).go(left)


def portions(items: Sequence[Item], slots: int, largest: int, *, first: int = 0) -> list[Portion]:
    """Deal items out for `slots` devices, of which a node has `largest` at most, into portions of about equal work.

    Collectives of as many ranks as a node has room for go together, the others alone: their results say what they lack.
    """
    groups: dict[int, list[Item]] = defaultdict(list)
    for item in items:
        size = routes.ranks(item)
        groups[size if size <= largest else 1].append(item)
    alone = groups.pop(1, [])
    count = min(len(alone), PORTIONS * slots)
    dealt = [(tuple(alone[number::count]), 1) for number in range(count)]
    dealt += [(tuple(some), size) for size, some in sorted(groups.items())]
    return [Portion(number, some, size) for number, (some, size) in enumerate(dealt, first)]


@dataclasses.dataclass(slots=True)
class _Cluster:
    """A replay in progress: the next journal has the number `next`; `whole` so far means that no portion left any."""

    ray: Any
    plan: Plan
    journal_path: Path
    options: Options
    listen: Listener
    until: float | None
    next: int
    progress: Progress = dataclasses.field(default_factory=lambda: Progress(0))
    grades: Counter[str] = dataclasses.field(default_factory=Counter)
    whole: bool = True
    error: str | None = None
    begun: float = dataclasses.field(default_factory=time.monotonic)
    roomy: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def unit(self) -> str:
        """What Ray counts."""
        return "CPU" if self.options.on_cpu else "GPU"

    def go(self, items: Sequence[Item]) -> Outcome:
        """Replay `items`."""
        alive = self._alive()
        if not sum(alive):
            raise ReplayError(f"the Ray cluster has no {self.unit}")
        dealt = portions(items, sum(alive), max(alive), first=self.next)
        self.next += len(dealt)
        self.progress.total = len(items)
        shown = f"{sum(alive)} {self.unit} of a Ray cluster"
        self.listen({"event": "start", "items": len(items), "devices": [shown]})
        pending = {self._submit(one): one for one in dealt}
        interrupted = False
        try:
            self._collect(pending)
        except KeyboardInterrupt:
            interrupted = True
            for task in pending:
                self.ray.cancel(task, force=True)
        done, whole = self.progress.done, self.whole and not interrupted
        if self.error is not None and not done:
            raise ReplayError(self.error)
        wall, grades = time.monotonic() - self.begun, dict(sorted(self.grades.items()))
        ids = fleet.run_ids(self.journal_path)
        return Outcome(ids, len(items), done, grades, whole, interrupted, wall).announced(self.listen)

    def _alive(self) -> list[int]:
        """Devices of each node that is there."""
        return [int(node["Resources"].get(self.unit, 0)) for node in self.ray.nodes() if node["Alive"]]

    def _submit(self, portion: Portion) -> Any:
        """Give a portion out; Ray finds a place, and another one where that is lost."""
        text = "".join(f"{line}\n" for line in plan.to_lines(dataclasses.replace(self.plan, items=portion.items)))
        needed = {"num_cpus": portion.devices if self.options.on_cpu else 1}
        if not self.options.on_cpu:
            needed["num_gpus"] = portion.devices
        task = self.ray.remote(max_retries=RETRIES, **needed)(replay_portion)
        share = dataclasses.replace(self.options, energy_seconds=self.options.energy_seconds / PORTIONS)
        return task.remote(text, codec.encode(share), portion.devices, self.until)

    def _collect(self, pending: dict[Any, Portion]) -> None:
        """Take what comes back, until nothing is missing."""
        while pending:
            ready, _ = self.ray.wait(list(pending), num_returns=1, timeout=PATIENCE_S)
            for task in ready:
                portion = pending.pop(task)
                try:
                    outcome, journals = self.ray.get(task)
                except self.ray.exceptions.RayError as error:
                    again = self._failed(portion, first_line(getattr(error, "cause", None) or error))
                    pending |= {self._submit(one): one for one in again}
                else:
                    self._keep(portion, outcome, journals)
            # Take what no node has had room for since a while out of `pending`: for Ray, such a task waits for ever.
            largest = max(self._alive(), default=0)
            homeless = [task for task, portion in pending.items() if portion.devices > largest]
            if not homeless:
                self.roomy = time.monotonic()
            elif time.monotonic() - self.roomy > ROOM_PATIENCE_S:
                for task in homeless:
                    self.ray.cancel(task, force=True)
                    needed = pending.pop(task).devices
                    self._leave(f"no node with {needed} {self.unit}s is left in the Ray cluster")

    def _failed(self, portion: Portion, reason: str) -> list[Portion]:
        """Tell of it; the portion to give out again, if that may help."""
        if portion.tries + 1 < TRIES:
            self.listen({"event": "worker", "reason": reason, "item": None})
            return [dataclasses.replace(portion, tries=portion.tries + 1)]
        self._leave(reason)
        return []

    def _leave(self, reason: str) -> None:
        """Tell that a portion is left, and why."""
        self.whole, self.error = False, reason
        self.listen({"event": "worker", "reason": reason, "item": None})

    def _keep(self, portion: Portion, outcome: Outcome, journals: Sequence[str]) -> None:
        """Write the journals of a portion down, and tell how far all is."""
        for count, text in enumerate(journals):
            number = portion.number if not count else self.next
            self.next += bool(count)
            path = self.journal_path.with_name(f"{self.journal_path.name}.{number}")
            unfinished = path.with_name(f"{path.name}.part")
            with files.naming(path, unfinished):
                unfinished.write_text(text, encoding="utf-8")
                unfinished.replace(path)
        self.whole = self.whole and outcome.finished
        self.grades.update(outcome.by_grade)
        self.listen({"event": "progress", **self.progress.more(len(portion.items))})
