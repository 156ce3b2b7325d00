"""Which call it was, where several launch the same kernels: all are tried in the step, and the recorded time chooses.

The calls of a CUDA graph are those of an eager trace, which may have masked its attention in another way, or had other
keys; a launch without a recorded call may have several that fit. Name, grid and block do not tell them apart. The time
that they are compared with is that of another recorded iteration, where there is one: the one that is replayed judges.
It chooses among calls, and changes no result.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from kerneldb.replay.infer import attention
from kerneldb.replay.infer.search import scaled
from kerneldb.replay.steps.player import Player
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall
from kerneldb.replay.wire.results import AttemptResult, Grade
from kerneldb.replay.wire.step_results import Trail
from kerneldb.replay.wire.steps import Step

NEAR: Final = 0.1
MOST: Final = 8
NONE_FITS: Final = "no proposed call launches its kernels"
PLANNED: Final = "as planned"
ELSEWHERE: Final = "chosen by another iteration"
HERE: Final = "chosen by this iteration, as there is no other one"


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """What the launches of an item came to: the worst grade, and their time in a step (None: some did not come out)."""

    grade: Grade
    time_ns: float | None = None
    reason: str | None = None


@dataclasses.dataclass(slots=True)
class Try:
    """A call that stood for an item, and what came of it."""

    why: str
    item: Item
    place: int | None = None
    seen: Seen | None = None

    def rank(self, wanted: float) -> tuple[int, float]:
        """The less, the better: the kernels first, then how far the time is off."""
        if self.seen is None or not self.seen.time_ns or not wanted:
            return Grade.L4.rank, math.inf
        return self.seen.grade.rank, abs(math.log(self.seen.time_ns / wanted))

    def spec(self) -> CallSpec:
        """The call."""
        found = self.item.candidates[0].spec if self.item.candidates else self.item.spec
        return found or CallSpec(OpCall(self.item.route))


Measured = Callable[[], Mapping[str, Seen]]


def choose(player: Player, measured: Measured) -> tuple[Trail, ...]:
    """Let each item of the step be made by the call whose time agrees best. `measured` runs the step as it is now."""
    step, items = player.step, player.items
    used = Counter(call.item for call in step.calls if call.item in items)
    borrowed = step.calls_from is not None and not step.captured
    tries = {name: _first(items[name], borrowed=borrowed) for name in used}
    tries = {name: listed for name, listed in tries.items() if len(listed) > 1 or listed[0].place is not None}
    if not tries:
        return ()
    wanted = _wanted(step, items)
    _run(player, tries, measured)
    for name, listed in tries.items():
        listed.extend(_other_sizes(_best(listed, wanted[name]), wanted[name]))
    _run(player, tries, measured)
    for name, listed in tries.items():
        best = _best(listed, wanted[name])
        player.stand_in(name, best.item)
        if not fits(best.place, Grade.L4 if best.seen is None else best.seen.grade):
            player.fill(name, NONE_FITS)
    how = ELSEWHERE if step.again_ns else HERE
    return tuple(Trail(name, tuple(_trail(listed, wanted[name], used[name], how))) for name, listed in tries.items())


def fits(candidate: int | None, grade: Grade) -> bool:
    """Whether a call may stand for an item: a proposed one (`candidate`) where it launches the same kernels."""
    return candidate is None or grade.rank <= Grade.L1.rank


def _first(item: Item, *, borrowed: bool) -> list[Try]:
    """The planned call, and the others that fit."""
    if item.candidates:
        listed = enumerate(item.candidates[:MOST])
        return [Try(one.why, dataclasses.replace(item, id=f"{item.id} {n}", candidates=(one,)), n) for n, one in listed]
    known = attention.variants(item.spec) if borrowed and item.spec is not None else ()
    return [Try(PLANNED, item), *(_with(item, spec, word) for spec, word in known)]


def _with(item: Item, spec: CallSpec, why: str) -> Try:
    return Try(why, dataclasses.replace(item, id=f"{item.id} {why}", spec=spec, candidates=()))


def _wanted(step: Step, items: Mapping[str, Item]) -> dict[str, float]:
    """The time of each item's launches in another recorded iteration, by their signatures; else in this one.

    Items that share a signature have as much of it as here.
    """
    parts, every = Counter[tuple[str, str]](), Counter[str]()
    for call in step.calls:
        kernels = items[call.item].kernels if call.item in items else ()
        for kernel, recorded in zip(kernels, call.recorded_ns, strict=False):
            parts[call.item, kernel.signature_id] += recorded
            every[kernel.signature_id] += recorded
    again, found = dict(step.again_ns), Counter[str]()
    for (name, signature), recorded in parts.items():
        other = again.get(signature, every[signature])
        found[name] += recorded * other / (every[signature] or 1)  # type: ignore[assignment]  # floats count, too
    return {name: float(found[name]) for name in items}


def _run(player: Player, tries: Mapping[str, Sequence[Try]], measured: Measured) -> None:
    """Run the step with what was not tried yet, one call of each item at a time."""
    while any(one.seen is None for listed in tries.values() for one in listed):
        running = {name: next((one for one in listed if one.seen is None), listed[0]) for name, listed in tries.items()}
        filled = dict(player.filled)
        for name, one in running.items():
            player.stand_in(name, one.item)
        seen = measured()
        for name, one in running.items():
            one.seen = one.seen or seen.get(name) or Seen(Grade.L4)
        player.filled = filled  # a call that cannot be made says nothing of the others


def _best(listed: Sequence[Try], wanted: float) -> Try:
    return min(listed, key=lambda one: one.rank(wanted))


def _other_sizes(best: Try, wanted: float) -> Iterator[Try]:
    """The call with more or fewer keys, where its time asks for that."""
    time = 0.0 if best.seen is None or best.seen.time_ns is None else best.seen.time_ns
    spec = best.item.spec
    if spec is None or best.item.candidates or not time or not wanted or abs(time / wanted - 1) <= NEAR:
        return
    for other, word in scaled(spec, wanted / time):
        yield _with(best.item, other, f"{best.why}; {word}")


def _trail(listed: Sequence[Try], wanted: float, launches: int, how: str) -> Iterator[AttemptResult]:
    best = _best(listed, wanted)
    for number, one in enumerate(listed):
        seen = one.seen or Seen(Grade.L4)
        yield AttemptResult(
            call=one.spec().call,
            why=f"{one.why}; {how}",
            grade=seen.grade,
            candidate=one.place,
            time_ns=None if seen.time_ns is None else round(seen.time_ns / launches, 1),
            recorded_ns=round(wanted / launches, 1),
            reason=seen.reason,
            accepted=one is best and fits(one.place, seen.grade),
            attempt=number,
        )
