"""Many small calls that do the same to different tensors, as one: `foreach` operators, and fused optimizers.

A loop over parameters is a sequence of calls that repeats: one repetition per parameter. Its turn j is one list
operator over all of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Node, Slot
from kerneldb.replay.rewrites.places import innermost
from kerneldb.replay.rewrites.region import CannotTryError, Region, region

LISTS: Final = {
    "add_": "add_", "add": "add", "mul_": "mul_", "mul": "mul", "div_": "div_", "div": "div", "sqrt": "sqrt",
    "sqrt_": "sqrt_", "lerp_": "lerp_", "addcmul_": "addcmul_", "addcdiv_": "addcdiv_", "neg": "neg",
    "linalg_vector_norm": "norm", "zero_": "zero_",
}  # fmt: skip
"""Operators, and the list operator `torch._foreach_…` that does the same."""
LONGEST: Final = 14
LEAST: Final = 4
GUESSED: Final = frozenset({1.0, 1.5})
"""What numbers are rebuilt as that the profiler did not record."""
DIVISIONS: Final = frozenset({"div", "div_", "_foreach_div", "_foreach_div_"})
BELOW_ONE: Final = 0.5
OPTIMIZERS: Final = "torch/optim/"


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over tensors: its calls by turn, one of each tensor."""

    turns: tuple[tuple[Node, ...], ...]

    @property
    def places(self) -> list[int]:
        """All of its calls."""
        return [one.place for turn in self.turns for one in turn]


class Foreach(Rewrite):
    """A loop of small calls by list operators."""

    name = "foreach"
    about = "loops of small calls over many tensors (optimizers, norms) by torch._foreach operators"
    removes_launches = True

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each loop."""
        for loop in loops(flow):
            try:
                covered = region(flow, loop.places)
            except CannotTryError:
                continue
            if not _all_known(covered, loop):
                continue
            make = functools.partial(_lists, covered, loop)
            change = change_of(flow, loop.places, foreach=True)
            yield Proposal(covered, make, change, what=f"{len(loop.turns[0])} tensors, {len(loop.turns)} calls each")


def _all_known(covered: Region, loop: Loop) -> bool:
    """Whether it is known of each tensor that a turn takes where it comes from."""
    storage = covered.flow.storage
    known = {storage(one) for one in covered.inputs}
    for turn in loop.turns:
        if not known.issuperset(storage(slot) for node in turn for slot in _tensors(node)):
            return False
        known.update(storage(covered.flow.result(node)) for node in turn)
    return True


class FusedAdam(Rewrite):
    """The step of Adam or AdamW, tensor by tensor or by list operators, in one fused operator."""

    name = "fused_optimizer"
    about = "the update of Adam and AdamW as one fused operator (fused=True)"
    removes_launches = True

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each optimizer step."""
        _settle(flow)
        for columns, places in [*_looped(flow), *_listed(flow)]:
            adam = _adam(columns)
            if adam is None:
                continue
            try:
                covered = region(flow, places)
            except CannotTryError:
                continue
            change = change_of(flow, places, fused=True)
            make = functools.partial(_fused, covered, adam)
            yield Proposal(covered, make, change, what=f"{len(adam.params)} tensors")


def _settle(flow: Flow) -> None:
    """Let divisors that were not recorded be what those of Adam are: below one."""
    for node in flow.nodes:
        if node.op not in DIVISIONS:
            continue
        value = node.argument("other") if node.op in {"div", "div_"} else node.argument("scalars")
        if isinstance(value, Slot) or value is None:
            continue
        several = value if isinstance(value, list) else [value]
        resolved = node.how.resolved
        if resolved is not None and all(isinstance(one, int | float) and one in GUESSED for one in several):
            index = next(n for n, one in enumerate(resolved.values) if one is value or one == value)
            made = [BELOW_ONE] * len(several) if isinstance(value, list) else BELOW_ONE
            node.how.resolved, node.how.program = resolved.with_value(index, made), None


def change_of(flow: Flow, places: Sequence[int], **values: Any) -> Change:
    """The change of an optimizer of torch: an argument; of another loop: advice."""
    known = (flow.frames.frames[one] for one in flow.functions(places[0]))
    if any(one.path.startswith(OPTIMIZERS) for one in known):
        return Change("optimizer", values=values)
    argument = ", ".join(f"{name}=True" for name in values)
    text = f"an optimizer of torch.optim with {argument}, or torch._foreach operators over lists"
    return Change("advice", innermost(flow, places), text=text)


def loops(flow: Flow) -> Iterator[Loop]:
    """Repeating sequences of calls that have a list operator, longest repetition first tried."""
    nodes = [
        one
        for one in flow.nodes
        if (one.op in LISTS and flow.tensor(flow.result(one)).dims != ()) or one.op == "linalg_vector_norm"
    ]
    at = 0
    while at < len(nodes):
        size, count = max(((size, _repeats(nodes, at, size)) for size in range(1, LONGEST + 1)), key=_covered)
        if count < LEAST:
            at += 1
            continue
        part = nodes[at : at + size * count]
        turns = tuple(tuple(part[turn::size]) for turn in range(size))
        if all(_alike(turn) for turn in turns):
            yield Loop(turns)
        at += size * count


def _covered(one: tuple[int, int]) -> tuple[int, int]:
    return (one[0] * one[1] if one[1] >= LEAST else 0, -one[0])


def _repeats(nodes: Sequence[Node], at: int, size: int) -> int:
    """How often the calls from `at` repeat with this period, whole repetitions."""
    end = at + size
    while end < len(nodes) and nodes[end].op == nodes[end - size].op:
        end += 1
    return (end - at) // size


def _plain(node: Node) -> list[Any]:
    """The arguments of a call that are no tensors."""
    assert node.how.resolved is not None  # noqa: S101 (it has an operator)
    names = [one.name for one in node.how.resolved.overload.parameters]
    return [value for value in map(node.argument, names) if not isinstance(value, Slot)]


def _alike(turn: Sequence[Node]) -> bool:
    return all(_plain(one) == _plain(turn[0]) and len(one.inputs) == len(turn[0].inputs) for one in turn)


def _tensors(node: Node) -> list[int]:
    return list(node.taken)


def _lists(covered: Region, loop: Loop) -> Function:
    import torch

    storage = covered.flow.storage
    calls = [(getattr(torch, f"_foreach_{LISTS[turn[0].op]}"), turn, _rest(turn[0])) for turn in loop.turns]

    def call(*tensors: Any) -> list[Any]:
        known = {storage(slot): tensor for slot, tensor in zip(covered.inputs, tensors, strict=True)}
        for function, turn, (args, kwargs) in calls:
            lists = [[known[storage(slot)] for slot in some] for some in zip(*map(_tensors, turn), strict=True)]
            made = function(*lists, *args, **kwargs)
            for node, result in zip(turn, made or lists[0], strict=True):
                known[storage(covered.flow.result(node))] = result
        return [known[storage(slot)] for slot in covered.outputs]

    return call


def _rest(node: Node) -> tuple[list[Any], dict[str, Any]]:
    """The numbers that the list operator takes after its lists."""
    number = next(
        (
            node.argument(name)
            for name in ("other", "weight", "ord")
            if isinstance(node.argument(name), int | float) and not isinstance(node.argument(name), Slot)
        ),
        None,
    )
    if node.op in {"addcmul_", "addcdiv_"}:
        return [], {"value": node.argument("value")}
    if node.op.startswith("add") and isinstance(node.argument("other"), Slot):
        return [], {"alpha": node.argument("alpha")}
    return ([] if number is None else [number]), {}


@dataclass(frozen=True, slots=True)
class Column:
    """One turn of an optimizer: its operator, the tensors of each argument, and its numbers."""

    op: str
    lists: tuple[tuple[int, ...], ...]
    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Adam:
    """The tensors (slots) and numbers of an update."""

    params: tuple[int, ...]
    grads: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    lr: float
    beta1: float
    beta2: float
    eps: float
    decay: float
    step: float


def _looped(flow: Flow) -> Iterator[tuple[list[Column], list[int]]]:
    for loop in loops(flow):
        columns = [
            Column(turn[0].op, tuple(zip(*map(_tensors, turn), strict=True)), _numbers(turn[0])) for turn in loop.turns
        ]
        yield columns, loop.places


def _listed(flow: Flow) -> Iterator[tuple[list[Column], list[int]]]:
    """Runs of list operators, from one `lerp_` (or the decay before it) to the next `addcdiv_`."""
    run: list[Node] = []
    for node in flow.nodes:
        if not node.op.startswith("_foreach_"):
            continue
        run.append(node)
        if node.op == "_foreach_addcdiv_":
            wanted = run[-LONGEST:]
            columns = [
                Column(one.op.removeprefix("_foreach_"), tuple(some for some in one.inputs if some), _numbers(one))
                for one in wanted
            ]
            started = [place for place, one in enumerate(columns) if one.op == "lerp_"]
            if started:
                begin = started[-1]
                begin -= begin > 0 and columns[begin - 1].op == "mul_"
                yield columns[begin:], [one.place for one in wanted[begin:]]
            run = []


def _numbers(node: Node) -> tuple[float, ...]:
    found = []
    for value in _plain(node):
        several = value if isinstance(value, list) else [value]
        found += [float(one) for one in several if isinstance(one, int | float) and not isinstance(one, bool)]
    return tuple(dict.fromkeys(found))


def _adam(columns: Sequence[Column]) -> Adam | None:
    """The numbers of the update that these turns are; None where they are another one.

    m ← lerp(m, g, 1 - b1); v ← b2 v + (1 - b2) g²;
    p ← p (1 - lr·decay) - lr / (1 - b1^t) · m / (√v / √(1 - b2^t) + eps)
    """
    by = {one.op: one for one in columns if one.op in {"lerp_", "addcmul_", "addcdiv_", "sqrt"}}
    if len(by) != 4 or not all(one.numbers for name, one in by.items() if name != "sqrt"):  # noqa: PLR2004
        return None
    params, first = by["addcdiv_"].lists[0], by["lerp_"].lists[0]
    second, grads = by["addcmul_"].lists[0], by["lerp_"].lists[1]
    products = [one for one in columns if one.op == "mul_" and len(one.numbers) == 1]
    beta2 = next((one.numbers[0] for one in products if one.lists[0] == second), None)
    kept = next((one.numbers[0] for one in products if one.lists[0] == params), 1.0)
    roots = [one.numbers[0] for one in columns if one.op in {"div", "div_"} and len(one.numbers) == 1]
    epsilons = [one.numbers[0] for one in columns if one.op in {"add", "add_"} and one.numbers]
    if beta2 is None or len(roots) != 1 or not epsilons or not 0 < roots[0] < 1 or len(by["addcdiv_"].numbers) != 1:
        return None
    beta1, step = 1 - by["lerp_"].numbers[0], math.log(1 - roots[0] ** 2) / math.log(beta2)
    lr = -by["addcdiv_"].numbers[0] * (1 - beta1**step)
    return Adam(params, grads, first, second, lr, beta1, beta2, epsilons[-1], (1 - kept) / lr, step)


def _fused(covered: Region, adam: Adam) -> Function:
    import torch

    storage = covered.flow.storage

    def call(*tensors: Any) -> list[Any]:
        known = {storage(slot): tensor for slot, tensor in zip(covered.inputs, tensors, strict=True)}
        lists = [[known[storage(one)] for one in some] for some in (adam.params, adam.grads, adam.first, adam.second)]
        steps = [torch.full((), adam.step, device=one.device) for one in lists[0][:1]] * len(lists[0])
        torch._fused_adamw_(
            *lists, [], steps, lr=adam.lr, beta1=adam.beta1, beta2=adam.beta2, weight_decay=adam.decay, eps=adam.eps,
            amsgrad=False, maximize=False,
        )  # fmt: skip
        return [known[storage(slot)] for slot in covered.outputs]

    return call
