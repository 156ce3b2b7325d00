"""Data movement: gathers and scatters, concatenation, copies and fills by the copy engine.

`numel` is the number of elements moved. Gathers count one read per element fetched (duplicate indices and rows that
stay in cache make the real traffic smaller), so `moved_bytes` of an index operator is index + fetched + written. There
is no floating-point work, so `flops` is unknown rather than 0. Boolean masks and the index lists of `aten::index` are
not recorded; such calls have no model.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from kerneldb.work.model import LaunchShape, Problem
from kerneldb.work.registry import does_work, model
from kerneldb.work.tensors import ITEM_BYTES, Tensor, bytes_of, total

if TYPE_CHECKING:
    from kerneldb.work.model import NameFacts
    from kerneldb.work.tensors import Call, Dims

_INDEX = frozenset({"INDEXING", "ELEMENTWISE"})
_CONCAT = frozenset({"CONCAT"})
_TO = r"[\W_]*(?:to|2|->)[\W_]*"
_ON_DEVICE = re.compile(rf"\bd(?:evice)?{_TO}d(?:evice)?\b")
_ACROSS = re.compile(
    rf"\bh(?:ost)?{_TO}[dha]|\b(?:d|device|a|array){_TO}h|\bp(?:eer)?{_TO}p|\b(?:pageable|pinned){_TO}d"
)
_BATCH_LIMIT = 30


def transfer(name: NameFacts, launch: LaunchShape) -> Problem:
    """A memcpy or memset: the exact bytes of the trace; a copy inside one device reads and writes them.

    A copy whose direction the name does not tell has a size, but no known traffic.
    """
    if launch.bytes is None or launch.bytes < 0:
        return Problem()
    if launch.kind == "memset":
        return Problem(moved_bytes=float(launch.bytes), work_method="memset bytes")
    text = f"{name.operation or ''} {name.family or ''}".lower()
    if _ON_DEVICE.search(text):
        return Problem(moved_bytes=2.0 * launch.bytes, work_method="memcpy read + write")
    if _ACROSS.search(text):
        return Problem(moved_bytes=float(launch.bytes), work_method="memcpy bytes")
    return Problem()


def _indexed(numel: int, dtype: str | None, index: Tensor, passes: int = 2) -> Problem:
    """`numel` elements moved in `passes` reads or writes, found through `index`."""
    moved = total([index.stored_bytes, bytes_of(passes * numel, dtype)])
    return Problem(numel=numel, dims_source="op", moved_bytes=moved, work_method="gather index + read + write")


@model("index_select", "embedding")
def index_select(call: Call, name: NameFacts) -> Problem | None:
    """`index_select(source, dim, index)` and `embedding(weight, indices)`: whole rows are fetched."""
    source, index = call.tensor(0), call.tensor(1 if call.op == "aten::embedding" else 2)
    axis = 0 if call.op == "aten::embedding" else call.integer(1)
    if source is None or index is None or axis is None or not does_work(name, _INDEX):
        return None
    row = _without_axis(source.dims, axis)
    return None if row is None else _indexed(row * index.numel, source.dtype, index)


def _without_axis(dims: Dims, axis: int) -> int | None:
    """Elements of one slice across `axis`."""
    if not -len(dims) <= axis < len(dims):
        return None
    return math.prod(size for position, size in enumerate(dims) if position != axis % len(dims))


@model("gather", "take", "take_along_dim")
def gather(call: Call, name: NameFacts) -> Problem | None:
    """`gather(source, dim, index)` and `take(source, index)`: one element per index."""
    source, index = call.tensor(0), call.tensor(1 if call.op != "aten::gather" else 2)
    if source is None or index is None or not does_work(name, _INDEX):
        return None
    return _indexed(index.numel, source.dtype, index)


@model("scatter", "scatter_", "scatter_add", "scatter_add_", "index_add", "index_add_", "index_copy", "index_copy_")
def scatter(call: Call, name: NameFacts) -> Problem | None:
    """`scatter_(target, dim, index, source)`: the source is read and written; adding reads the target too."""
    index, source = call.tensor(2), call.tensor(3)
    if index is None or source is None or not does_work(name, _INDEX):
        return None
    # Out of place, the rest of the target is copied as well, by another kernel.
    numel = index.numel if "scatter" in call.op else source.numel
    return _indexed(numel, source.dtype, index, passes=3 if "_add" in call.op else 2)


@model("cat", "_cat", "stack")
def cat(call: Call, name: NameFacts) -> Problem | None:
    """`cat(tensors, dim)`: the dtype of a list is not recorded, so the kernel name gives the size of an element."""
    parts = call.argument(0)
    if not isinstance(parts, tuple) or not parts or len(parts) > _BATCH_LIMIT or not does_work(name, _CONCAT):
        return None
    numel = sum(part.numel for part in parts)
    size = _element_bytes(name)
    moved = None if size is None else float(size * (sum(part.stored for part in parts) + numel))
    return Problem(numel=numel, dims_source="op", moved_bytes=moved, work_method="copy bytes")


def _element_bytes(name: NameFacts) -> int | None:
    """Bytes of an element: `details['element_bytes']` of the name (`OpaqueType<2>` says no more), or its dtype."""
    details = getattr(name, "details", None) or {}
    stated = details.get("element_bytes")
    return stated if isinstance(stated, int) else ITEM_BYTES.get(name.dtype or "")
