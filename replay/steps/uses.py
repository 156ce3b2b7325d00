"""Which operator is the last one that takes a tensor, as the backward pass tells.

The node of an operator returns the gradients of what it took. Where a tensor has one already, from an operator after
it, both are added behind the node; so what is not added is of the last operator that takes the tensor. What a parameter
gets is kept at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kerneldb.replay.resolve.tensors import Shape
from kerneldb.replay.steps.templates import Aligned, Semantics, Slot, Tree, matched
from kerneldb.replay.steps.tensors import ACCUMULATES, EVALUATES, Recorded, Use, Wanted, wanted_of

ADDS: Final = frozenset({"aten::add", "aten::add_"})
FEW: Final = 4
"""Of so many arguments all subsets are tried."""


@dataclass(slots=True)
class Node:
    """A node of the backward graph: what is added behind it, what is kept, and the template that fits."""

    op_id: int
    forward: int
    added: Counter[Shape]
    kept: Counter[Shape]
    aligned: Aligned | None = None
    needs: frozenset[Slot] | None = None


class Uses:
    """The nodes of a backward pass, by the operators whose gradients they make."""

    def __init__(self, listed: Mapping[int, Recorded], tree: Tree, semantics: Semantics) -> None:
        self._listed = listed
        self._tree = tree
        self._semantics = semantics
        self._nodes: dict[int, Node] = {}
        self._of_forward: dict[int, Node] = {}
        self._read()

    @property
    def known(self) -> bool:
        """Whether there is a backward pass."""
        return bool(self._nodes)

    def of_node(self, op_id: int) -> Aligned | None:
        """The operators of a node beside their template."""
        node = self._nodes.get(op_id)
        return None if node is None else node.aligned

    def has_node(self, op_id: int) -> bool:
        """Whether a call, or one in it, has a node."""
        return op_id in self._of_forward or any(one in self._of_forward for one in self._tree.walk(op_id))

    def of_call(self, op_id: int, aligned: Aligned | None) -> dict[Slot, Use]:
        """The arguments of a call that have gradients. `aligned`: the operators in it beside their template."""
        found: dict[Slot, Use] = {}
        for one in (op_id, *self._tree.walk(op_id)):
            if one not in self._of_forward:
                continue
            place = None if aligned is None else aligned.places.get(one)
            own = dict(self._own(one))
            if one == op_id:
                found |= own
            elif aligned is not None and place is not None:
                slots = list(_slots(self._listed[one]))
                sources = matched(aligned.template.ops[place], [wanted for _, wanted in slots])
                for (slot, _), source in zip(slots, sources, strict=True):
                    if slot in own and source is not None and source.of == "argument":
                        before = found.get(source[1:], Use(last=False))
                        use = own[slot]
                        found[source[1:]] = Use(before.leaf or use.leaf, before.last or use.last)
        return found

    def _own(self, op_id: int) -> Iterator[tuple[Slot, Use]]:
        node = self._of_forward[op_id]
        added, kept = Counter(node.added), Counter(node.kept)
        for slot, wanted in sorted(_slots(self._listed[op_id]), key=lambda one: one[0]):
            if wanted.is_float and (node.needs is None or slot in node.needs):
                leaf, more = kept[wanted.dims] > 0, added[wanted.dims] > 0
                kept[wanted.dims] -= leaf
                added[wanted.dims] -= more
                yield slot, Use(leaf, not more)

    def _read(self) -> None:
        last: Node | None = None
        for op_id, one in self._listed.items():
            if not one.call.op.startswith(EVALUATES):
                continue
            below = self._tree.below(op_id)
            inner = next(
                (each for each in below if "::" not in self._name(each) or self._name(each) == ACCUMULATES), None
            )
            if inner is None:
                continue
            if self._name(inner) == ACCUMULATES:
                dims = next(itertools.chain.from_iterable(wanted_of(self._listed[inner].call)), None)
                if last is not None and dims is not None:
                    last.kept[dims.dims] += 1
                continue
            forward = self._listed[inner].forward
            forward = -1 if forward is None else forward
            added = Counter(dims for each in below if self._name(each) in ADDS for dims in self._dims(each)[:1])
            last = Node(inner, forward, added, Counter())
            self._nodes[inner] = last
            if forward in self._listed:
                self._of_forward[forward] = last
                last.aligned, last.needs = self._best(inner, forward)

    def _name(self, op_id: int) -> str:
        return self._listed[op_id].call.op

    def _dims(self, op_id: int) -> list[Shape]:
        return [one.dims for some in wanted_of(self._listed[op_id].call) for one in some]

    def _best(self, op_id: int, forward: int) -> tuple[Aligned | None, frozenset[Slot] | None]:
        """The template of a node that fits best: all gradients, else those of some arguments."""
        call, own = self._listed[forward].call, self._listed[op_id].call
        slots = [slot for slot, wanted in _slots(self._listed[forward]) if wanted.is_float]
        found: list[tuple[Aligned, frozenset[Slot] | None]] = []
        for needs in _subsets(slots):
            template = self._semantics.node(call, own, needs)
            if template is None:
                if needs is None:
                    return None, None
                continue
            aligned = self._tree.align(op_id, template)
            if aligned.whole:
                return aligned, frozenset(slot for slot, _ in template.gradients)
            found.append((aligned, needs))
        return max(found, key=lambda one: len(one[0].places), default=(None, None))


def _subsets(slots: Sequence[Slot]) -> Iterator[frozenset[Slot] | None]:
    yield None
    if len(slots) > FEW:
        yield frozenset(slots[1:])
        return
    for size in range(len(slots) - 1, 0, -1):
        yield from map(frozenset, itertools.combinations(slots, size))


def _slots(recorded: Recorded) -> Iterator[tuple[Slot, Wanted]]:
    for place, some in enumerate(wanted_of(recorded.call)):
        for entry, one in enumerate(some):
            yield (place, entry), one
