"""Sizes scaled by how far the time was off: the dims that the launch leaves open.

A persistent matrix product does not show K in its grid, a softmax or a reduction not its row length, a capped
concatenation not its tokens. What the grid does show (elements of elementwise kernels) is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.wire.plan import CallSpec

ROWWISE: Final = ("_softmax", "_log_softmax", "argmax", "argmin", "sum", "mean", "amax", "amin")
OPEN: Final = {
    **dict.fromkeys(("mm", "bmm"), ((0, -1), (1, -2))),
    **dict.fromkeys(("addmm", "baddbmm"), ((1, -1), (2, -2))),
    **dict.fromkeys(ROWWISE, ((0, -1),)),
}
"""Where the open dim stands: arguments, and their dims from the end."""
STEPS: Final = (64, 8)
LEAST: Final = 8
SAME: Final = 0.05


def scaled(spec: CallSpec, ratio: float) -> Iterator[tuple[CallSpec, str]]:
    """The call with its open dim `ratio` times as large, in steps that libraries like; nothing where no dim is open."""
    sides = OPEN.get(short_name(spec.call.op), ())
    dims = json.loads(spec.call.input_dims or "[]")
    if not sides or not all(_has_dims(dims, place, -axis) for place, axis in sides):
        return
    word = "K" if len(sides) > 1 else "row length"
    for size in _rounded(dims[sides[0][0]][-1], ratio):
        for place, axis in sides:
            dims[place][axis] = size
        yield _with(spec, dims), f"{word} {size} by time"


def _has_dims(dims: Sequence[Any], place: int, least: int) -> bool:
    """Whether the argument at `place` is a tensor of at least `least` dims; lists of tensors are not."""
    held = dims[place] if place < len(dims) else []
    return len(held) >= least and all(isinstance(one, int) for one in held)


def _rounded(size: int, ratio: float) -> list[int]:
    if abs(ratio - 1) < SAME or not size:
        return []
    sizes = (max(round(size * ratio / step) * step, LEAST) for step in STEPS)
    return [one for one in dict.fromkeys(sizes) if one != size]


def _with(spec: CallSpec, dims: Sequence[Any]) -> CallSpec:
    """The same call with other dims, whose strides keep their order; without strides where none were recorded."""
    strides = json.loads(spec.call.input_strides or "[]")
    known = len(strides) == len(dims)
    made = json.dumps([_strides(one, two) for one, two in zip(dims, strides, strict=True)]) if known else None
    call = replace(spec.call, input_dims=json.dumps(dims), input_strides=made)
    return replace(spec, call=call, children=(), neighbours=())


def _strides(dims: Any, strides: Any) -> Any:
    """Dense strides in the order of the given ones."""
    if not dims or not strides or isinstance(dims[0], list):
        return strides
    order = sorted(range(len(dims)), key=lambda place: (strides[place], -place))
    made, step = [0] * len(dims), 1
    for place in order:
        made[place] = step if strides[place] else 0
        step *= dims[place] if strides[place] else 1
    return made
