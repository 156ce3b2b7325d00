"""How one tensor is a view of another: as permutes, reshapes, slices and expands, which a compiler can fuse.

A recorded step says what a tensor is (storage, offset, dims, strides), and not which views made it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from kerneldb.replay.wire.steps import Tensor

Move = tuple[str, tuple[Any, ...]]
"""An operator of aten by overload, and its arguments after the tensor."""


def contiguous(dims: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    return tuple(math.prod(dims[place + 1 :]) for place in range(len(dims)))


def is_contiguous(tensor: Tensor) -> bool:
    """Whether its elements lie in order without gaps; dims of size 1 may have any stride."""
    pairs = zip(tensor.dims, tensor.strides, contiguous(tensor.dims), strict=True)
    return all(size == 1 or stride == wanted for size, stride, wanted in pairs)


def in_memory_order(tensor: Tensor) -> list[int]:
    """The dims of a tensor by stride, largest first."""
    return sorted(range(len(tensor.dims)), key=lambda one: (-tensor.strides[one], -tensor.dims[one], one))


def dense(tensor: Tensor) -> bool:
    """Whether a permutation of it is contiguous."""
    order = in_memory_order(tensor)
    dims, strides = [tensor.dims[one] for one in order], tuple(tensor.strides[one] for one in order)
    return is_contiguous(Tensor(0, tuple(dims), strides))


def moves(base: Tensor, target: Tensor) -> list[Move]:
    """The operators that make `target` of `base`, which has all of the storage that it needs."""
    same = math.prod(base.dims) == math.prod(target.dims) and base.offset == target.offset
    if same and is_contiguous(base) and is_contiguous(target):
        return [("view.default", (list(target.dims),))]
    try:
        return [*_flat(base), *_cut(base, target)]
    except ValueError:
        return [("as_strided.default", (list(target.dims), list(target.strides), target.offset))]


def _flat(base: Tensor) -> Iterator[Move]:
    if not dense(base):
        raise ValueError(base)
    order = in_memory_order(base)
    if order != sorted(order):
        yield "permute.default", (order,)
    yield "view.default", ([-1],)


def _cut(base: Tensor, target: Tensor) -> Iterator[Move]:
    """From the elements in memory order to the target. Raises ValueError where it is no regular grid of them."""
    kept = [one for one in in_memory_order(target) if target.dims[one] != 1 and target.strides[one]]
    strides, rest = [target.strides[one] for one in kept], target.offset - base.offset
    above = [math.prod(base.dims), *strides]
    sizes = [divmod(big, small) for big, small in zip(above, [*strides, 1], strict=True)]
    if rest < 0 or any(left or not size for size, left in sizes):
        raise ValueError(target)
    yield "view.default", ([size for size, _ in sizes],)
    for place, (full, stride) in enumerate(zip((size for size, _ in sizes), [*strides, 1], strict=True)):
        wanted = target.dims[kept[place]] if place < len(kept) else 1
        first, rest = divmod(rest, stride)
        if first + wanted > full:
            raise ValueError(target)
        if wanted != full:
            yield "slice.Tensor", (place, first, first + wanted)
    yield "squeeze.dim", (len(kept),)
    order = sorted(range(len(kept)), key=lambda one: kept[one])
    if order != sorted(order):
        yield "permute.default", (order,)
    for place in range(len(target.dims)):
        if place not in kept:
            yield "unsqueeze.default", (place,)
    if any(size != 1 and not stride for size, stride in zip(target.dims, target.strides, strict=True)):
        yield "expand.default", (list(target.dims),)
