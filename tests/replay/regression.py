"""Rebuilds every recorded call of a CPU trace, runs it again and compares what it calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from kerneldb.replay import resolve
from kerneldb.replay.resolve import schema
from kerneldb.replay.resolve.tensors import TensorSpec, torch_name
from kerneldb.replay.wire.plan import CallSpec
from tests.replay import recording
from tests.replay.families import Executed

TRIES = 40


@dataclass
class Job:
    """A distinct call of a trace: how often it came, the overloads of the Execution Trace, and what became of it."""

    spec: CallSpec
    count: int = 0
    executed: Counter[Executed] = field(default_factory=Counter)
    built: resolve.BuiltCall | None = None
    failure: str = ""
    same_children: bool = False
    same_views: bool = False

    @property
    def called(self) -> bool:
        return not self.failure

    @property
    def same_overload(self) -> int:
        """Invocations whose overload is the recorded one."""
        if self.built is None:
            return 0
        return sum(count for one, count in self.executed.items() if one.overload == self.built.overload)

    @property
    def same_list_dtypes(self) -> bool:
        """Whether the best candidate's tensor lists have the recorded dtypes."""
        if self.built is None:
            return False
        values = self.built.resolved.values
        built = tuple(tuple(entry.dtype for entry in one) for one in values if is_tensor_list(one))
        return all(built == tuple(tuple(map(torch_name, names)) for names in one.list_dtypes) for one in self.executed)


def is_tensor_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, TensorSpec) for entry in value)


def jobs_of(kineto: Path, executed: dict[int, Executed]) -> list[Job]:
    """The distinct calls of dispatcher operators."""
    events = recording.read_events(kineto)
    trace = recording.as_trace(events)
    found: dict[Any, Job] = {}
    for index, event in enumerate(events):
        if event.call.input_dtypes is None or not schema.overloads(event.call.op):
            continue
        spec = trace.spec(index)
        key = (spec.call, spec.children, spec.parent.op if spec.parent else "", spec.neighbours)
        job = found.setdefault(key, Job(spec))
        job.count += 1
        if event.record_id in executed:
            job.executed[executed[event.record_id]] += 1
    return list(found.values())


def rerun(jobs: list[Job], folder: Path) -> None:
    """Run the best candidate of each job; where its children differ from the recorded ones, search the others."""
    _attempt(jobs, folder, 1)
    missed = [job for job in jobs if not job.same_children]
    if missed:
        _attempt(missed, folder, TRIES)


def _attempt(jobs: list[Job], folder: Path, tries: int) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    built = [(job, _candidates(job, tries)) for job in jobs]
    torch.manual_seed(0)
    ran: dict[str, tuple[Job, resolve.BuiltCall]] = {}
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for number, (job, calls) in enumerate(built):
            ran.update(_run(job, calls, number))
    path = folder / "rerun.json"
    profiler.export_chrome_trace(str(path))
    _compare(path, ran)


def _candidates(job: Job, tries: int) -> list[resolve.BuiltCall]:
    try:
        return list(islice(resolve.candidates(job.spec, "cpu"), tries))
    except resolve.UnresolvedCallError as error:
        job.failure = str(error)
        return []


def _run(job: Job, calls: Iterable[resolve.BuiltCall], number: int) -> dict[str, tuple[Job, resolve.BuiltCall]]:
    from torch.profiler import record_function

    ran: dict[str, tuple[Job, resolve.BuiltCall]] = {}
    for rank, call in enumerate(calls):
        marker = f"RP|{number}|{rank}"
        try:
            with record_function(marker):
                call.call()
        except resolve.CallFailedError as error:
            job.failure = job.failure or ("" if ran else str(error))
            continue
        ran[marker] = (job, call)
        job.failure = ""
        job.built = job.built or call
    return ran


def _compare(path: Path, ran: dict[str, tuple[Job, resolve.BuiltCall]]) -> None:
    events = recording.read_events(path, ("cpu_op", "user_annotation"))
    trace = recording.as_trace(events)
    for index, event in enumerate(events):
        marker = _marker(events, index, ran)
        if marker is None or ran[marker][0].same_children or ran[marker][0].spec.call.op != event.call.op:
            continue
        job, call = ran[marker]
        again = trace.spec(index)
        if recording.computing(again) == recording.computing(job.spec) and _same_arguments(again, job.spec):
            job.same_children, job.built = True, call
            job.same_views = _all_children(again) == _all_children(job.spec)


def _marker(events: list[recording.Event], index: int, ran: dict[str, Any]) -> str | None:
    """The marker around an event. `detach` is recorded inside `aten::detach`, so two levels count."""
    for _ in range(2):
        parent = events[index].parent
        if parent is None:
            return None
        if events[parent].call.op in ran:
            return events[parent].call.op
        index = parent
    return None


def _same_arguments(again: CallSpec, spec: CallSpec) -> bool:
    mine = (again.call.input_dims, again.call.input_strides, again.call.input_dtypes, again.call.scalars)
    return mine == (spec.call.input_dims, spec.call.input_strides, spec.call.input_dtypes, spec.call.scalars)


def _all_children(spec: CallSpec) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for child in spec.children:
        found[recording.shapes(child.call)] += child.times
    return found


@dataclass
class Tally:
    """Invocations of one family, and how many of them passed each check."""

    name: str
    total: int = 0
    called: int = 0
    overload: int = 0
    overload_known: int = 0
    children: int = 0
    views: int = 0
    leaf: int = 0
    leaf_called: int = 0
    leaf_children: int = 0
    distinct: int = 0

    def add(self, job: Job) -> None:
        leaf = recording.is_leaf(job.spec)
        self.distinct += 1
        self.total += job.count
        self.called += job.count * job.called
        self.overload += job.same_overload
        self.overload_known += sum(job.executed.values())
        self.children += job.count * job.same_children
        self.views += job.count * job.same_views
        self.leaf += job.count * leaf
        self.leaf_called += job.count * (leaf and job.called)
        self.leaf_children += job.count * (leaf and job.same_children)

    def line(self) -> str:
        share = [
            100 * part / max(whole, 1)
            for part, whole in (
                (self.called, self.total),
                (self.overload, self.overload_known),
                (self.children, self.total),
                (self.views, self.total),
                (self.leaf_called, self.leaf),
                (self.leaf_children, self.leaf),
            )
        ]
        return f"{self.name:12} {self.total:7} {self.distinct:6} " + " ".join(f"{one:8.3f}" for one in share)


HEADER = "family         calls  uniq   called overload children allchild leafcall leafchld"


def tally(name: str, jobs: list[Job]) -> Tally:
    found = Tally(name)
    for job in jobs:
        found.add(job)
    return found


def misses(jobs: list[Job]) -> list[str]:
    """What failed or differed, most frequent first."""
    rows = []
    for job in jobs:
        if job.failure:
            rows.append((job.count, f"{job.spec.call.op}: {job.failure}"))
        elif not job.same_children:
            rows.append((job.count, f"{job.spec.call.op}: other children; {job.spec.call}"))
        wrong = [one for one in job.executed if job.built is not None and one.overload != job.built.overload]
        rows.extend((job.executed[one], f"{job.spec.call.op}: overload {one.overload} recorded") for one in wrong)
    return [f"{count:6} {text}" for count, text in sorted(rows, reverse=True)]
