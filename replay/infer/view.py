"""What a family's rules see of a call to be found, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kerneldb.names import Decoded
from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import Dims, Tensor, stored
from kerneldb.replay.infer.grids import Span
from kerneldb.replay.infer.scene import Model, Scene
from kerneldb.replay.plan.unknowns import Device, Kind
from kerneldb.replay.wire.plan import CallSpec


@dataclass(frozen=True, slots=True)
class Near:
    """The main kernel of a unit near the one in question."""

    kind: Kind
    known: Decoded

    @property
    def spans(self) -> tuple[Span, ...]:
        """Its ranges of elements; those of a vectorised `cat` too."""
        joined = grids.cat_elements(self.kind) if self.known.category == "CONCAT" else None
        return grids.elements(self.kind)[:1] or ((joined,) if joined is not None else ())

    def holds(self, count: int) -> bool:
        """Whether it works on `count` elements, as far as its launch tells."""
        return any(span.holds(count) for span in self.spans)


@dataclass(frozen=True, slots=True)
class View:
    """A call to be found: its main kernel, all its kernels, the scene, what stands around, its recorded duration.

    `added`: a copy of an addend is part of it. `fused`: kernels of fused attention ran beside it. `layered`: its kernel
    is launched as often in a step as those of layers.
    """

    kind: Kind
    known: Decoded
    kernels: tuple[Near, ...]
    scene: Scene
    device: Device
    before: tuple[Near, ...]
    after: tuple[Near, ...]
    duration_ns: float | None
    added: bool = False
    fused: bool = False
    layered: bool = False

    @property
    def model(self) -> Model:
        """The dims of the model."""
        return self.scene.model

    @property
    def spans(self) -> tuple[Span, ...]:
        """The ranges of elements that the launch allows."""
        return grids.elements(self.kind)

    def follows(self, *operations: str) -> bool:
        """Whether the call right before does one of these operations."""
        return bool(self.before) and self.before[0].known.operation in operations

    def precedes(self, *operations: str) -> bool:
        """Whether the call right after does one of these operations."""
        return bool(self.after) and self.after[0].known.operation in operations


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that may have been made: bytes moved and operations for its expected time; `fit` from 0 to 1 for the rest.

    `dtype` is what its peak goes by. `by_time` tells that the duration gave its size, and so proves nothing. The
    score is multiplied by `likely`: below 1 where the run speaks against such a call, whatever its size.
    """

    spec: CallSpec
    why: str
    moved: float
    fit: float
    flops: float = 0.0
    dtype: str | None = None
    by_time: bool = False
    likely: float = 1.0


def moved(*held: Tensor) -> float:
    """Bytes of all these tensors, broadcast ones once."""
    return float(sum(stored(one) for one in held))


def shown(dims: Sequence[int]) -> str:
    """`8×1024×4096`."""
    return "×".join(map(str, dims))


def dims_of(*sizes: int) -> Dims:
    """A shape of these sizes."""
    return tuple(sizes)
