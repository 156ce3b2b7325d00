"""Tensors while they are inferred: what is recorded of one that an operator takes, and those that there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.tensors import TORCH_NAMES, Shape
from kerneldb.replay.steps.memory import View
from kerneldb.replay.steps.outlines import Outline
from kerneldb.replay.wire.plan import OpCall

EVALUATES: Final = "autograd::engine::evaluate_function"
ACCUMULATES: Final = "torch::autograd::AccumulateGrad"


def _torch(dtype: str) -> str:
    return TORCH_NAMES.get(dtype, dtype)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An operator in time with its recorded call, and the forward operator that a backward one belongs to."""

    op_id: int
    parent: int | None
    start_ns: int
    end_ns: int
    call: OpCall
    forward: int | None = None


@dataclass(slots=True, eq=False)
class Value:
    """A tensor: a view of an allocation. `made` counts tensors, `uses` operators that took it; `by` returned it.

    `given`: it was there before the step. `needs`: it has a gradient; `spent`: all operators that give it one took it.
    """

    view: View
    by: str = ""
    made: int = 0
    uses: int = 0
    given: bool = False
    needs: bool = False
    spent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A tensor that an operator takes: its argument, and what is recorded of it (of a list no dtype)."""

    argument: int
    dims: Shape
    strides: Shape
    dtype: str

    def fits(self, value: Value) -> bool:
        """Whether a tensor has these dims and this dtype."""
        return value.view.dims == self.dims and (not self.dtype or _torch(value.view.dtype) == _torch(self.dtype))

    def lies(self, value: Value) -> bool:
        """Whether it has these strides, too; those of dims of one element say nothing."""
        pairs = zip(self.dims, self.strides, value.view.strides, strict=False)
        return all(mine == its for size, mine, its in pairs if size > 1)

    @property
    def is_float(self) -> bool:
        """Whether it is no integer and no truth."""
        return _torch(self.dtype).startswith(("float", "bfloat", "complex")) or not self.dtype


@dataclass(frozen=True, slots=True)
class Use:
    """That an operator takes a tensor which has a gradient: a parameter, and for the last time."""

    leaf: bool = False
    last: bool = True


@dataclass(slots=True, eq=False)
class Frame:
    """An operator that runs inside another one, what it took per argument, and what came of the operators in it.

    `taken` are those of its tensors that operators in it took; `uses` what is known of a wanted tensor that has a
    gradient; `needs`: so have its results.
    """

    recorded: Recorded
    around: Frame | None = None
    outline: Outline | None = None
    inputs: tuple[tuple[Value, ...], ...] = ()
    inner: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    uses: dict[int, Use] = field(default_factory=dict)
    needs: bool = False

    @property
    def name(self) -> str:
        """The operator."""
        return self.recorded.call.op

    @property
    def is_operator(self) -> bool:
        """Whether operators in it see nothing but what it took."""
        return "::" in self.name and not self.name.startswith(("autograd::", "torch::"))

    @property
    def is_node(self) -> bool:
        """Whether it is a node of the backward graph."""
        return self.around is not None and self.around.name.startswith(EVALUATES) and not self.is_operator

    def took(self) -> Iterator[Value]:
        """The tensors that it took."""
        return (one for argument in self.inputs for one in argument)

    def named(self, argument: int) -> str:
        """The name of an argument; empty where the operator is not known."""
        names = () if self.outline is None else self.outline.names
        return names[argument] if argument < len(names) else ""

    @property
    def hands_on(self) -> bool:
        """Whether it returns what it takes, unchanged."""
        known = self.outline
        return known is not None and not known.written and all(one.same for one in known.results)


def wanted_of(call: OpCall) -> Iterator[tuple[Wanted, ...]]:
    """The tensors that a call takes, per argument: none for what is none."""
    for place, one in enumerate(recorded.or_none(call)):
        if one.is_tensor and not one.unstrided:
            yield (Wanted(place, one.dims, one.layout, one.kind),)
        elif one.kind == recorded.TENSOR_LIST:
            pairs = zip(one.dims, one.layout, strict=True)
            yield tuple(Wanted(place, tuple(dims), tuple(strides), "") for dims, strides in pairs)
        else:
            yield ()
