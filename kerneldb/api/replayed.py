"""The rows of the replay tables that a journal's results make."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kerneldb import codec
from kerneldb.api import findings
from kerneldb.api.recorded import call_row
from kerneldb.replay import routes
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts
from kerneldb.replay.wire.results import OK, SKIPPED, Grade

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kerneldb.replay.wire.energy import PowerReading
    from kerneldb.replay.wire.journal import Journal
    from kerneldb.replay.wire.plan import Item
    from kerneldb.replay.wire.results import CallResult, KernelResult, RunFacts

Row = dict[str, Any]

Z95: Final = 1.96
NOT_ASKED: Final = "not asked for"
NOT_YET: Final = "not measured yet"
NOT_REPLAYED: Final = "not replayed"
SHARED: Final = "shared among the kernels of the call by time"

RUN: Final = (
    "run_id", "device", "device_index", "gpu", "vendor", "arch", "uuid", "driver", "torch", "cuda", "cudnn", "cublas",
    "kerneldb", "cache", "l2_bytes", "memory_bytes", "started",
)  # fmt: skip
CALL: Final = ("route", "cache", "status", "reason", "overload", "tries", "warmup", "runs", "wall_s", "loop_note")
ENERGIES: Final = (
    "energy_mj", "energy_low_mj", "energy_high_mj", "above_gap_mj", "above_gap_low_mj", "above_gap_high_mj"
)  # fmt: skip
# Columns, and the fields that they hold.
RUN_ENERGY: Final = {
    "meter": "meter", "meter_period_ms": "period_ms", "idle_power_w": "idle_power_w", "gap_ns": "gap_ns",
    "context_power_w": "context_power_w", "gap_power_w": "gap_power_w", "energy_drift": "drift",
}  # fmt: skip
OF_LOOP: Final = ("power_w", "busy_share", "seconds", "method", "reason", "sm_mhz", "throttle")
CAPPED: Final = ("capped_mhz", "capped_stretch", "capped_above_gap_mj")
CALL_ENERGY: Final = {**{name: name for name in (*ENERGIES, *CAPPED)}, **{f"energy_{name}": name for name in OF_LOOP}}
TIME: Final = {"time_ns": "median_ns", "time_mad_ns": "mad_ns", "time_low_ns": "low_ns", "time_high_ns": "high_ns"}
LOOP: Final = {"loop_ns": "median_ns", "loop_low_ns": "low_ns", "loop_high_ns": "high_ns"}
STATE: Final = {"clock_mhz": "sm_mhz", "temperature_c": "temperature_c", "power_w": "power_w"}
KERNEL_TIME: Final = {
    "runs": "n", "replay_ns": "median_ns", "mean_ns": "mean_ns", "mad_ns": "mad_ns", "low_ns": "low_ns",
    "high_ns": "high_ns",
}  # fmt: skip
LAUNCHED: Final = {"replayed_name": "name", "replayed_shared_bytes": "shared_bytes"}


def _picked(value: Any, columns: Mapping[str, str]) -> Row:
    """The columns that `value` fills; NULL where there is none."""
    return {column: None if value is None else getattr(value, name) for column, name in columns.items()}


def _json(value: Any) -> str | None:
    """JSON, or NULL for what is empty."""
    return json.dumps(codec.encode(value)) if value else None


def rows(found: Journal, items: Mapping[str, Item], calls: Sequence[CallResult], ids: findings.Ids) -> Row:
    """Rows of `calls`, results of a journal, by table; `ids` are the signatures with calls that were found."""
    run_id, reason = found.run.run_id, energy_reason(found) or NOT_YET
    return {
        "replay_runs": [_run(found)],
        "replay_calls": [_call(run_id, items[call.item], call, reason) for call in calls],
        "replay_tries": [row for call in calls for row in findings.try_rows(run_id, call)],
        "replays": [row for call in calls for row in _kernels(run_id, items[call.item], call, reason, ids)],
    }


def known_routes() -> list[Row]:
    """Rows of `replay_routes`: what every route says of itself."""
    return [{"route": one.name, "about": one.about, "waits": one.waits} for one in routes.known()]


def energy_reason(found: Journal) -> str | None:
    """Why a run has no energy, or no more of it."""
    if found.run.arguments.get("energy") is False and found.energy is None:
        return NOT_ASKED
    return NOT_YET if found.energy is None else found.energy.reason


def _run(found: Journal) -> Row:
    run, facts = found.run, found.energy or EnergyFacts()
    error = facts.gap_power_sd_w
    return {
        **_picked(run, {name: name for name in RUN}),
        **_picked(facts, RUN_ENERGY),
        "finished": found.finished,
        "multiprocessors": run.sm_count,
        "arguments": json.dumps(dict(run.arguments)),
        "plan_notes": json.dumps(dict(run.plan_notes)),
        "gap_power_error_w": None if error is None else Z95 * error,
        "energy_details": _json(facts) if facts.meter else None,
        "energy_reason": energy_reason(found),
    }


def _call(run_id: str, item: Item, call: CallResult, reason: str) -> Row:
    accepted = findings.accepted(item, call)
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
        "op": spec.call.op if spec else None,
        "dims_source": findings.dims_source(item, call),
        "confidence": accepted.score if accepted else None,
        "found_call_id": call_row(accepted.spec.call)["call_id"] if accepted else None,
        "grade": call.grade.value,
        "notes": _json(call.notes),
        "extra_kernels": _json([one.name for one in call.extra]),
        "missing_kernels": _json(call.missing),
        "throttle": _json(state and state.throttle),
        "energy_windows": len(energy.windows) or None,
        "energy_details": _json(energy.windows),
    }


def _kernels(run_id: str, item: Item, call: CallResult, reason: str, ids: findings.Ids) -> Iterator[Row]:
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
            "found_id": ids.get((call.item, ordinal), {}).get("signature_id"),
            "cache": call.cache,
            "route": call.route,
            "dims_source": findings.dims_source(item, call),
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


def power(run: RunFacts, readings: Sequence[PowerReading]) -> list[Row]:
    """Rows of `power_samples`."""
    same = {"run_id": run.run_id, "source": "replay", "device": run.device_index, "gpu": run.gpu}
    return [{**codec.encode(one), **same} for one in readings]


def unreplayed(run: RunFacts, planned: pa.Table | None) -> Iterator[Row]:
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
