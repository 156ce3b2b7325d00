"""Recorded iterations of programs on a CPU, which launch nothing: their calls are the innermost operators that work."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Final

from kerneldb.api.queries import rows
from kerneldb.api.recorded import Recorded
from kerneldb.api.step_source import completed, earlier, moments, op_of
from kerneldb.errors import UsageError
from kerneldb.ids import content_id
from kerneldb.replay import routes
from kerneldb.replay.plan.work import Work
from kerneldb.replay.routes.base import WITHOUT_WORK
from kerneldb.replay.steps import memory as memories
from kerneldb.replay.steps.plan import Builder, Unit
from kerneldb.replay.wire.plan import CallSpec, Item
from kerneldb.replay.wire.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerneldb.api.queries import Connection, Row
    from kerneldb.replay.steps.memory import Memory, Op

WHOLE: Final = frozenset(
    {
        "mean", "linalg_vector_norm", "_fused_adamw_", "_fused_adam_", "_embedding_bag", "_embedding_bag_forward_only",
        "sort", "histc",
    }
)  # fmt: skip
"""Operators that are one call though what they call seems to be all that they do."""
WINDOW: Final = ("trace_id", "from_ns", "until_ns")
COPY: Final = "copy_"
PREPARES: Final = frozenset({COPY, "fill_", "zero_"})
"""What an operator that computes itself calls before and after."""
PERHAPS: Final = frozenset({"to", "contiguous", "_to_copy", "clone", "type_as"})
"""Operators that copy, or do nothing: what they call says which."""
MADE_OF: Final = PERHAPS | frozenset({
    "constant_pad_nd", "copy", "diagonal_backward", "flatten", "_foreach_copy_", "_foreach_zero_", "full", "full_like",
    "new_full", "new_ones", "new_zeros", "ones", "ones_like", "pad", "repeat", "repeat_interleave", "reshape",
    "reshape_as", "scalar_tensor", "select_backward", "slice_backward", "tile", "zero_", "zeros", "zeros_like",
})  # fmt: skip
"""Operators that copy and fill, and do nothing else."""
NO_TENSORS: Final = (
    "recorded without an Execution Trace, which says what its operators share; record it again with: kerneldb record"
)


@dataclasses.dataclass(frozen=True, slots=True)
class HostStep:
    """A step with its items, and the moments in which its calls began."""

    step: Step
    items: tuple[Item, ...]
    moments: tuple[int, ...]
    window: Row


def read(con: Connection, row: Row) -> HostStep:
    """The iteration of a row of `host_iterations`. Raises UsageError without an Execution Trace."""
    window = {name: row[name] for name in WINDOW}
    ops, found = remembered(con, row)
    recorded = Recorded(con)
    specs = {op.op_id: _spec(recorded, row["trace_id"], op) for op in working(ops)}
    units = [_unit(op, specs[op.op_id]) for op in ops if op.op_id in specs]
    parts = Builder(found, units).parts()
    by_item = {unit.item: unit for unit in units}
    works = [Work(name, (), "OTHER", specs[unit.op_id or 0]) for name, unit in by_item.items()]
    items = tuple(one.item for one in routes.decide(works, recorded) if one.item is not None)
    span = max(one.end_ns for one in ops) - min(one.start_ns for one in ops)
    step = Step(
        content_id("st1", row["trace_id"], row["label"], str(len(units))), row["trace"], row["trace_id"],
        "execution trace and memory events", tuple(parts.storages), tuple(parts.tensors), tuple(parts.calls),
        iteration=row["label"], span_ns=span, busy_ns=sum(sum(one.recorded_ns) for one in units),
    )  # fmt: skip
    return HostStep(step, items, tuple(sorted(one.start_ns for one in units)), window)


def remembered(con: Connection, row: Row) -> tuple[list[Op], Memory]:
    """The operators of an iteration, and their memory. Raises UsageError without an Execution Trace."""
    ops = [op_of(one) for one in rows(con, "step_ops", {name: row[name] for name in WINDOW})]
    if not any(one.inputs or one.outputs for one in ops):
        raise UsageError(f"{row['trace']}: {NO_TENSORS}")
    window = {name: row[name] for name in WINDOW}
    return ops, memories.recalled(ops, earlier(con, window), moments(con, window, host=True), host=True)[0]


def working(ops: Sequence[Op]) -> Iterator[Op]:
    """The innermost operators that compute; what these call to prepare it, such as copies, is theirs."""
    known = {op.op_id: op for op in ops}
    calls: dict[int | None, list[Op]] = {}
    for op in reversed(ops):  # those inside others begin after them
        below = calls.pop(op.op_id, [])
        found = [op] if _is_call(op, below[::-1], known) else below[::-1]
        calls.setdefault(op.parent if op.parent in known else None, []).extend(reversed(found))
    return reversed(calls.get(None, []))


def _is_call(op: Op, below: Sequence[Op], known: Mapping[int, Op]) -> bool:
    """Whether an operator is a call itself, and what it calls part of it."""
    if not _works(op.name):
        return False
    if not below:
        return _short(op.name) not in PERHAPS and not _is_number(op, known) and not _hands_on(op)
    return _short(op.name) in WHOLE or (_short(op.name) not in MADE_OF and _computes(op, below))


def _is_number(op: Op, known: Mapping[int, Op]) -> bool:
    """Whether it makes a tensor of a plain number for an operator around it."""
    if _short(op.name) != COPY or not op.outputs or op.outputs[0].dims:
        return False
    around = known.get(op.parent) if op.parent is not None else None
    while around is not None:
        if _works(around.name) and _short(around.name) not in MADE_OF:
            return True
        around = known.get(around.parent) if around.parent is not None else None
    return False


def _computes(op: Op, below: Sequence[Op]) -> bool:
    """Whether an operator does more than it calls: these only prepare, or what it returns is not from them.

    It also does where one of them goes on with a result that none before has written.
    """
    results = {one.storage for one in op.outputs}
    own = results - {one.storage for one in op.taken()}
    written, computed = set[int](), set[int]()
    for one in below:
        took, gave = ({view.storage for view in some} for some in (one.taken(), one.outputs))
        prepares = _short(one.name) in PREPARES
        if not prepares and took & own - written:
            return True
        written |= gave
        if not prepares or (took - gave) & computed:  # a copy of what was computed
            computed |= gave
    only_prepares = all(_short(one.name) in PREPARES for one in below)
    return only_prepares or bool(results and not results & computed)


def _hands_on(op: Op) -> bool:
    """Whether it only returns its first tensor, or a view of it, as `dropout` does outside of training.

    What writes into a tensor is called so (`add_`), or takes it last, as its result.
    """
    took = [one.storage for one in op.taken()]
    same = {one.storage for one in op.outputs} == set(took[:1])
    return same and took.count(took[0]) == 1 and not op.name.endswith("_")


def _short(name: str) -> str:
    return name.rsplit("::", 1)[-1]


def _works(name: str) -> bool:
    plain = "::" in name and not name.startswith(("autograd::", "torch::", "profiler::"))
    return plain and _short(name) not in WITHOUT_WORK


def _spec(recorded: Recorded, trace_id: str, op: Op) -> CallSpec:
    found = recorded.spec(trace_id, op.op_id)
    return dataclasses.replace(found, call=completed(found.call, op.inputs))


def _unit(op: Op, spec: CallSpec) -> Unit:
    call = spec.call
    text = json.dumps(dataclasses.asdict(call), sort_keys=True, default=str)
    return Unit(content_id("h1", text), op.op_id, op.start_ns, 0, (op.end_ns - op.start_ns,))
