"""What the calls of a replayed step come from: the operators of a window of a trace, with their tensors."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import step_jobs
from kerneldb.api.queries import rows
from kerneldb.api.recorded import filled
from kerneldb.errors import UsageError
from kerneldb.replay.steps import memory as memories
from kerneldb.replay.steps.addresses import Moment
from kerneldb.replay.steps.plan import owners

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerneldb.api.queries import Connection, Row
    from kerneldb.api.recorded import Recorded
    from kerneldb.replay.steps.memory import Memory
    from kerneldb.replay.wire.plan import CallSpec, OpCall

NO_TENSORS: Final = (
    "recorded without an Execution Trace, which says what its operators share; record it again with: kerneldb record, "
    "or have it inferred from dims where PyTorch is installed: pip install 'kerneldb[replay]'"
)
LINKED: Final = "linked"


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call of an iteration as it is read: its operator, when its first launch was called, and its launches in order.

    `alias` tells calls apart whose launches do not: those of a graph.
    """

    op_id: int | None
    called_ns: int
    launches: tuple[Row, ...]
    alias: str = ""

    @property
    def key(self) -> str:
        """What makes it the same call as another one: the signatures of its launches in order."""
        signatures = " ".join(one["signature_id"] for one in self.launches)
        return f"{signatures} as {self.alias}" if self.alias else signatures


class Source:
    """The operators of a window of a trace, of which the calls of a step are some.

    `window`: `from_ns` and `until_ns` on the host.
    """

    def __init__(self, con: Connection, recorded: Recorded, trace_id: str, trace: str, window: Row) -> None:
        self._con = con
        self._recorded = recorded
        self.trace_id, self.trace = trace_id, trace
        self.window = {"trace_id": trace_id, **window}
        read = rows(con, "step_ops", self.window)
        self._ops = [op_of(one) for one in read]
        self._by_id = {op.op_id: op for op in self._ops}
        self._forward = {one["op_id"]: one["forward_op_id"] for one in read}
        self._call_ids = {one["op_id"]: one["call_id"] for one in read}
        self._parents = {op.op_id: op.parent for op in self._ops}
        self.exchanges = step_jobs.exchanges(con, trace_id, self.window)

    def calls(self, launches: Sequence[Row], *, of_graph: bool = False) -> list[Call]:
        """The calls of launches, in the order of their first one. Those of a graph tell apart by sizes, too."""
        linked = [one for one in launches if one["launch_status"] == LINKED and one["op_id"] in self._parents]
        known = {op.op_id: _can_be_called(op.name) for op in self._ops}
        outer = owners((one["op_id"] for one in linked), self._parents, known)
        groups: dict[Any, list[Row]] = defaultdict(list)
        for number, one in enumerate(launches):
            op = outer.get(one["op_id"]) if one["launch_status"] == LINKED else None
            groups[("op", op) if op is not None else ("launch", number)].append(one)
        return [
            Call(
                key[1] if key[0] == "op" else None,
                group[0]["called_ns"],
                tuple(group),
                str(self._call_ids[key[1]]) if of_graph and key[0] == "op" else "",
            )
            for key, group in groups.items()
        ]

    def spec(self, op_id: int) -> CallSpec:
        """The call of an operator, with the lists that the profiler drops as the Execution Trace has them."""
        found = self._recorded.spec(self.trace_id, op_id)
        op = self._by_id[op_id]
        return dataclasses.replace(found, call=completed(found.call, op.inputs))

    def has_tensors(self) -> bool:
        """Whether an Execution Trace tells the tensors of any operator."""
        return any(op.inputs or op.outputs for op in self._ops)

    def memory(self) -> tuple[Memory, Any]:
        """The allocations of the iteration, and how they are known."""
        traced = self.has_tensors()
        events = moments(self._con, self.window, host=False)
        if not traced:
            found = self._inferred()
            memories.settle(found, events)
            return found, "inferred from dims"
        found, told = memories.recalled(self._ops, earlier(self._con, self.window), events, host=False)
        return found, "execution trace and memory events" if told else "execution trace"

    def _inferred(self) -> Memory:
        """The same without an Execution Trace. Raises UsageError where there is no PyTorch, or no dims are recorded."""
        try:
            from kerneldb.replay.steps.flow import inferred
            from kerneldb.replay.steps.insides import SEMANTICS
            from kerneldb.replay.steps.tensors import Recorded as Operator
        except ImportError as error:
            raise UsageError(f"{self.trace}: {NO_TENSORS}") from error
        calls = [self._recorded.call(self.trace_id, op.op_id) for op in self._ops]
        if not any(one.input_dims for one in calls):
            raise UsageError(f"{self.trace}: {NO_TENSORS}")
        pairs = zip(self._ops, calls, strict=True)
        return inferred(
            [
                Operator(op.op_id, op.parent, op.start_ns, op.end_ns, call, self._forward[op.op_id])
                for op, call in pairs
            ],
            SEMANTICS,
        )


def _can_be_called(name: str) -> bool:
    return "::" in name and not name.startswith(("autograd::", "torch::"))


def op_of(row: Row) -> memories.Op:
    """The operator of a row of `step_ops`, with its tensors."""
    outputs = tuple(one for argument in memories.views(row["outputs"]) for one in argument if one is not None)
    inputs = memories.views(row["inputs"])
    end = max(row["end_ns"], row["start_ns"] + 1)
    return memories.Op(row["op_id"], row["parent_id"], row["start_ns"], end, row["name"] or "", inputs, outputs)


def earlier(con: Connection, window: Mapping[str, Any]) -> list[memories.Op]:
    """The operators of as long a time before a window, with their tensors."""
    start = int(window["from_ns"])
    before = {"from_ns": max(0, 2 * start - int(window["until_ns"])), "until_ns": start - 1}
    return [op_of(one) for one in rows(con, "step_ops", {**window, **before}) if one["inputs"] or one["outputs"]]


def moments(con: Connection, window: Mapping[str, Any], *, host: bool) -> list[Moment]:
    """The memory events of a trace up to the end of a window, on devices or in host memory."""
    asked = {"trace_id": window["trace_id"], "until_ns": window["until_ns"], "host": host}
    return [filled(Moment, one) for one in rows(con, "step_memory", asked)]


def borrowed(launches: Sequence[Row], calls: Sequence[Call]) -> list[Call]:
    """Launches of a graph, in order, as calls of an eager iteration with the same kernels; those without one alone."""
    flat = [(call, one) for call in calls for one in call.launches]
    matcher = difflib.SequenceMatcher(None, [_kind(one) for _, one in flat], list(map(_kind, launches)), autojunk=False)
    partners: dict[int, list[Row]] = defaultdict(list)
    made, taken, last_ns = list[Call](), set[int](), 0
    named = {id(call): call for call in calls}
    moments: dict[int, int] = {}
    for first, second, count in matcher.get_matching_blocks():
        for offset in range(count):
            call = flat[first + offset][0]
            partners[id(call)].append(launches[second + offset])
            taken.add(second + offset)
            moments[second + offset] = call.called_ns
    for number, one in enumerate(launches):
        last_ns = moments.get(number, last_ns)
        if number not in taken:
            made.append(Call(None, last_ns + 1, (one,)))
    whole = [(named[key], some) for key, some in partners.items()]
    made += [Call(call.op_id, call.called_ns, tuple(some), call.key) for call, some in whole]
    return sorted(made, key=lambda call: call.called_ns)


def _kind(one: Row) -> tuple[Any, ...]:
    return tuple(one[name] for name in ("kind", "name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"))


def completed(call: OpCall, inputs: Sequence[Sequence[memories.View | None]]) -> OpCall:
    """A call with dims and strides of the tensor lists that the profiler left out: of more than 30 entries."""
    if not call.input_dtypes or '"TensorList"' not in call.input_dtypes:
        return call
    kinds, dims, strides = (
        json.loads(text or "[]") for text in (call.input_dtypes, call.input_dims, call.input_strides)
    )
    if len(dims) != len(kinds):
        return call
    strides = strides if len(strides) == len(kinds) else [[] for _ in kinds]
    for place, (kind, views) in enumerate(zip(kinds, inputs, strict=False)):
        known = [one for one in views if one is not None]
        if kind == "TensorList" and not dims[place] and known:
            dims[place] = [list(one.dims) for one in known]
            strides[place] = [list(one.strides) for one in known]
    return dataclasses.replace(call, input_dims=json.dumps(dims), input_strides=json.dumps(strides))
