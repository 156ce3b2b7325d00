"""Did the same kernels run again? Planned and replayed GPU activities of one call, matched in call order and graded.

    L0  same name, grid, block and total shared memory (copies: name, bytes). A field that neither side has is listed.
    L1  same name, other launch; or a field that only one side has; or names equal but for the tool's spelling
    L2  same family, dtype and operation: another tile or version
    L3  same operation, other kernel
    L4  failed or not attempted, with the reason

Names are compared as the profiler prints them: equal text, or equal text after demangling where one side is a mangled
symbol. Names that agree only after `kerneldb.names.match_name` (which drops parameter lists and unifies spellings
across tools) count as L1: the text no longer proves that the template arguments are the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kerneldb.replay.wire.plan import Item, PlannedKernel
from kerneldb.replay.wire.results import Activity, Grade

NO_KERNELS: Final = "replayed on the CPU, where no GPU kernel runs"
MANGLED: Final = "_Z"
PRODUCTS: Final = frozenset({"GEMM", "GEMV"})


@dataclass(frozen=True, slots=True)
class KernelMatch:
    """A planned kernel and the activity that came out for it: `place` in the replayed call, None without one."""

    planned: PlannedKernel
    grade: Grade
    place: int | None = None
    seen: Activity | None = None
    unknown: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CallMatch:
    """The kernels of one call, in planned order, and the activities that were not planned.

    `grade` is the worst of the kernels' grades, at best L3 with kernels missing or extra.
    """

    grade: Grade
    kernels: tuple[KernelMatch, ...]
    extra: tuple[Activity, ...] = ()

    @property
    def rank(self) -> tuple[int, int, int]:
        """The less, the closer."""
        return self.grade.rank, sum(one.grade.rank for one in self.kernels), len(self.extra)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the planned kernels that did not come out."""
        return tuple(one.planned.name for one in self.kernels if one.place is None)


Test = Callable[[PlannedKernel, Activity], bool]
"""Compares two of one kind (kernel, memcpy, memset)."""


def compare(
    planned: Sequence[PlannedKernel],
    seen: Sequence[Activity],
    *,
    faithful: bool = True,
    below: Sequence[PlannedKernel] = (),
) -> CallMatch:
    """Match the activities of one replayed call with the planned ones.

    Exact launches find each other first, then equal names, and so on, each time in call order. Without `faithful` (the
    rebuilt call lacks a recorded dim, stride, dtype or scalar) L0 and L1 become L2: the kernel ran on another problem.
    What the calls `below` launched is not extra where it comes out as it was.
    """
    pairs: dict[int, tuple[int, Grade]] = {}
    taken: set[int] = set()
    for grade, test in _LADDER:
        for index, kernel in enumerate(planned):
            if index in pairs:
                continue
            fits = (at for at, one in enumerate(seen) if at not in taken and one.kind == kernel.kind)
            place = next((at for at in fits if test(kernel, seen[at])), None)
            if place is not None:
                pairs[index] = (place, grade)
                taken.add(place)
        if grade is Grade.L0:
            taken.update(_places(below, seen, taken))
    matches = tuple(_match(kernel, pairs.get(index), seen, faithful) for index, kernel in enumerate(planned))
    extra = tuple(one for at, one in enumerate(seen) if at not in taken)
    grades = [Grade.L0, *(Grade.L3 if one.place is None else one.grade for one in matches), *(Grade.L3 for _ in extra)]
    return CallMatch(max(grades, key=lambda grade: grade.rank), matches, extra)


def _places(below: Sequence[PlannedKernel], seen: Sequence[Activity], taken: set[int]) -> Iterator[int]:
    """Where what the calls below launched came out, each once."""
    free = [at for at in range(len(seen)) if at not in taken]
    for kernel in below:
        place = next((at for at in free if seen[at].kind == kernel.kind and _same_launch(kernel, seen[at])), None)
        if place is not None:
            free.remove(place)
            yield place


def same_name(recorded: str, replayed: str) -> bool:
    """Whether two names are one, as printed or after demangling a mangled one."""
    if recorded == replayed:
        return True
    if not (recorded.startswith(MANGLED) or replayed.startswith(MANGLED)):
        return False
    from kerneldb.names import demangle

    return bool(demangle(recorded) == demangle(replayed))


def differences(planned: PlannedKernel, seen: Activity) -> tuple[list[str], list[str]]:
    """The launch fields that differ (also: that only one side has), and those that neither side has."""
    fields = ("grid", "block", "shared_bytes") if planned.kind == "kernel" else ("bytes",)
    pairs = [(name, getattr(planned, name), getattr(seen, name)) for name in fields]
    unknown = [name for name, recorded, replayed in pairs if recorded is None and replayed is None]
    return [name for name, recorded, replayed in pairs if recorded != replayed], unknown


def at_best(match: CallMatch, grade: Grade, reason: str) -> CallMatch:
    """`match` with no kernel better than `grade`; those that were better get `reason`."""
    kernels = tuple(
        dataclasses.replace(one, grade=grade, reason=reason) if one.grade.rank < grade.rank else one
        for one in match.kernels
    )
    return CallMatch(max(match.grade, grade, key=lambda one: one.rank), kernels, match.extra)


def on_cpu(item: Item, grade: Grade, faithful: bool) -> CallMatch:
    """The grades of a call that ran on a CPU, where no kernel comes out: that of its operators alone."""
    kernels = tuple(KernelMatch(kernel, Grade.L4, reason=NO_KERNELS) for kernel in item.kernels)
    return CallMatch(grade if faithful or grade.rank >= Grade.L2.rank else Grade.L2, kernels)


def _match(
    kernel: PlannedKernel, pair: tuple[int, Grade] | None, seen: Sequence[Activity], faithful: bool
) -> KernelMatch:
    if pair is None:
        return KernelMatch(kernel, Grade.L4, reason="the call ran, and no such kernel came out")
    place, grade = pair
    differing, unknown = differences(kernel, seen[place])
    reason = None if grade is Grade.L0 else _reason(kernel, seen[place], differing)
    if not faithful and grade.rank < Grade.L2.rank:
        grade, reason = Grade.L2, "the rebuilt call lacks a recorded argument"
    return KernelMatch(kernel, grade, place, seen[place], tuple(unknown), reason)


def _reason(kernel: PlannedKernel, seen: Activity, differing: Sequence[str]) -> str:
    if not same_name(kernel.name, seen.name):
        return "other spelling of the name" if _same_match_name(kernel, seen) else "other kernel"
    return "other " + ", ".join(differing)


def _same_launch(planned: PlannedKernel, seen: Activity) -> bool:
    return _named_alike(planned, seen) and not differences(planned, seen)[0]


def _named_alike(planned: PlannedKernel, seen: Activity) -> bool:
    return same_name(planned.name, seen.name)


def _same_match_name(planned: PlannedKernel, seen: Activity) -> bool:
    from kerneldb.names import match_name

    return bool(match_name(planned.name) == match_name(seen.name))


def _same_family(planned: PlannedKernel, seen: Activity) -> bool:
    recorded, replayed = _decoded(planned.name), _decoded(seen.name)
    return recorded[0] is not None and recorded[:3] == replayed[:3]


def _same_operation(planned: PlannedKernel, seen: Activity) -> bool:
    recorded, replayed = _decoded(planned.name), _decoded(seen.name)
    both_products = recorded[3] in PRODUCTS and replayed[3] in PRODUCTS
    return both_products or (recorded[2] is not None and recorded[2:] == replayed[2:])


@functools.cache
def _decoded(name: str) -> tuple[str | None, tuple[str, ...], str | None, str]:
    """Family, dtypes, operation and category of a kernel name."""
    from kerneldb.names import decode

    known = decode(name)
    return known.family, known.dtypes or ((known.dtype,) if known.dtype else ()), known.operation, known.category


_LADDER: Final[tuple[tuple[Grade, Test], ...]] = (
    (Grade.L0, _same_launch),
    (Grade.L1, _named_alike),
    (Grade.L1, _same_match_name),
    (Grade.L2, _same_family),
    (Grade.L3, _same_operation),
)
