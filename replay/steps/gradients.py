"""Gradients while the flow of data is inferred: the backward graph mirrors the forward operators, one node each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.steps.tensors import ACCUMULATES, EVALUATES, Frame, Value, Wanted
from kerneldb.replay.steps.told import Told

RESULTS: Final = frozenset({"output", "result", "out", "y"})
SAVED: Final = frozenset({"detach", "pow"})
"""Operators in a node that begin with what was saved for it."""
PRODUCT: Final = "MulBackward"
KEEPS_RESULT: Final = ("Relu", "Exp", "Sqrt", "Rsqrt", "Sigmoid", "Tanh", "Softmax", "LogSoftmax")
VIEWS: Final = frozenset({"t", "transpose", "as_strided"})
PAIR: Final = 2


class Gradients:
    """The gradients of forward tensors, as far as the backward pass has come.

    `parameters` are the tensors whose gradients are kept, each with that gradient.
    """

    def __init__(
        self,
        frames: Mapping[int, Frame],
        told: Told,
        given: Callable[[Wanted], Value],
        newest: Callable[[Wanted], Value | None],
    ) -> None:
        self.parameters: dict[Value, Value] = {}
        self._frames = frames
        self._told = told
        self._given = given
        self._newest = newest
        self._of: dict[Value, Value] = {}
        self._met: list[tuple[Value, Value, Value]] = []
        self._kept: list[tuple[Value, Value]] = []
        self._loose: list[Value] = []
        self._open: list[Value] = []
        self._reserved: list[tuple[Value, Value]] = []
        self._leaf: Value | None = None
        self._latest: list[Value] = []

    # What is taken.

    def choose(self, frame: Frame, wanted: Sequence[Wanted]) -> list[Value] | None:
        """What an operator of the backward pass takes; None for another one."""
        around = frame.around
        if around is None:
            return None
        if frame.is_node:
            return self._of_leaf(wanted[0]) if frame.name == ACCUMULATES else list(self._of_node(frame, wanted))
        if around.name.startswith(EVALUATES):
            return self._sum(wanted) or [self._of_node_before(around, one) for one in wanted]
        if around.name == ACCUMULATES:
            return list(self._accumulated(around, wanted))
        return list(self._in_node(around, frame, wanted)) if around.is_node else None

    def _of_node(self, frame: Frame, wanted: Sequence[Wanted]) -> Iterator[Value]:
        """The gradients of what the forward operator returned."""
        forward = self._forward(frame)
        results = [] if forward is None else forward.outputs
        for place, one in enumerate(wanted):
            known = self._of.get(results[place]) if place < len(results) else None
            yield known if known is not None and one.fits(known) else self._any(one)

    def _any(self, wanted: Wanted) -> Value:
        """The newest gradient that fits; the first one of all comes from the program."""
        fits = [one for one in reversed(self._loose) if wanted.fits(one)]
        fits.sort(key=lambda one: (not wanted.lies(one), one.uses > 0))
        return next(iter(fits), None) or self._newest(wanted) or self._given(wanted)

    def _of_leaf(self, wanted: Wanted) -> list[Value]:
        """The gradient of the first parameter that waits for it."""
        ready = sorted(self._kept, key=lambda one: one[0] not in self._latest)
        for leaf, gradient in ready:
            if wanted.fits(gradient):
                self._kept.remove((leaf, gradient))
                self._leaf = leaf
                return [gradient]
        self._leaf = None
        return [self._any(wanted)]

    def _sum(self, wanted: Sequence[Wanted]) -> list[Value] | None:
        """Two gradients of one tensor, which meet."""
        if len(wanted) != PAIR:
            return None
        found = next((one for one in self._met if wanted[0].fits(one[0]) and wanted[1].fits(one[1])), None)
        return None if found is None else list(found[:PAIR])

    def _of_node_before(self, around: Frame, wanted: Wanted) -> Value:
        """A gradient that the node before returned, which is brought to the dims of what it is the gradient of."""
        reserved = {id(one) for _, one in self._reserved}
        known = [*reversed(around.inner), *(one for _, one in self._reserved)]
        fits = [one for one in dict.fromkeys(known) if wanted.fits(one)]
        fits.sort(key=lambda one: (id(one) not in reserved, id(one) in around.taken, not wanted.lies(one)))
        return fits[0] if fits else self._any(wanted)

    def _accumulated(self, around: Frame, wanted: Sequence[Wanted]) -> Iterator[Value]:
        """The gradient that a parameter has, and the one that is added."""
        new = next(around.took(), None)
        for place, one in enumerate(wanted):
            if new is not None and one.fits(new) and (place or len(wanted) == 1):
                yield new
            else:
                known = None if self._leaf is None else self.parameters.get(self._leaf)
                yield known if known is not None else self._given(one)

    def _in_node(self, around: Frame, frame: Frame, wanted: Sequence[Wanted]) -> Iterator[Value]:
        """What an operator in a node takes: gradients, what came of others in it, and what forward took or returned."""
        forward, chosen = self._forward(around), set[int]()
        alone = len([one for one in wanted if one.dims == wanted[0].dims]) == 1
        for one in wanted:
            known = self._known(around, frame, one, forward, alone=alone)
            fits = [value for value in known if one.fits(value)]
            fits.sort(key=lambda value: (id(value) in chosen, not one.lies(value)))
            value = fits[0] if fits else self._given(one)
            chosen.add(id(value))
            yield value

    def _known(self, around: Frame, frame: Frame, wanted: Wanted, forward: Frame | None, *, alone: bool) -> list[Value]:
        """The tensors that a node knows, the likeliest first."""
        took, short = list(around.took()), short_name(frame.name)
        fresh = [one for one in reversed(around.inner) if id(one) not in around.taken]
        spent = [one for one in reversed(around.inner) if id(one) in around.taken]
        given = [] if forward is None else sorted(forward.took(), key=lambda one: id(one) in around.taken)
        results = [] if forward is None else [*forward.outputs, *forward.inner]
        unused = [one for one in took if id(one) not in around.taken]
        waiting = [one for one in given if id(one) not in around.taken]
        rest = [*fresh, *unused, *waiting, *took, *given, *results, *spent]
        name = frame.named(wanted.argument)
        if any(frame.named(place).startswith("grad") for place in range(PAIR)):
            same = [] if forward is None else [one for known, one in _by_name(forward) if known == name]
            first = took if name.startswith("grad") else results if name in RESULTS else same
            return [*first, *rest]
        kept = around.name.startswith(KEEPS_RESULT)
        if short in SAVED:
            return [*(results if kept or short != "pow" else given), *results, *given, *took]
        if short in VIEWS:
            fresh = [one for one in fresh if one.by not in VIEWS]
        elif PRODUCT in around.name and short == "mul":
            return [*took, *waiting, *given, *fresh] if not wanted.argument else [*waiting, *given, *fresh, *took]
        elif not alone and len(fresh) == 1 and not wanted.argument:
            return [*took, *rest]
        elif not alone and len(fresh) > 1:
            return [*fresh[PAIR - 1 :: -1], *rest]
        elif alone and not around.name.startswith("Pow"):
            return [*unused, *fresh, *(results if kept else waiting), *rest]
        return [*fresh, *unused, *(results if kept else waiting), *rest]

    def _forward(self, frame: Frame) -> Frame | None:
        number = frame.recorded.forward
        return None if number is None else self._frames.get(number)

    # What comes of it.

    def end(self, frame: Frame) -> None:
        """An operator ends: what came of a node are gradients of what its forward operator took."""
        around = frame.around
        if around is None:
            return
        if frame.is_node and frame.name == ACCUMULATES:
            self._keep(frame)
        elif frame.is_node:
            self._hand_on(frame)
        elif around.name.startswith(EVALUATES) and not self._summed(frame):
            self._assign(frame.outputs, ())

    def _keep(self, frame: Frame) -> None:
        if self._leaf is None or self._leaf in self.parameters:
            return
        new = next(frame.took(), None)
        held = frame.inner[-1] if frame.inner else new
        if held is not None:
            self.parameters[self._leaf] = held

    def _hand_on(self, frame: Frame) -> None:
        forward = self._forward(frame)
        saved = {one.view.storage for one in (*forward.took(), *forward.outputs)} if forward is not None else set()
        saved -= {one.view.storage for one in frame.took()}
        made = [one for one in frame.inner if id(one) not in frame.taken and one.view.storage not in saved]
        self._loose += made or list(frame.took())
        self._reserved, self._latest = [], []
        for value in forward.outputs if forward is not None else ():
            self._of.pop(value, None)  # its node has it now
        told = self._told.gradients(frame)
        if told is not None:
            self._give(told)
            return
        named = [] if forward is None else list(_by_name(forward))
        if not any("backward" in one.by for one in made):  # an operator of several results has those of the arguments
            named.sort(key=lambda pair: pair[0])
        self._open = [one for _, one in named]
        self._assign(made, list(frame.took()))

    def _give(self, told: Sequence[tuple[Value, Value | None]]) -> None:
        """Give forward tensors their gradients; those of other dims are summed first."""
        self._open = []
        for value, gradient in told:
            if gradient is not None and gradient.view.dims == value.view.dims:
                self._set(value, gradient)
                continue
            self._open.append(value)
            if gradient is not None:
                self._reserved.append((value, gradient))

    def _assign(self, made: Sequence[Value], took: Sequence[Value]) -> None:
        """Give gradients that a node made, or handed on, to the tensors that wait for theirs.

        Where there is one for each, they are in order, and one of other dims is summed first; else the dims decide.
        """
        pairs = zip(self._open, made, strict=True) if len(made) == len(self._open) else ()
        self._reserved += [(value, one) for value, one in pairs if value.view.dims != one.view.dims]
        left = [one for one in made if all(one is not other for _, other in self._reserved)]
        still = []
        for value in self._open:
            wanted = Wanted(0, value.view.dims, value.view.strides, "")
            gradient = next((one for one in left if wanted.fits(one)), None)
            if gradient is not None:
                left.remove(gradient)
            else:
                gradient = next((one for one in took if wanted.fits(one)), None)
            if gradient is None:
                still.append(value)
            else:
                self._set(value, gradient)
        self._open = still

    def _set(self, value: Value, gradient: Value) -> None:
        if value in self._of:
            self._met.append((self._of[value], gradient, value))
        self._of[value] = gradient
        self._latest.append(value)
        if value.given and not value.by:
            self._kept.append((value, gradient))

    def _summed(self, frame: Frame) -> bool:
        took = list(frame.took())
        for place, (old, new, value) in enumerate(self._met):
            if took[:PAIR] == [old, new] and frame.outputs:
                self._of[value] = frame.outputs[0]
                self._loose.append(frame.outputs[0])
                self._kept = [(leaf, frame.outputs[0] if leaf is value else one) for leaf, one in self._kept]
                del self._met[place]
                return True
        return False


def _by_name(forward: Frame) -> Iterator[tuple[str, Value]]:
    """What a forward operator took: the names decide the order in which autograd's generated code makes gradients."""
    return ((forward.named(place), one) for place, some in enumerate(forward.inputs) for one in some)
