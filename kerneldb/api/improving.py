"""What would be faster: tries rewrites in recorded steps, stores what came of them, and writes patches."""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb import codec
from kerneldb.api import host_steps, stepping
from kerneldb.api.frames import frames_key, frames_of
from kerneldb.api.queries import rows, selecting, statement
from kerneldb.errors import UsageError
from kerneldb.ids import content_id
from kerneldb.replay import facts
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.recording import measuring
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.plan import Plan
from kerneldb.replay.worker import improving as worker
from kerneldb.replay.worker import verifying
from kerneldb.replay.worker.improving import Asked
from kerneldb.replay.worker.verifying import Timed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from kerneldb.api.planning import Request
    from kerneldb.api.queries import Row
    from kerneldb.replay.recording.measuring import Interval
    from kerneldb.replay.recording.settings import Settings
    from kerneldb.replay.wire.improvements import Improvement, Times
    from kerneldb.replay.wire.steps import Step
    from kerneldb.warehouse import Warehouse

VERIFICATIONS: Final = 2
"""Runs of a program without a patch, and as many with it."""
LEAST_RUNS: Final = 3
NO_STEPS: Final = "no iteration is recorded; record one with: kerneldb record --stack"


def plan_improvements(warehouse: Warehouse, request: Request, *, host: bool) -> Plan:
    """Steps to try rewrites in, with the Python functions around their calls; with `host` of programs on a CPU.

    Raises UsageError where there is none.
    """
    if not host:
        return stepping.plan_steps(warehouse, dataclasses.replace(request, in_context=True)).plan
    with selecting(warehouse, None, request.traces) as con:
        asked = {"names": list(request.traces) or None, "label": request.iteration}
        found = list(_chosen(rows(con, "host_iterations", asked)))
        if not found:
            raise UsageError(NO_STEPS)
        read = [host_steps.read(con, row) for row in found]
        frames = {frames_key(one.step.id): frames_of(con, one.window, one.moments) for one in read}
    items = {item.id: item for one in read for item in one.items}
    return Plan(tuple(items.values()), {"traces": list(request.traces)}, frames, tuple(one.step for one in read))


def _chosen(found: Sequence[Row]) -> Iterator[Row]:
    """Of each trace the second iteration, where there are several."""
    for trace in dict.fromkeys(row["trace_id"] for row in found):
        listed = [row for row in found if row["trace_id"] == trace]
        yield listed[min(1, len(listed) - 1)]


def try_rewrites(planned: Plan, asked: Asked, folder: Path | None = None) -> list[Improvement]:
    """Try the rewrites in a process of their own. Raises ReplayError where it cannot run."""
    if asked.device != "cpu":
        facts.require(asked.device, make_current=False)
    with tempfile.TemporaryDirectory() as made:
        place = folder or Path(made)
        plan.write(planned, place / "plan.jsonl")
        options = ["--device", asked.device, "--seconds", str(asked.seconds)]
        for name, values in (("--allow", asked.allow), ("--import", asked.modules)):
            options += [text for value in values for text in (name, value)]
        results = place / "results.jsonl"
        command = [sys.executable, "-P", "-m", worker.__name__, str(place / "plan.jsonl"), str(results), *options]
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603 (this program)
        found = worker.read(results)
        if ended.returncode and not found:
            said = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise ReplayError(f"the process that tries rewrites ended with exit code {ended.returncode}: {said}")
        return found


def store(warehouse: Warehouse, planned: Plan, device: str, found: Sequence[Improvement]) -> str:
    """Write the rows of `improvements`, replacing those of the same traces; returns the id of the run."""
    steps = {step.id: step for step in planned.steps}
    run_id = content_id("im1", *(f"{step}{one.step}{one.number}{one.busy}" for step in steps for one in found))
    made = [_row(run_id, steps[one.step], device, one) for one in found if one.step in steps]
    warehouse.store_improvements(sorted({step.trace_id for step in steps.values()}), made)
    return run_id


def _row(run_id: str, step: Step, device: str, one: Improvement) -> Row:
    plain = (
        "number",
        "rewrite",
        "status",
        "what",
        "place",
        "places",
        "calls",
        "reason",
        "wall_reason",
        "energy_reason",
    )
    return {
        **{name: getattr(one, name) for name in plain},
        **{name: getattr(one, name) for name in ("error", "error_before", "error_ratio")},
        **_times("alone", one.alone),
        **_times("busy", one.busy),
        **_times("wall", one.wall),
        **_times("energy", one.energy, "mj"),
        "run_id": run_id,
        "trace_id": step.trace_id,
        "iteration": step.iteration,
        "device": device,
        "change": json.dumps(dict(one.change)) if one.change else None,
    }


def _times(name: str, found: Times | None, unit: str = "ns") -> Row:
    values = {f"{name}_before_{unit}": "before_ns", f"{name}_after_{unit}": "after_ns"}
    values |= {f"{name}_gain": "gain", f"{name}_gain_low": "low", f"{name}_gain_high": "high"}
    return {column: found and getattr(found, field) for column, field in values.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """What a program's step took without and with a patch [ns], and the share saved with its 95 % interval."""

    quantity: str
    before_ns: float
    after_ns: float
    gain: Interval

    def row(self, promised: Improvement | None) -> Row:
        """A row with what was promised beside it."""
        told = promised and getattr(promised, self.quantity)
        ends = {"promised_pct": "gain", "promised_low_pct": "low", "promised_high_pct": "high"}
        return {
            "quantity": f"{self.quantity}_ns",
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "measured_pct": 100 * self.gain.value,
            "measured_low_pct": 100 * self.gain.low,
            "measured_high_pct": 100 * self.gain.high,
            **{name: told and 100 * getattr(told, field) for name, field in ends.items()},
        }


def verify(settings: Settings, workload: str, patch: Path) -> list[Verified]:
    """Run a program as recorded and with a patch, in turns, each time in a process of its own.

    Raises ReplayError where it does not run, UsageError where its step was not seen often enough.
    """
    sides: tuple[list[Timed], list[Timed]] = ([], [])
    for number in range(2 * VERIFICATIONS):
        with_patch = number % 2 if number < VERIFICATIONS else 1 - number % 2
        sides[with_patch].append(
            _timed(verifying.Job(settings, workload, str(patch.resolve()) if with_patch else None))
        )
    return [_verified(name, sides) for name in ("busy", "wall")]


def _timed(job: verifying.Job) -> Timed:
    command = [sys.executable, "-P", "-m", verifying.__name__]
    given = json.dumps(codec.encode(job))
    ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False)  # noqa: S603 (this program)
    if ended.returncode:
        said = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ReplayError(f"the program ended with exit code {ended.returncode}: {said}")
    found = codec.load(Timed, ended.stdout.splitlines()[-1])
    if len(found.wall_ns) < LEAST_RUNS or len(found.busy_ns) < LEAST_RUNS:
        raise UsageError(
            f"the step {job.workload!r} ran too seldom to be timed: mark it with torch.profiler.record_function, "
            f"and run it {verifying.WARM + 2 * LEAST_RUNS} times or more"
        )
    return found


def _verified(name: str, sides: tuple[Sequence[Timed], Sequence[Timed]]) -> Verified:
    """Medians of each run, in pairs; the interval is that of their scatter and of the runs' own."""
    before, after = ([statistics.median(getattr(one, f"{name}_ns")) for one in side] for side in sides)
    old, new = ([value for one in side for value in getattr(one, f"{name}_ns")] for side in sides)
    gain = 1 - statistics.fmean(after) / statistics.fmean(before)
    spread = [measuring.interval([value / statistics.fmean(some) for value in some]) for some in (old, new)]
    half = (1 - gain) * sum((one.high - one.value) ** 2 for one in spread) ** 0.5
    return Verified(
        name, statistics.fmean(before), statistics.fmean(after), measuring.Interval(gain, gain - half, gain + half)
    )


def results(warehouse: Warehouse, traces: Sequence[str]) -> pa.Table:
    """The rows of `improvements` of traces (all where empty), those that gain most first."""
    return warehouse.answer(statement("improvements"), {"names": list(traces) or None})


def changes(found: Iterable[Improvement]) -> list[dict[str, Any]]:
    """The changes of the accepted rewrites, for a patch."""
    accepted = [one for one in found if one.status == "accepted"]
    return [{**change, "rewrite": one.rewrite} for one in accepted for change in one.change.get("changes", ())]


def recorded_settings(warehouse: Warehouse, trace: str) -> dict[str, Any]:
    """The settings of a recording that the tags of its trace have, by the names of `Settings`."""
    found = next((row for row in warehouse.traces().to_pylist() if row["name"] == trace), None)
    tags: dict[str, Any] = dict((found or {}).get("tags") or {})
    made: dict[str, Any] = {
        name: int(tags[name]) for name in ("batch", "prompt", "new_tokens", "layers") if name in tags
    }
    made |= {"tiny": tags.get("scale") == "tiny"}
    return {**made, "dtype": tags["precision"]} if "precision" in tags else made
