"""What storages do while a program runs, watched, against what is rebuilt of it from its recording.

A program is recorded as `kerneldb record` does it, ingested, and its second iteration read as a step. While that ran, a
TorchDispatchMode noted for each operator below autograd the storages that it took and returned, and for each storage
between which two operators it was freed.
"""

from __future__ import annotations

import bisect
import gc
import itertools
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kerneldb
from kerneldb.api import host_steps
from kerneldb.api.queries import rows, selecting
from kerneldb.replay.recording import bundle, recorder
from kerneldb.replay.recording.settings import Settings
from tests.replay.programs import Program, made

if TYPE_CHECKING:
    from kerneldb.replay.steps.memory import Memory, Op, View
    from kerneldb.replay.wire.steps import Step

ITERATIONS = 2
ALLOCATE = ("aten::empty", "aten::new_empty")

NUMBERS = ("double", "long int", "bool")
"""Dtypes of Python's numbers."""
MADE_OF = {
    "clone": "copy_", "_to_copy": "copy_", "select_backward": "copy_", "slice_backward": "copy_", "zeros_like": "zero_",
    "rsub": "sub", "embedding": "index_select", "new_zeros": "zero_", "ones_like": "fill_", "_safe_softmax": "_softmax",
    "constant_pad_nd": "copy_", "relu": "clamp_min", "index_put": "_index_put_impl_", "stack": "cat", "ones": "fill_",
    "repeat": "copy_", "new_ones": "fill_", "index_put_": "_index_put_impl_", "masked_fill": "masked_fill_",
    "full": "fill_", "full_like": "fill_", "index_add": "scatter_add_", "_grouped_mm": "mm", "rand": "uniform_",
    "zero_": "fill_", "relu_": "clamp_min_",
}  # fmt: skip
"""Operators that PyTorch makes of others on a CPU: one that must be there."""
Dims = tuple[int, ...]


@dataclass(slots=True)
class Did:
    """An operator that ran: the storages that it took and returned, with the dims of the tensors.

    It is `idle` if it only allocates, or changes how a tensor looks at its storage.
    """

    name: str
    took: list[tuple[int, Dims]]
    gave: list[tuple[int, Dims]] = field(default_factory=list)
    idle: bool = False


@dataclass
class Truth:
    """What a mode saw of operators that are no views.

    Per storage its bytes, the operator that made it, and how many had begun when it was freed.

    `before` are the storages that there were before the first operator. What no operator made and was not there
    before (a tensor of Python's numbers) is in neither.
    """

    calls: list[Did] = field(default_factory=list)
    bytes: dict[int, int] = field(default_factory=dict)
    before: set[int] = field(default_factory=set)
    made: dict[int, int] = field(default_factory=dict)
    freed: dict[int, int] = field(default_factory=dict)
    ended: bool = False

    def begin(self) -> None:
        """Note what there is."""
        import torch

        for one in [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]:
            self.number(one)
        self.before = set(self.bytes)

    def number(self, tensor: Any) -> int:
        """The number of a storage, which it keeps as long as it lives; -1 for a tensor without one."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return -1
        watcher, number = getattr(storage, "watched", (None, -1))
        if watcher is not self:
            number = len(self.bytes)
            storage.watched = self, number
            self.bytes[number] = storage.nbytes()
            weakref.finalize(storage, self._free, number).atexit = False
        self.bytes[number] = max(self.bytes[number], storage.nbytes())
        return int(number)

    def _free(self, number: int) -> None:
        if not self.ended:
            self.freed[number] = len(self.calls)


def watching(truth: Truth) -> Any:
    """The mode that fills a Truth."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from kerneldb.replay.steps.outlines import tensors

    def listed(value: Any) -> list[tuple[int, Dims]]:
        return [(truth.number(one), tuple(one.shape)) for one in tensors(value)]

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            schema = func._schema.arguments
            values = [args[n] if n < len(args) else kwargs.get(one.name) for n, one in enumerate(schema)]
            did = Did(func._schema.name, listed(values))
            did.idle = did.name.startswith(ALLOCATE) or torch.Tag.inplace_view in func.tags
            truth.calls.append(did)
            result = func(*args, **kwargs)
            known = len(truth.bytes)
            did.gave = listed(result)
            for storage, _ in did.gave:
                if storage >= known:
                    truth.made[storage] = len(truth.calls) - 1
            views = did.gave and {one for one, _ in did.gave} <= {one for one, _ in did.took}
            if (views and not func._schema.is_mutable) or did.name.startswith("profiler::"):
                truth.calls.pop()  # what autograd views is not in traces
            return result

    return Mode()


class Watched:
    """A program as the recorder runs it, watched in its last iteration. `made` runs once before it is recorded."""

    tokens: int | None = None

    def __init__(self, program: Program) -> None:
        self.truth = Truth()
        self._program = program
        self._left = ITERATIONS

    def __call__(self) -> None:
        self._left -= 1
        if self._left >= 0:
            self._program()
            return
        self.truth.begin()
        with watching(self.truth):
            self._program()
        self.truth.ended = True


def record(names: Sequence[str], folder: Path) -> dict[str, Truth]:
    """Record programs into `folder`, a bundle; returns the truth of the last iteration of each."""
    import torch

    torch.set_num_threads(1)
    settings = Settings("families", workloads=tuple(names), device="cpu", trace_only=True, iterations=ITERATIONS)
    target, truths = bundle.start(folder, settings, resume=False), dict[str, Truth]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in target.content.parts:
            work = Watched(made(part.workload))
            gc.collect()
            gc.disable()  # it would free what is in cycles at any moment
            traced = recorder.trace(work, part, settings, folder)
            gc.enable()
            target.keep(part, [], trace=traced)
            truths[part.workload] = work.truth
    return truths


@dataclass
class Rebuilt:
    """A step as it is rebuilt, with the operators and memory that it was made of, and the operators of its calls."""

    ops: list[Op]
    memory: Memory
    step: Step
    calls: list[Op]


def rebuilt(folder: Path) -> dict[str, Rebuilt]:
    """The second iteration of each program of a bundle, by its workload."""
    found = {}
    with kerneldb.open(folder.with_suffix(".duckdb")) as db:
        db.ingest(folder)
        with selecting(db.warehouse, None, ()) as con:
            listed = rows(con, "host_iterations", {"names": None, "label": f"ProfilerStep#{ITERATIONS}"})
            for row in listed:
                one = host_steps.read(con, row)
                ops, memory = host_steps.remembered(con, row)
                calls = sorted(host_steps.working(ops), key=lambda op: op.start_ns)
                found[row["trace"].removeprefix(f"{folder.name}-")] = Rebuilt(ops, memory, one.step, calls)
    return found


# Comparing.


def placed(truth: Truth, ops: Sequence[Op]) -> list[Op]:
    """The recorded operator of each call of the truth, in order, none inside another; as many as are found."""
    found: list[Op] = []
    until = 0
    for op in sorted(ops, key=lambda one: (one.start_ns, -one.end_ns, one.op_id)):
        if op.start_ns >= until and len(found) < len(truth.calls) and _is(op, truth.calls[len(found)]):
            found.append(op)
            until = op.end_ns
    return found


def _is_made(name: str, calls: set[str]) -> bool:
    """Whether the calls inside an operator are it, or what it is made of."""
    short, listed = name.removeprefix("aten::"), {one.removeprefix("aten::") for one in calls}
    if short.startswith("_foreach_"):
        return all(short.removeprefix("_foreach_").rstrip("_") in one for one in listed) and bool(listed)
    if short == "convolution":
        return any("conv" in one for one in listed)
    if short.rstrip("_") in listed:  # with the tensor to write to
        return True
    return short in listed or MADE_OF.get(short) in listed or (short == "zeros" and listed <= {"zero_", "fill_"})


def _is(op: Op, did: Did) -> bool:
    if op.name != did.name:
        return False
    dims = [one.dims for one in op.taken() if one.dims]
    return dims == [one for _, one in did.took if one] or not (op.inputs or op.outputs)


def paired(views: Sequence[View], storages: Sequence[tuple[int, Dims]]) -> list[tuple[int, int]]:
    """(allocation, storage) of the tensors of an operator, without numbers that became tensors below the mode."""
    numbers = [place for place, one in enumerate(views) if not one.dims]
    numbers.sort(key=lambda place: (views[place].dtype not in NUMBERS, -place))
    dropped = set(numbers[: len(views) - len(storages)])
    left = [one for place, one in enumerate(views) if place not in dropped]
    if [one.dims for one in left] != [dims for _, dims in storages]:
        return []
    return [(view.storage, storage) for view, (storage, _) in zip(left, storages, strict=True)]


@dataclass
class Score:
    """Calls and storages of the truth, and those that are rebuilt alike; `wrong` says which are not, and why.

    `foreign` are of no operator: numbers of Python, memory of NumPy. When they lived is not compared.
    """

    calls: int = 0
    in_order: int = 0
    storages: int = 0
    aliased: int = 0
    lived: int = 0
    bytes: int = 0
    aliased_bytes: int = 0
    lived_bytes: int = 0
    foreign: int = 0
    wrong: Counter[str] = field(default_factory=Counter)

    @property
    def whole(self) -> bool:
        """Whether all is alike."""
        return not self.wrong

    def row(self) -> dict[str, Any]:
        share = {
            name: round(100 * value / max(self.bytes, 1), 3)
            for name, value in (("aliasing_pct", self.aliased_bytes), ("lifetimes_pct", self.lived_bytes))
        }
        return {
            "calls": self.calls,
            "in_order": self.in_order,
            "storages": self.storages,
            "aliased": self.aliased,
            "lived": self.lived,
            "foreign": self.foreign,
            "bytes": self.bytes,
            **share,
        }


def compare(truth: Truth, found: Rebuilt) -> Score:
    """Each storage of the truth against its allocation in the rebuilt step."""
    return _Comparison(truth, found).score()


class _Comparison:
    def __init__(self, truth: Truth, found: Rebuilt) -> None:
        self._truth = truth
        self._found = found
        self._ops = placed(truth, found.ops)
        self._starts = [one.start_ns for one in self._ops]
        self._calls = [one.start_ns for one in found.calls]
        self._score = Score(len(truth.calls), len(self._ops))
        self._wrong = self._score.wrong
        self._aliases: dict[int, set[int]] = {}
        self._storages: dict[int, set[int]] = {}
        self._unseen: Counter[int] = Counter()
        self._places = self._of_step()

    def score(self) -> Score:
        self._order()
        for number, op in enumerate(self._ops):
            self._pair(number, self._found.memory.ops[op.op_id])
        for storage in self._storages:
            self._storage(storage)
        return self._score

    def _of_step(self) -> dict[int, int]:
        """The storage of the step of each allocation."""
        step, found = self._found.step, dict[int, int]()
        for call, op in zip(step.calls, self._found.calls, strict=True):
            known = self._found.memory.ops[op.op_id]
            views = [*itertools.chain(*known.inputs), *known.outputs]
            for slot, view in zip([*itertools.chain(*call.inputs), *call.outputs], views, strict=True):
                if view is not None and slot >= 0:
                    found[view.storage] = step.tensors[slot].storage
        return found

    def _order(self) -> None:
        """Each call of the step is of a call of the truth, and each of these that does something has one."""
        if len(self._ops) < len(self._truth.calls):
            self._wrong[f"order: no {self._truth.calls[len(self._ops)].name}, the {len(self._ops)}th"] += 1
        owners = [bisect.bisect_right(self._starts, one) - 1 for one in self._calls]
        for op, owner in zip(self._found.calls, owners, strict=True):
            if owner < 0 or op.end_ns > self._ops[owner].end_ns:
                self._wrong[f"order: {op.name} beside the operators"] += 1
        groups: dict[int, set[str]] = {}
        for op, owner in zip(self._found.calls, owners, strict=True):
            groups.setdefault(owner, set()).add(op.name)
        for number in range(len(self._ops)):
            did = self._truth.calls[number]
            if not did.idle and not _is_made(did.name, groups.get(number, set())):
                self._wrong[f"order: {did.name} is made of {sorted(groups.get(number, ()))}"] += 1

    def _pair(self, number: int, op: Op) -> None:
        did = self._truth.calls[number]
        for views, theirs in ((list(op.taken()), did.took), (op.outputs, did.gave)):
            pairs = list(paired(views, theirs))
            for ours, storage in pairs:
                self._storages.setdefault(storage, set()).add(ours)
                self._aliases.setdefault(ours, set()).add(storage)
            for storage, _ in theirs[len(pairs) :]:
                if storage >= 0:
                    self._storages.setdefault(storage, set())
                    self._unseen[storage] += 1
                    self._wrong[f"aliasing: a tensor of {did.name} is not seen"] += 1

    def _storage(self, storage: int) -> None:
        score, size = self._score, self._truth.bytes[storage]
        if storage < 0 or not size:
            return
        score.storages += 1
        score.bytes += size
        ours = self._storages[storage]
        same = len(ours) == 1 and self._aliases[next(iter(ours))] == {storage} and not self._unseen[storage]
        if not same:
            self._wrong[f"aliasing: {self._name(storage)} is {len(ours)} allocations"] += 1
            return
        score.aliased += 1
        score.aliased_bytes += size
        reasons = list(self._lifetime(storage, next(iter(ours))))
        for one in reasons:
            self._wrong[one] += 1
        score.lived += not reasons
        score.lived_bytes += size * (not reasons)

    def _name(self, storage: int) -> str:
        if storage in self._truth.made:
            return f"what {self._truth.calls[self._truth.made[storage]].name} made"
        return "what was there before" if storage in self._truth.before else "what no operator made"

    def _lifetime(self, storage: int, ours: int) -> Iterator[str]:
        if storage not in self._truth.made and storage not in self._truth.before:
            self._score.foreign += 1
            return
        epoch, name = self._found.memory.epochs[ours], self._name(storage)
        made, freed = self._truth.made.get(storage), self._truth.freed.get(storage)
        by = None if epoch.made_by is None else self._found.memory.ops[epoch.made_by]
        if made is None:
            if by is not None:
                yield f"made: {name}, ours by {by.name}"
        elif by is None or not self._ops[made].start_ns <= by.start_ns < self._ops[made].end_ns:
            yield f"made: {name}, ours by {by and by.name}"
        seen = None if epoch.freed_ns is None else bisect.bisect_right(self._starts, epoch.freed_ns)
        if seen != freed:
            yield f"freed: {name}, {seen} for {freed} of {len(self._starts)}"
        elif ours in self._places:
            yield from self._in_step(name, self._places[ours], made, freed)

    def _in_step(self, name: str, place: int, made: int | None, freed: int | None) -> Iterator[str]:
        """The same by the calls of the step."""
        step = self._found.step
        frees = [n for n, call in enumerate(step.calls) if place in call.frees]
        allocates = [n for n, call in enumerate(step.calls) if place in call.allocates]
        after = len(self._calls) if freed is None or freed >= len(self._starts) else self._before(self._starts[freed])
        if frees != ([] if freed is None else [after - 1]):
            yield f"freed in the step: {name}, {frees} for {after - 1}"
        if made is None:
            return
        first, end = (self._before(moment) for moment in (self._ops[made].start_ns, self._ops[made].end_ns))
        returned = next(
            (n for n, call in enumerate(step.calls) if any(step.tensors[one].storage == place for one in call.outputs)),
            None,
        )
        where = allocates or [returned]
        if step.storages[place].given or not first <= (where[0] if where[0] is not None else -1) < max(end, first + 1):
            yield f"made in the step: {name}, {where} for {first} to {end}"

    def _before(self, moment: int) -> int:
        """How many calls of the step began before."""
        return bisect.bisect_left(self._calls, moment)
