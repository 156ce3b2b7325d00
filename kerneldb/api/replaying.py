"""Runs a planned replay, and stores its results in short commits while it goes on, each once."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import TYPE_CHECKING, Any, Final

from kerneldb import codec
from kerneldb.api import clustering, counting, inferred, inheriting, stepping
from kerneldb.api.queries import statement
from kerneldb.api.recorded import call_row
from kerneldb.errors import UsageError
from kerneldb.replay import routes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host.start import start
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts
from kerneldb.replay.wire.journal import Reader
from kerneldb.replay.wire.messages import Counters, Readings, Result, StepDone
from kerneldb.replay.wire.results import OK, SKIPPED, Grade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from kerneldb.api.planning import Planned
    from kerneldb.api.queries import Row
    from kerneldb.api.resuming import Files
    from kerneldb.recordings import Reading
    from kerneldb.replay.host.run import Outcome
    from kerneldb.replay.options import Options
    from kerneldb.replay.wire.journal import Journal
    from kerneldb.replay.wire.plan import Item, Plan
    from kerneldb.replay.wire.results import CallResult, KernelResult, RunFacts
    from kerneldb.warehouse import Warehouse

    Listener = Callable[[Mapping[str, Any]], None]


Z95: Final = 1.96
NOT_YET: Final = "not measured yet"
NOT_REPLAYED: Final = "not replayed"
SHARED: Final = "shared among the kernels of the call by time"

RUN: Final = (
    "run_id", "device", "device_index", "gpu", "vendor", "arch", "uuid", "driver", "torch", "cuda", "cudnn", "cublas",
    "kerneldb", "cache", "l2_bytes", "memory_bytes", "started",
)  # fmt: skip
CALL: Final = ("route", "cache", "status", "reason", "overload", "warmup", "runs", "wall_s", "loop_note")
ENERGIES: Final = (
    "energy_mj", "energy_low_mj", "energy_high_mj", "dynamic_mj", "dynamic_low_mj", "dynamic_high_mj"
)  # fmt: skip
# Columns, and the fields that they hold.
RUN_ENERGY: Final = {
    "meter": "meter", "meter_period_ms": "period_ms", "idle_power_w": "idle_power_w", "gap_ns": "gap_ns",
    "context_power_w": "context_power_w", "launch_loop_power_w": "launch_loop_power_w", "energy_drift": "drift",
}  # fmt: skip
OF_LOOP: Final = ("power_w", "busy_share", "seconds", "method", "reason", "sm_mhz", "throttle")
CAPPED: Final = ("capped_mhz", "capped_stretch", "capped_dynamic_mj")
CALL_ENERGY: Final = {**{name: name for name in (*ENERGIES, *CAPPED)}, **{f"energy_{name}": name for name in OF_LOOP}}
TIME: Final = {"time_ns": "median_ns", "time_mad_ns": "mad_ns", "time_low_ns": "low_ns", "time_high_ns": "high_ns"}
LOOP: Final = {"loop_ns": "median_ns", "loop_low_ns": "low_ns", "loop_high_ns": "high_ns"}
STATE: Final = {"clock_mhz": "sm_mhz", "temperature_c": "temperature_c", "power_w": "power_w"}
KERNEL_TIME: Final = {
    "runs": "n", "replay_ns": "median_ns", "mean_ns": "mean_ns", "mad_ns": "mad_ns", "low_ns": "low_ns",
    "high_ns": "high_ns",
}  # fmt: skip
LAUNCHED: Final = {"replayed_name": "name", "replayed_shared_bytes": "shared_bytes"}

COMMIT_SECONDS: Final = 5.0


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
            files.begin(planned.plan)
        keeper = _Keeper(warehouse, files, planned, listen)
        try:
            connected = None if ray is None else clustering.connected(ray or None)
            resume = planned is None
            outcome = start(
                files.plan, files.journal, options, gpus=gpus, ray=connected, resume=resume, listen=keeper.hear
            )
        except (ReplayError, UsageError):
            if keeper.begun:  # its results so far are kept, and a resumed run goes on from there
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
        return dataclasses.replace(outcome, energy_reason=NOT_YET)
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
        """Pass on the events of the run, and keep its results from time to time, once it has a device."""
        if event.get("event") in {"ready", "progress", "energy"}:  # which only a run with a device has
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
        return None if None in reasons else next(iter(reasons), NOT_YET)


class Store:
    """Brings one journal into the database. With `unplanned`, signatures that no route replays get their reason."""

    def __init__(self, warehouse: Warehouse, planned: Plan, path: Path, unplanned: pa.Table | None = None) -> None:
        self._warehouse = warehouse
        self._items = {item.id: item for item in planned.items}
        self._steps = {step.id: step for step in planned.steps}
        self._reader = Reader(path)
        self._unplanned = unplanned
        self._new = True
        self._lines: list[Any] = []
        self._counted: dict[str, str | None] = {}

    def advance(self, *, balance: bool = True) -> None:
        """Store the results that came since what is stored, in one short transaction.

        They replace earlier ones of the same run and items. Without `balance`, the tables `reconciliation…` are left to
        the next journal. Raises JournalError.
        """
        self._lines += self._reader.advance()
        found = self._reader.journal
        if found is None or not (self._lines or self._new):
            return
        for line in self._lines:
            if isinstance(line, Counters):
                self._counted |= counting.keep(self._warehouse, self._items, found, self._reader.path.parent, line)
        touched = {line.call.item for line in self._lines if isinstance(line, Result)}
        touched = (touched | {item for line in self._lines if isinstance(line, Counters) for item in line.asked}) & (
            self._items.keys()
        )
        calls = [call for call in found.calls if call.item in touched]  # in every state of the cache
        # Rows of `calls`, results of a journal, by table; `ids` are the signatures with inferred calls
        ids = inferred.inferred_ids(self._warehouse, self._items, calls)
        run_id, reason = found.run.run_id, _energy_reason(found) or NOT_YET
        stepped = [line.result for line in self._lines if isinstance(line, StepDone)]
        chosen = {trail.item: trail.tried for one in stepped for trail in one.trails if trail.item in self._items}
        tries = [*((call.item, call.trail) for call in calls), *chosen.items()]
        rows = {
            "replay_runs": [_run(found)],
            "replay_calls": [
                _call(run_id, self._items[call.item], call, reason) | {"counters_reason": self._counted.get(call.item)}
                for call in calls
            ],
            "replay_attempts": [row for name, tried in tries for row in inferred.attempt_rows(run_id, name, tried)],
            "replays": [row for call in calls for row in _kernels(run_id, self._items[call.item], call, reason, ids)],
        }
        readings = [one for line in self._lines if isinstance(line, Readings) for one in line.readings]
        rows |= stepping.step_rows(run_id, self._steps, stepped, _energy_reason(found))
        rows["power_samples"] = _power_rows(found.run, readings)
        if self._new:
            rows["replay_routes"] = [
                {"route": one.name, "about": one.about, "waits": one.waits} for one in routes.known()
            ]
            rows["replays"] += _unreplayed(found.run, self._unplanned)
        items = sorted({row["item_id"] for row in rows["replays"]} | touched | chosen.keys())
        self._warehouse.store_replay(found.run.run_id, items, rows, new=self._new, balance=balance)
        self._new, self._lines = False, []  # what was not stored is tried again

    def learn(self) -> str | None:
        """Write the inferred calls to their launches; returns why the run has no energy, where it has none."""
        found = self._reader.journal
        if found is None:
            return NOT_YET
        calls = [call for call in found.calls if call.item in self._items]
        inferred.keep(self._warehouse, self._items, found.run.run_id, calls)
        return _energy_reason(found)

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
    found = journal.read(journal_path)
    calls = found.calls
    known = {one.id for one in planned.steps}
    strangers = [call.item for call in calls if call.item not in items]
    strangers += [step for step, _ in found.steps if step not in known]
    if strangers:
        every = len(calls) + len(found.steps)
        counted = f"{len(strangers):,} of its {every:,} calls are of another plan than {plan_path}"
        raise UsageError(f"{journal_path}: {counted}; give the plan that was replayed")
    made = Store(warehouse, planned, journal_path)
    made.advance()
    made.learn()
    return made.run_id


def results(warehouse: Warehouse, run_ids: Sequence[str]) -> pa.Table:
    """What runs say together by category and route: coverage, predicted against recorded time, and energy."""
    return warehouse.answer(statement("replay_results"), {"run_ids": list(run_ids)})


def counted(warehouse: Warehouse, run_ids: Sequence[str]) -> pa.Table:
    """Of which kernels of runs counters were read, by category, and why not of the others."""
    return warehouse.answer(statement("replay_counters"), {"run_ids": list(run_ids)})


def _picked(value: Any, columns: Mapping[str, str]) -> Row:
    """The columns that `value` fills; NULL where there is none."""
    return {column: None if value is None else getattr(value, name) for column, name in columns.items()}


def _json(value: Any) -> str | None:
    """JSON, or NULL for what is empty."""
    return json.dumps(codec.encode(value)) if value else None


def _energy_reason(found: Journal) -> str | None:
    """Why a run has no energy, or no more of it."""
    if found.run.arguments.get("counters") and found.energy is None:
        return "not asked for: counters were read instead"
    if found.run.arguments.get("energy") is False and found.energy is None:
        return "not asked for"
    return NOT_YET if found.energy is None else found.energy.reason


def _run(found: Journal) -> Row:
    run, facts = found.run, found.energy or EnergyFacts()
    error = facts.launch_loop_power_sd_w
    return {
        **_picked(run, {name: name for name in RUN}),
        **_picked(facts, RUN_ENERGY),
        "finished": found.finished,
        "multiprocessors": run.sm_count,
        "arguments": json.dumps(dict(run.arguments)),
        "plan_notes": json.dumps(dict(run.plan_notes)),
        "launch_loop_power_error_w": None if error is None else Z95 * error,
        "energy_details": _json(facts) if facts.meter else None,
        "energy_reason": _energy_reason(found),
    }


def _call(run_id: str, item: Item, call: CallResult, reason: str) -> Row:
    accepted = inferred.accepted(item, call)
    spec = item.spec if accepted is None else accepted.spec
    loop, state = call.loop, call.state
    energy = call.energy or CallEnergy(reason=reason if call.status == OK else NOT_REPLAYED)
    return {
        **_picked(call, {name: name for name in CALL}),
        **_picked(call.time, TIME),
        **_picked(loop and loop.time, LOOP),
        **_picked(loop, {"loop_calls": "calls", "loop_sets": "ring"}),
        **_picked(state, STATE),
        **_picked(energy, CALL_ENERGY),
        "run_id": run_id,
        "item_id": call.item,
        "attempts": call.tries,
        "op": spec.call.op if spec else None,
        "dims_source": inferred.dims_source(item, call),
        "confidence": accepted.score if accepted else None,
        "inferred_call_id": call_row(accepted.spec.call)["call_id"] if accepted else None,
        "grade": call.grade.value,
        "notes": _json(call.notes),
        "extra_kernels": _json([one.name for one in call.extra]),
        "missing_kernels": _json(call.missing),
        "throttle": _json(state and state.throttle),
        "energy_windows": len(energy.windows) or None,
        "energy_details": _json(energy.windows),
    }


def _kernels(run_id: str, item: Item, call: CallResult, reason: str, ids: inferred.Ids) -> Iterator[Row]:
    if call.status == SKIPPED:  # a resumed run tries it; an older result stays the latest
        return
    graded = {kernel.ordinal: kernel for kernel in call.kernels}
    for ordinal, kernel in {kernel.ordinal: kernel for kernel in item.kernels}.items():
        result = graded.get(ordinal)
        never = {"grade": Grade.L4.value, "reason": call.reason, "energy_reason": NOT_REPLAYED}
        yield {
            "run_id": run_id,
            "item_id": call.item,
            "ordinal": ordinal,
            "signature_id": kernel.signature_id,
            "inferred_id": ids.get((call.item, ordinal), {}).get("signature_id"),
            "cache": call.cache,
            "route": call.route,
            "dims_source": inferred.dims_source(item, call),
            "launches": kernel.launches,
            "recorded_ns": kernel.median_ns,
            "recorded_total_ns": kernel.total_ns,
            **(never if result is None else {**_graded(result), **_kernel_energy(result, call, reason)}),
        }


def _graded(kernel: KernelResult) -> Row:
    came = kernel.replayed
    return {
        **_picked(kernel.time, KERNEL_TIME),
        **_picked(came, LAUNCHED),
        "grade": kernel.grade.value,
        "reason": kernel.reason,
        "share": kernel.share,
        "replayed_grid": _json(came and came.grid),
        "replayed_block": _json(came and came.block),
        "unknown_fields": _json(kernel.unknown),
    }


def _kernel_energy(kernel: KernelResult, call: CallResult, reason: str) -> Row:
    """The part of a call's energy that one of its kernels has: by its share of the GPU time."""
    energy = call.energy or CallEnergy(reason=reason)
    share = kernel.share
    if energy.energy_mj is None or share is None:
        return {"energy_reason": energy.reason or kernel.reason or NOT_REPLAYED}
    method = energy.method if share == 1 else f"{energy.method}; {SHARED}"
    parts = {name: None if getattr(energy, name) is None else getattr(energy, name) * share for name in ENERGIES}
    return {**parts, "energy_method": method}


def _power_rows(run: RunFacts, readings: Sequence[Reading]) -> list[Row]:
    """Rows of `power_samples`."""
    same = {"run_id": run.run_id, "source": "replay", "device": run.device_index, "gpu": run.gpu}
    return [{**codec.encode(one), **same} for one in readings]


def _unreplayed(run: RunFacts, planned: pa.Table | None) -> Iterator[Row]:
    """A row of `replays` with the reason for every selected signature that no route replays."""
    for row in () if planned is None else planned.to_pylist():
        if row["route"] == routes.NONE:
            yield {
                "run_id": run.run_id,
                "item_id": row["signature_id"],
                "ordinal": 0,
                "signature_id": row["signature_id"],
                "cache": run.cache,
                "route": row["route"],
                "grade": Grade.L4.value,
                "reason": row["reason"],
                "energy_reason": NOT_REPLAYED,
                "launches": row["n"],
                "recorded_total_ns": row["total_ns"],
            }
