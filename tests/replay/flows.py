"""Training steps of tiny models, watched: which storages operators really take, against what is inferred of that."""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from kerneldb.ingest.bundle import execution
from kerneldb.ingest.output import Report
from kerneldb.replay.steps import memory
from kerneldb.replay.steps.memory import Op
from kerneldb.replay.steps.tensors import Recorded
from tests.replay import families
from tests.replay.recording import Event, nested

WATCH = "watched "


class Watcher:
    """Numbers the storages of tensors: a storage keeps its number as long as it lives."""

    def __init__(self) -> None:
        self.calls: dict[int, tuple[str, list[int], list[int]]] = {}
        self.bytes: dict[int, int] = {}

    def number(self, tensor: Any) -> int:
        storage = tensor.untyped_storage()
        if not hasattr(storage, "watched"):
            storage.watched = len(self.bytes)
            self.bytes[storage.watched] = storage.nbytes()
        return int(storage.watched)


def watching(watcher: Watcher) -> Any:
    """A mode in which every operator below autograd is marked in the trace, with what it really took and returned."""
    import torch
    from torch.autograd.profiler import record_function
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    def numbers(value: Any) -> list[int]:
        return [watcher.number(one) for one in tree_leaves(value) if isinstance(one, torch.Tensor)]

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            number, took = len(watcher.calls), numbers((args, kwargs))
            with record_function(f"{WATCH}{number}"):
                result = func(*args, **(kwargs or {}))
            watcher.calls[number] = func._schema.name, took, numbers(result)
            return result

    return Mode()


@dataclasses.dataclass
class Watched:
    """A training step: the operators of its trace with its Execution Trace, and the truth by operator.

    `steps` are the same operators without an Execution Trace, `bytes` the sizes of storages, `parameters` those of the
    model, by their numbers.
    """

    ops: list[Op]
    steps: list[Recorded]
    truth: dict[int, tuple[list[int], list[int]]]
    bytes: dict[int, int]
    parameters: set[int]


def record(name: str, folder: Path) -> Watched:
    import torch
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

    family = next(one for one in (*families.FAMILIES, *families.FURTHER) if one.name == name)
    torch.set_num_threads(1)
    model, stepper = families.build(family)
    families.step(model, stepper, family.inputs(), family.optimizer)
    inputs, watcher = family.inputs(), Watcher()
    observer = ExecutionTraceObserver().register_callback(str(folder / f"{name}-et.json"))
    cpu = [ProfilerActivity.CPU]
    with profile(activities=cpu, record_shapes=True, execution_trace_observer=observer) as profiler, watching(watcher):
        families.step(model, stepper, inputs, family.optimizer)
    profiler.export_chrome_trace(str(folder / f"{name}.json"))
    observer.unregister_callback()
    raw = orjson.loads((folder / f"{name}.json").read_bytes())["traceEvents"]
    listed = sorted((one for one in raw if one.get("cat") == "cpu_op"), key=lambda one: one["ts"])
    marks = [one for one in raw if one.get("cat") == "user_annotation" and one["name"].startswith(WATCH)]
    events = nested(listed)
    numbers = {"op_id": range(len(events)), "record_function_id": [one.record_id for one in events]}
    rows = pl.DataFrame(numbers, {"op_id": pl.Int64, "record_function_id": pl.Int64}).drop_nulls()
    found = execution.op_tensors(folder / f"{name}-et.json", rows, Report())
    texts = {row["op_id"]: row for row in found.to_dicts()}
    ops = [operator(*one, texts) for one in zip(listed, enumerate(events), strict=True)]
    known = set()
    for one in model.parameters():
        known.add(watcher.number(one))
    truth = dict(marked(listed, marks, watcher))
    return Watched(ops, list(unshaped(listed, events)), truth, watcher.bytes, known)


def unshaped(listed: list[dict[str, Any]], events: list[Event]) -> Iterator[Recorded]:
    """The operators as a trace without an Execution Trace has them, backward ones with their forward one."""
    made: dict[Any, int] = {}
    for number, (one, event) in enumerate(zip(listed, events, strict=True)):
        sequence, thread = (one["args"].get(name) for name in ("Sequence number", "Fwd thread id"))
        forward = made.get(sequence) if thread else None
        if sequence is not None and thread == 0:
            made[sequence] = number
        start, end = int(one["ts"] * 1000), int((one["ts"] + one["dur"]) * 1000)
        yield Recorded(number, event.parent, start, max(end, start + 1), event.call, forward)


def operator(one: dict[str, Any], numbered: tuple[int, Any], texts: dict[int, dict[str, str]]) -> Op:
    number, event = numbered
    text = texts.get(number, {"inputs": "", "outputs": ""})
    outputs = tuple(entry for some in memory.views(text["outputs"]) for entry in some if entry is not None)
    start, end = int(one["ts"] * 1000), int((one["ts"] + one["dur"]) * 1000)
    return Op(number, event.parent, start, max(end, start + 1), event.call.op, memory.views(text["inputs"]), outputs)


def marked(
    listed: list[dict[str, Any]], marks: list[dict[str, Any]], watcher: Watcher
) -> Iterator[tuple[int, tuple[list[int], list[int]]]]:
    """For the first operator inside each mark, what the mode saw of it."""
    starts = [one["ts"] for one in listed]
    for mark in marks:
        name, took, gave = watcher.calls[int(mark["name"].removeprefix(WATCH))]
        place = bisect.bisect_left(starts, mark["ts"])
        inside = range(place, bisect.bisect_left(starts, mark["ts"] + mark["dur"]))
        first = next((at for at in inside if listed[at]["name"] == name and listed[at]["tid"] == mark["tid"]), None)
        if first is not None:
            yield first, (took, gave)


SUMS = frozenset({"aten::add", "aten::add_", "aten::mul"})
"""Which of two equal arguments is which makes no difference to these."""


@dataclasses.dataclass
class Score:
    """Bytes of inputs that are no parameters, and how many of them are of the right storage; wrong ones by operator."""

    bytes: int = 0
    right: int = 0
    operators: int = 0
    wrong: Counter[str] = dataclasses.field(default_factory=Counter)

    def row(self) -> dict[str, Any]:
        share = round(100 * self.right / max(self.bytes, 1), 2)
        return {"operators": self.operators, "bytes": self.bytes, "right_bytes": self.right, "right_pct": share}


def compare(watched: Watched) -> Score:
    """What is inferred of a step against the truth: a storage is right where it first appeared at the same place."""
    from kerneldb.replay.steps.flow import inferred
    from kerneldb.replay.steps.insides import SEMANTICS

    found = inferred(watched.steps, SEMANTICS).ops
    score = Score()
    first: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
    for number, (took, gave) in watched.truth.items():
        views, theirs = list(found[number].taken()), took
        if len(views) != len(took):  # numbers that became tensors below the mode
            views = [one for one in views if one.dims]
        ours = [one.storage for one in views]
        name, whole = watched.steps[number].call.op, len(ours) == len(theirs)
        score.operators += 1
        keys = [appearance(first[side], number, "in", given) for side, given in enumerate((ours, theirs))]
        keys = [sorted(one) if name in SUMS else one for one in keys]
        for place, storage in enumerate(theirs):
            if storage not in watched.parameters:
                size = watched.bytes[storage]
                right = whole and keys[0][place] == keys[1][place]
                score.bytes += size
                score.right += size * right
                score.wrong[f"{name} {place}{'' if whole else ' not seen'}"] += size * (not right)
        appearance(first[0], number, "out", [one.storage for one in found[number].outputs])
        appearance(first[1], number, "out", gave)
    return score


def appearance(first: dict[int, Any], number: int, side: str, storages: Sequence[int]) -> list[Any]:
    """Where each of these storages appeared first."""
    return [first.setdefault(one, (number, side, place)) for place, one in enumerate(storages)]
