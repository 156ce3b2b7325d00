"""What a launch says about its size: ranges of elements, or rows, from the grid, the block and the kernel's name.

Elements per block, from ATen's CUDALoops.cuh and its kin (checked on traces with known shapes):

    vectorized_elementwise_kernel     128 threads × 8 (newer PyTorch; 16 for bytes) or × 4
    elementwise_kernel<n, v>          n × v
    unrolled_elementwise_kernel       128 × 4
    elementwise_kernel_with_index     one per thread
    CatArrayBatchedCopy_vectorized    the largest input: threads × elements of 16 bytes

The grid of a library's matrix product says at most how many tiles there are: Hopper's kernels are persistent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Final

from kerneldb.names import decode
from kerneldb.replay.plan.unknowns import Kind

ARRAY: Final = re.compile(r"std::array<char ?\*, (\d+)u?l?>|Array<char ?\*, (\d+)>")
WARP: Final = 32
TWO_ROWS: Final = 7
"""A warp of a softmax takes one row, or two of at most 128 elements; a block of `cunn_SoftMaxForward` one."""
OVER_CHANNELS: Final = ("batch_norm", "group_norm", "instance_norm")
"""Norms with a block for each channel or group of an image, not for each row."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of element counts: `least` to `most`, both included."""

    least: int
    most: int

    def holds(self, count: int) -> bool:
        """Whether `count` lies in it."""
        return self.least <= count <= self.most


def blocks(kind: Kind) -> int | None:
    """Blocks of a launch, also where only their product is printed."""
    return prod(kind.grid) if kind.grid is not None else kind.total_blocks


def threads(kind: Kind) -> int | None:
    """Threads per block, also where only their product is printed."""
    return prod(kind.block) if kind.block is not None else kind.threads_per_block


def tensors(kind: Kind) -> int | None:
    """Tensors that an elementwise kernel reads and writes, where its name tells."""
    found = ARRAY.search(kind.name)
    return int(found[1] or found[2]) if found else None


def elements(kind: Kind) -> tuple[Span, ...]:
    """The ranges that the number of elements of an elementwise kernel may lie in, the most likely first."""
    known = decode(kind.name)
    count, width = blocks(kind), threads(kind)
    if count is None or width is None:
        return ()
    per_thread = _per_thread(known.family or "", known.vector_width, known.dtype)
    return tuple(_span(count, each * width) for each in per_thread)


def _span(count: int, per_block: int) -> Span:
    return Span((count - 1) * per_block + 1, count * per_block)


def _per_thread(family: str, width: int | None, dtype: str | None) -> tuple[int, ...]:
    if family == "vectorized_elementwise":
        return (16, 8, 4) if dtype in {"bool", "int8", "uint8"} else (8, 4)
    if family in {"elementwise", "elementwise_manual_unroll", "legacy_elementwise", "index_elementwise"}:
        return (width or 4,)
    if family.startswith("unrolled_elementwise"):
        return (4, 8)
    return (1,) if family == "elementwise_with_index" else ()


def cat_elements(kind: Kind) -> Span | None:
    """Elements of the largest input of a vectorised `cat`; None where the grid is capped."""
    known = decode(kind.name)
    width = threads(kind)
    if "vectorized" not in kind.name or kind.grid is None or width is None:
        return None
    size = known.details.get("element_bytes")
    each = known.vector_width or 16 // (size if isinstance(size, int) and size else 4)
    return _span(kind.grid[0], width * each)


def rows(kind: Kind) -> Span | None:
    """Rows (independent results) of a normalisation, softmax, reduction or gather."""
    known, count = decode(kind.name), blocks(kind)
    if count is None or kind.block is None:
        return None
    if known.category == "NORMALIZATION":
        apart = "ackward" in kind.name or (known.operation or "").startswith(OVER_CHANNELS)
        return None if apart else Span(count, count)
    if known.category == "SOFTMAX":
        log2 = known.details.get("log2_elements")
        each = 2 if isinstance(log2, int) and log2 <= TWO_ROWS else 1
        return _span(count, kind.block[1] * each) if "warp" in kind.name else Span(count, count)
    if known.family == "reduce":
        if kind.grid is None:
            return None
        if kind.grid[1] > 1:
            return Span(kind.grid[0], kind.grid[0] * kind.block[1])
        return _span(count, kind.block[1]) if kind.block[0] == WARP else Span(count, count * kind.block[1])
    if known.family == "vectorized_gather" and kind.grid is not None:
        return Span(kind.grid[0], kind.grid[0])
    return None
