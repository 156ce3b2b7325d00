"""Hand-made plans for the worker's tests."""

from __future__ import annotations

from pathlib import Path

from kerneldb.replay.wire import plan
from kerneldb.replay.wire.plan import CallSpec, Item, Plan, PlannedKernel

GEMM = (
    "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
)
OTHER_TILE = GEMM.replace("tilesize64x64x64", "tilesize128x64x64")
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)


def kernel(
    name: str = GEMM,
    *,
    ordinal: int = 0,
    grid: tuple[int, ...] | None = (4, 1, 1),
    block: tuple[int, ...] | None = (128, 1, 1),
    shared: int | None = 1024,
) -> PlannedKernel:
    return PlannedKernel(ordinal, f"s{ordinal}", name, grid=grid, block=block, shared_bytes=shared)


def copy(size: int = 4096, name: str = "Memcpy HtoD (Pageable -> Device)", kind: str | None = "HtoD") -> PlannedKernel:
    return PlannedKernel(0, "copy", name, kind="memcpy", bytes=size, copy_kind=kind)


def item(name: str, route: str = "aten", spec: CallSpec | None = None, *kernels: PlannedKernel) -> Item:
    return Item(name, route, spec, tuple(kernels))


def write(path: Path, *items: Item) -> Path:
    plan.write(Plan(items, {"trace": "by hand"}), path)
    return path
