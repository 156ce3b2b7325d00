"""Runs a planned replay and writes its journal back, in short commits while it goes on."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import findings, inheriting, planning
from kerneldb.api.planning import Planned
from kerneldb.api.queries import statement
from kerneldb.api.resuming import Files
from kerneldb.errors import UsageError
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host import devices, fleet, supervisor
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from kerneldb.replay.options import Options
    from kerneldb.replay.wire.energy import PowerReading
    from kerneldb.replay.wire.journal import CallResult, Journal, KernelResult, RunFacts
    from kerneldb.replay.wire.plan import Item, Plan
    from kerneldb.warehouse import Warehouse

COMMIT_SECONDS: Final = 10.0
NOT_ATTEMPTED: Final = "L4"
HAS_DEVICE: Final = frozenset({"ready", "progress", "energy"})
"""Events that only a run with a device has."""
Z95: Final = 1.96
NOT_ASKED: Final = "not asked for"
NOT_YET: Final = "not measured yet"
NOT_REPLAYED: Final = "not replayed"
SHARED: Final = "shared among the kernels of the call by time"
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Replayed:
    """How a replay ended. `finished` is false where a time limit or Ctrl-C stopped it: `--resume` goes on.

    `run_ids` are those of all devices, `run_id` the first one; a replay of nothing has none, and an empty `run_id`.
    `energy_reason` says why no energy was measured; None where some was.
    """

    run_id: str
    finished: bool
    interrupted: bool
    by_grade: Mapping[str, int]
    wall_s: float
    energy_reason: str | None = None
    run_ids: tuple[str, ...] = ()


def run(
    warehouse: Warehouse,
    planned: Planned | None,
    files: Files,
    options: Options,
    listen: Callable[[Mapping[str, Any]], None] | None = None,
    *,
    gpus: str | None = None,
    ray: str | None = None,
) -> Replayed:
    """Replay `planned`, or, where it is None, go on with the run whose files are there.

    `gpus` (a number, or all) is on how many devices; None: on that of the options. `ray` is the address of a cluster
    on whose devices it is; an empty one leaves it to RAY_ADDRESS. A run that was stopped before is given up, and the
    database written, once a device of the new one is ready. Raises ReplayError where the run
    cannot take place (no PyTorch, no device), UsageError where there is nothing to resume or another process replays
    into the database.
    """
    with files.claimed():
        return _run(_Keeper(warehouse, files, planned, listen), planned, files, options, (gpus, ray))


def _run(
    keeper: _Keeper, planned: Planned | None, files: Files, options: Options, where: tuple[str | None, str | None]
) -> Replayed:
    resume = planned is None
    files.take_back()  # of a process that was killed before its device was ready
    if planned is None:
        if not files.plan.exists():
            message = f"{files.plan}: no replay to resume; start one without --resume"
            raise UsageError(message)
    else:
        files.put_aside()
        plan.write(planned.plan, files.plan)
    try:
        outcome = _go(files, options, keeper.hear, where, resume=resume)
    except (ReplayError, UsageError):
        if not resume:  # no run began: there is nothing to resume, but for the one before
            files.remove()
            files.take_back()
        raise
    except KeyboardInterrupt:  # not while it waited for a worker, where Ctrl-C ends the run in order
        if keeper.begun:
            keeper.commit()
        raise
    if not (resume or keeper.begun or outcome.finished) and files.stopped:  # interrupted before there was a device
        files.take_back()
        return dataclasses.replace(outcome, energy_reason=NOT_YET)
    reason = keeper.commit()
    if outcome.finished:
        files.remove()
    return dataclasses.replace(outcome, energy_reason=reason)


def _go(
    files: Files,
    options: Options,
    hear: Callable[[Mapping[str, Any]], None],
    where: tuple[str | None, str | None],
    *,
    resume: bool,
) -> Replayed:
    """Run it on one device or, `where` (GPUs of this host, cluster) says so, on several."""
    gpus, ray = where
    if gpus is None and ray is None:
        if any(path != files.journal for path in files.journals()):
            message = "the replay that was stopped ran on several devices: give --gpus or --ray again"
            raise UsageError(message)
        one = supervisor.run(files.plan, files.journal, options, resume=resume, listen=hear)
        same = (one.finished, one.interrupted, one.by_grade, one.wall_s)
        return Replayed(one.run_id, *same, run_ids=(one.run_id,))
    all_ = _on_many(files, options, hear, where, resume=resume)
    run_ids = tuple(journal.read(path).run.run_id for path in files.journals())
    return Replayed(
        next(iter(run_ids), ""), all_.finished, all_.interrupted, all_.by_grade, all_.wall_s, run_ids=run_ids
    )


def _on_many(
    files: Files,
    options: Options,
    hear: Callable[[Mapping[str, Any]], None],
    where: tuple[str | None, str | None],
    *,
    resume: bool,
) -> fleet.FleetOutcome:
    gpus, address = where
    if gpus is not None:
        chosen = devices.chosen(gpus, options.device)
        return fleet.run(files.plan, files.journal, options, chosen, resume=resume, listen=hear)
    from kerneldb.api import clustering
    from kerneldb.replay.host import cluster

    ray = clustering.connected(address or None)
    return cluster.run(ray, files.plan, files.journal, options, resume=resume, listen=hear)


class _Keeper:
    """Passes events on, and commits what the journal holds now and then."""

    def __init__(
        self,
        warehouse: Warehouse,
        files: Files,
        planned: Planned | None,
        listen: Callable[[Mapping[str, Any]], None] | None,
    ) -> None:
        self._warehouse = warehouse
        self._files = files
        self._planned = planned
        self._listen = listen
        self._due = time.monotonic() + COMMIT_SECONDS
        self.begun = False

    def hear(self, event: Mapping[str, Any]) -> None:
        """Pass on what the run tells, and keep its results from time to time, once it has a device."""
        if event.get("event") in HAS_DEVICE:
            self._begin()
        if self._listen is not None:
            self._listen(event)
        if not self.begun:
            return
        if time.monotonic() >= self._due:
            self.commit(learn=False)
            self._due = time.monotonic() + COMMIT_SECONDS

    def _begin(self) -> None:
        """The run takes place: keep what its plan found, and nothing of the run before."""
        if self.begun:
            return
        self.begun = True
        if self._planned is not None:
            inheriting.keep(self._warehouse, self._planned.found)
            self._files.forget()

    def commit(self, *, learn: bool = True) -> str | None:
        """Store what the journals hold; returns why the run has no energy, where it has none."""
        self._begin()
        reasons: list[str | None] = []
        planned = plan.read(self._files.plan)
        paths = list(self._files.journals())
        for path in paths:
            found, request = journal.read(path), None if reasons else self._planned
            store(self._warehouse, planned, found, request, learn=learn, balance=path == paths[-1])
            reasons.append(_energy_reason(found))
        return None if None in reasons else next(iter(reasons), NOT_YET)


def store(
    warehouse: Warehouse,
    planned: Plan,
    found: Journal,
    request: Planned | None = None,
    *,
    learn: bool = True,
    balance: bool = True,
) -> None:
    """Commit the results of a journal, replacing earlier ones of the same run and items, in one short transaction.

    With `request`, signatures that no route replays get a row with the reason. With `learn`, calls that were found are
    written to the launches, in a transaction per trace. Without `balance`, the tables `closure…` are left to the next
    journal.
    """
    items = {item.id: item for item in planned.items}
    calls = [call for call in found.calls if call.item in items]
    found = dataclasses.replace(found, calls=tuple(calls))
    reason = _energy_reason(found) or NOT_YET
    run_id = found.run.run_id
    signatures = findings.found_ids(warehouse, items, found)
    kernels = [row for call in calls for row in _kernel_rows(run_id, items[call.item], call, reason)]
    rows = {
        "replay_runs": [_run_row(found)],
        "replay_calls": [_call_row(run_id, items[call.item], call, reason) for call in calls],
        "replay_tries": [row for call in calls for row in findings.try_rows(run_id, call)],
        "replays": [
            *(row | _found_id(row, signatures) for row in kernels),
            *(_unreplayed(found.run, request.routes) if request else ()),
        ],
        "power_samples": [_power_row(found.run, one) for one in found.readings],
    }
    ids = sorted({row["item_id"] for row in rows["replays"]} | {call.item for call in calls})
    warehouse.store_replay(run_id, ids, rows, balance=balance)
    if learn:
        findings.keep(warehouse, items, found, signatures)


def _found_id(row: Row, signatures: Mapping[tuple[str, int], Row]) -> Row:
    found = signatures.get((row["item_id"], row["ordinal"]))
    return {"found_id": None if found is None else found["signature_id"]}


def _run_row(found: Journal) -> Row:
    run = found.run
    device = ("device", "device_index", "gpu", "vendor", "arch", "uuid")
    same = ("run_id", *device, "driver", "torch", "cuda", "cudnn", "cublas")
    return {
        **{name: getattr(run, name) for name in (*same, "kerneldb", "cache", "l2_bytes", "memory_bytes")},
        "started": run.started,
        "finished": found.finished,
        "multiprocessors": run.sm_count,
        "arguments": json.dumps(dict(run.arguments)),
        "plan_notes": json.dumps(dict(run.plan_notes)),
        **_run_energy(found.energy or EnergyFacts()),
        "energy_reason": _energy_reason(found),
    }


def _energy_reason(found: Journal) -> str | None:
    """Why a run has no energy, or no more of it."""
    if found.run.arguments.get("energy") is False and found.energy is None:
        return NOT_ASKED
    return NOT_YET if found.energy is None else found.energy.reason


def _run_energy(facts: EnergyFacts) -> Row:
    error = facts.gap_power_sd_w
    return {
        "meter": facts.meter,
        "meter_period_ms": facts.period_ms,
        "idle_power_w": facts.idle_power_w,
        "context_power_w": facts.context_power_w,
        "gap_power_w": facts.gap_power_w,
        "gap_power_error_w": None if error is None else Z95 * error,
        "gap_ns": facts.gap_ns,
        "energy_drift": facts.drift,
        "energy_details": json.dumps(journal.to_dict(facts)) if facts.meter else None,
    }


def _call_energy(call: CallResult, reason: str) -> Row:
    """The energy columns of a call. What is NULL has a reason."""
    energy = call.energy or CallEnergy(reason=reason if call.status == journal.OK else NOT_REPLAYED)
    same = ("energy_mj", "energy_low_mj", "energy_high_mj", "above_gap_mj", "above_gap_low_mj", "above_gap_high_mj")
    return {
        **{name: getattr(energy, name) for name in same},
        "energy_power_w": energy.power_w,
        "energy_busy_share": energy.busy_share,
        "energy_seconds": energy.seconds,
        "energy_windows": len(energy.windows) or None,
        "energy_method": energy.method,
        "energy_reason": energy.reason,
        "energy_sm_mhz": energy.sm_mhz,
        "energy_throttle": energy.throttle,
        "capped_mhz": energy.capped_mhz,
        "capped_stretch": energy.capped_stretch,
        "capped_above_gap_mj": energy.capped_above_gap_mj,
        "energy_details": json.dumps(journal.to_dict(energy.windows)) if energy.windows else None,
    }


def _kernel_energy(kernel: KernelResult, call: CallResult, reason: str) -> Row:
    """The part of a call's energy that one of its kernels has: by its share of the GPU time."""
    energy = call.energy or CallEnergy(reason=reason)
    if energy.energy_mj is None or kernel.share is None:
        return {"energy_reason": energy.reason or kernel.reason or NOT_REPLAYED}
    same = ("energy_mj", "energy_low_mj", "energy_high_mj", "above_gap_mj", "above_gap_low_mj", "above_gap_high_mj")
    alone = kernel.share == 1
    method = energy.method if alone else f"{energy.method}; {SHARED}"
    return {**{name: getattr(energy, name) * kernel.share for name in same}, "energy_method": method}


def _power_row(run: RunFacts, reading: PowerReading) -> Row:
    return {
        **journal.to_dict(reading),
        "run_id": run.run_id,
        "source": "replay",
        "device": run.device_index,
        "gpu": run.gpu,
    }


def _call_row(run_id: str, item: Item, call: CallResult, reason: str) -> Row:
    time_, loop, state = call.time, call.loop, call.state
    stands = findings.believed(item, call)
    spec = item.spec if stands is None else stands.spec
    return {
        "run_id": run_id,
        "item_id": call.item,
        "op": spec.call.op if spec else None,
        "dims_source": findings.dims_source(item, call),
        "confidence": stands.score if stands else None,
        "found_call_id": findings.call_row(stands.spec.call)["call_id"] if stands else None,
        "route": call.route,
        "cache": call.cache,
        "status": call.status,
        "grade": call.grade,
        "reason": call.reason,
        "overload": call.overload,
        "notes": json.dumps(call.notes) if call.notes else None,
        "tries": call.tries,
        "warmup": call.warmup,
        "runs": call.runs,
        "wall_s": call.wall_s,
        "time_ns": time_.median_ns if time_ else None,
        "time_mad_ns": time_.mad_ns if time_ else None,
        "time_low_ns": time_.low_ns if time_ else None,
        "time_high_ns": time_.high_ns if time_ else None,
        "loop_ns": loop.time.median_ns if loop else None,
        "loop_low_ns": loop.time.low_ns if loop else None,
        "loop_high_ns": loop.time.high_ns if loop else None,
        "loop_calls": loop.calls if loop else None,
        "loop_sets": loop.ring if loop else None,
        "loop_note": call.loop_note,
        "extra_kernels": json.dumps([one.name for one in call.extra]) if call.extra else None,
        "missing_kernels": json.dumps(call.missing) if call.missing else None,
        "clock_mhz": state.sm_mhz if state else None,
        "temperature_c": state.temperature_c if state else None,
        "power_w": state.power_w if state else None,
        "throttle": json.dumps(state.throttle) if state and state.throttle else None,
        **_call_energy(call, reason),
    }


def _kernel_rows(run_id: str, item: Item, call: CallResult, reason: str) -> Iterable[Row]:
    if call.status == journal.SKIPPED:  # a resumed run tries it; an older result stays the latest
        return
    recorded = {kernel.ordinal: kernel for kernel in item.kernels}
    graded = {kernel.ordinal: kernel for kernel in call.kernels}
    for ordinal, kernel in recorded.items():
        common = {
            "run_id": run_id,
            "item_id": call.item,
            "ordinal": ordinal,
            "signature_id": kernel.signature_id,
            "cache": call.cache,
            "route": call.route,
            "dims_source": findings.dims_source(item, call),
            "launches": kernel.launches,
            "recorded_ns": kernel.median_ns,
            "recorded_total_ns": kernel.total_ns,
        }
        result = graded.get(ordinal)
        if result is None:
            yield common | {"grade": NOT_ATTEMPTED, "reason": call.reason, "energy_reason": NOT_REPLAYED}
        else:
            yield common | _graded(result) | _kernel_energy(result, call, reason)


def _graded(kernel: KernelResult) -> Row:
    time_, came = kernel.time, kernel.replayed
    return {
        "grade": kernel.grade,
        "reason": kernel.reason,
        "share": kernel.share,
        "runs": time_.n if time_ else None,
        "replay_ns": time_.median_ns if time_ else None,
        "mean_ns": time_.mean_ns if time_ else None,
        "mad_ns": time_.mad_ns if time_ else None,
        "low_ns": time_.low_ns if time_ else None,
        "high_ns": time_.high_ns if time_ else None,
        "replayed_name": came.name if came else None,
        "replayed_grid": json.dumps(came.grid) if came and came.grid else None,
        "replayed_block": json.dumps(came.block) if came and came.block else None,
        "replayed_shared_bytes": came.shared_bytes if came else None,
        "unknown_fields": json.dumps(kernel.unknown) if kernel.unknown else None,
    }


def _unreplayed(run: RunFacts, routes: pa.Table) -> Iterable[Row]:
    """A row with the reason for every selected signature that no route replays."""
    for row in routes.to_pylist():
        if row["route"] not in planning.REPLAYABLE:
            yield {
                "run_id": run.run_id,
                "item_id": row["signature_id"],
                "ordinal": 0,
                "signature_id": row["signature_id"],
                "cache": run.cache,
                "route": row["route"],
                "grade": NOT_ATTEMPTED,
                "reason": row["reason"],
                "energy_reason": NOT_REPLAYED,
                "launches": row["n"],
                "recorded_total_ns": row["total_ns"],
            }


def results(warehouse: Warehouse, run_ids: Sequence[str]) -> pa.Table:
    """What runs say together by category and route: coverage, predicted against recorded time, and energy."""
    return warehouse.answer(statement("replay_results"), {"run_ids": list(run_ids)})
