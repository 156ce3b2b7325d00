"""Launches that one call made together, steps of the model, and what stands before and after.

Rules for kernels of one call: a small fill right before a matrix product, an attention or a reduction clears its
counters; `splitKreduce` and cuDNN's reductions follow the kernel whose parts they add; a copy right before a product
that adds to its output (`badd`, or a batched one) is that of the addend.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kerneldb.names import Decoded, decode
from kerneldb.replay.plan.unknowns import Kind, Sequence

CLEARING_BYTES: Final = 4096
CLEARED: Final = frozenset({"GEMM", "GEMV", "ATTENTION", "REDUCTION"})
PRODUCTS: Final = frozenset({"GEMM", "GEMV"})
STEP_LIMIT: Final = 4096
FEW: Final = 2
EMBEDDINGS: Final = frozenset({"vectorized_gather", "index_select", "embedding"})


@dataclass(frozen=True, slots=True)
class Unit:
    """The launches of one call: places in order, and the place of the one that does the work."""

    places: tuple[int, ...]
    main: int
    added: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A sequence with what its names say: `known[k]` decodes `kinds[k]`."""

    sequence: Sequence
    known: tuple[Decoded, ...]

    def kind(self, place: int) -> Kind:
        """The kind launched at a place."""
        return self.sequence.kinds[self.sequence.order[place]]

    def name(self, place: int) -> Decoded:
        """Its name, decoded."""
        return self.known[self.sequence.order[place]]


def read(sequence: Sequence) -> Reading:
    """Decode the names of a sequence."""
    return Reading(sequence, tuple(decode(kind.name, kind.kind) for kind in sequence.kinds))


def units(reading: Reading) -> list[Unit]:
    """The calls of a sequence, in order; every place is in one of them."""
    found: list[Unit] = []
    place, count = 0, len(reading.sequence.order)
    while place < count:
        unit = _unit(reading, place, count)
        found.append(unit)
        place = unit.places[-1] + 1
    return found


def _unit(reading: Reading, start: int, count: int) -> Unit:
    main = start
    added = start if _may_be_addend(reading, start) else None
    main += added is not None
    if main < count and _clears(reading, main):
        main += 1
    if main >= count or not _leads(reading, start, main, added=added is not None):
        main, added = start, None
        if _clears(reading, start) and start + 1 < count and reading.name(start + 1).category in CLEARED:
            main = start + 1
    end = main + 1
    while end < count and _follows(reading, main, end):
        end += 1
    return Unit(tuple(range(start, end)), main, added)


def _leads(reading: Reading, start: int, main: int, *, added: bool) -> bool:
    """Whether what stands before `main` belongs to it."""
    if main == start:
        return True
    known = reading.name(main)
    if not added:
        return known.category in CLEARED
    if known.category not in PRODUCTS or known.family == "splitK_reduce":
        return False
    return known.details.get("beta") == "add" or reading.kind(start).kind == "memcpy"


def _may_be_addend(reading: Reading, place: int) -> bool:
    kind, known = reading.kind(place), reading.name(place)
    if kind.kind == "memcpy":
        return kind.copy_kind == "DtoD"
    return known.category == "COPY" and known.family in {"elementwise", "elementwise_manual_unroll"}


def _clears(reading: Reading, place: int) -> bool:
    kind = reading.kind(place)
    return kind.kind == "memset" and (kind.bytes or 0) <= CLEARING_BYTES


def _follows(reading: Reading, main: int, place: int) -> bool:
    known, before = reading.name(place), reading.name(main)
    if known.family == "splitK_reduce":
        return before.category in PRODUCTS and before.family != "splitK_reduce"
    return before.family == "cudnn_sdpa" and "lean_reduction" in reading.kind(place).name


def signature(reading: Reading, unit: Unit) -> tuple[int, ...]:
    """The kinds of a unit."""
    return tuple(reading.sequence.order[place] for place in unit.places)


def steps(reading: Reading, found: list[Unit]) -> list[int]:
    """For every unit the step it belongs to: a step begins where tokens are looked up, or where the phase changes."""
    anchor = _anchor(reading, found)
    if anchor is None:
        return _by_phase(reading, found)
    numbers: list[int] = []
    step, begun = 0, False
    for unit in found:
        at_anchor = reading.sequence.order[unit.main] in anchor
        step += at_anchor and begun
        begun = begun or at_anchor
        numbers.append(step)
    return numbers


def _anchor(reading: Reading, found: list[Unit]) -> frozenset[int] | None:
    """The kinds that look tokens up: those of the rarest embedding family that comes first in a step."""
    counts: Counter[int] = Counter()
    for unit in found:
        if reading.name(unit.main).family in EMBEDDINGS:
            counts[reading.sequence.order[unit.main]] += 1
    kept = {kind: count for kind, count in counts.items() if count <= STEP_LIMIT}
    if not kept:
        return None
    first = next(reading.sequence.order[unit.main] for unit in found if reading.sequence.order[unit.main] in kept)
    alike = reading.known[first].family
    few = kept[first] * FEW
    return frozenset(kind for kind in kept if reading.known[kind].family == alike and kept[kind] <= few)


def _by_phase(reading: Reading, found: list[Unit]) -> list[int]:
    numbers: list[int] = []
    step, last = 0, reading.sequence.phase[found[0].main] if found else None
    for unit in found:
        phase = reading.sequence.phase[unit.main]
        step += phase != last
        last = phase
        numbers.append(step)
    return numbers


def by_step(numbers: list[int]) -> dict[int, list[int]]:
    """The indices of the units of each step."""
    grouped: dict[int, list[int]] = defaultdict(list)
    for index, step in enumerate(numbers):
        grouped[step].append(index)
    return dict(grouped)


def contexts(reading: Reading, found: list[Unit]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """For every unit its kinds with those of the units before and after."""
    kinds = [(), *(signature(reading, unit) for unit in found), ()]
    for index in range(len(found)):
        yield kinds[index], kinds[index + 1], kinds[index + 2]
