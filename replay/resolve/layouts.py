"""Layouts other than the strided one: which one a tensor had, and how many of its elements were there.

The profiler records dims and dtype of such a tensor, but no strides and no layout. The calls below tell: each layout
has its own accessors (`crow_indices` of CSR, `_indices` of COO; aten/src/ATen/native/native_functions.yaml), and what
takes their results shows how many elements there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.recorded import Argument
from kerneldb.replay.resolve.tensors import ONEDNN
from kerneldb.replay.wire.plan import CallSpec

COO, CSR, CSC = "sparse_coo", "sparse_csr", "sparse_csc"
ACCESSORS: Final = {"crow_indices": CSR, "ccol_indices": CSC, "_indices": COO, "_coalesced_": COO, "is_coalesced": COO}
IN_NAMES: Final = {"mkldnn": ONEDNN, "csr": CSR, "csc": CSC, "compressed": CSR, "sampled": CSR, "reduce": CSR}
INDEX: Final = "long int"
KEPT: Final = 10
"""One in so many elements is there where nothing tells."""


def layouts(spec: CallSpec, argument: Argument) -> tuple[str, ...]:
    """The layouts that an argument without strides may have had, the likeliest first."""
    short = recorded.short_name(spec.call.op)
    named = (layout for word, layout in IN_NAMES.items() if word in short)
    read = (
        ACCESSORS[name]
        for call in spec.below()
        if (name := recorded.short_name(call.op)) in ACCESSORS
        and any(one.dims == argument.dims for one in recorded.or_none(call)[:1])
    )
    return tuple(dict.fromkeys((*read, *named, COO, CSR, ONEDNN)))


def nonzeros(spec: CallSpec, argument: Argument) -> int:
    """How many elements it had."""
    total = math.prod(argument.dims)
    return int(min(next(_counts(spec, argument), max(total // KEPT, 1)), total))


def _counts(spec: CallSpec, argument: Argument) -> Iterator[int]:
    rows = {size + 1 for size in argument.dims[-2:]}
    for call in (one for one in spec.below() if one.op != "aten::resize_"):  # which takes a result before it is there
        for one in recorded.or_none(call):
            if one.kind != INDEX:
                continue
            if len(one.dims) == 2 and one.dims[0] == len(argument.dims):  # noqa: PLR2004 (indices of COO: dims, elements)
                yield one.dims[1]
            elif len(one.dims) == 1 and one.dims[0] not in rows:
                yield one.dims[0]
