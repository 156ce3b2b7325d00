"""What happens inside an operator: the operators below it, and where each of them has its tensors from.

A template is what PyTorch does of a call when it is made here. The recorded operators are held against it, by name and
dims in their order; where they agree, it says which output is which input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from kerneldb.replay.resolve.tensors import Shape
from kerneldb.replay.steps.outlines import Outline
from kerneldb.replay.steps.tensors import Wanted, wanted_of
from kerneldb.replay.wire.plan import OpCall

AHEAD: Final = 40
"""So many recorded operators may stand between two of a template."""


class Source(NamedTuple):
    """Where a tensor is from: the argument `place` (its `entry`, in a list), or that of what another one returned."""

    of: Literal["argument", "result", "gradient", "made"]
    place: int
    entry: int = 0


class Did(NamedTuple):
    """An operator inside: its name, the tensors that it takes in order with their dims, each with its source.

    `mask` is a list of truths among its arguments, as the profiler prints it: which results are asked for.
    """

    name: str
    took: tuple[Source | None, ...]
    dims: tuple[Shape, ...]
    mask: str = ""


@dataclass(frozen=True, slots=True)
class Inside:
    """What happens inside a call, and what it returns; of a node, the gradients by the forward argument they are of."""

    ops: tuple[Did, ...] = ()
    returns: tuple[Source | None, ...] = ()
    gradients: tuple[tuple[tuple[int, int], Source | None], ...] = ()


Slot = tuple[int, int]
"""An argument, and its entry in a list."""


@dataclass(frozen=True, slots=True)
class Semantics:
    """What PyTorch does of a call: what it returns, what happens inside, and what its node does in the backward pass.

    `node` takes the forward call, that of the node, and the arguments that require gradients (None: all that may).
    """

    outline: Callable[[OpCall], Outline | None]
    inside: Callable[[OpCall], Inside | None]
    node: Callable[[OpCall, OpCall, frozenset[Slot] | None], Inside | None]


@dataclass(frozen=True, slots=True)
class Aligned:
    """A template beside recorded operators: `places` has the place in the template of each that was found."""

    template: Inside
    places: Mapping[int, int] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether all operators of the template were found."""
        return len(self.places) == len(self.template.ops)


class Tree:
    """The recorded operators below others, in order of time."""

    def __init__(self, calls: Mapping[int, OpCall], parents: Mapping[int, int | None]) -> None:
        self._calls = calls
        self._below: dict[int, list[int]] = {}
        for op_id, parent in parents.items():
            if parent is not None:
                self._below.setdefault(parent, []).append(op_id)

    def below(self, op_id: int) -> Sequence[int]:
        """The operators directly below one."""
        return self._below.get(op_id, ())

    def walk(self, op_id: int) -> Iterator[int]:
        """All operators below one, the outer ones first."""
        for one in self.below(op_id):
            yield one
            yield from self.walk(one)

    def outermost(self, op_id: int, chosen: Callable[[OpCall], bool]) -> Iterator[int]:
        """The operators below one that are chosen, and are not below another one that is."""
        for one in self.below(op_id):
            if chosen(self._calls[one]):
                yield one
            else:
                yield from self.outermost(one, chosen)

    def align(self, op_id: int, template: Inside) -> Aligned:
        """Find the operators of a template below a recorded one: each after the one before, not below it."""
        listed = list(self.walk(op_id))
        places: dict[int, int] = {}
        at = 0
        for place, did in enumerate(template.ops):
            found = next((n for n in range(at, min(at + AHEAD, len(listed))) if self._is(listed[n], did)), None)
            if found is None:
                continue
            places[listed[found]] = place
            at = found + 1 + sum(1 for _ in self.walk(listed[found]))
        return Aligned(template, places)

    def _is(self, op_id: int, did: Did) -> bool:
        call = self._calls[op_id]
        if call.op != did.name or (call.scalars is not None and did.mask not in call.scalars):
            return False
        dims = [one.dims for some in wanted_of(call) for one in some if one.dims]
        return dims == [one for one in did.dims if one] or not dims


def matched(did: Did, wanted: Sequence[Wanted]) -> list[Source | None]:
    """The sources of what a recorded operator takes; numbers that became tensors below have none."""
    if len(did.took) == len(wanted):
        return list(did.took)
    sources = iter([source for source, dims in zip(did.took, did.dims, strict=True) if dims])
    return [next(sources, None) if one.dims else None for one in wanted]
