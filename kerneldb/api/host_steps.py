"""Recorded iterations of programs on a CPU, which launch nothing: their calls are the innermost operators that work."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Final

from kerneldb.api.queries import rows
from kerneldb.api.recorded import Recorded, filled
from kerneldb.api.stepping import completed, op_of
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
    from collections.abc import Iterator, Sequence

    from kerneldb.api.queries import Connection, Row
    from kerneldb.replay.steps.memory import Op

WHOLE: Final = frozenset(
    {
        "mean", "linalg_vector_norm", "_fused_adamw_", "_fused_adam_", "_embedding_bag", "_embedding_bag_forward_only",
        "addmm", "baddbmm",
    }
)  # fmt: skip
"""Operators that are one call though they call others that work."""
COPY: Final = "copy_"
PERHAPS: Final = frozenset({"to", "contiguous", "_to_copy", "clone"})
"""Operators that copy, or do nothing: what they call says which."""
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
    window = {name: row[name] for name in ("trace_id", "from_ns", "until_ns")}
    ops = [op_of(one) for one in rows(con, "step_ops", window)]
    if not any(one.inputs or one.outputs for one in ops):
        raise UsageError(f"{row['trace']}: {NO_TENSORS}")
    recorded = Recorded(con)
    specs = {op.op_id: _spec(recorded, row["trace_id"], op) for op in working(ops)}
    units = [_unit(op, specs[op.op_id]) for op in ops if op.op_id in specs]
    found = memories.traced(ops)
    asked = {"trace_id": row["trace_id"], "from_ns": row["from_ns"], "host": True}
    memories.settle(found, [filled(memories.Moment, one) for one in rows(con, "step_memory", asked)], host=True)
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


def working(ops: Sequence[Op]) -> Iterator[Op]:
    """The innermost operators that do more than describe memory; some that are made of others count as one."""
    children: dict[int | None, list[Op]] = {}
    for op in ops:
        children.setdefault(op.parent, []).append(op)
    known = {op.op_id for op in ops}
    work: dict[int, bool] = {}
    for op in reversed(ops):  # those inside others begin after them
        below = any(work.get(one.op_id, False) for one in children.get(op.op_id, ()))
        number = _short(op.name) == COPY and op.outputs and not op.outputs[0].dims  # a plain number becomes a tensor
        work[op.op_id] = below or (_works(op.name) and not number)
    above = [op for op in ops if op.parent not in known]
    while above:
        op = above.pop()
        inner = [one for one in children.get(op.op_id, ()) if work[one.op_id]]
        if _works(op.name) and (not inner or _short(op.name) in WHOLE):
            yield op
        else:
            above += inner


def _short(name: str) -> str:
    return name.rsplit("::", 1)[-1]


def _works(name: str) -> bool:
    plain = "::" in name and not name.startswith(("autograd::", "torch::", "profiler::"))
    return plain and _short(name) not in WITHOUT_WORK | PERHAPS


def _spec(recorded: Recorded, trace_id: str, op: Op) -> CallSpec:
    found = recorded.spec(trace_id, op.op_id)
    return dataclasses.replace(found, call=completed(found.call, op.inputs))


def _unit(op: Op, spec: CallSpec) -> Unit:
    call = spec.call
    text = json.dumps(dataclasses.asdict(call), sort_keys=True, default=str)
    return Unit(content_id("h1", text), op.op_id, op.start_ns, 0, (op.end_ns - op.start_ns,))
