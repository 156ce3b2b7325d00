"""Lists of convolutions, pools and reductions where a trace has no values of lists, as those of torch before 2.1.

What a window (kernel, stride, padding) must be follows from the dims before and after it; the result is what the next
calls take, or the gradient. Of several that fit, the usual one: the kernels that come out show whether it was that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.tensors import Shape
from kerneldb.replay.resolve.values import Known

Axis = tuple[int, int, int]
"""Kernel, stride and padding along one dim."""
POOLS: Final[tuple[Axis, ...]] = ((3, 2, 1), (2, 2, 0), (3, 1, 1), (3, 2, 0))
IMAGES: Final = 4


def unrecorded(known: Known, name: str) -> list[list[int]]:
    """The values that the list `name` of integers may have had, best first; none where nothing tells."""
    if name == "output_mask":
        return [[True, True, True]]
    if name == "dim":
        rank = len(known.dims("self"))
        return [[2, 3]] if rank == IMAGES else [[0], [-1]] if rank else []
    found = _window(known).get(name)
    return [] if found is None else [found]


def channels(known: Known) -> int:
    """Channels of the input."""
    return known.size("input" if known.dims("input") else "self", 1)


def _window(known: Known) -> dict[str, list[int]]:
    """The lists of a window by name; none of transposed and adaptive ones, whose windows the dims do not tell."""
    sizes, weight = known.first("input", "self")[2:], known.dims("weight")[2:]
    is_pool = "pool" in known.op and "adaptive" not in known.op
    if not sizes or "transpose" in known.op or not (is_pool or len(weight) == len(sizes)):
        return {}
    kernels: tuple[int | None, ...] = (None,) * len(sizes) if is_pool else weight
    results = _result(known) or (None,) * len(sizes)
    axes = [_axis(*one) for one in zip(sizes, kernels, results, strict=True)]
    return {
        "kernel_size": [kernel for kernel, _, _ in axes],
        "stride": [stride for _, stride, _ in axes],
        "padding": [padding for _, _, padding in axes],
        "dilation": [1] * len(axes),
        "output_padding": [0] * len(axes),
    }


def _result(known: Known) -> Shape | None:
    """Sizes of the result: those of its gradient, else of the first tensor near that has its batch and channels."""
    given, weight = known.first("input", "self"), known.dims("weight")
    made = weight[0] if weight else given[1]
    near = (one.dims for call in known.near for one in recorded.or_none(call) if one.is_tensor)
    fitting = (one for one in near if len(one) == len(given) and one[:2] == (given[0], made))
    return (known.dims("grad_output") or next(fitting, ()))[2:] or None


def _axis(size: int, kernel: int | None, result: int | None) -> Axis:
    """The usual window that makes `result` of `size` elements; the most usual one where none does."""
    usual = list(_pools() if kernel is None else _convolutions(kernel))
    made = (one for one in usual if (size + 2 * one[2] - one[0]) // one[1] + 1 == result)
    return next(made, usual[0])


def _pools() -> Iterator[Axis]:
    yield from POOLS
    yield from ((kernel, kernel, 0) for kernel in range(3, 17))


def _convolutions(kernel: int) -> Iterator[Axis]:
    """Those of networks first: of the same size, cut, halved, and patches; then any."""
    same = max(kernel - 1, 0) // 2
    yield from ((kernel, stride, padding) for stride in (1, 2) for padding in (same, 0))
    yield kernel, max(kernel, 1), 0
    yield from ((kernel, stride, padding) for stride in range(1, min(kernel, 16)) for padding in range(same, -1, -1))
