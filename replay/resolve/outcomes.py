"""How many elements a call found: the length of a result that depends on values, from calls that took that result.

The profiler records no results. But `nonzero` of a mask is taken by the next call as [found, dims of the mask],
`masked_select` and `unique` as [found], and the calls below show as much where an operator is made of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.recorded import Argument
from kerneldb.replay.wire.plan import OpCall

INDEX: Final = "long int"

Reading = Callable[[Argument], int | None]
"""The length that an argument tells, if it is the result."""


def places(given: Argument) -> Reading:
    """Of the result of `nonzero` of `given`: [found, dims], or transposed."""

    def read(one: Argument) -> int | None:
        rank = len(given.dims)
        if one.kind == INDEX and len(one.dims) == 2 and rank in one.dims:  # noqa: PLR2004 (a matrix)
            return int(one.dims[0] if one.dims[1] == rank else one.dims[1])
        return None

    return read


def selected(kind: str) -> Reading:
    """Of a result of one dim and this dtype."""
    return lambda one: int(one.dims[0]) if one.kind == kind and len(one.dims) == 1 else None


def found(calls: Iterator[OpCall], read: Reading, most: int) -> int | None:
    """The first length of at most `most` that these calls tell; None where they tell none."""
    told = (read(one) for call in calls for one in recorded.or_none(call))
    return next((count for count in told if count is not None and count <= most), None)
