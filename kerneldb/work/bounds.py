"""What a launch alone says about its size: an upper bound on `numel` for ATen's pointwise kernels.

Those kernels cover `ceil(numel / elements per block)` blocks, so `numel <= blocks * elements per block`. Elements per
block are threads times elements per thread (pytorch `aten/src/ATen/native/cuda/CUDALoops.cuh`, `thread_constants.h`):

* `vectorized_elementwise_kernel<vec>`, CUDA (128 threads): 4 per thread up to torch 2.6, then 8, and 16 for fills of
  one-byte types. The name does not say which release, so the largest that fits holds: 16 for one-byte results, 8
  otherwise.
* the same on ROCm (256 threads): 4, 8 or 16 by item size, 16 on gfx942 in newer releases: 16 holds for all.
* `unrolled_elementwise_kernel<…, n>`: n per thread where the template names it, otherwise 4.
* `elementwise_kernel<threads, n>` and ROCm's `elementwise_kernel_manual_unroll<threads, n>`: n per thread, from the
  template.

The bound is exact up to one block where the template states the number, and up to a factor 2 (CUDA) or 4 (ROCm)
otherwise. Grid-stride kernels (gathers, concatenation, reductions, dropout) and persistent GEMMs say nothing and get
no bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kerneldb.work.model import UNKNOWN, Problem

if TYPE_CHECKING:
    from kerneldb.work.model import LaunchShape, NameFacts

_CUDA_THREADS = 128
_ONE_BYTE = frozenset({"bool", "uint8", "int8", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz"})
_CATEGORIES = frozenset({"ELEMENTWISE", "COPY"})


def bound(name: NameFacts, launch: LaunchShape) -> Problem:
    """An upper bound on the number of elements, or an empty problem where the launch implies none."""
    per_thread = _elements_per_thread(name, launch)
    if per_thread is None or launch.grid is None or launch.block is None:
        return UNKNOWN
    if min(*launch.grid, *launch.block) < 1:
        return UNKNOWN
    numel = math.prod(launch.grid) * math.prod(launch.block) * per_thread
    return Problem(numel=numel, dims_source="bound", work_method="upper bound: blocks x elements per block")


def _elements_per_thread(name: NameFacts, launch: LaunchShape) -> int | None:
    family = name.family or ""
    if name.category not in _CATEGORIES or "elementwise" not in family or "index" in family or launch.block is None:
        return None
    if "templated" in family:
        return 32
    if "vectorized" in family:
        wide = launch.block[0] != _CUDA_THREADS or name.dtype is None or name.dtype in _ONE_BYTE
        return 16 if wide else 8
    if "unrolled" in family:
        return name.vector_width or 4
    return name.vector_width
