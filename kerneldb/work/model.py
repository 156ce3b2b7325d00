"""The plain records that `kerneldb.work` takes and returns.

They depend on no other part of kerneldb, so the name decoder and this package do not import each other.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

Grid = tuple[int, int, int]


class NameFacts(Protocol):
    """What the work models take from a decoded kernel name; `kerneldb.names.Decoded` has these attributes and more."""

    @property
    def category(self) -> str | None:
        """Upper-case category such as 'GEMM'."""

    @property
    def family(self) -> str | None:
        """Kernel family such as 'nvjet'."""

    @property
    def operation(self) -> str | None:
        """Operation read from the name, such as 'add'."""

    @property
    def dtype(self) -> str | None:
        """Main data type, such as 'fp16'."""

    @property
    def vector_width(self) -> int | None:
        """Elements per thread or per vector that the name states."""

    @property
    def tile_m(self) -> int | None:
        """Rows of a tile."""

    @property
    def tile_n(self) -> int | None:
        """Columns of a tile."""

    @property
    def tile_k(self) -> int | None:
        """Depth of a tile."""


@dataclasses.dataclass(frozen=True, slots=True)
class OpCall:
    """A recorded operator call; every field but `op` is JSON text exactly as the trace has it, or None."""

    op: str | None = None
    input_dims: str | None = None
    input_strides: str | None = None
    input_dtypes: str | None = None
    scalars: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchShape:
    """A launch: `kind` 'kernel', 'memcpy' or 'memset'; grid in blocks, block in threads, `bytes` of a copy or fill."""

    kind: str
    grid: Grid | None = None
    block: Grid | None = None
    bytes: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Size and work of one kernel launch. What is not known is None, never 0.

    GEMM sizes are row-major as torch sees them: `out[batch, M, N] = A[batch, M, K] @ B[batch, K, N]`. `numel` is the
    number of elements that the family's model states (see each module). `dims_source` is 'op' (from a recorded call;
    exact) or 'bound' (from the launch; an upper bound). `flops` counts floating-point operations, a multiply-add as
    two. `moved_bytes` is compulsory traffic: every distinct input element read once, every output element written
    once. `work_method` says in a few words how the numbers were made.
    """

    gemm_m: int | None = None
    gemm_n: int | None = None
    gemm_k: int | None = None
    gemm_batch: int | None = None
    numel: int | None = None
    dims_source: str | None = None
    flops: float | None = None
    moved_bytes: float | None = None
    work_method: str | None = None

    @classmethod
    def of_call(cls, numel: int | None, method: str, moved: float | None = None, flops: float | None = None) -> Problem:
        """The work of an operator call other than a matrix product."""
        return cls(numel=numel, dims_source="op", flops=flops, moved_bytes=moved, work_method=method)


UNKNOWN = Problem()
