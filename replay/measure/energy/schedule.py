"""In what order, and for how long, the calls of a run are measured.

Calls that make up 95 % of the recorded time get three windows, in three rounds; the others get a short one at the end.
Each round has an order of its own, drawn from a seed, so that warming up falls on no call in particular. Where that
does not fit into the budget, the windows of the first group shrink to half, then their rounds to two and one, then all
calls get a short window, and what still does not fit goes without, those with least time first.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TOP_SHARE: Final = 0.95
ROUNDS: Final = 3
SETTLE_S: Final = 0.4
WINDOW_S: Final = 1.5
BUILD_S: Final = 0.2
ANCHOR_EVERY: Final = 15
REFERENCES: Final = 6
REFERENCE_S: Final = 2.2
BEGIN_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Tier:
    """How the first group is measured: so many windows, each after `settle_s` seconds."""

    rounds: int
    settle_s: float
    window_s: float

    @property
    def seconds(self) -> float:
        """What one window costs, with its part in references."""
        return self.settle_s + self.window_s + BUILD_S + REFERENCE_S / ANCHOR_EVERY


TAIL: Final = Tier(rounds=1, settle_s=0.15, window_s=0.45)
TIERS: Final = (
    *(Tier(ROUNDS, SETTLE_S, WINDOW_S * scale) for scale in (1.0, 0.8, 0.65, 0.5)),
    *(Tier(rounds, SETTLE_S, WINDOW_S / 2) for rounds in (2, 1)),
    TAIL,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A call to measure: `weight` is its recorded time, `done` the windows it has already."""

    id: str
    weight: float
    done: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One window to measure, of the call or reference `id`. It costs `seconds`, with its part in references."""

    id: str
    settle_s: float
    window_s: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Windows in order, and the calls for which there is no time."""

    turns: tuple[Turn, ...]
    dropped: tuple[str, ...]

    @property
    def anchor_every(self) -> int:
        """After how many windows the references are measured again: 15, or fewer for six of them in a short run."""
        return min(ANCHOR_EVERY, max(3, math.ceil(len(self.turns) / REFERENCES)))


def schedule(entries: Sequence[Entry], budget_s: float, seed: int) -> Schedule:
    """Plan the windows of `entries` within `budget_s` seconds."""
    ranked = sorted(entries, key=lambda one: (-one.weight, one.id))
    top = _top(ranked)
    tier, kept = _fit(ranked, top, budget_s - BEGIN_S)
    drawn = random.Random(seed)  # noqa: S311 (an order, no secret)
    turns: list[Turn] = []
    for number in range(tier.rounds):
        turns += _shuffled([one for one in kept if one.id in top and one.done <= number], tier, drawn)
    turns += _shuffled([one for one in kept if one.id not in top and not one.done], TAIL, drawn)
    names = {one.id for one in kept}
    return Schedule(tuple(turns), tuple(one.id for one in ranked if one.id not in names))


def _top(ranked: Sequence[Entry]) -> frozenset[str]:
    """The calls up to 95 % of the time, the one that reaches it included."""
    whole = sum(one.weight for one in ranked)
    before = itertools.accumulate((one.weight for one in ranked), initial=0.0)
    return frozenset(one.id for one, earlier in zip(ranked, before, strict=False) if earlier < TOP_SHARE * whole)


def _fit(ranked: Sequence[Entry], top: frozenset[str], budget_s: float) -> tuple[Tier, list[Entry]]:
    """The first tier that leaves time for every call; else the last one, and the calls that fit."""
    for tier in TIERS:
        if sum(_seconds(one, top, tier) for one in ranked) <= budget_s:
            return tier, list(ranked)
    kept: list[Entry] = []
    left = budget_s
    for one in ranked:
        seconds = _seconds(one, top, TAIL)
        if seconds <= left or one.done:
            kept.append(one)
            left -= seconds
    return TAIL, kept


def _seconds(one: Entry, top: frozenset[str], tier: Tier) -> float:
    """What a call costs."""
    if one.id in top:
        return max(tier.rounds - one.done, 0) * tier.seconds
    return 0.0 if one.done else TAIL.seconds


def _shuffled(entries: list[Entry], tier: Tier, drawn: random.Random) -> list[Turn]:
    """A window for each, in an order that is drawn."""
    drawn.shuffle(entries)
    return [Turn(one.id, tier.settle_s, tier.window_s, tier.seconds) for one in entries]
