"""A trace with launches of Triton kernels, and their sources."""

from __future__ import annotations

from typing import Any

from kerneldb.ids import code_hash

POINTWISE = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_heuristics


@triton_heuristics.pointwise(size_hints={'x': 64}, filename=__file__)
@triton.jit
def triton_poi_fused_add_mul_1(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    tl.store(out_ptr0, tl.load(in_ptr0))
"""
TEMPLATE = """
import triton
from torch._inductor.runtime import triton_heuristics


@triton_heuristics.template(
num_stages=3,
num_warps=4,
)
@triton.jit
def triton_tem_fused_mm_0(arg_A, arg_B, out_ptr0):
    pass
"""
OTHER_TEMPLATE = TEMPLATE.replace("num_warps=4", "num_warps=8")
HASH = code_hash(POINTWISE)


def op(name: str, number: int, more: dict[str, Any]) -> dict[str, Any]:
    """An operator event of two tensors and a number."""
    args = {
        "External id": number,
        "Input Dims": [[8, 8], [8, 8], []],
        "Input Strides": [[8, 1], [8, 1], []],
        "Input type": ["float", "float", "Scalar"],
        "Concrete Inputs": ["", "", "64"],
        "kernel_backend": "triton",
        **more,
    }
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10.0 * number, "dur": 8.0, "args": args}


def launch(name: str, number: int) -> list[dict[str, Any]]:
    """The driver call and the kernel of an operator event."""
    call = {"External id": number, "cbid": 307, "correlation": number}
    grid = {"grid": [1, 1, 1], "block": [128, 1, 1], "shared memory": 0, "registers per thread": 16}
    there = {"External id": number, "device": 0, "context": 1, "stream": 7, "correlation": number, **grid}
    at = 10.0 * number
    return [
        {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 1, "tid": 1, "ts": at + 1, "dur": 2.0}
        | {"args": call},
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at + 4, "dur": 3.0, "args": there},
    ]


def embedded(*texts: str) -> str:
    """A file as TorchInductor writes it, with kernels as texts."""
    calls = "\n".join(
        f"kernel{place} = async_compile.triton('kernel', '''{text}''')" for place, text in enumerate(texts)
    )
    return f"import torch\nasync_compile = AsyncCompile()\n{calls}\n"
