"""Matrix products of which nothing but the launch is known: no model around them, or none that their tiles fit.

M and N are the tiles of the grid (of a kernel without a library's name: its threads, one result each), and what is left
open is sized by the duration: K, or all three where the grid is that of a persistent kernel or was not recorded. Sizes
are rounded to what programs use, powers of two first. Where the model's dims fit, they come first: see `products`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import weight_bytes
from kerneldb.replay.infer.view import View, bandwidth, peak

STEPS: Final = {64: 0.8, 8: 0.65}
POWER: Final = 0.95
LEAST: Final = 8
NEAR: Final = 1.7
OWN: Final = 32.0
PAIRS: Final = 6
LONG: Final = 64
SQUARE: Final = 4
WAVE_SLACK: Final = 4
HOPPER: Final = "sm90_xmma"
SWIZZLED: Final = frozenset({"cutlass", "xmma_gemm", "cublas_gemm"})
TILED: Final = SWIZZLED | {"arch_gemm"}
"""Families that launch a block for each tile, where they are not persistent."""
LESS: Final = 0.97


@dataclass(frozen=True, slots=True)
class SizeCandidate:
    """batch × (M, N, K) as PyTorch counts, where it comes from, and how much that counts (0 to 1).

    `by_time`: the duration gave a size.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    label: str = ""
    weight: float = 1.0
    by_time: bool = False

    @property
    def flops(self) -> float:
        """Operations, a multiply-add as two."""
        return 2.0 * self.batch * self.m * self.n * self.k


def of_launch(view: View) -> Iterator[SizeCandidate]:
    """The products that the launch and the duration allow."""
    yield from _vectors(view) if view.known.category == "GEMV" else _matrices(view)


def _matrices(view: View) -> Iterator[SizeCandidate]:
    faces = list(_faces(view))
    for rank, (m, n, batch, label) in enumerate(faces):
        wanted = operations(view) / (m * n * batch)
        reach = OWN if view.known.family == "user_gemm" else NEAR
        square = dict.fromkeys((one for one in (n, m) if wanted / reach <= one <= wanted * reach), 1.0)
        for k, weight in [*square.items(), *(pair for pair in _rounded(wanted) if pair[0] not in square)]:
            yield SizeCandidate(m, n, k, batch, f"{label}, K by time", weight * LESS**rank, by_time=True)
    if not faces:
        for side, weight in _rounded(operations(view) ** (1 / 3)):
            yield SizeCandidate(side, side, side, 1, "a cube by time", weight, by_time=True)


def operations(view: View) -> float:
    """Multiply-adds in the recorded duration."""
    return (view.duration_ns or 0.0) * peak(view.device, view.known.dtype) * 1000 / 2


def _faces(view: View) -> Iterator[tuple[int, int, int, str]]:
    """M, N and batch that make the grid."""
    known, grid, block = view.known, view.kind.grid, view.kind.block
    wide, high = known.tile_m or 0, known.tile_n or 0  # columns and rows of the result in a tile
    if known.family == "mul_mat" and block is not None:
        wide = 16 * block[1]  # llama.cpp's products have 16 columns per warp
    if grid is None or persistent(view):
        return
    if not wide or not high:
        if block is not None and grid[1] * block[1] > 1:
            yield grid[1] * block[1], grid[0] * block[0], grid[2] * block[2], "one thread per result"
        return
    parts = grid[2]
    for across, down in _pairs(view, grid[0], grid[1]):
        label = f"{across}×{down} tiles of {wide}×{high}"
        if parts == 1 or view.known.split_k is not False:
            yield down * high, across * wide, 1, label
        if parts > 1 and view.known.split_k is not True:
            yield down * high, across * wide, parts, f"{parts} × {label}"


def persistent(view: View) -> bool:
    """Whether the grid is as large as the GPU, and not as the product: one wave of blocks."""
    if view.known.family == "nvjet" or HOPPER in view.kind.name:
        return True
    return view.known.family == "cutlass" and one_wave(view)


def one_wave(view: View) -> bool:
    """Whether there is about one block for each multiprocessor."""
    units, count = view.device.multiprocessors, grids.blocks(view.kind)
    return bool(units and count and units - WAVE_SLACK <= count <= units)


def _pairs(view: View, across: int, down: int) -> list[tuple[int, int]]:
    """Tiles across and down: as launched, turned, and what a flattened grid may hold, squares first."""
    launched = [(across, down), (down, across)]
    if view.known.family not in SWIZZLED:
        return launched[:1]
    if min(across, down) > 1:
        return launched
    count = across * down
    divided = [(count // one, one) for one in range(1, int(count**0.5) + 1) if count % one == 0]
    near = [pair for pair in reversed(divided) if pair[0] < LONG * pair[1]][: PAIRS // 2]
    both = (pair for one, two in near for pair in ((one, two), (two, one)))
    return list(dict.fromkeys((*both, *launched)))[:PAIRS]


def _rounded(wanted: float) -> list[tuple[int, float]]:
    """A power of two where one is near, then multiples of 64 and of 8, with weights."""
    if wanted < 1:
        return []
    power = 1 << max(round(wanted).bit_length() - 1, 0)
    powers = [one for one in (power, 2 * power) if wanted / NEAR <= one <= wanted * NEAR]
    found = dict.fromkeys(sorted(powers, key=lambda one: abs(one - wanted)), POWER)
    for step, weight in STEPS.items():
        if wanted >= step:
            found.setdefault(max(round(wanted / step) * step, LEAST), weight)
    return list(found.items())


def _vectors(view: View) -> Iterator[SizeCandidate]:
    """One row times a matrix whose bytes take the duration: a square one, or with the grid's results.

    llama.cpp's products of one vector have a block for each result (`calc_rows_per_block` of its mmvq.cu).
    """
    count = (view.duration_ns or 0.0) * bandwidth(view.device) / weight_bytes(view.known.dtype)
    blocks = 0 if view.kind.grid is None else view.kind.grid[0]
    one_each = view.known.family == "mul_mat_vec" and blocks
    for side, weight in [] if one_each else _rounded(count**0.5):
        yield SizeCandidate(1, side, side, 1, "a square matrix times a vector, by time", weight, by_time=True)
    for rank, n in enumerate(blocks * each for each in ((1,) if one_each else (8, 1, 4, 16, 2)) if blocks):
        for k, weight in _rounded(count / n):
            share = weight if max(n, k) <= SQUARE * min(n, k) else weight * LESS**SQUARE
            yield SizeCandidate(1, n, k, 1, f"{n} results of a vector, K by time", share * LESS**rank, by_time=True)
