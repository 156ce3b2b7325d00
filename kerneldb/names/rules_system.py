"""Copies, fills and communication: what the runtime and the collective libraries launch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import argument_types, distinct, element_type
from kerneldb.names.rules import rule

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_ENDS = {
    "h": "H", "host": "H", "pageable": "H", "pinned": "H", "d": "D", "device": "D", "p": "P", "peer": "P", "a": "A",
    "array": "A",
}  # fmt: skip
_SHORT = re.compile(r"\b([HDPA])to([HDPA])\b")
_LONG = re.compile(r"(host|device|peer|array)[-_ ]?to[-_ ]?(host|device|peer|array)", re.IGNORECASE)
_MEMORY_KINDS = re.compile(r"\((\w+)(?: -> (\w+))?\)")
_COLLECTIVES = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("broadcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("alltoall", "all_to_all"),
    ("reduce", "reduce"),
    ("generic", None),
)
_NCCL = re.compile(
    r"nccl(?:Dev)?Kernel_(\w+?)(?:_(RING|TREE|COLLNET\w*|NVLS\w*|PAT))?(?:_(LL128|LL|SIMPLE))?(?:_(Sum|Prod|Min|Max|MinMax|PreMulSum|SumPostDiv))?(?:_(\w+))?$"
)


def copy_direction(name: str) -> str | None:
    """Return ``HtoD``, ``DtoH``, ``DtoD``, ``HtoH`` or ``PtoP`` from any tool's wording of a copy."""
    short = _SHORT.search(name)
    if short is not None:
        return short[0]
    long = _LONG.search(name)
    return f"{_ENDS[long[1].lower()]}to{_ENDS[long[2].lower()]}" if long else None


def read_copy(name: Structure) -> Facts:
    """Read a copy: its direction, and the kinds of memory where the name tells them (``Pinned -> Device``)."""
    facts: Facts = {"operation": copy_direction(name.base) or copy_direction(name.canonical)}
    kinds = _MEMORY_KINDS.search(name.canonical)
    if kinds is not None and kinds[2]:
        facts["details"] = {"source": kinds[1], "destination": kinds[2]}
    if "Unified" in name.canonical:
        facts["details"] = {"unified": True}
    return facts


def read_nccl(name: Structure) -> Facts:
    """Read ``ncclKernel_AllReduce_RING_LL_Sum_float``: collective, algorithm, protocol, reduction, element type.

    ``ncclDevKernel_Generic`` names none: it runs whichever collective its arguments ask for.
    """
    match = _NCCL.search(name.base)
    lowered = (match[1] if match else name.base).lower().replace("_", "")
    facts: Facts = {"operation": next((op for key, op in _COLLECTIVES if key in lowered), None)}
    if match is None:
        return facts
    keys = ("algorithm", "protocol", "reduction")
    facts["details"] = {key: value for key, value in zip(keys, match.groups()[1:4], strict=True) if value}
    dtype = element_type(match[5]) if match[5] else None
    facts["dtype"], facts["dtypes"] = dtype, distinct([dtype])
    return facts


def read_collective(name: Structure) -> Facts:
    """Read other libraries' collectives, whose operation stands in the name (``multimem_all_reduce_kernel<T, 16>``)."""
    lowered = name.head.lower().replace("_", "")
    types = argument_types(name.args)
    known = (*_COLLECTIVES[:-1], ("dispatch", "all_to_all"), ("combine", "all_to_all"), ("barrier", "barrier"))
    return {
        "operation": next((op for key, op in known if key in lowered), None),
        "dtypes": types,
        "dtype": types[0] if types else None,
    }


MEMCPY = rule("", "MEMCPY", "CUDA", "memcpy", None, read_copy)
MEMSET = rule("", "MEMSET", "CUDA", "memset", "memset")
# Names of roctracer and of HIP; PyTorch says "Memcpy" and "Memset" of either vendor's.
_ROCM_COPIES = (
    r"^MEMORY_COPY|^__amd_rocclr_copy|^hipMemcpy|^\[HIP memcpy|"
    r"^CopyBuffer|^Copy(?:Host|Device)To|^Copy(?:Host|Device|Peer)?$"
)
_ROCM_FILLS = r"^__amd_rocclr_(?:fill|initHeap|streamOps)|^hipMemset|^\[HIP memset|^FillBuffer$"
RULES = (
    rule(r"^Memcpy |^\[CUDA memcpy", "MEMCPY", "CUDA", "memcpy", None, read_copy),
    rule(r"^Memset|^\[CUDA memset", "MEMSET", "CUDA", "memset", "memset"),
    rule(_ROCM_COPIES, "MEMCPY", "ROCm", "memcpy", None, read_copy),
    rule(_ROCM_FILLS, "MEMSET", "ROCm", "memset", "memset"),
    rule(r"^__amd_rocclr_", "OTHER", "ROCm", "rocclr", None),
    # NCCL has one generic kernel; the numbered ones (by unrolling) and those of MSCCL are RCCL's.
    rule(r"rccl|^ncclDevKernel_Generic_\d|^mscclKernel|^mscclpp", "COMMUNICATION", "RCCL", "rccl", None, read_nccl),
    rule(r"nccl(?:Dev)?Kernel|^nccl[A-Z:_]|ncclSymk", "COMMUNICATION", "NCCL", "nccl", None, read_nccl),
    rule(r"deep_ep::|(?:inter|intra)node(?:_ll)?::", "COMMUNICATION", "DeepEP", "deep_ep", None, read_collective),
    rule(r"nvshmem", "COMMUNICATION", "NVSHMEM", "nvshmem", None, read_collective),
    rule(
        r"multimem_|(?:one|two)_shot_all_reduce|symm_mem|^barrier_kernel",
        "COMMUNICATION",
        "PyTorch ATen",
        "symm_mem",
        None,
        read_collective,
    ),
    rule(
        r"cross_device_reduce|custom_all_?reduce|qr_all_reduce|quick_?reduce",
        "COMMUNICATION",
        "vLLM",
        "custom_all_reduce",
        "all_reduce",
        read_collective,
    ),
    rule(
        r"[Aa]ll_?[Rr]educe|[Aa]ll_?[Gg]ather_kernel|lamport|userbuffers",
        "COMMUNICATION",
        "TensorRT-LLM",
        "custom_collective",
        None,
        read_collective,
    ),
)
