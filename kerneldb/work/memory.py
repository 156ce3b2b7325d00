"""Data movement: gathers and scatters, concatenation, copies and fills by the copy engine.

`numel` is the number of elements moved. Gathers count one read per element fetched (duplicate indices and rows that
stay in cache make the real traffic smaller), so `moved_bytes` of an index operator is index + fetched + written. There
is no floating-point work, so `flops` is unknown rather than 0. Boolean masks and the index lists of `aten::index` are
not recorded; such calls have no model.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING

from kerneldb.work.model import LaunchShape, Problem
from kerneldb.work.registry import MODELS, model
from kerneldb.work.tensors import ITEM_BYTES, Tensor, bytes_of, total

if TYPE_CHECKING:
    from kerneldb.work.model import NameFacts
    from kerneldb.work.tensors import Call

_model = functools.partial(model, categories=("INDEXING", "ELEMENTWISE"))
_TO = r"[\W_]*(?:to|2|->)[\W_]*"
_ON_DEVICE = re.compile(rf"\bd(?:evice)?{_TO}d(?:evice)?\b")
_ACROSS = re.compile(
    rf"\bh(?:ost)?{_TO}[dha]|\b(?:d|device|a|array){_TO}h|\bp(?:eer)?{_TO}p|\b(?:pageable|pinned){_TO}d"
)
_BATCH_LIMIT = 30


def transfer(name: NameFacts, launch: LaunchShape) -> Problem:
    """A memcpy or memset: the exact bytes of the trace; a copy inside one device reads and writes them.

    A copy whose direction is not in the name has a size, but no known traffic.
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
    return Problem.of_call(numel, "gather index + read + write", moved)


@_model("index_select", "embedding")
def index_select(call: Call) -> Problem | None:
    """`index_select(source, dim, index)` and `embedding(weight, indices)`: whole rows are fetched."""
    source, index = call.tensor(0), call.tensor(1 if call.op == "aten::embedding" else 2)
    axis = 0 if call.op == "aten::embedding" else call.integer(1)
    if source is None or index is None or axis is None:
        return None
    rank = len(source.dims)
    if not -rank <= axis < rank:
        return None
    row = math.prod(size for position, size in enumerate(source.dims) if position != axis % rank)
    return _indexed(row * index.numel, source.dtype, index)


@_model("gather", "take", "take_along_dim")
def gather(call: Call) -> Problem | None:
    """`gather(source, dim, index)` and `take(source, index)`: one element per index."""
    source, index = call.tensor(0), call.tensor(1 if call.op != "aten::gather" else 2)
    if source is None or index is None:
        return None
    return _indexed(index.numel, source.dtype, index)


@_model("scatter", "scatter_", "scatter_add", "scatter_add_", "index_add", "index_add_", "index_copy", "index_copy_")
def scatter(call: Call) -> Problem | None:
    """`scatter_(target, dim, index, source)`: the source is read and written; adding reads the target too."""
    index, source = call.tensor(2), call.tensor(3)
    if index is None or source is None:
        return None
    # Out of place, the rest of the target is copied as well, by another kernel.
    numel = index.numel if "scatter" in call.op else source.numel
    return _indexed(numel, source.dtype, index, passes=3 if "_add" in call.op else 2)


def cat(call: Call, name: NameFacts) -> Problem | None:
    """`cat(tensors, dim)`: the dtype of a list is not recorded, so the kernel name gives the size of an element.

    It has that in `details['element_bytes']` (`OpaqueType<2>` says no more), or as dtype.
    """
    parts = call.argument(0)
    if name.category != "CONCAT" or not isinstance(parts, tuple) or not parts or len(parts) > _BATCH_LIMIT:
        return None
    numel = sum(part.numel for part in parts)
    stated = (getattr(name, "details", None) or {}).get("element_bytes")
    size = stated if isinstance(stated, int) else ITEM_BYTES.get(name.dtype or "")
    moved = None if size is None else float(size * (sum(part.stored for part in parts) + numel))
    return Problem.of_call(numel, "copy bytes", moved)


MODELS.update(dict.fromkeys(("aten::cat", "aten::_cat", "aten::stack"), cat))
