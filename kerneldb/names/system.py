"""Readers of copies, fills and communication: what the runtime and the collective libraries launch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import argument_types, element_type, typed

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
    """Read a copy: its direction, and the kinds of memory where the name has them (``Pinned -> Device``)."""
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
    facts.update(typed([element_type(match[5] or "")]))
    return facts


def read_collective(name: Structure) -> Facts:
    """Read other libraries' collectives, whose operation is in the name (``multimem_all_reduce_kernel<T, 16>``)."""
    lowered = name.head.lower().replace("_", "")
    known = (*_COLLECTIVES[:-1], ("dispatch", "all_to_all"), ("combine", "all_to_all"), ("barrier", "barrier"))
    return {"operation": next((op for key, op in known if key in lowered), None), **typed(argument_types(name.args))}
