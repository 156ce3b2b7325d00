"""What a decoded name holds, and the words used in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

CATEGORIES = (
    "GEMM",
    "GEMV",
    "ATTENTION",
    "CONVOLUTION",
    "ELEMENTWISE",
    "REDUCTION",
    "NORMALIZATION",
    "SOFTMAX",
    "CONCAT",
    "INDEXING",
    "SCAN_SORT",
    "COPY",
    "MEMCPY",
    "MEMSET",
    "COMMUNICATION",
    "OPTIMIZER",
    "RANDOM",
    "FUSED",
    "OTHER",
)


class Facts(TypedDict, total=False):
    """What a rule or a grammar read from a name: fields of `Decoded`."""

    category: str
    library: str | None
    family: str | None
    operation: str | None
    dtype: str | None
    dtypes: tuple[str, ...]
    arch: str | None
    tile_m: int | None
    tile_n: int | None
    tile_k: int | None
    pipeline_stages: int | None
    cluster: str | None
    layout: str | None
    split_k: bool | None
    epilogue: str | None
    vector_width: int | None
    template: str | None
    head_dim: int | None
    direction: str | None
    details: dict[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A kernel's name, decoded. A field is None (or empty) where the name does not say.

    Attributes:
        demangled: the name as C++ text.
        short_name: a short form for tables.
        match_name: the spelling shared by all profilers.
        category: one of `CATEGORIES`.
        family: kernels of one template or name grammar (``nvjet``, ``vectorized_elementwise``, ``tensile``).
        library: who wrote it (``cuBLAS``, ``PyTorch ATen``, ``NCCL``); None if unknown.
        operation: what it computes (``gemm``, ``add``, ``mean``; copies: the direction; fused: the listed operations).
        dtype: element type of the input that is computed on (llama.cpp: how the weights are stored, ``q4_K``).
        dtypes: all element types named, in the order named (input, accumulator, output).
        arch: ``sm_80``, ``gfx942``.
        tile_m: rows of the output tile that one block computes, as the library counts them (cuBLAS: column-major).
        tile_n: columns of that tile.
        tile_k: depth of one step along the summed dimension.
        pipeline_stages: steps in flight (software pipeline).
        cluster: thread-block cluster, ``2x1``.
        layout: transposition of A and B, ``tn`` ``nn`` ``nt`` ``tt``; for convolutions ``nhwc`` or ``nchw``.
        split_k: whether the summed dimension is shared out among blocks.
        epilogue: work joined to the product (``bias``, ``relu``, ``bias+gelu``). CUTLASS' ``relu`` kernels are
            general: cuBLAS launches them without the activation too.
        vector_width: elements per thread (elementwise), elements per access (CUTLASS alignment).
        template: the template number of a cuBLAS GEMV.
        head_dim: head dimension of an attention kernel.
        direction: ``forward`` or ``backward``.
        details: all else, by name. Equal names share one object: read it, do not change it.
    """

    demangled: str
    short_name: str
    match_name: str
    category: str
    family: str | None = None
    library: str | None = None
    operation: str | None = None
    dtype: str | None = None
    dtypes: tuple[str, ...] = ()
    arch: str | None = None
    tile_m: int | None = None
    tile_n: int | None = None
    tile_k: int | None = None
    pipeline_stages: int | None = None
    cluster: str | None = None
    layout: str | None = None
    split_k: bool | None = None
    epilogue: str | None = None
    vector_width: int | None = None
    template: str | None = None
    head_dim: int | None = None
    direction: str | None = None
    details: dict[str, str | int | bool] = field(default_factory=dict, hash=False)


def directed(operation: str, *, backward: bool) -> Facts:
    """The facts of an operation that has a gradient: its name ends in ``_backward`` where this is the gradient."""
    if backward:
        return {"operation": f"{operation}_backward", "direction": "backward"}
    return {"operation": operation, "direction": "forward"}
