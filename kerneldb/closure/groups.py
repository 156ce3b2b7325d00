"""Recorded against replayed, per tier, category and route of each stage; and the kernels with most time."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.closure.model import order
from kerneldb.closure.unknown import error_pct, percent, root_of_squares, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerneldb.closure.kernels import Kernel
    from kerneldb.closure.model import Key
    from kerneldb.closure.unknown import Figure

TIERS: Final = {1: "1 copies and fills", 2: "2 BLAS matrix products", 3: "3 other kernels"}


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Kernels of a stage that have a tier, a category or a route in common, per iteration; times in ns.

    `compared_ns` is the recorded time of those with a replay, which `error_pct` holds their replays against.
    """

    trace: str
    stage: str
    mode: str | None
    grouped_by: str
    part: str | None
    signatures: int
    n: float
    recorded_ns: float
    share_pct: Figure
    replayed_launches_pct: Figure
    compared_ns: Figure
    replayed_ns: Figure
    error_pct: Figure
    above_gap_mj: Figure
    above_gap_error_mj: Figure


def groups(kernels: Iterable[Kernel]) -> list[Group]:
    """The groups of all stages: tiers by number, categories and routes by their time."""
    found: dict[tuple[Key, str, str | None], list[Kernel]] = collections.defaultdict(list)
    for one in kernels:
        for by, part in (("tier", TIERS[one.tier]), ("category", one.category), ("route", one.route)):
            found[one.key, by, part].append(one)
    listed = [_group(key, by, part, some) for (key, by, part), some in found.items()]
    return sorted(listed, key=_rank)


def _group(key: Key, by: str, part: str | None, kernels: Sequence[Kernel]) -> Group:
    replayed = [one for one in kernels if one.replayed_ns is not None]
    halves = [one.above_gap_half_mj for one in kernels if one.above_gap_mj is not None]
    n, compared_ns = total(one.n for one in kernels) or 0.0, total(one.recorded_ns for one in replayed)
    replayed_ns = total(one.replayed_ns for one in replayed)
    return Group(
        *key,
        grouped_by=by,
        part=part,
        signatures=len(kernels),
        n=n,
        recorded_ns=total(one.recorded_ns for one in kernels) or 0.0,
        share_pct=total(one.share_pct for one in kernels),
        replayed_launches_pct=percent(total(one.n for one in replayed) or 0.0, n),
        compared_ns=compared_ns,
        replayed_ns=replayed_ns,
        error_pct=error_pct(replayed_ns, compared_ns),
        above_gap_mj=total(one.above_gap_mj for one in kernels),
        above_gap_error_mj=root_of_squares(*halves) if halves else None,
    )


def _rank(group: Group) -> tuple[object, ...]:
    tier = (group.part or "") if group.grouped_by == "tier" else ""
    key = order((group.trace, group.stage, group.mode))
    return *key, group.grouped_by, tier, -group.recorded_ns, group.part is None, group.part or ""


def longest(kernels: Iterable[Kernel], top: int) -> Iterator[Kernel]:
    """The `top` kernels of each stage that take most time."""
    seen: collections.Counter[Key] = collections.Counter()
    for one in sorted(kernels, key=lambda one: (*order(one.key), -one.recorded_ns, one.signature_id, one.route)):
        seen[one.key] += 1
        if seen[one.key] <= top:
            yield one
