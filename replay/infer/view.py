"""What a family's rules see of a call to be found, and what they answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from kerneldb.names import Decoded
from kerneldb.replay.infer import grids, pool
from kerneldb.replay.infer.calls import Dims, Tensor, item_bytes
from kerneldb.replay.infer.grids import Span
from kerneldb.replay.infer.scene import Model, Scene
from kerneldb.replay.infer.units import Launch
from kerneldb.replay.plan.unknowns import Device, Kind
from kerneldb.replay.resolve.tensors import distinct
from kerneldb.replay.wire.plan import CallSpec

FLOATS: Final = frozenset({"fp16", "bf16", "fp32"})


@dataclass(frozen=True, slots=True)
class View:
    """A call to be found: its main kernel, all its kernels, the scene, what stands around, its recorded duration.

    `added`: a copy of an addend is part of it. `fused`: kernels of fused attention ran beside it. `layered`: its kernel
    is launched as often in a step as those of layers.
    """

    kind: Kind
    known: Decoded
    kernels: tuple[Launch, ...]
    scene: Scene
    device: Device
    before: tuple[Launch, ...]
    after: tuple[Launch, ...]
    duration_ns: float | None
    added: bool = False
    fused: bool = False
    layered: bool = False

    @property
    def model(self) -> Model:
        """The dims of the model."""
        return self.scene.model

    @property
    def dtype(self) -> str:
        """The dtype of the main kernel; that of the model where its name does not tell."""
        return self.known.dtype or self.model.dtype

    @property
    def float_dtype(self) -> str:
        """The same, where the kernel may work on other types than those of the tensors."""
        return self.dtype if self.known.dtype in FLOATS else self.model.dtype

    @property
    def spans(self) -> tuple[Span, ...]:
        """The ranges of elements that the launch allows."""
        return grids.elements(self.kind)

    def fits(self, *dims: int) -> bool:
        """Whether a tensor of these dims has as many elements, and at least one."""
        return 0 not in dims and any(span.holds(prod(dims)) for span in self.spans)

    def shapes(self) -> Iterator[tuple[Dims, str, float]]:
        """The shapes of the scene that fit, with names and fits, see `pool.fitting`."""
        return pool.fitting(self.scene, self.spans)

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
    return float(sum(distinct(one.dims, one.layout) * item_bytes(one.dtype) for one in held))


def shown(dims: Sequence[int]) -> str:
    """`8×1024×4096`."""
    return "×".join(map(str, dims))
