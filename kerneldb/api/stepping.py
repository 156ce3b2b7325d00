"""Makes the plan of a replay in context: recorded iterations with their calls, memory and order."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import step_guesses, step_jobs
from kerneldb.api.frames import frames_key, frames_of
from kerneldb.api.queries import rows, selecting, statement
from kerneldb.api.recorded import Recorded, filled, planned_kernel
from kerneldb.api.step_source import LINKED, Call, Source, borrowed
from kerneldb.errors import UsageError
from kerneldb.ids import content_id
from kerneldb.replay import routes
from kerneldb.replay.plan.work import Work
from kerneldb.replay.rewrites.flow import CHOSEN
from kerneldb.replay.steps.plan import Builder, StreamWait, Unit
from kerneldb.replay.steps.reuse import distances
from kerneldb.replay.wire.plan import Plan, PlannedKernel
from kerneldb.replay.wire.results import Grade
from kerneldb.replay.wire.steps import Exchange, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kerneldb.api.planning import Planned, Request
    from kerneldb.api.queries import Connection, Row
    from kerneldb.api.step_guesses import Guesses
    from kerneldb.replay.steps.reuse import Distances
    from kerneldb.replay.wire.plan import CallSpec
    from kerneldb.replay.wire.step_results import StepKernel, StepResult
    from kerneldb.warehouse import Warehouse

OF_GRAPH: Final = 0.98
"""The share of its time from which on an iteration is one of graphs: calls that set a seed go before their launch."""
CAPTURED: Final = 0.98
"""The share of its time whose captured calls have to be known: an eager trace may know more of it than less."""
TOLERANCE: Final = 0.15
TOLERANCE_NS: Final = 1000
"""A kernel that is off by more than both, per launch, disagrees."""
NO_STEPS: Final = (
    "no iteration is selected: a trace needs steps of the profiler, or kernels that repeat; see what there is with: "
    "kerneldb analyze iterations"
)


def plan_steps(warehouse: Warehouse, request: Request) -> Planned:
    """Plan a step of each selected trace: the asked iteration, else the second of the steady ones.

    Raises SelectionError, and UsageError where nothing is selected or known.
    """
    import pyarrow as pa

    from kerneldb.api.planning import Planned

    with selecting(warehouse, request.where, request.traces) as con:
        recorded = Recorded(con)
        marked = rows(con, "step_ranges", {"label": request.iteration}) if request.iteration else []
        found = marked or rows(con, "step_iterations")
        chosen = list(_chosen(found, request.iteration, _jobs(con, found)))
        if not chosen:
            raise UsageError(NO_STEPS)
        read = [_Reader(con, recorded, one, other, request.phase) for one, other in chosen]
        guessed = step_guesses.guesses(con, recorded, [launch for one in read for launch in one.unowned()])
        works = {work.id: work for one in read for work in one.works(guessed)}
        decisions = routes.decide(works.values(), recorded)
        items = [one.item for one in decisions if one.item is not None]
        known = {item.id for item in items}
        steps = tuple(step_jobs.together(con, [one.step(known) for one in read]))
        sources = {**routes.gather(items, recorded), **{k: v for one in read for k, v in one.frames().items()}}
        vendors = [row["vendor"] for row in rows(con, "replay_vendors")]
    if request.among is not None:
        with selecting(warehouse, request.among, request.traces) as con:
            sources |= {CHOSEN + one.id: one.among(rows(con, "step_among", one.asked)) for one in read}
    notes: dict[str, Any] = {"where": request.where, "traces": list(request.traces), "timing": "timeline"}
    if len(vendors) == 1:
        notes["vendor"] = vendors[0]
    routed = {name: pa.string() for name in ("signature_id", "route", "reason")}
    empty = pa.schema([*routed.items(), ("n", pa.int64()), ("total_ns", pa.int64())]).empty_table()
    return Planned(Plan(tuple(items), notes, sources, steps), empty)


def reuse_of(
    con: Connection,
    recorded: Recorded,
    found: Sequence[Row],
    wanted: set[str],
    places: Mapping[tuple[str, int], str] = MappingProxyType({}),
) -> Iterator[tuple[str, Distances]]:
    """How long before the calls of these iterations their inputs were used, by the items that are wanted.

    `places`: items that stand for launches whose call another trace has, such as the capture of a graph.
    """
    left = {*wanted, *places.values()}
    for one, _ in _chosen(found, None):
        if not left:
            return
        reader = _Reader(con, recorded, one, None, None, whole=True)
        named = defaultdict[str, set[str]](set)
        for call in reader.calls:
            item = content_id("p1", call.key)
            named[item] |= {item, *reader.standing(call, places)}
        if not reader.has_tensors() or left.isdisjoint(itertools.chain(*named.values())):
            continue
        for item, told in distances(reader.step(set(named))).items():
            here = left & named[item]
            left -= here
            yield from ((name, told) for name in here)


def _jobs(con: Connection, found: Sequence[Row]) -> dict[str, str]:
    """The job of each trace that belongs to one."""
    asked = {"trace_ids": sorted({row["trace_id"] for row in found})}
    return {row["trace_id"]: row["job"] for row in rows(con, "step_ranks", asked) if row["job"] is not None}


def _chosen(
    found: Sequence[Row], wanted: str | None, jobs: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[Row, Row | None]]:
    """For each trace and device the iteration to replay, and another one to compare the recording with.

    Of the ranks of a job it is the same iteration.
    """
    of_job = dict[str | None, Any]()
    for _, group in itertools.groupby(found, key=lambda row: (row["trace_id"], row["device"])):
        listed = list(group)
        steady = [row for row in listed if row["steady_state"] is not False] or listed
        if wanted is None:
            job = jobs.get(listed[0]["trace_id"])
            usual = steady[min(1, len(steady) - 1)]
            number = usual["iteration"] if job is None else of_job.setdefault(job, usual["iteration"])
            one = next((row for row in listed if row["iteration"] == number), usual)
        else:
            named = [row for row in listed if wanted in (row["label"], str(row["iteration"]))]
            if not named:
                labels = ", ".join(f"{row['iteration']} ({row['label']})" for row in listed[:8])
                raise UsageError(f"{listed[0]['trace']} has no iteration {wanted!r}; it has {labels}")
            one = named[0]
        others = [row for row in steady if row is not one and row["launches"] == one["launches"]]
        yield one, others[-1] if others else None


class _Reader:
    """Reads an iteration of a trace; all of it, or the selected launches. `source` has its calls: mostly itself.

    With `eager` its own calls are read only, not those that another trace has of its graphs.
    """

    def __init__(
        self,
        con: Connection,
        recorded: Recorded,
        row: Row,
        other: Row | None,
        phase: str | None,
        *,
        whole: bool = False,
        eager: bool = False,
    ) -> None:
        self._con = con
        self._recorded = recorded
        self._row = row
        self._asked = {"phase": phase, "whole": whole}
        self._launches = self._listed(row)
        self._again = [] if other is None else self._listed(other)
        self._waits = self._waited(row, other)
        if not self._launches:
            raise UsageError(f"no launch of iteration {row['label']} of {row['trace']} is selected")
        window = rows(con, "step_window", {**self._range(row), "label": row["label"]})[0]
        self._source = self._own = Source(con, recorded, row["trace_id"], row["trace"], window)
        self.calls, self._captured = self._own.calls(self._launches), False
        self._linked = [one for one in self._launches if one["launch_status"] == LINKED]
        in_graphs = sum(one["duration_ns"] for one in self._launches if one["launch_status"] == "graph")
        self._of_graph = not eager and in_graphs > OF_GRAPH * sum(one["duration_ns"] for one in self._launches)
        if self._of_graph and not self._take_captured():
            self._borrow()

    def _range(self, row: Row) -> dict[str, Any]:
        where = {name: row[name] for name in ("trace_id", "device")}
        return {**where, "first": row["first_launch_index"], "last": row["last_launch_index"]}

    def _waited(self, *iterations: Row | None) -> dict[int, int]:
        """How long launches waited for other ranks, by launch_index."""
        return {
            launch: wait
            for row in iterations
            if row is not None
            for launch, wait in step_jobs.waits(self._con, self._range(row)).items()
        }

    def _listed(self, row: Row) -> list[Row]:
        return rows(self._con, "step_launches", {**self._range(row), **self._asked})

    def _take_captured(self) -> bool:
        """Take the calls that were captured in the graph, where a trace has them for all but a little of its time."""
        asked = {name: value for name, value in self._range(self._row).items() if name != "device"}
        owned = {one["launch_index"]: one for one in rows(self._con, "step_captured", asked)}
        places = {(one["capture_trace_id"], one["from_ns"], one["until_ns"]) for one in owned.values()}
        time = sum(one["duration_ns"] for one in self._launches)
        known = sum(one["duration_ns"] for one in self._launches if one["launch_index"] in owned)
        again = len({one["capture_call"] for one in owned.values()}) < len(owned)  # a graph that was launched twice
        if len(places) != 1 or again or known < CAPTURED * time:
            return False
        found = next(iter(owned.values()))
        window = {name: found[name] for name in ("from_ns", "until_ns")}
        source = Source(self._con, self._recorded, found["capture_trace_id"], found["capture_trace"], window)
        self._source, self.calls = source, source.calls(_as_captured(self._launches, owned), of_graph=True)
        self._captured = True
        return True

    def _borrow(self) -> None:
        """Take the calls of an eager iteration of the same run that launched the same kernels in the same order."""
        donors = rows(self._con, "step_donors", {"trace_id": self._row["trace_id"]})
        own = sorted(self._launches, key=lambda one: one["start_ns"])
        best, found = 0, None
        for donor, _ in _chosen(donors, None):
            reader = _Reader(self._con, self._recorded, donor, None, None, whole=True, eager=True)
            calls = borrowed(own, reader.calls)
            time = sum(one["duration_ns"] for call in calls if call.op_id is not None for one in call.launches)
            if time > best:
                best, found = time, (reader._source, calls)
        if found is not None:
            self._source, self.calls = found

    def has_tensors(self) -> bool:
        """Whether an Execution Trace tells the tensors of the calls of the iteration."""
        return self._source.has_tensors()

    def standing(self, call: Call, places: Mapping[tuple[str, int], str]) -> Iterator[str]:
        """The items of `places` that stand for the call."""
        known = (places.get((self._row["trace_id"], one["launch_index"])) for one in call.launches)
        return filter(None, known)

    def unowned(self) -> Iterator[Row]:
        """Kernels of a graph that the calls that it takes did not launch."""
        if self._source is not self._own:
            owned = (call for call in self.calls if call.op_id is None)
            yield from (one for call in owned for one in call.launches if one["kind"] == "kernel")

    def works(self, guessed: Guesses = MappingProxyType({})) -> Iterator[Work]:
        """A work per distinct call of the iteration; `guessed` are those proposed for launches without one."""
        groups: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            groups[call.key].append(call)
        for key, calls in groups.items():
            first, kernels = calls[0], tuple(_kernels(calls, self._waits))
            spec = self._spec(first)
            category = next((one["category"] for one in first.launches if one["kind"] == "kernel"), "MEMCPY")
            guess = guessed.get((self._row["trace_id"], first.launches[0]["launch_index"])) if spec is None else None
            yield Work(
                content_id("p1", key),
                kernels,
                category,
                spec if guess is None else guess.spec,
                () if guess is None else guess.candidates,
            )

    def _spec(self, call: Call) -> CallSpec | None:
        """The call of an operator; of a launch beside a graph, the one that is recorded with it."""
        if call.op_id is not None:
            return self._source.spec(call.op_id)
        index = call.launches[0]["launch_index"]
        beside = [] if self._source is self._own else [one for one in self._linked if one["launch_index"] == index]
        found = self._own.calls(beside)
        return self._own.spec(found[0].op_id) if found and found[0].op_id is not None else None

    def step(self, known: set[str]) -> Step:
        """The step, of calls that some route replays."""
        memory, method = self._source.memory()
        units = [_unit(call, self._waits, self._source.exchanges) for call in self.calls]
        waits = rows(self._con, "step_stream_waits", self._source.window)
        parts = Builder(memory, units, [filled(StreamWait, one) for one in waits]).parts()
        lost = [call for call, unit in zip(self.calls, units, strict=True) if unit.item not in known]
        row = self._row
        again = Counter[str]()
        for one in self._again:
            again[one["signature_id"]] += one["duration_ns"] - self._waits.get(one["launch_index"], 0)
        phases = {one["phase"] for one in self._launches}
        return Step(
            id=self.id,
            trace=row["trace"],
            trace_id=row["trace_id"],
            method=method,
            storages=tuple(parts.storages),
            tensors=tuple(parts.tensors),
            calls=tuple(parts.calls),
            iteration=_labelled(row),
            phase=phases.pop() if len(phases) == 1 else None,
            recorded_as="cuda_graph" if self._of_graph else "eager",
            span_ns=_span(self._launches),
            busy_ns=_busy(self._launches),
            again_ns=tuple(sorted(again.items())),
            again_span_ns=_span(self._again) if self._again else None,
            calls_from=None if self._source is self._own else self._source.trace,
            captured=self._captured,
            unplanned=sum(len(call.launches) for call in lost),
            unplanned_ns=sum(one["duration_ns"] for call in lost for one in call.launches),
        )

    @property
    def asked(self) -> dict[str, Any]:
        """Which launches it is about."""
        return self._range(self._row)

    def among(self, selected: Sequence[Row]) -> list[int]:
        """The places in the step of calls with a launch among the selected."""
        chosen = {one["launch_index"] for one in selected}
        ordered = sorted(self.calls, key=lambda call: call.called_ns)
        return [
            place for place, call in enumerate(ordered) if any(one["launch_index"] in chosen for one in call.launches)
        ]

    def frames(self) -> dict[str, Any]:
        """The Python functions around the calls, by the key that a plan has them under; none where none were noted."""
        found = frames_of(self._con, self._source.window, sorted(call.called_ns for call in self.calls))
        return {frames_key(self.id): found} if found["frames"] else {}

    @property
    def id(self) -> str:
        """The id of its step."""
        row = self._row
        return content_id("st1", row["trace_id"], str(row["device"]), _labelled(row), str(len(self._launches)))


def _labelled(row: Row) -> str:
    """What an iteration is called: its step of the profiler, else its number."""
    return str(row["label"] if row["label"] is not None else row["iteration"])


def _as_captured(launches: Sequence[Row], owned: Mapping[int, Row]) -> list[Row]:
    """Launches of a graph as if the captured calls had launched them, in their order; others come behind one of these.

    A fill or a copy of which it is not known which call it is of is one of its own.
    """
    found, last_ns = list[dict[str, Any]](), 0
    for one in sorted(launches, key=lambda row: row["start_ns"]):
        call = owned.get(one["launch_index"])
        last_ns = last_ns if call is None else call["called_ns"]
        known = {"op_id": None} if call is None else {"op_id": call["op_id"], "launch_status": LINKED}
        found.append({**one, **known, "called_ns": last_ns})
    return sorted(found, key=lambda row: row["called_ns"])


def _kernels(calls: Sequence[Call], waits: Mapping[int, int]) -> Iterator[PlannedKernel]:
    for ordinal, first in enumerate(calls[0].launches):
        launches = [call.launches[ordinal] for call in calls]
        times = sorted(one["duration_ns"] - waits.get(one["launch_index"], 0) for one in launches)
        sums = {"launches": len(times), "median_ns": times[len(times) // 2], "total_ns": sum(times)}
        yield planned_kernel({**first, "ordinal": ordinal, **sums})


def _unit(call: Call, waits: Mapping[int, int], exchanges: Mapping[int, Exchange]) -> Unit:
    durations = tuple(one["duration_ns"] for one in call.launches)
    waited = tuple(waits.get(one["launch_index"], 0) for one in call.launches)
    stream = call.launches[0]["stream"] or 0
    exchange = None if call.op_id is None else exchanges.get(call.op_id)
    known = waited if any(one["launch_index"] in waits for one in call.launches) else ()
    return Unit(content_id("p1", call.key), call.op_id, call.called_ns, stream, durations, exchange, known)


def _span(launches: Sequence[Row]) -> int:
    return int(max(one["end_ns"] for one in launches) - min(one["start_ns"] for one in launches))


def _busy(launches: Iterable[Row]) -> int:
    covered, until = 0, -1
    for one in sorted(launches, key=lambda row: row["start_ns"]):
        covered += max(0, one["end_ns"] - max(one["start_ns"], until))
        until = max(until, one["end_ns"])
    return int(covered)


PLANNED: Final = (
    ("trace", "string"), ("iteration", "string"), ("recorded_as", "string"), ("method", "string"), ("ranks", "int64"),
    ("calls", "int64"), ("distinct_calls", "int64"), ("launches", "int64"), ("unplanned", "int64"),
    ("unplanned_pct", "double"), ("storages", "int64"), ("given_bytes", "int64"), ("allocated_bytes", "int64"),
    ("unknown_inputs", "int64"), ("span_ns", "int64"), ("busy_ns", "int64"),
)  # fmt: skip
"""Columns of `planned_rows`, with their Arrow types."""


def planned_rows(plan: Plan) -> Iterator[Row]:
    """The steps of a plan: a row each, with how much of it is known."""
    for step in plan.steps:
        given = [one.bytes for one in step.storages if one.given]
        made = [one.bytes for one in step.storages if not one.given]
        named = [place for call in step.calls for argument in call.inputs for place in argument]
        total = sum(sum(call.recorded_ns) for call in step.calls)
        yield {
            **{name: getattr(step, name) for name in ("trace", "iteration", "recorded_as", "method", "unplanned")},
            **{name: getattr(step, name) for name in ("span_ns", "busy_ns")},
            "ranks": step.ranks if step.job is not None else 1,
            "calls": len(step.calls),
            "distinct_calls": len({call.item for call in step.calls}),
            "launches": sum(len(call.recorded_ns) for call in step.calls),
            "unplanned_pct": 100 * step.unplanned_ns / total if total else None,
            "storages": len(step.storages),
            "given_bytes": sum(given),
            "allocated_bytes": sum(made),
            "unknown_inputs": named.count(-1),
        }


OF_STEP: Final = (
    "iteration", "phase", "calls_from", "recorded_as", "method", "unplanned", "unplanned_ns", "again_span_ns"
)  # fmt: skip
OF_KERNEL: Final = ("ordinal", "signature_id", "launches", "filled", "reason", "recorded_ns", "close_ns", "waited_ns")
OF_RESULT: Final = (
    "mode", "calls", "rebuilt", "apart", "filled", "substituted", "segments", "memory_bytes", "reason", "ranks",
    "streams",
)  # fmt: skip


def step_rows(
    run_id: str, steps: Mapping[str, Step], results: Iterable[StepResult], no_energy: str | None
) -> dict[str, list[Row]]:
    """Rows of `step_replays` and `step_kernels`; results of other steps are left out."""
    known = [(steps[one.step], one) for one in results if one.step in steps]
    varying = {step.id: _varying(step, one) for step, one in known}
    return {
        "step_replays": [_replay_row(run_id, step, one, no_energy) for step, one in known],
        "step_kernels": [
            _kernel_row(run_id, step, one, kernel, varying[step.id]) for step, one in known for kernel in one.kernels
        ],
    }


def _replay_row(run_id: str, step: Step, result: StepResult, no_energy: str | None) -> Row:
    measured = {one.quantity: one for one in result.measured}
    notes = [*result.notes, *([f"its rank alone: {step.alone}"] if step.alone is not None else [])]
    wall, energy = measured.get("wall_ns"), measured.get("energy_mj")
    ends = {"": "value", "low_": "low", "high_": "high"}
    return {
        **{name: getattr(step, name) for name in OF_STEP},
        **{name: getattr(result, name) for name in OF_RESULT},
        **{f"wall_{end}ns": wall and getattr(wall, field) for end, field in ends.items()},
        **{f"energy_{end}mj": energy and getattr(energy, field) for end, field in ends.items()},
        "energy_reason": energy.reason if energy else no_energy,
        "run_id": run_id,
        "step_id": step.id,
        "rank": step.rank if step.ranks > 1 else None,
        "recorded_trace": step.trace_id,
        "recorded_span_ns": step.span_ns,
        "recorded_busy_ns": step.busy_ns,
        "uncaptured": json.dumps(result.uncaptured) if result.uncaptured else None,
        "notes": json.dumps(notes) if notes else None,
    }


def _varying(step: Step, result: StepResult) -> set[str]:
    """The signatures whose time in another recorded iteration is as far off as would be a disagreement."""
    again, recorded = dict(step.again_ns), Counter[str]()
    for kernel in result.kernels:
        recorded[kernel.signature_id] += kernel.recorded_ns
    return {one for one, ns in recorded.items() if one in again and abs(again[one] - ns) > TOLERANCE * ns}


def _kernel_row(run_id: str, step: Step, result: StepResult, kernel: StepKernel, varying: set[str]) -> Row:
    time, again = kernel.time, dict(step.again_ns).get(kernel.signature_id)
    ends = {"": "median_ns", "_low": "low_ns", "_high": "high_ns"}
    recorded = kernel.recorded_ns or None
    return {
        **{name: getattr(kernel, name) for name in OF_KERNEL},
        **{f"agreement{end}": time and recorded and getattr(time, name) / recorded for end, name in ends.items()},
        "grade": kernel.grade.value,
        "again_ns": again,
        "runs": time and time.n,
        "replay_ns": time and time.median_ns,
        "low_ns": time and time.low_ns,
        "high_ns": time and time.high_ns,
        "wait_ns": kernel.wait and kernel.wait.median_ns,
        "disagrees": _disagrees(kernel),
        "cause": _cause(step, kernel, varying, result) if time is None or _disagrees(kernel) else None,
        "run_id": run_id,
        "step_id": step.id,
        "mode": result.mode,
        "item_id": kernel.item,
    }


def _disagrees(kernel: StepKernel) -> bool:
    same = kernel.time is not None and kernel.grade.rank <= Grade.L1.rank
    off = 0.0 if kernel.time is None else abs(kernel.time.median_ns - kernel.recorded_ns)
    return same and off > max(TOLERANCE * kernel.recorded_ns, TOLERANCE_NS * kernel.launches)


def _cause(step: Step, kernel: StepKernel, varying: set[str], result: StepResult) -> str:
    """Why a kernel has no time, or another one than was recorded, as far as that is known."""
    if kernel.time is None:
        return kernel.reason or "some of its launches did not come out"
    if kernel.signature_id in varying:
        return "the recorded iterations differ as much"
    tried = next((len(one.tried) for one in result.trails if one.item == kernel.item), 0)
    if tried:
        return f"of {tried} calls that launch such a kernel the nearest in time was chosen (replay_attempts)"
    if step.calls_from is not None and not step.captured:
        return f"the graph may have made another call than {step.calls_from}, such as one with a mask"
    return "values of its inputs, or the state of the device"


def disagreements(warehouse: Warehouse, run_ids: Sequence[str]) -> pa.Table:
    """The kernels of replayed steps that disagree with the recording or have no time, those with most time first."""
    return warehouse.answer(statement("step_disagreements"), {"run_ids": list(run_ids)})


def results(warehouse: Warehouse, run_ids: Sequence[str]) -> pa.Table:
    """What replayed steps say together, a row per step and mode."""
    return warehouse.answer(statement("step_results"), {"run_ids": list(run_ids)})
