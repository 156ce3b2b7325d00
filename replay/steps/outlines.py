"""What a recorded operator returns: the call is made on torch's `meta` device, where tensors have no values.

That gives the dims, strides and dtype of its results, and which of them are views of an argument, or that itself.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.errors import FAILURES
from kerneldb.replay.resolve import BuiltCall, resolved_calls
from kerneldb.replay.resolve.tensors import tensors
from kerneldb.replay.wire.plan import CallSpec, OpCall

TRIES: Final = 3
KNOWN: Final = 1 << 16
DEVICE: Final = "meta"


@dataclass(frozen=True, slots=True)
class Result:
    """A tensor that a call returns; `of`: the argument, and its entry in a list, that it is a view of, or `same` as."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset: int = 0
    of: tuple[int, int] | None = None
    same: bool = False


@dataclass(frozen=True, slots=True)
class Outline:
    """What a call returns; `written` are the arguments that it changes, `names` those of all."""

    results: tuple[Result, ...] = ()
    written: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()


@functools.lru_cache(maxsize=KNOWN)
def outline(call: OpCall) -> Outline | None:
    """What a call returns; None where torch does not know it, or what it returns depends on values."""
    try:
        for resolved in itertools.islice(resolved_calls(CallSpec(call), DEVICE, hidden=False), TRIES):
            try:
                built = resolved.build(DEVICE)
                results = tuple(_results(built, built.call()))
            except FAILURES:
                continue
            parameters = resolved.overload.parameters
            written = frozenset(place for place, one in enumerate(parameters) if one.written)
            return Outline(results, written, tuple(one.name for one in parameters))
    except FAILURES:
        return None
    return None


def _results(built: BuiltCall, result: Any) -> Iterator[Result]:
    known = list(given(built))
    for one in tensors(result):
        place = next((place for place, tensor in known if tensor is one), None)
        same = place is not None
        if place is None:
            owner = one.untyped_storage()._cdata
            place = next((place for place, tensor in known if tensor.untyped_storage()._cdata == owner), None)
        dtype = str(one.dtype).removeprefix("torch.")
        yield Result(tuple(one.shape), tuple(one.stride()), dtype, int(one.storage_offset()), place, same)


def given(built: BuiltCall) -> Iterator[tuple[tuple[int, int], Any]]:
    """The tensors of a call, each with the argument, and its entry in a list, that it is."""
    positions = iter(built.args)
    for place, parameter in enumerate(built.resolved.overload.parameters[: len(built.resolved.values)]):
        value = built.kwargs.get(parameter.name) if parameter.keyword else next(positions, None)
        yield from (((place, entry), one) for entry, one in enumerate(tensors(value)))
