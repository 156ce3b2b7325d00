"""Settings of PyTorch's backends: another library or algorithm for the same calls, and less precise arithmetic."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

from kerneldb.replay.resolve.calls import blas_library
from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow
from kerneldb.replay.rewrites.layout import CONVOLUTIONS
from kerneldb.replay.rewrites.region import Region, graph, region
from kerneldb.replay.routes.aten import flag

PRODUCTS: Final = frozenset({"mm", "addmm", "bmm", "baddbmm"})
GPU: Final = "needs a GPU"


class _Setting(Rewrite):
    """A setting around the whole step. Its results are compared call by call."""

    calls: ClassVar[frozenset[str]]
    line: ClassVar[str]
    only: ClassVar[str | None] = None

    @staticmethod
    def around() -> contextlib.AbstractContextManager[Any]:
        """The setting, as a context."""
        raise NotImplementedError

    def lacks(self, flow: Flow) -> str | None:
        """A GPU."""
        return GPU if flow.player.device == "cpu" else None

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each call that it concerns."""
        for node in flow.nodes:
            kind = str(flow.player.dtype(flow.result(node))) if node.op in self.calls else None
            if kind is not None and self.only in {None, kind}:
                covered = region(flow, [node.place])
                make = functools.partial(_inside, covered, type(self).around)
                change = Change("setting", text=self.line)
                yield Proposal(covered, make, change, around=type(self).around, what=self.line)


def _inside(covered: Region, around: Callable[[], contextlib.AbstractContextManager[Any]]) -> Function:
    original = graph(covered)

    def call(*tensors: Any) -> Any:
        with around():
            return original(*tensors)

    return call


class CudnnBenchmark(_Setting):
    """cuDNN tries its algorithms, and keeps the fastest."""

    name = "cudnn_benchmark"
    about = "cuDNN chooses convolution algorithms by measurement"
    calls = CONVOLUTIONS
    line = "torch.backends.cudnn.benchmark = True"

    @staticmethod
    def around() -> contextlib.AbstractContextManager[Any]:
        """As said."""
        return flag("cudnn", "benchmark", value=True)


class BlasLibrary(_Setting):
    """Matrix products by cuBLASLt."""

    name = "cublaslt"
    about = "matrix products by cuBLASLt in place of cuBLAS"
    calls = PRODUCTS
    line = 'torch.backends.cuda.preferred_blas_library("cublaslt")'

    @staticmethod
    def around() -> contextlib.AbstractContextManager[Any]:
        """As said."""
        return blas_library("cublaslt")


class Tf32(_Setting):
    """Products of float32 in TensorFloat-32."""

    name = "tf32"
    about = "float32 products in TensorFloat-32 (10 bits of mantissa)"
    precision = True
    calls = PRODUCTS
    only = "torch.float32"
    line = "torch.backends.cuda.matmul.allow_tf32 = True"

    @staticmethod
    def around() -> contextlib.AbstractContextManager[Any]:
        """As said."""
        return flag("cuda.matmul", "allow_tf32", value=True)


class ReducedPrecision(Rewrite):
    """Products of float32 with their factors in bfloat16."""

    name = "bfloat16"
    about = "float32 products with factors in bfloat16 (7 bits of mantissa)"
    precision = True

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each product."""
        for node in flow.nodes:
            if node.op in PRODUCTS and str(flow.player.dtype(flow.result(node))) == "torch.float32":
                covered = region(flow, [node.place])
                change = Change("advice", text="torch.autocast(device, dtype=torch.bfloat16) around the forward pass")
                yield Proposal(covered, functools.partial(_in_bfloat16, covered), change, what=node.op)


def _in_bfloat16(covered: Region) -> Function:
    import torch

    (place,) = covered.places
    node = covered.flow.nodes[place]
    assert node.how.resolved is not None  # noqa: S101 (a region has only rebuilt calls)
    original = graph(covered)

    def call(*tensors: Any) -> list[Any]:
        low = [one.to(torch.bfloat16) if one.dtype == torch.float32 else one for one in tensors]
        return [one.to(torch.float32) for one in original(*low)]

    return call
