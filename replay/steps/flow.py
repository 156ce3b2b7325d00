"""Which output is which input, for a trace that does not say so: inferred from order, dims, strides, dtype and use.

Operators are gone through in order of time. What each returns follows from its schema and dims (`outlines`); what it
takes is looked for among the tensors that there are then:

    inside another operator    what that one took, and what came of the operators before in it
    a backward operator        gradients of what its forward operator returned, and what that one took or returned;
                               gradients that meet are summed in the order of the graph (`gradients`)
    what a call is made of     as PyTorch does it here (`insides`), where that agrees with what was recorded
    an optimizer               parameters, their gradients and state, by what the operator means (`optimizers`)
    all others                 of those that have gradients, none that the backward pass is through with (`uses`);
                               what nobody took yet, the newest first; then results of sums, which residual connections
                               take again; a weight is another tensor each time

What fits nothing was there before. All of this is a guess, and labelled so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.resolve.tensors import TORCH_NAMES, Shape
from kerneldb.replay.steps.gradients import Gradients
from kerneldb.replay.steps.memory import Epoch, Memory, Op, View, in_time
from kerneldb.replay.steps.optimizers import Optimizer
from kerneldb.replay.steps.orders import Lists
from kerneldb.replay.steps.outlines import Result
from kerneldb.replay.steps.templates import Semantics, Tree
from kerneldb.replay.steps.tensors import EVALUATES, Frame, Recorded, Value, Wanted, wanted_of
from kerneldb.replay.steps.told import Told
from kerneldb.replay.steps.uses import Uses
from kerneldb.replay.wire.steps import UNKNOWN

WEIGHTS: Final = frozenset({"weight", "bias", "running_mean", "running_var"})
PAIRED: Final = {"sin": "cos"}
PROJECTIONS: Final = frozenset({"linear", "addmm", "mm", "matmul"})
IN_ORDER: Final = frozenset({"mul", "unsqueeze", "view", "transpose"})
"""Operators that take several tensors, made one after the other, in their order: queries, keys and values."""
PROJECTED: Final = PROJECTIONS | {"view", "_unsafe_view"}
PARTS: Final = frozenset({"slice", "split", "chunk", "narrow"})
KEPT: Final = frozenset({
    "add", "add_", "embedding", "native_layer_norm", "layer_norm", "dropout", "native_dropout", "batch_norm", "relu",
    "relu_", "max_pool2d", "conv2d",
})  # fmt: skip
"""Operators whose results are often taken more than once."""
SPENT: Final = frozenset({"pow", "exp", "neg", "sum", "mean", "square", "var"})
"""Operators whose results are taken once."""
DETACH: Final = "aten::detach"
NAMES: Final = {torch: name for name, torch in reversed(TORCH_NAMES.items())}


def inferred(steps: Iterable[Recorded], semantics: Semantics) -> Memory:
    """The memory of operators of which only dims, strides and dtypes are recorded."""
    listed = {one.op_id: one for one in sorted(steps, key=lambda one: (one.start_ns, -one.end_ns, one.op_id))}
    flow = Flow(listed, semantics)
    ops = [Op(one.op_id, one.parent, one.start_ns, one.end_ns) for one in listed.values()]
    for begins, op in in_time(ops):
        (flow.begin if begins else flow.end)(listed[op.op_id])
    return flow.memory


class Flow:
    """The tensors that there are, while operators begin and end in order of time."""

    def __init__(self, listed: Mapping[int, Recorded], semantics: Semantics) -> None:
        self.memory = Memory()
        self._frames: dict[int, Frame] = {}
        tree = Tree(
            {one.op_id: one.call for one in listed.values()}, {one.op_id: one.parent for one in listed.values()}
        )
        self._uses = Uses(listed, tree, semantics)
        self._told = Told(tree, semantics, self._uses, self._frames)
        self._outlines = semantics.outline
        self._pool: dict[Shape, list[Value]] = defaultdict(list)
        self._made = 0
        self._latest: list[Value] = []
        self._before = ""
        self._takers: dict[str, list[Value]] = defaultdict(list)
        self._gradients = Gradients(self._frames, self._told, self.given, self._newest)
        self._optimizer = Optimizer(self._gradients, self.given, Lists(listed, tree).entries)

    def begin(self, recorded: Recorded) -> None:
        """An operator begins: what it takes is among what there is."""
        around = self._around(recorded)
        frame = self._frames[recorded.op_id] = Frame(recorded, around)
        frame.outline = self._outlines(recorded.call) if frame.is_operator else None
        arguments = list(wanted_of(recorded.call))
        wanted = [one for listed in arguments for one in listed]
        aligned = self._told.begin(frame)
        slots = ((place, entry) for place, listed in enumerate(arguments) for entry in range(len(listed)))
        uses = self._uses.of_call(recorded.op_id, aligned) if frame.is_operator and self._uses.known else {}
        frame.uses = {id(one): uses[slot] for slot, one in zip(slots, wanted, strict=True) if slot in uses}
        frame.needs = frame.is_operator and self._uses.known and self._uses.has_node(recorded.op_id)
        frame.inputs = self._optimizer.dropped(frame)
        if not frame.inputs:
            chosen = iter(self._choose(frame, wanted) if wanted else ())
            frame.inputs = tuple(tuple(next(chosen) for _ in listed) for listed in arguments)
            for one, value in zip(wanted, frame.took(), strict=True):
                value.spent = value.spent or (id(one) in frame.uses and frame.uses[id(one)].last)
        if not frame.hands_on:
            self._use(frame)
        self.memory.ops[recorded.op_id] = self._op(frame)

    def _around(self, recorded: Recorded) -> Frame | None:
        """The operator around it; what only stands between two of them (a mode, a function of the program) is none."""
        found = None if recorded.parent is None else self._frames.get(recorded.parent)
        while found is not None and not (found.is_operator or found.is_node or found.name.startswith(EVALUATES)):
            found = found.around
        return found

    def end(self, recorded: Recorded) -> None:
        """An operator ends, after all in it: what it returns is there from now on."""
        frame = self._frames[recorded.op_id]
        known = frame.outline
        frame.outputs = frame.inner if known is None else list(self._results(frame, known.results))
        for value in frame.outputs if frame.needs else ():
            value.needs, value.spent = True, False
        self._told.end(frame)
        self._gradients.end(frame)
        self._optimizer.end(frame)
        if frame.around is not None:
            frame.around.inner += [one for one in frame.outputs if one not in frame.around.inner[-8:]]
        else:
            for value in frame.outputs:
                self._offer(value)
            if not frame.hands_on:
                self._latest, self._before = frame.outputs, short_name(frame.name)
                self._takers[self._before] += [one for some in frame.inputs[:1] for one in some]
        self.memory.ops[recorded.op_id] = self._op(frame)

    def given(self, wanted: Wanted) -> Value:
        """A tensor that was there before, and that nothing has taken yet."""
        place = UNKNOWN  # a number mostly, which is told better alone
        if wanted.dims:
            self.memory.epochs.append(Epoch())
            place = len(self.memory.epochs) - 1
        view = View(place, 0, wanted.dims, wanted.strides, wanted.dtype or "float")
        value = self._value(view, "", given=True)
        self._offer(value)
        return value

    def _use(self, frame: Frame) -> None:
        around = frame.around
        for value in {id(one): one for one in frame.took()}.values():
            value.uses += around is None or not around.is_operator
            if around is not None:
                around.taken.add(id(value))

    def _offer(self, value: Value) -> None:
        """Let later operators take a tensor, as the newest of its dims."""
        listed = self._pool[value.view.dims]
        if value in listed:
            listed.remove(value)
        listed.append(value)

    def _newest(self, wanted: Wanted) -> Value | None:
        """The newest tensor of the program that fits and that nothing took."""
        fits = (one for one in reversed(self._pool[wanted.dims]) if wanted.fits(one))
        return next((one for one in fits if not one.given and not one.uses), None)

    def _value(self, view: View, by: str, *, given: bool = False) -> Value:
        self._made += 1
        return Value(view, by, self._made, given=given)

    def _op(self, frame: Frame) -> Op:
        at = frame.recorded
        inputs = tuple(tuple(self._seen(one, at.start_ns) for one in some) for some in frame.inputs)
        outputs = tuple(self._seen(one, at.end_ns) for one in frame.outputs)
        return Op(at.op_id, at.parent, at.start_ns, at.end_ns, frame.name, inputs, outputs)

    def _seen(self, value: Value, now: int) -> View:
        if value.view.storage != UNKNOWN:
            self.memory.epochs[value.view.storage].seen(value.view, now)
        return value.view

    # What is returned.

    def _results(self, frame: Frame, results: Sequence[Result]) -> Iterator[Value]:
        """The tensors that an operator returns: arguments, what came of operators in it, else views or new ones."""
        taken: set[int] = set()
        for place, result in enumerate(results):
            base = self._base(frame, result)
            if base is not None and result.same:
                yield base
                continue
            wanted = Wanted(0, result.dims, result.strides, result.dtype)
            given = {one.view.storage for one in frame.took()} if base is None else {base.view.storage}
            ordered = frame.inner if len(results) > 1 else reversed(frame.inner)
            fits = [one for one in ordered if wanted.fits(one) and id(one) not in taken]
            fits = [one for one in fits if (one.view.storage in given) == (base is not None)]
            told = self._told.returned(frame, place, wanted)
            found = told if told is not None else next(iter(fits), None)
            found = found or self._new(frame, result, base)
            taken.add(id(found))
            yield found

    def _base(self, frame: Frame, result: Result) -> Value | None:
        """The argument that a result is a view of."""
        if result.of is None or result.of[0] >= len(frame.inputs):
            return None
        argument = frame.inputs[result.of[0]]
        return argument[result.of[1]] if result.of[1] < len(argument) else None

    def _new(self, frame: Frame, result: Result, base: Value | None) -> Value:
        at, offset = frame.recorded, result.offset
        if base is None:
            self.memory.epochs.append(Epoch(at.op_id, at.end_ns))
            storage = len(self.memory.epochs) - 1
        else:
            storage, offset = base.view.storage, base.view.offset + result.offset
        dtype = NAMES.get(result.dtype, result.dtype)
        view = View(storage, offset, result.dims, result.strides, dtype)
        return self._value(view, short_name(frame.name), given=base is not None and base.given)

    # What is taken.

    def _choose(self, frame: Frame, wanted: Sequence[Wanted]) -> Sequence[Value]:
        """What an operator takes: what a template tells, else what is likely."""
        told = list(self._told.tensors(frame, wanted))
        if told and None not in told:
            return [one for one in told if one is not None]
        guessed = self._guessed(frame, wanted)
        return [one or other for one, other in zip(told or [None] * len(wanted), guessed, strict=True)]

    def _guessed(self, frame: Frame, wanted: Sequence[Wanted]) -> Sequence[Value]:
        around = frame.around
        if around is not None and around.is_operator:
            return list(self._inside(around, wanted))
        known = self._optimizer.choose(frame, wanted) if around is None else self._gradients.choose(frame, wanted)
        return known or self._of_program(frame, wanted)

    def _inside(self, around: Frame, wanted: Sequence[Wanted]) -> Iterator[Value]:
        """What an operator in another one takes: what came of others in it, else what that one took."""
        chosen: set[int] = set()
        known = [*reversed(around.inner), *around.took()]
        for one in wanted:
            fits = [value for value in known if one.fits(value)]
            fits.sort(key=lambda value: (not one.lies(value), id(value) in chosen, id(value) in around.taken))
            value = fits[0] if fits else self._hidden(around, one)
            chosen.add(id(value))
            yield value

    def _hidden(self, around: Frame, wanted: Wanted) -> Value:
        """A tensor that an operator allocated without a trace of it."""
        made = self._new(around, Result(wanted.dims, wanted.strides, wanted.dtype or "float32"), None)
        around.inner.append(made)
        return made

    def _of_program(self, frame: Frame, wanted: Sequence[Wanted]) -> list[Value]:
        """What an operator of the program takes."""
        groups: dict[tuple[Shape, str], list[Wanted]] = defaultdict(list)
        found: dict[int, Value] = {}
        for one in wanted:
            use = frame.uses.get(id(one))
            if use.leaf if use is not None else frame.named(one.argument) in WEIGHTS:
                found[id(one)] = self.given(one)
                found[id(one)].needs = use is not None
            else:
                groups[one.dims, one.dtype].append(one)
        for listed in groups.values():
            found |= self._single(frame, listed[0]) if len(listed) == 1 else self._several(frame, listed)
        return [found.get(id(one)) or self.given(one) for one in wanted]

    def _fitting(self, frame: Frame, wanted: Wanted) -> list[Value]:
        """The tensors of the program that fit, the newest first; those that have a gradient, where one is known."""
        fits = [one for one in reversed(self._pool[wanted.dims]) if wanted.fits(one) and wanted.lies(one)]
        if not self._uses.known or not wanted.is_float or frame.hands_on or frame.name == DETACH:
            return fits
        use = frame.uses.get(id(wanted))
        likely = [one for one in fits if (one.needs and not one.spent if use is not None else not one.needs)]
        return likely or fits

    def _single(self, frame: Frame, wanted: Wanted) -> dict[int, Value]:
        """The tensor that is wanted, where there is one."""
        fits = self._fitting(frame, wanted)
        fresh = [one for one in fits if not one.given and not one.uses]
        found = self._again(short_name(frame.name), fits, fresh)
        if found is None and fresh:
            alike = [one for one in fresh if one.by == fresh[0].by]
            oldest = fresh[0] not in self._latest or fresh[0].by in PROJECTED
            oldest = oldest and short_name(frame.name) in IN_ORDER
            found = alike[-1 if oldest else 0]
        if found is None:
            found = next(iter(_used(wanted, fits)), None)
        return {} if found is None else {id(wanted): found}

    def _several(self, frame: Frame, wanted: Sequence[Wanted]) -> dict[int, Value]:
        """As many tensors of the same dims: the newest ones that nobody took; those of equal strides in their order."""
        chosen: list[Value] = []
        places: dict[Shape, list[Wanted]] = defaultdict(list)
        for one in wanted:
            places[one.strides].append(one)
        found: dict[int, Value] = {}
        for listed in places.values():
            fits = [one for one in self._fitting(frame, listed[0]) if one not in chosen]
            fresh = [one for one in fits if not one.given and not one.uses]
            values = [*fresh, *_used(listed[0], fits)][: len(listed)]
            chosen += values
            written = frame.outline is not None and listed[0].argument in frame.outline.written
            values.sort(key=lambda value: -value.made if written else value.made)
            found |= {id(one): value for one, value in zip(listed, values, strict=False)}
        return found

    def _again(self, name: str, fits: Sequence[Value], fresh: Sequence[Value]) -> Value | None:
        """What such an operator takes that others took: projections of one tensor, halves of it, its sine and cosine.

        Where heads are rotated by position, halves are taken of a tensor whose product with the cosine was made before.
        """
        latest = bool(fresh) and fresh[0] in self._latest
        known = next((one for one in reversed(self._takers[PAIRED.get(name, name)]) if one in fits), None)
        if name in PARTS or name == "pow":
            if known is not None and self._before in PARTS and not latest:
                return known
            product = fresh[0] if latest and fresh[0].by == "mul" else None
            return product and next((one for one in fits if one.uses and one.made < product.made), None)
        if name in PAIRED or (name in PROJECTIONS and (not latest or self._before in PROJECTIONS)):
            return known
        return None


def _used(wanted: Wanted, fits: Sequence[Value]) -> list[Value]:
    """Tensors that were taken before: sums first, which residual connections take; then what was given."""
    used = [one for one in fits if not one.given and one.uses]
    used.sort(key=lambda one: (one.by in SPENT, one.by not in KEPT))
    return [*used, *(one for one in fits if one.given and (len(wanted.dims) > 1 or not wanted.is_float))]
