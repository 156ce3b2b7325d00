"""A small reader of CPU traces for the resolver's tests, independent of the readers under ingest/."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerneldb.replay.plan.evidence import Trace
from kerneldb.replay.wire.plan import CallSpec, OpCall

# Operators that only make or view tensors: which of them run below a call depends on the caller's flags.
VIEWS = frozenset({
    "as_strided", "as_strided_", "view", "_unsafe_view", "_reshape_alias", "reshape", "expand", "expand_as",
    "permute", "transpose", "transpose_", "t", "t_", "unsqueeze", "unsqueeze_", "squeeze", "squeeze_", "select",
    "slice", "narrow", "split", "split_with_sizes", "chunk", "unbind", "unfold", "alias", "detach", "detach_",
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_", "set_",
    "lift_fresh", "resolve_conj", "resolve_neg", "result_type", "numpy_T", "view_as", "flatten", "unflatten",
    "movedim", "swapaxes", "swapdims", "diagonal", "real", "imag", "view_as_real", "view_as_complex", "is_nonzero",
    "size", "broadcast_to", "lift", "can_cast", "conj", "_conj", "is_same_size", "output_nr", "_fused_sdp_choice",
})  # fmt: skip


@dataclass(frozen=True)
class Event:
    """A recorded operator: its call, the index of the one around it, and its id shared with the Execution Trace."""

    call: OpCall
    parent: int | None
    record_id: int | None


def read_events(path: Path, categories: tuple[str, ...] = ("cpu_op",)) -> list[Event]:
    """Operators of a trace in start order, nested by their times on each thread."""
    import orjson  # not where GPUs are, which only need `nested`

    raw = [one for one in orjson.loads(path.read_bytes())["traceEvents"] if one.get("cat") in categories]
    return nested([one for one in raw if one.get("ph") == "X"])


def nested(events: list[dict[str, Any]]) -> list[Event]:
    """These trace events in start order (stable), each with the one around it on its thread."""
    raw = sorted(events, key=lambda one: one["ts"])
    by_thread = sorted(
        range(len(raw)), key=lambda index: (str(raw[index]["tid"]), raw[index]["ts"], -raw[index]["dur"])
    )
    parents: list[int | None] = [None] * len(raw)
    stack: list[int] = []
    for index in by_thread:
        while stack and not _holds(raw[stack[-1]], raw[index]):
            stack.pop()
        parents[index] = stack[-1] if stack else None
        stack.append(index)
    return [_event(one, parent) for one, parent in zip(raw, parents, strict=True)]


def _holds(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    return bool(outer["tid"] == inner["tid"] and inner["ts"] < outer["ts"] + outer["dur"])


def _event(one: dict[str, Any], parent: int | None) -> Event:
    args = one.get("args", {})
    return Event(op_call(one["name"], args), parent, args.get("Record function id"))


def op_call(name: str, args: dict[str, Any]) -> OpCall:
    """The columns of op_calls from the arguments of an event."""
    names = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
    return OpCall(name, *(json.dumps(args[field]) if field in args else None for field in names))


def as_trace(events: list[Event]) -> Trace:
    return Trace([one.call for one in events], [one.parent for one in events])


def shapes(call: OpCall) -> tuple[str, str | None, str | None]:
    """Name, dims and dtypes: what the rerun of a call must reproduce in its children."""
    return call.op, call.input_dims, call.input_dtypes


def computing(spec: CallSpec) -> Counter[tuple[str, str | None, str | None]]:
    """Children that compute, as a multiset."""
    found: Counter[tuple[str, str | None, str | None]] = Counter()
    for child in spec.children:
        namespace, _, short = child.call.op.rpartition("::")
        if namespace and short not in VIEWS:
            found[shapes(child.call)] += child.times
    return found


def is_leaf(spec: CallSpec) -> bool:
    """Whether the call computes itself: on a GPU, its kernels are its own."""
    return not computing(spec) and spec.call.op.rpartition("::")[2] not in VIEWS
