"""Optimizers while the flow of data is inferred: what their operators take, by what the operators mean.

Parameters are those whose gradients the backward pass kept; their state was there before. The recipes are those of
torch/optim (SGD, Adam and AdamW), with lists of tensors, one by one and fused. An operator of lists that goes through
them one by one shows what is in them and in which order (`orders`).
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.resolve.tensors import Shape
from kerneldb.replay.steps.gradients import Gradients
from kerneldb.replay.steps.orders import FUSED, LISTS, ordered
from kerneldb.replay.steps.tensors import Frame, Value, Wanted

PARAMETER, GRADIENT, FIRST, SECOND, LAST = "parameter", "gradient", "first moment", "second moment", "last"
STEP: Final = "step"
DECAY: Final = 0.9985
"""A parameter is multiplied by no less for its decay."""
ROLES: Final = {
    "lerp_": (FIRST, GRADIENT),
    "addcmul_": (SECOND, GRADIENT, GRADIENT),
    "addcdiv_": (PARAMETER, FIRST, LAST),
    "sqrt": (SECOND,),
    "div": (LAST,),
    "div_": (LAST,),
    "zero_": (GRADIENT,),
    "norm": (GRADIENT,),
}
"""What the tensors of an operator are."""
NAMED: Final = {
    "self": PARAMETER, "grads": GRADIENT, "exp_avgs": FIRST, "exp_avg_sqs": SECOND, "momentum_buffer_list": FIRST,
}  # fmt: skip
"""The same of fused operators, by the names of their arguments."""
ADAM: Final = (PARAMETER, GRADIENT, FIRST, SECOND, "", STEP)
FUSED_LISTS: Final = {"adam": ADAM, "adamw": ADAM, "sgd": (PARAMETER, GRADIENT, FIRST)}
"""The same in the order of their lists, where the profiler dropped those: then torch cannot say the names."""


class Optimizer:
    """Steps of an optimizer, once there are gradients."""

    def __init__(
        self, gradients: Gradients, given: Callable[[Wanted], Value], entries: Callable[[int], tuple[Shape, ...]]
    ) -> None:
        self._gradients = gradients
        self._given = given
        self._entries = entries
        self._listed: dict[tuple[Shape, ...], list[Value]] = {}
        self._state: dict[tuple[Value, str], Value] = {}
        self._begun: dict[str, set[Value]] = defaultdict(set)
        self._last: list[Value] = []
        self._owners: list[Value] = []
        self._did = ("", "")
        self._running: Frame | None = None

    def choose(self, frame: Frame, wanted: Sequence[Wanted]) -> list[Value] | None:
        """What an operator of an optimizer takes; None for another one, and before there are gradients."""
        short = short_name(frame.name)
        listed, fused = short.startswith(LISTS), short.startswith(FUSED)
        short = short.removeprefix(LISTS)
        if not self._gradients.parameters or not (fused or short in ROLES or short in {"mul_", "add_"}):
            return None
        groups: dict[int, list[Wanted]] = defaultdict(list)
        for one in wanted:
            groups[one.argument].append(one)
        owners = list(self._of(short, next(iter(groups.values()))))
        if None in owners or (short == "norm" and not listed):
            return None
        arguments = len(groups) if listed else sum(bool(some[0].dims) for some in groups.values())
        named = [NAMED.get(frame.named(argument), "") for argument in groups]
        roles = named if fused else self._roles(frame, short, arguments)
        found: list[Value] = []
        for role, some in zip(itertools.chain(roles, itertools.repeat("")), groups.values(), strict=False):
            found += self._values(role, some, [one for one in owners if one is not None])
        self._owners, self._did, self._running = [one for one in owners if one is not None], (short, roles[0]), frame
        return found

    def dropped(self, frame: Frame) -> tuple[tuple[Value, ...], ...]:
        """The lists of more than 30 tensors that the profiler dropped, of all parameters; empty for other operators."""
        short = short_name(frame.name)
        listed, fused = short.startswith(LISTS), short.startswith(FUSED)
        around = frame.around
        if not (listed or fused) or not self._gradients.parameters:
            return ()
        if around is not None and around.name == frame.name:
            return around.inputs
        short = short.removeprefix(LISTS)
        read = recorded.or_none(frame.recorded.call)
        lists = [place for place, one in enumerate(read) if one.kind == recorded.TENSOR_LIST]
        known = fused or short in ROLES or short in {"mul_", "add_"}
        if not known or not lists or any(read[place].dims for place in lists):
            return ()
        entries = self._entries(frame.recorded.op_id)
        if self._counts(short, lists) or (entries and not any(entries)):
            return ()
        roles = FUSED_LISTS.get(short.split("_")[2], ()) if fused else self._roles(frame, short, len(lists))
        if not roles:
            return ()
        owners = self._in_lists(entries)
        named = dict(zip(lists, roles, strict=False))
        self._owners, self._did, self._running = owners, (short, roles[0]), frame
        parts = {
            place: tuple(self._part(one, role, _like(one), at) for at, one in enumerate(owners))
            for place, role in named.items()
            if role
        }
        return tuple(parts.get(place, ()) for place in range(len(read)))

    def _in_lists(self, entries: tuple[Shape, ...]) -> list[Value]:
        """The parameters of the lists in their order; one that nothing used in this step was there before."""
        known = sorted(self._gradients.parameters, key=lambda value: value.made)
        if not entries:
            return known
        if entries not in self._listed:
            places = ordered([one.view.dims for one in known], entries)
            self._listed[entries] = [
                self._given(Wanted(0, dims, _contiguous(dims), known[0].view.dtype)) if place is None else known[place]
                for dims, place in zip(entries, places, strict=True)
            ]
        return self._listed[entries]

    def _counts(self, short: str, lists: Sequence[int]) -> bool:
        """Whether it counts steps: what it adds to is no tensor of a parameter."""
        return short == "add_" and len(lists) == 1 and self._did[0] in {"", "addcdiv_", "zero_", "add_", "norm"}

    def _of(self, short: str, wanted: Sequence[Wanted]) -> Iterator[Value | None]:
        """The parameters that tensors belong to, in order: lists have all, what is alone goes on with the last one."""
        goes_on = self._did[0] not in {"addcdiv_", "zero_", ""} and len(self._owners) == len(wanted)
        goes_on = goes_on and short != "zero_" and not (len(wanted) == 1 and self._did == ("add_", PARAMETER))
        if goes_on and all(one.fits(owner) for one, owner in zip(wanted, self._owners, strict=True)):
            yield from self._owners
            return
        taken = self._begun[short] if len(wanted) == 1 else set()
        known = sorted(self._gradients.parameters, key=lambda value: value.made)
        for one in wanted:
            owner = next((value for value in known if value not in taken and one.fits(value)), None)
            if owner is not None:
                taken.add(owner)
            yield owner

    def _roles(self, frame: Frame, short: str, arguments: int) -> Sequence[str]:
        if short in ROLES:
            return ROLES[short]
        before, role = self._did
        if short == "mul_":
            if arguments > 1:
                return (GRADIENT, "")
            decays = before != "lerp_" and self._factor(frame) >= DECAY
            return (PARAMETER,) if decays else (SECOND if before == "lerp_" else FIRST,)
        if arguments == 1:
            return (LAST,)
        if role == FIRST:
            return (FIRST, GRADIENT) if before == "mul_" else (PARAMETER, FIRST)
        return (PARAMETER, GRADIENT)

    def _factor(self, frame: Frame) -> float:
        """The number that a tensor is multiplied by."""
        texts = [one.text for one in recorded.or_none(frame.recorded.call) if one.kind == recorded.SCALAR and one.text]
        try:
            return float(texts[0])
        except (IndexError, ValueError):
            return 0.0

    def _values(self, role: str, wanted: Sequence[Wanted], owners: Sequence[Value]) -> Iterator[Value]:
        fits = len(owners) == len(wanted)
        for place, one in enumerate(wanted):
            last = self._last[place] if len(self._last) == len(wanted) else None
            if role == LAST and last is not None and one.fits(last):
                yield last
            elif role in {"", LAST} or not fits or not one.fits(owners[place]):
                yield self._given(one)
            else:
                yield self._part(owners[place], role, one)

    def _part(self, owner: Value, role: str, wanted: Wanted, place: int = 0) -> Value:
        if role == LAST:
            return self._last[place] if place < len(self._last) else self._given(wanted)
        if role == PARAMETER:
            return owner
        if role == GRADIENT and owner in self._gradients.parameters:
            return self._gradients.parameters[owner]
        if role == STEP:
            return self._given(Wanted(0, (), (), "float"))
        if (owner, role) not in self._state:
            self._state[owner, role] = self._given(wanted)
        return self._state[owner, role]

    def end(self, frame: Frame) -> None:
        """An operator ends: what it returned, or changed, is what the next one may go on with."""
        if frame is self._running:
            first = next((list(one) for one in frame.inputs if one), [])
            self._last = list(frame.outputs) or first


def _like(value: Value) -> Wanted:
    return Wanted(0, value.view.dims, value.view.strides, value.view.dtype)


def _contiguous(dims: Shape) -> Shape:
    strides = itertools.accumulate(reversed(dims[1:]), operator.mul, initial=1)
    return tuple(strides)[::-1] if dims else ()
