"""What PyTorch does inside a recorded call: it is made on the `meta` device, and watched below autograd.

Of a forward call these are the operators that it is composed of; of a node of the backward graph those that its formula
is composed of, with the tensors that were saved for it. Both follow from dims, strides, dtypes and numbers alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kerneldb.replay.errors import FAILURES
from kerneldb.replay.resolve import BuiltCall, resolved_calls
from kerneldb.replay.resolve.tensors import Shape, tensors
from kerneldb.replay.steps.outlines import DEVICE, KNOWN, TRIES, given, outline
from kerneldb.replay.steps.templates import Did, Inside, Semantics, Slot, Source
from kerneldb.replay.steps.tensors import wanted_of
from kerneldb.replay.wire.plan import CallSpec, OpCall

MOST: Final = 4096
"""Operators of a template."""


class Watch(TorchDispatchMode):  # type: ignore[misc]  # torch does not say what it is
    """Notes the operators that run, and which tensors of theirs were known or made by one before."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Did] = []
        self._known: dict[tuple[Any, ...], Source] = {}
        self._held: list[Any] = []

    def know(self, tensor: Any, source: Source) -> None:
        """Tell where a tensor is from."""
        self._held.append(tensor)  # else another storage may get its address
        self._known[_identity(tensor)] = source

    def source(self, tensor: Any) -> Source | None:
        """Where a tensor is from; None where that is not known."""
        return self._known.get(_identity(tensor))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and note it."""
        kwargs = kwargs or {}
        took = list(_in_order(func, args, kwargs))
        sources = tuple(self.source(one) for one in took)
        dims: tuple[Shape, ...] = tuple(tuple(one.shape) for one in took)
        result = func(*args, **kwargs)
        if len(self.ops) >= MOST:
            message = f"more than {MOST} operators"
            raise RuntimeError(message)
        self.ops.append(Did(func._schema.name, sources, dims, _mask(args)))
        for entry, one in enumerate(tensors(result)):
            self.know(one, Source("made", len(self.ops) - 1, entry))
        return result


def _identity(tensor: Any) -> tuple[Any, ...]:
    place = tensor.untyped_storage()._cdata, tensor.storage_offset()
    return *place, tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def _mask(args: Any) -> str:
    lists = (one for one in args if isinstance(one, list) and one)
    return next((str(one) for one in lists if all(isinstance(each, bool) for each in one)), "")


def _in_order(function: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """The tensors that an operator takes, in the order of its schema."""
    for place, argument in enumerate(function._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        yield from tensors(value)


@functools.lru_cache(maxsize=KNOWN)
def inside(call: OpCall) -> Inside | None:
    """The operators that a call is composed of; None where torch does not know it, or cannot make it so."""
    return _first(call, _inside)


def _inside(built: BuiltCall) -> Inside:
    watch = Watch()
    for (place, entry), tensor in given(built):
        watch.know(tensor, Source("argument", place, entry))
    with watch:
        result = built.call()
    return Inside(tuple(watch.ops), tuple(watch.source(one) for one in tensors(result)))


@functools.lru_cache(maxsize=KNOWN)
def node(call: OpCall, of_node: OpCall, needs: frozenset[Slot] | None) -> Inside | None:
    """What the backward node of a call does with the gradients that it was recorded with.

    Of the arguments in `needs`, else of all that can have one, gradients are made. None where that cannot be told.
    """
    return _first(call, lambda built: _node(built, of_node, needs))


def _node(built: BuiltCall, of_node: OpCall, needs: frozenset[Slot] | None) -> Inside | None:
    leaves = {
        slot: one.requires_grad_() for slot, one in given(built) if _can(one) and (needs is None or slot in needs)
    }
    if not leaves:
        return None
    with torch.enable_grad():
        tracked = {slot: one.clone() for slot, one in leaves.items()}
        copies = {id(leaves[slot]): one for slot, one in tracked.items()}
        args = _replaced(built.args, copies)
        kwargs = {name: _replaced(value, copies) for name, value in built.kwargs.items()}
        results = list(tensors(built.function(*args, **kwargs)))
    function = next((one.grad_fn for one in results if one.grad_fn is not None), None)
    nodes = {one.grad_fn: slot for slot, one in tracked.items()}
    if function is None:
        return None
    watch = Watch()
    for slot, one in given(built):
        watch.know(tracked.get(slot, one), Source("argument", *slot))
    for place, one in enumerate(results):
        watch.know(one, Source("result", place))
    gradients = list(_gradients(of_node, function, results))
    for place, one in enumerate(gradients):
        if one is not None:
            watch.know(one, Source("gradient", place))
    with torch.no_grad(), watch:
        made = function(*gradients)
    made = made if isinstance(made, tuple) else (made,)
    found = []
    for (above, _), one in zip(function.next_functions, made, strict=True):
        if above is not None and one is not None:
            if above not in nodes:
                return None
            found.append((nodes[above], watch.source(one)))
    return Inside(tuple(watch.ops), (), tuple(found))


def _can(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _replaced(value: Any, copies: dict[int, Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_replaced(one, copies) for one in value)
    return copies.get(id(value), value) if isinstance(value, torch.Tensor) else value


def _gradients(of_node: OpCall, function: Any, results: list[Any]) -> Iterator[Any]:
    """A gradient for each result that can have one, as the node was recorded with it; None where it had none."""
    wanted = list(wanted_of(of_node))
    made = {one.output_nr: one for one in results if one.grad_fn is not None}
    for place in range(len(function._input_metadata)):
        known = next(iter(wanted[place]), None) if place < len(wanted) else None
        result = made.get(place)
        if result is None or (known is None and any(wanted)):
            yield None
        elif known is None or known.dims != tuple(result.shape):
            yield torch.empty_like(result)
        else:
            yield torch.empty_strided(known.dims, known.strides, dtype=result.dtype, device=DEVICE)


def _first(call: OpCall, watched: Callable[[BuiltCall], Inside | None]) -> Inside | None:
    """What was watched of the first way to rebuild a call that can be made."""
    try:
        for resolved in itertools.islice(resolved_calls(CallSpec(call), DEVICE, hidden=False), TRIES):
            try:
                return watched(resolved.build(DEVICE))
            except FAILURES:
                continue
    except FAILURES:
        return None
    return None


SEMANTICS: Final = Semantics(outline, inside, node)
