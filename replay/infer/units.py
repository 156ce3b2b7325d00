"""Launches that one call made together, and steps of the model.

Rules for kernels of one call: a small fill right before a matrix product, an attention or a reduction clears its
counters; `splitKreduce` and cuDNN's reductions follow the kernel whose parts they add; a copy right before a product
that adds to its output (`badd`, or a batched one) is that of the addend.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

from kerneldb.names import Decoded, decode
from kerneldb.replay.infer import grids
from kerneldb.replay.infer.grids import Span
from kerneldb.replay.plan.unknowns import Kind, Sequence

CLEARING_BYTES: Final = 4096
CLEARED: Final = frozenset({"GEMM", "GEMV", "ATTENTION", "REDUCTION"})
PRODUCTS: Final = frozenset({"GEMM", "GEMV"})
STEP_LIMIT: Final = 4096
FEW: Final = 2
EMBEDDINGS: Final = frozenset({"vectorized_gather", "index_select", "embedding"})


@dataclass(frozen=True, slots=True)
class Launch:
    """A kind of launch, with what its name says."""

    kind: Kind
    known: Decoded

    @property
    def spans(self) -> tuple[Span, ...]:
        """Its likeliest range of elements; that of a vectorised `cat` too."""
        joined = grids.cat_elements(self.kind) if self.known.category == "CONCAT" else None
        return grids.elements(self.kind)[:1] or ((joined,) if joined is not None else ())

    def holds(self, count: int) -> bool:
        """Whether it works on `count` elements, as far as its launch tells."""
        return any(span.holds(count) for span in self.spans)


@dataclass(frozen=True, slots=True)
class Unit:
    """The launches of one call: places in order, and the one that does the work: its place, and the launch itself.

    `kinds` are indices in the kinds of the sequence, `kind` that of the launch that does the work. `added`: the first
    launch is a copy of an addend.
    """

    places: tuple[int, ...]
    main: int
    added: bool
    launch: Launch
    kinds: tuple[int, ...]
    kind: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A sequence with what its names say: `launches[k]` is that of `kinds[k]`."""

    sequence: Sequence
    launches: tuple[Launch, ...]

    def at(self, place: int) -> Launch:
        """What was launched at a place."""
        return self.launches[self.sequence.order[place]]


def read(sequence: Sequence) -> Reading:
    """Decode the names of a sequence."""
    return Reading(sequence, tuple(Launch(kind, decode(kind.name, kind.kind)) for kind in sequence.kinds))


def units(reading: Reading) -> list[Unit]:
    """The calls of a sequence, in order; every place is in one of them."""
    found: list[Unit] = []
    order = reading.sequence.order
    place = 0
    while place < len(order):
        places, main, added = _unit(reading, place, len(order))
        kinds = tuple(order[one] for one in places)
        found.append(Unit(tuple(places), main, added, reading.at(main), kinds, order[main]))
        place = places.stop
    return found


def _unit(reading: Reading, start: int, count: int) -> tuple[range, int, bool]:
    """Its places, the one that does the work, and whether a copy of an addend comes first."""
    added = _may_be_addend(reading.at(start))
    main = start + added
    if main < count and _clears(reading.at(main)):
        main += 1
    if main >= count or not _leads(reading, start, main, added=added):
        main, added = start, False
        if _clears(reading.at(start)) and start + 1 < count and reading.at(start + 1).known.category in CLEARED:
            main = start + 1
    end = main + 1
    while end < count and _follows(reading.at(main), reading.at(end)):
        end += 1
    return range(start, end), main, added


def _leads(reading: Reading, start: int, main: int, *, added: bool) -> bool:
    """Whether the launches before `main` belong to it."""
    known = reading.at(main).known
    if main == start or not added:
        return main == start or known.category in CLEARED
    if known.category not in PRODUCTS or known.family == "splitK_reduce":
        return False
    return known.details.get("beta") == "add" or reading.at(start).kind.kind == "memcpy"


def _may_be_addend(one: Launch) -> bool:
    if one.kind.kind == "memcpy":
        return one.kind.copy_kind == "DtoD"
    return one.known.category == "COPY" and one.known.family in {"elementwise", "elementwise_manual_unroll"}


def _clears(one: Launch) -> bool:
    return one.kind.kind == "memset" and (one.kind.bytes or 0) <= CLEARING_BYTES


def _follows(main: Launch, one: Launch) -> bool:
    if one.known.family == "splitK_reduce":
        return main.known.category in PRODUCTS and main.known.family != "splitK_reduce"
    return main.known.family == "cudnn_sdpa" and "lean_reduction" in one.kind.name


def steps(reading: Reading, found: list[Unit]) -> list[list[int]]:
    """The indices of the units of each step, which begins where tokens are looked up, or where the phase changes."""
    anchor = _anchor(reading, found)
    grouped: dict[int, list[int]] = defaultdict(list)
    step, begun = 0, anchor is None
    last = reading.sequence.phase[found[0].main] if found else None
    for index, unit in enumerate(found):
        phase = reading.sequence.phase[unit.main]
        begins = phase != last if anchor is None else unit.kind in anchor
        step += begins and begun
        begun, last = begun or begins, phase
        grouped[step].append(index)
    return list(grouped.values())


def _anchor(reading: Reading, found: list[Unit]) -> frozenset[int] | None:
    """The kinds that look tokens up: those of the rarest embedding family that comes first in a step."""
    counts = Counter(unit.kind for unit in found if unit.launch.known.family in EMBEDDINGS)
    kept = {kind: count for kind, count in counts.items() if count <= STEP_LIMIT}
    if not kept:
        return None
    first = next(iter(kept))
    families = {kind: reading.launches[kind].known.family for kind in kept}
    few = kept[first] * FEW
    return frozenset(kind for kind in kept if families[kind] == families[first] and kept[kind] <= few)
