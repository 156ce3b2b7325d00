"""How much work a kernel does: problem sizes, FLOPs and bytes from a recorded operator call, or bounds from the launch.

`problem` is the one entry. Models are in one module per topic and register themselves by operator name:

* `gemm`: matrix products · `attention` · `convolution` · `elementwise` · `reduction` (also norms, softmax, scans)
* `memory`: gathers, concatenation, memcpy, memset · `bounds`: what a launch alone says · `tensors`: reading the
  recorded text

An operator may launch several kernels. Its work goes to the kernels whose decoded category is that of the operator; a
helper (split-K reduction, layout change, bias copy) gets none of it. Where an operator's own category runs as several
kernels the models give the size but no FLOPs or bytes, so sums do not count work twice.
"""

from __future__ import annotations

from kerneldb.work import attention, convolution, elementwise, gemm, memory, reduction, registry
from kerneldb.work.bounds import bound
from kerneldb.work.model import UNKNOWN, LaunchShape, NameFacts, OpCall, Problem
from kerneldb.work.tensors import parse_call, tensor_types

__all__ = [
    "DERIVER_VERSION",
    "LaunchShape",
    "NameFacts",
    "OpCall",
    "Problem",
    "problem",
    "supported_ops",
    "tensor_types",
]

DERIVER_VERSION = 1
"""Raised whenever a model changes its numbers, so that stored rows can be found and computed again."""

_MODULES = (attention, convolution, elementwise, gemm, memory, reduction)
_LARGEST = 2**63 - 1


def problem(call: OpCall, name: NameFacts, launch: LaunchShape) -> Problem:
    """Size and work of one launch. Never raises for what a trace may hold; what is not known is None.

    `call` is the operator call that launched the kernel (`OpCall()` where none is recorded), `name` the decoded kernel
    name, `launch` its grid and block, or the bytes of a memcpy or memset.
    """
    if launch.kind in ("memcpy", "memset"):
        return memory.transfer(name, launch)
    parsed = parse_call(call)
    function = None if parsed is None else registry.MODELS.get(parsed.op)
    try:
        found = None if parsed is None or function is None else function(parsed, name)
    except OverflowError:  # sizes that not even a float holds
        return UNKNOWN
    if parsed is not None and parsed.op.startswith(elementwise.INDUCTOR_PREFIXES):
        found = elementwise.inductor(parsed, name)
    found = found or bound(name, launch)
    sizes = (found.gemm_m, found.gemm_n, found.gemm_k, found.gemm_batch, found.numel)
    # No GPU holds a tensor whose size exceeds 64 bits: the record is damaged.
    return UNKNOWN if any(size is not None and size > _LARGEST for size in sizes) else found


def supported_ops() -> frozenset[str]:
    """Operators that have a model."""
    return frozenset(registry.MODELS)
