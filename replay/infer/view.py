"""What a family's rules see of a call to be found, and what they answer.

The shape pool (`shapes`) are the shapes that the tensors of a transformer have in one step.

`expected` is the duration that a roofline expects of a call, to rank candidates by: work over peak, bytes over
bandwidth, a floor. The shares of peak and bandwidth are what good kernels of A100 and H100 class GPUs reach in PyTorch
models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from kerneldb.names import Decoded
from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import FP8, Dims, Tensor, item_bytes
from kerneldb.replay.infer.dims import ModelDims, StepDims
from kerneldb.replay.infer.grids import Span
from kerneldb.replay.infer.units import Launch
from kerneldb.replay.plan.unknowns import Device, Kind
from kerneldb.replay.resolve.tensors import distinct
from kerneldb.replay.wire.plan import CallSpec

FLOATS: Final = frozenset({"fp16", "bf16", "fp32"})
BEST: Final = 0.9
NEXT: Final = 0.97
OTHER_SPAN: Final = 0.6
PEAK_SHARE: Final = 0.72
BANDWIDTH_SHARE: Final = 0.72
FLOOR_NS: Final = 1500.0
PRODUCT_FLOOR_NS: Final = 2500.0
PEAKS: Final = {"fp16": 300.0, "bf16": 300.0, "fp32": 20.0, "tf32": 150.0, "fp64": 10.0, "fp8": 600.0}
BANDWIDTH_GBS: Final = 1500.0
SHARPNESS: Final = 1.5


@dataclass(frozen=True, slots=True)
class View:
    """A call to be found: its main kernel, all its kernels, the dims of its step, its neighbours, its duration.

    `added`: a copy of an addend is part of it. `fused`: kernels of fused attention ran beside it. `layered`: its kernel
    is launched as often in a step as those of layers.
    """

    kind: Kind
    known: Decoded
    kernels: tuple[Launch, ...]
    step: StepDims
    device: Device
    before: tuple[Launch, ...]
    after: tuple[Launch, ...]
    duration_ns: float | None
    added: bool = False
    fused: bool = False
    layered: bool = False

    @property
    def model(self) -> ModelDims:
        """The dims of the model."""
        return self.step.model

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
        """The shapes of the step that fit, with names and fits, see `fitting_shapes`."""
        return fitting_shapes(self.step, self.spans)

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


def shapes(step: StepDims) -> Iterator[tuple[Dims, str]]:
    """The shapes of contiguous tensors, with names, usual ones first."""
    model, batch, queries, keys = step.model, step.batch, step.queries, step.keys
    half = model.head_dim // 2
    yield (batch, queries, model.hidden), "hidden states"
    yield (batch, queries, model.ffn), f"feed-forward states{model.assumed}"
    yield (batch, model.heads, queries, keys), "attention scores"
    yield (batch, queries, 1), "one number per token"
    yield (batch, model.heads, queries, model.head_dim), "queries by head"
    yield (batch, model.kv_heads, queries, model.head_dim), "keys by head"
    yield (batch, queries, model.head_dim), "rotary angles"
    yield (batch, model.heads, queries, half), "half of the queries"
    yield (batch, model.kv_heads, queries, half), "half of the keys"
    yield (batch * model.heads, 1, keys), "a bias by position"
    yield (batch, 1, queries, keys), "the mask"
    yield (1, 1, queries, keys), "the mask of one sequence"
    yield (batch, queries, 2 * model.ffn), f"gate and up{model.assumed}"
    yield (batch, keys), "tokens of the cache"
    yield (batch, queries), "tokens"
    yield (batch, 1, model.vocab), "logits of the last token"
    yield (batch, queries, model.vocab), "logits"
    yield (queries,), "positions"
    yield (keys,), "positions of the cache"
    yield (1, half, 1), "frequencies"
    yield (model.heads,), "heads"
    yield from (((batch, queries, width), "a width seen") for width in model.widths)


def fitting_shapes(step: StepDims, spans: tuple[Span, ...]) -> Iterator[tuple[Dims, str, float]]:
    """The shapes whose elements lie in one of `spans`, each with a fit below 1; a flat one for each span at last."""
    seen: set[Dims] = set()
    fit = BEST
    for number, span in enumerate(spans):
        for dims, name in shapes(step):
            if 0 not in dims and dims not in seen and span.holds(prod(dims)):
                seen.add(dims)
                yield dims, name, fit * OTHER_SPAN**number
                fit *= NEXT
    for number, span in enumerate(spans[:3]):
        if (span.most,) not in seen:
            yield (span.most,), "elements of the grid", fit * NEXT * OTHER_SPAN**number


def expected(device: Device, moved: float, flops: float = 0.0, dtype: str | None = None) -> float:
    """Nanoseconds for `moved` bytes and `flops` operations."""
    floor = PRODUCT_FLOOR_NS if flops else FLOOR_NS
    return floor + max(moved / bandwidth(device), flops / peak(device, dtype) / 1000)


def bandwidth(device: Device) -> float:
    """Bytes per nanosecond that good kernels move; that of an A100 where the device is not known."""
    return (device.bandwidth_gbs or BANDWIDTH_GBS) * BANDWIDTH_SHARE


def peak(device: Device, dtype: str | None) -> float:
    """TFLOPS that good matrix products of a dtype reach; those of an A100 where the device is not known."""
    name = "fp8" if dtype in FP8 else dtype or ""
    return (device.peaks.get(name) or PEAKS.get(name, PEAKS["fp32"])) * PEAK_SHARE


def likeness(expected_ns: float | None, recorded_ns: float | None) -> float:
    """1 where both are equal, towards 0 with their ratio; 0.5 where one is not known."""
    if not expected_ns or not recorded_ns:
        return 0.5
    return math.exp(-SHARPNESS * abs(math.log(expected_ns / recorded_ns)))
