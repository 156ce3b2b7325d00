"""Products of the same sizes with different weights, such as those of experts, as one batched product.

The calls of a function are put in another order: what the products take is made before the first of them. Where that is
not possible (one product needs another, or what it takes is changed in place meanwhile), nothing is proposed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow
from kerneldb.replay.rewrites.places import functions
from kerneldb.replay.rewrites.products import WEIGHT, Kept, factor, is_weight
from kerneldb.replay.rewrites.region import CannotTryError, Region, graph, region

LEAST: Final = 4
"""Products in a batch."""


class GroupedProducts(Rewrite):
    """Batched products in the innermost functions that have several products of one size."""

    name = "grouped_products"
    about = "products of one size with different weights (experts) as one batched product"
    removes_launches = True

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each run of a function; those around it are not looked at."""
        taken: set[int] = set()
        for frame, runs in sorted(functions(flow), key=lambda one: len(one[1][0])):
            for places in runs:
                sizes = _sizes(flow, places)
                if taken & set(places) or not any(len(some) >= LEAST for some in sizes.values()):
                    continue
                try:
                    covered = region(flow, places)
                    if not regrouped(covered)[1]:
                        continue
                except CannotTryError:
                    continue
                taken.update(places)
                text = "one torch.bmm (or torch._grouped_mm) over the stacked weights of the experts"
                what = ", ".join(f"{len(some)} of {k} x {n}" for (_, k, n), some in sizes.items() if len(some) >= LEAST)
                yield Proposal(
                    covered, functools.partial(_function, covered), Change("advice", frame, text=text), what=what
                )


def _sizes(flow: Flow, places: Sequence[int]) -> dict[tuple[int, int, int], list[int]]:
    """The products with a parameter among these calls, by their sizes (m, k, n)."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for node in (flow.nodes[place] for place in places):
        if node.op == "mm" and is_weight(flow, node):
            (m, k), (_, n) = flow.tensor(factor(node)).dims, flow.tensor(node.argument(WEIGHT)).dims
            found.setdefault((m, k, n), []).append(node.place)
    return found


def regrouped(covered: Region) -> tuple[Any, int]:
    """The calls of a region as a graph with batched products, and how many of those. Raises CannotTryError."""
    made = graph(covered)
    by_place = {one.meta["place"]: one for one in made.graph.nodes if "place" in one.meta}
    batches = 0
    for places in _sizes(covered.flow, covered.places).values():
        for batch in _independent([by_place[place] for place in places if place in by_place]):
            if len(batch) >= LEAST:
                _batch(made.graph, batch)
                batches += 1
    made.graph.lint()
    made.recompile()
    return made, batches


def _function(covered: Region) -> Function:
    return regrouped(covered)[0]  # type: ignore[no-any-return]


def _independent(products: Sequence[Any]) -> list[list[Any]]:
    """Products in groups in which none needs another."""
    groups: list[list[Any]] = []
    for one in products:
        needed = _needed(one)
        group = next((some for some in groups if not needed & set(some)), None)
        groups.append([one]) if group is None else group.append(one)
    return groups


def _needed(node: Any) -> set[Any]:
    found, above = set[Any](), list(node.all_input_nodes)
    while above:
        one = above.pop()
        if one not in found:
            found.add(one)
            above += one.all_input_nodes
    return found


def _batch(whole: Any, products: Sequence[Any]) -> None:
    import torch

    first = products[0]
    changed = {_root(one.args[0]) for one in whole.nodes if _changes(one)}
    for one in products:
        for taken in one.all_input_nodes:
            _hoist(whole, taken, first, changed)
    with whole.inserting_before(first):
        stacked = whole.call_function(torch.stack, ([one.args[0] for one in products],))
        weights = whole.call_function(_stacking(), tuple(one.args[1] for one in products))
        result = whole.call_function(torch.bmm, (stacked, weights))
        parts = [whole.call_function(torch.select, (result, 0, number)) for number in range(len(products))]
    for one, part in zip(products, parts, strict=True):
        one.replace_all_uses_with(part)
        whole.erase_node(one)


def _stacking() -> Any:
    """What stacks weights once."""
    import torch

    kept = Kept(torch.stack)

    def stacked(*weights: Any) -> Any:
        return kept.of(weights)

    return stacked


def _hoist(whole: Any, node: Any, before: Any, changed: set[Any]) -> None:
    """Move a call, and what it needs, before another one. Raises CannotTryError where that changes its result."""
    order = {one: number for number, one in enumerate(whole.nodes)}
    if order[node] < order[before]:
        return
    if node is before or _changes(node) or any(_root(one) in changed for one in node.all_input_nodes):
        raise CannotTryError("what a product takes is changed in place, or made of another product")
    for one in node.all_input_nodes:
        _hoist(whole, one, before, changed)
    before.prepend(node)


def _changes(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def _root(node: Any) -> Any:
    """The call that made the memory of a result, behind its views."""
    while True:
        schema = getattr(node.target, "_schema", None)
        views = schema is not None and any(one.alias_info is not None for one in schema.returns)
        views = views or node.target is operator.getitem
        if not views or not node.all_input_nodes:
            return node
        node = node.args[0]
