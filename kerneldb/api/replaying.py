"""Runs a planned replay, and stores its results in short commits while it goes on, each once."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import clustering, findings, inheriting, replayed
from kerneldb.api.queries import statement
from kerneldb.errors import UsageError
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host.start import start
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.journal import CallLine, PowerLine, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from kerneldb.api.planning import Planned
    from kerneldb.api.resuming import Files
    from kerneldb.replay.host.run import Outcome
    from kerneldb.replay.options import Options
    from kerneldb.replay.wire.plan import Plan
    from kerneldb.warehouse import Warehouse

    Listener = Callable[[Mapping[str, Any]], None]

COMMIT_SECONDS: Final = 5.0
HAS_DEVICE: Final = frozenset({"ready", "progress", "energy"})
"""Events that only a run with a device has."""


def run(
    warehouse: Warehouse,
    planned: Planned | None,
    files: Files,
    options: Options,
    listen: Listener | None = None,
    *,
    gpus: str | None = None,
    ray: str | None = None,
) -> Outcome:
    """Replay `planned`, or, where it is None, go on with the run whose files are there.

    `gpus` (a number, or all) is on how many devices; None: on that of the options. `ray` is the address of a cluster
    on whose devices it is; an empty one leaves it to RAY_ADDRESS. A run that was stopped before is given up, and the
    database written, once a device of the new one is ready. Raises ReplayError where the run cannot take place (no
    PyTorch, no device), UsageError where there is nothing to resume or another process replays into the database.
    """
    with files.claimed():
        files.take_back()  # of a process that was killed before its device was ready
        if planned is None:
            files.require_plan()
        else:
            files.put_aside()
            plan.write(planned.plan, files.plan)
        keeper = _Keeper(warehouse, files, planned, listen)
        try:
            connected = None if ray is None else clustering.connected(ray or None)
            resume = planned is None
            outcome = start(
                files.plan, files.journal, options, gpus=gpus, ray=connected, resume=resume, listen=keeper.hear
            )
        except (ReplayError, UsageError):
            if keeper.begun:  # what came out by then is kept, and a resumed run goes on from there
                keeper.commit()
            elif planned is not None:  # no run began: there is nothing to resume, but for the one before
                files.remove()
                files.take_back()
            raise
        except KeyboardInterrupt:  # not while it waited for a worker, where Ctrl-C ends the run in order
            if keeper.begun:
                keeper.commit()
            raise
        return _ended(keeper, files, outcome, new=planned is not None)


def _ended(keeper: _Keeper, files: Files, outcome: Outcome, *, new: bool) -> Outcome:
    if new and not (keeper.begun or outcome.finished) and files.stopped:  # interrupted before there was a device
        files.take_back()
        return dataclasses.replace(outcome, energy_reason=replayed.NOT_YET)
    reason = keeper.commit()
    if outcome.finished:
        files.remove()
    return dataclasses.replace(outcome, energy_reason=reason)


class _Keeper:
    """Passes events on, and stores what the journals hold now and then."""

    def __init__(self, warehouse: Warehouse, files: Files, planned: Planned | None, listen: Listener | None) -> None:
        self._warehouse = warehouse
        self._files = files
        self._planned = planned
        self._listen = listen
        self._due = time.monotonic() + COMMIT_SECONDS
        self._stores: dict[Path, Store] = {}
        self.begun = False

    def hear(self, event: Mapping[str, Any]) -> None:
        """Pass on what the run tells, and keep its results from time to time, once it has a device."""
        if event.get("event") in HAS_DEVICE:
            self._begin()
        if self._listen is not None:
            self._listen(event)
        if self.begun and time.monotonic() >= self._due:
            self._advance()
            self._due = time.monotonic() + COMMIT_SECONDS

    def _begin(self) -> None:
        """The run takes place: keep what its plan found, and nothing of the run before."""
        if self.begun:
            return
        self.begun = True
        if self._planned is not None:
            inheriting.keep(self._warehouse, self._planned.found)
            self._files.forget()

    def _advance(self) -> None:
        """Store what the journals hold beyond what is stored."""
        paths = self._files.journals()
        planned = plan.read(self._files.plan) if set(paths) - set(self._stores) else None
        for path in paths:
            if path not in self._stores and planned is not None:
                request = None if self._stores else self._planned
                self._stores[path] = Store(self._warehouse, planned, path, request and request.routes)
            self._stores[path].advance(balance=path == paths[-1])

    def commit(self) -> str | None:
        """Store all that is left, and what was learned; returns why the run has no energy, where it has none."""
        self._begin()
        self._advance()
        reasons = [one.learn() for one in self._stores.values()]
        return None if None in reasons else next(iter(reasons), replayed.NOT_YET)


class Store:
    """Brings one journal into the database. With `unplanned`, signatures that no route replays get their reason."""

    def __init__(self, warehouse: Warehouse, planned: Plan, path: Path, unplanned: pa.Table | None = None) -> None:
        self._warehouse = warehouse
        self._items = {item.id: item for item in planned.items}
        self._reader = Reader(path)
        self._unplanned = unplanned
        self._new = True
        self._lines: list[Any] = []

    def advance(self, *, balance: bool = True) -> None:
        """Store the results that came since what is stored, in one short transaction.

        They replace earlier ones of the same run and items. Without `balance`, the tables `closure…` are left to the
        next journal. Raises JournalError.
        """
        self._lines += self._reader.advance()
        found = self._reader.journal
        if found is None or not (self._lines or self._new):
            return
        touched = {line.call.item for line in self._lines if isinstance(line, CallLine)} & self._items.keys()
        calls = [call for call in found.calls if call.item in touched]  # in every state of the cache
        rows = replayed.rows(found, self._items, calls, findings.found_ids(self._warehouse, self._items, calls))
        readings = [one for line in self._lines if isinstance(line, PowerLine) for one in line.readings]
        rows["power_samples"] = replayed.power(found.run, readings)
        if self._new:
            rows["replay_routes"] = replayed.known_routes()
            rows["replays"] += replayed.unreplayed(found.run, self._unplanned)
        items = sorted({row["item_id"] for row in rows["replays"]} | touched)
        self._warehouse.store_replay(found.run.run_id, items, rows, new=self._new, balance=balance)
        self._new, self._lines = False, []  # what was not stored is tried again

    def learn(self) -> str | None:
        """Write the calls that were found to their launches; returns why the run has no energy, where it has none."""
        found = self._reader.journal
        if found is None:
            return replayed.NOT_YET
        calls = [call for call in found.calls if call.item in self._items]
        findings.keep(self._warehouse, self._items, found.run.run_id, calls)
        return replayed.energy_reason(found)

    @property
    def run_id(self) -> str:
        """The run of the journal. Raises JournalError where it has no header."""
        return self._reader.header().run_id


def read_journal(warehouse: Warehouse, plan_path: Path, journal_path: Path) -> str:
    """Store a journal that was made elsewhere; returns the id of its run.

    Raises PlanError and JournalError, UsageError for a journal of another plan.
    """
    planned = plan.read(plan_path)
    items = {item.id for item in planned.items}
    calls = journal.read(journal_path).calls
    strangers = [call for call in calls if call.item not in items]
    if strangers:
        told = f"{len(strangers):,} of its {len(calls):,} calls are of another plan than {plan_path}"
        message = f"{journal_path}: {told}; give the plan that was replayed"
        raise UsageError(message)
    made = Store(warehouse, planned, journal_path)
    made.advance()
    made.learn()
    return made.run_id


def results(warehouse: Warehouse, run_ids: Sequence[str]) -> pa.Table:
    """What runs say together by category and route: coverage, predicted against recorded time, and energy."""
    return warehouse.answer(statement("replay_results"), {"run_ids": list(run_ids)})
