"""What would be faster: tries rewrites in recorded steps, stores what came of them, and writes patches."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import host_steps, stepping
from kerneldb.api.frames import frames_key, frames_of
from kerneldb.api.queries import rows, selecting, statement
from kerneldb.errors import UsageError
from kerneldb.ids import content_id
from kerneldb.replay import facts
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.rewrites.flow import CHOSEN
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.plan import Plan
from kerneldb.replay.worker import improving as worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kerneldb.api.planning import Request
    from kerneldb.api.queries import Row
    from kerneldb.replay.wire.improvements import Improvement, Times
    from kerneldb.replay.wire.steps import Step
    from kerneldb.replay.worker.improving import Asked
    from kerneldb.warehouse import Warehouse

SIZES: Final = ("batch", "prompt", "new_tokens", "layers")
NO_STEPS: Final = "no iteration is recorded; record one with: kerneldb record --stack"
NO_LAUNCHES: Final = "--where chooses calls by their launches on a GPU: a step of a program on a CPU has none"
NONE_CHOSEN: Final = "no launch of the step meets the condition of --where"


def plan_improvements(warehouse: Warehouse, request: Request, *, host: bool) -> Plan:
    """Steps to try rewrites in, with the Python functions around their calls; with `host` of programs on a CPU.

    The steps are whole: `among` of the request says which of their calls may be changed. Raises SelectionError, and
    UsageError where there is none.
    """
    if not host:
        planned = stepping.plan_steps(warehouse, dataclasses.replace(request, in_context=True)).plan
        if request.among is not None and not any(planned.sources[CHOSEN + step.id] for step in planned.steps):
            raise UsageError(NONE_CHOSEN)
        return planned
    if request.among is not None:
        raise UsageError(NO_LAUNCHES)
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
        options = ["--device", asked.device, "--seconds", str(asked.seconds), "--share", str(asked.share)]
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


def results(warehouse: Warehouse, traces: Sequence[str]) -> pa.Table:
    """The rows of `improvements` of traces (all where empty), those that gain most first."""
    return warehouse.answer(statement("improvements"), {"names": list(traces) or None})


def recorded_settings(warehouse: Warehouse, trace: str) -> dict[str, Any]:
    """The settings of a recording that the tags of its trace have, by the names of `Settings`."""
    found = next((row for row in warehouse.traces().to_pylist() if row["name"] == trace), None)
    tags: dict[str, Any] = dict((found or {}).get("tags") or {})
    made: dict[str, Any] = {name: int(tags[name]) for name in SIZES if name in tags}
    made |= {"tiny": tags.get("scale") == "tiny"}
    return {**made, "dtype": tags["precision"]} if "precision" in tags else made
