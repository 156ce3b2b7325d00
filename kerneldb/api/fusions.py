"""Which kernels of one trace became which of another, as where a model is compiled: names and numbers differ then.

Matrix products, convolutions, attention and collectives stay, mostly with their sizes: they are aligned, in the order
in which they ran. What lies between two of them before became what lies between them after, less what is there on both
sides. Where several fused kernels lie there, their names say which operators are in which.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kerneldb.api.analyses import FUSED, traces_named
from kerneldb.api.queries import rows, selecting
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from kerneldb.warehouse import Warehouse

    Kernels = list["Kernel"]

FIXED: Final = {"GEMM": "product", "GEMV": "product", "CONVOLUTION": "convolution", "ATTENTION": "attention",
                "COMMUNICATION": "collective"}  # fmt: skip
"""Categories that compilers leave as they are."""
TEXTS: Final = ("phase", "module", "before", "after")
NUMBERS: Final = ("places", "n_before", "n_after", "total_before_ns", "total_after_ns", "delta_ns")
INSTANCE: Final = re.compile(r"_\d+$")
COPIES: Final = ("_to_copy", "clone", "copy", "_unsafe_view", "contiguous")
"""What a compiler calls a copy in its kernels' names."""
MOST: Final = 25_000_000
"""Pairs of launches that are compared at most."""
GONE: Final = "(none: inside a neighbour, or left out)"
NEW: Final = "(none: new)"


class Kernel(NamedTuple):
    """A launch; `fixed` is what it is aligned by, None for what may be fused."""

    name: str
    op: str
    module: str
    phase: str
    duration_ns: int
    fixed: tuple[object, ...] | None


def fusions(warehouse: Warehouse, before: str, after: str, where: str | None) -> pa.Table:
    """Rows of what became what, largest change first, from a typical iteration of the first trace of each side.

    `before` lists operators (kernels where none is known) and `after` kernels, in their order; `places` is at how many
    places in the iteration. Raises UsageError for an unknown name.
    """
    import pyarrow as pa

    sides = [traces_named(warehouse, name)[0] for name in (before, after)]
    with selecting(warehouse, where, list(dict.fromkeys(sides))) as con:
        found = [rows(con, "fusion_launches", {"trace": trace}) for trace in sides]
    sized = all(any(row["gemm_m"] is not None for row in side) for side in found)
    first, second = ([_kernel(row, sized=sized) for row in side] for side in found)
    parts = (part for pair in _between(first, second) for part in _divided(*_apart(*pair)))
    texts = [(name, pa.string()) for name in TEXTS]
    return pa.Table.from_pylist(_summed(parts), pa.schema([*texts, *((name, pa.int64()) for name in NUMBERS)]))


def _kernel(row: dict[str, Any], *, sized: bool) -> Kernel:
    kind = FIXED.get(row["category"])
    if "splitk" in row["name"].lower() and "reduce" in row["name"].lower():
        kind = None  # comes and goes with the tile that the library chose
    sizes = sorted(row[f"gemm_{side}"] or 0 for side in ("m", "n", "k", "batch")) if sized and kind == "product" else ()
    op = (row["op"] or row["name"]).removeprefix("aten::")
    module = INSTANCE.sub("", row["module"] or "")
    return Kernel(row["name"], op, module, row["phase"] or "", row["duration_ns"], (kind, *sizes) if kind else None)


def _between(before: Kernels, after: Kernels) -> Iterator[tuple[Kernels, Kernels]]:
    """What lies between the launches that are the same on both sides, from one such to the next."""
    places = [[place for place, one in enumerate(side) if one.fixed] for side in (before, after)]
    if math.prod(map(len, places)) > MOST:
        message = 'too many launches to put side by side; choose a part of them, such as --where "iteration = 5"'
        raise UsageError(message)
    tokens = [[side[place].fixed for place in own] for side, own in zip((before, after), places, strict=True)]
    matcher = difflib.SequenceMatcher(None, tokens[0], tokens[1], autojunk=False)
    last = (-1, -1)
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            here = places[0][block.a + step], places[1][block.b + step]
            yield before[last[0] + 1 : here[0]], after[last[1] + 1 : here[1]]
            last = here
    yield before[last[0] + 1 :], after[last[1] + 1 :]


def _apart(before: Kernels, after: Kernels) -> tuple[Kernels, Kernels]:
    """Both without kernels that are on the other side as well."""
    same = Counter(one.name for one in before) & Counter(one.name for one in after)
    return _without(before, same.copy()), _without(after, same.copy())


def _without(kernels: Kernels, same: Counter[str]) -> Kernels:
    kept = []
    for one in kernels:
        if same[one.name]:
            same[one.name] -= 1
        else:
            kept.append(one)
    return kept


def _divided(before: Kernels, after: Kernels) -> Iterator[tuple[Kernels, Kernels]]:
    """Both in parts, one for each kernel that a compiler fused."""
    if before and len(after) > 1 and any(FUSED in one.name for one in after):
        yield from zip(_shared(before, after), ([one] for one in after), strict=True)
    elif after and len(before) > 1 and any(FUSED in one.name for one in before):
        yield from zip(([one] for one in before), _shared(after, before), strict=True)
    elif before or after:
        yield before, after


def _shared(kernels: Kernels, fused: Kernels) -> list[Kernels]:
    """For each of the fused kernels those whose operator its name lists, going forward through both."""
    parts: list[Kernels] = [[] for _ in fused]
    place = 0
    for one in kernels:
        place = next((at for at in range(place, len(fused)) if _lists(fused[at].name, one.op)), place)
        parts[place].append(one)
    return parts


def _lists(name: str, op: str) -> bool:
    """Whether the name of a fused kernel lists an operator."""
    op = op.rstrip("_")
    return any(f"_{word}_" in f"_{name}_" for word in (COPIES if op == "copy" else (op,)))


def _summed(parts: Iterable[tuple[Kernels, Kernels]]) -> list[dict[str, Any]]:
    """A row for each kind of change, with the number of places at which it is."""
    sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for before, after in parts:
        told = before or after
        modules = dict.fromkeys(one.module for one in told if one.module)
        key = (told[0].phase, ", ".join(modules), _named([one.op for one in before]) or NEW,
               _named([one.name for one in after]) or GONE)  # fmt: skip
        times = (sum(one.duration_ns for one in side) for side in (before, after))
        for place, value in enumerate((1, len(before), len(after), *times)):
            sums[key][place] += value
    return sorted((_row(key, *values) for key, values in sums.items()), key=_order)


def _order(row: dict[str, Any]) -> tuple[int, str, str]:
    return -abs(row["delta_ns"]), row["before"], row["after"]


def _row(key: tuple[str, ...], places: int, n_before: int, n_after: int, before: int, after: int) -> dict[str, Any]:
    phase, module, old, new = key
    numbers = places, n_before, n_after, before, after, after - before
    return dict(zip((*TEXTS, *NUMBERS), (phase or None, module or None, old, new, *numbers), strict=True))


def _named(names: Sequence[str]) -> str:
    """Names in their order, those that follow each other once with their number."""
    runs = ((name, len(list(run))) for name, run in itertools.groupby(names))
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in runs)
