"""Lists of parameters: what is in them where operators go through them one by one, and which parameter each one is.

Parameters are listed in the order in which modules register them, which is mostly that of their use.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.resolve.tensors import Shape
from kerneldb.replay.steps.templates import Tree
from kerneldb.replay.steps.tensors import Recorded, wanted_of

LISTS, FUSED = "_foreach_", "_fused_"


class Lists:
    """The dims of what lists of operators hold, by operator."""

    def __init__(self, listed: Mapping[int, Recorded], tree: Tree) -> None:
        self._listed = listed
        self._tree = tree
        self._longest: tuple[Shape, ...] | None = None

    def entries(self, op_id: int) -> tuple[Shape, ...]:
        """The dims of the first list of an operator. A fused one does not show them: those of the longest list."""
        short = short_name(self._listed[op_id].call.op)
        if not short.startswith(FUSED):
            return self._below(op_id, short)
        if self._longest is None:
            named = ((one, short_name(each.call.op)) for one, each in self._listed.items())
            found = (self._below(one, name) for one, name in named if name.startswith(LISTS))
            self._longest = max((one for one in found if any(one)), key=len, default=())
        return self._longest

    def _below(self, op_id: int, short: str) -> tuple[Shape, ...]:
        """What operators of one tensor, into which one of lists falls apart, take first."""
        name = f"aten::{short.removeprefix(LISTS)}"
        calls = (self._listed[one].call for one in self._tree.outermost(op_id, lambda one: one.op == name))
        firsts = (next(itertools.chain.from_iterable(wanted_of(one)), None) for one in calls)
        return tuple(one.dims for one in firsts if one is not None)


def ordered(used: Sequence[Shape], listed: Sequence[Shape]) -> list[int | None]:
    """Which of the parameters, by their dims in order of use, each one of a list is; None for one that is none.

    The list goes on with what is used next to the one before, as modules have their parameters together.
    """
    left, found, after = set(range(len(used))), list[int | None](), 0
    for dims in listed:
        fits = (one for one in left if used[one] == dims)
        place = min(fits, key=lambda one: (abs(one - after), one), default=None)
        found.append(place)
        if place is not None:
            left.remove(place)
            after = place + 1
    return found
