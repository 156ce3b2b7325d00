"""Hand-made recorded calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kerneldb.replay.wire.plan import CallSpec, ChildCall, OpCall

Recorded = tuple[Any, Any, str, str]


def tensor(dims: Sequence[Any], kind: str = "float", strides: Sequence[Any] | None = None) -> Recorded:
    """A tensor argument; row-major strides unless told."""
    if strides is None:
        steps, step = [], 1
        for size in reversed(dims):
            steps.insert(0, step)
            step *= size
        strides = steps
    return list(dims), list(strides), kind, ""


def tensors(*dims: Sequence[int]) -> Recorded:
    """A tensor list of row-major tensors."""
    each = [tensor(one) for one in dims]
    return [one[0] for one in each], [one[1] for one in each], "TensorList", ""


def scalar(text: object) -> Recorded:
    return [], [], "Scalar", str(text)


def numbers(text: str) -> Recorded:
    return [], [], "ScalarList", text


ABSENT: Recorded = ([], [], "", "")


def op_call(op: str, *arguments: Recorded) -> OpCall:
    columns = [json.dumps([argument[place] for argument in arguments]) for place in range(4)]
    return OpCall(op, columns[0], columns[1], columns[2], columns[3])


def spec(
    op: str,
    *arguments: Recorded,
    below: Sequence[OpCall | ChildCall] = (),
    parent: OpCall | None = None,
    near: Sequence[OpCall] = (),
) -> CallSpec:
    """A call with evidence: calls made directly, the call around it, and calls near it."""
    children = tuple(child if isinstance(child, ChildCall) else ChildCall(child) for child in below)
    return CallSpec(op_call(op, *arguments), children, parent, tuple(ChildCall(call) for call in near))
