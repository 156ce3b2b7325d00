"""Tries the rewrites in a step: finds, checks, measures alone and in the step, and keeps what pays together.

Places of one rewrite that are in the same function, or compute the same, are one candidate: a program can be changed
in one only with the others. A candidate is accepted where the interval of what the step gains lies above zero; one
that covers calls of a better one is not tried with it. The accepted ones are then measured together, best first, and
what adds nothing in this company is dropped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.recordings import Measurement
from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.recording.measuring import Interval
from kerneldb.replay.rewrites.base import Function, Proposal, Rewrite
from kerneldb.replay.rewrites.check import SLIGHT, Checked, check
from kerneldb.replay.rewrites.flow import Flow
from kerneldb.replay.rewrites.region import CannotTryError, Within
from kerneldb.replay.rewrites.trial import Bench, Compared, TimeIsOver, Variant, limited
from kerneldb.replay.wire.improvements import Improvement, Status, Times

LEAST_GAIN: Final = 0.002
"""Shares of the step below this are not worth a change of a program."""
LEAST_OF_GRAPH: Final = 0.02
"""What a CUDA graph must gain at least: a program also copies its inputs and results."""
ANY_ERROR: Final = float("inf")
CHECKS: Final = 4
"""Different regions of one candidate that are checked; the others compute the same."""
PARTS: Final = 0.5
"""Parts of what is accepted are only tried while this share of the time is left."""
TIME_OVER: Final = "the time was over: give more with --seconds"
BROKEN_OFF: Final = "it was still being compiled when the time was over: give more with --seconds"
MOST_IS_OVER: Final = "most of the time was over"
NOT_PAYING: Final = "the step gains nothing"
FASTER: Final = "its calls are not among those that take most of the time (--until-time)"
ELSEWHERE: Final = "none of its calls meets the condition (--where)"
LAUNCHES: Final = "it removes no launches, and the host may be what holds the step back"
DONE_ALONE: Final = "measured for what is accepted"


@dataclass(slots=True)
class Candidate:
    """A rewrite with all of its places, and what came of it."""

    rewrite: Rewrite
    proposals: list[Proposal]
    functions: list[Function | None] = field(default_factory=list)
    checked: Checked = field(default_factory=Checked)
    alone: Compared | None = None
    busy: Compared | None = None
    wall: Compared | None = None
    energy: Times | None = None
    energy_reason: str | None = DONE_ALONE
    status: Status = "rejected"
    reason: str | None = None
    inside: list[Candidate] = field(default_factory=list)

    @property
    def chosen(self) -> list[tuple[Proposal, Function | None]]:
        """Its places with what is called there; `inside`: what its functions have in them already."""
        return list(zip(self.proposals, self.functions, strict=True))

    @property
    def measured(self) -> Compared | None:
        """What decides: busy time where it is known, else wall time."""
        return self.wall if self.proposals[0].whole else self.busy or self.wall

    @property
    def by_hand(self) -> bool:
        """Whether no patch makes it."""
        return any(one.change.kind == "advice" for one in self.proposals)

    @property
    def places(self) -> set[int]:
        """The calls that it replaces."""
        return {place for one in self.proposals if one.region for place in one.region.places}


def candidates(flow: Flow, rewrites: Iterable[Rewrite], told: Callable[[str, str], object]) -> Iterator[Candidate]:
    """What the rewrites find, by function or structure; `told` hears of those that cannot be tried, with the reason."""
    for rewrite in rewrites:
        try:
            reason, found = rewrite.lacks(flow), dict[Any, list[Proposal]]()
            for one in () if reason else rewrite.find(flow):
                found.setdefault(_key(one), []).append(one)
        except (*FAILURES, CannotTryError) as error:
            reason, found = first_line(error), {}
        if reason or not found:
            told(rewrite.name, reason or "the step has nothing that it is for")
        for proposals in found.values():
            yield Candidate(rewrite, _apart(proposals))


def _key(one: Proposal) -> Any:
    if one.change.kind == "setting" or one.change.frame is None:
        return (one.change.kind, one.change.text, one.what)
    return (one.change.kind, one.change.frame.path, one.change.frame.line, one.change.frame.function)


def _apart(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Those that share no call with an earlier one."""
    kept, taken = [], set[int]()
    for one in proposals:
        places = set(one.region.places) if one.region else set()
        if not places & taken:
            kept.append(one)
            taken |= places
    return kept


def slowest(flow: Flow, share: float, among: Collection[int]) -> Iterator[int]:
    """The calls that take the longest by kind, up to a share of the time that all `among` them take (0 to 1)."""
    kinds: dict[str, list[int]] = {}
    for place in sorted(among):
        kinds.setdefault(flow.nodes[place].call.item, []).append(place)
    times = {kind: sum(sum(flow.nodes[one].call.recorded_ns) for one in places) for kind, places in kinds.items()}
    left = share * sum(times.values())
    for kind in sorted(kinds, key=lambda one: -times[one]):
        if left > 0 or share >= 1:
            yield from kinds[kind]
        left -= times[kind]


class Search:
    """The loop over the candidates of one step. `send` gets each result as it comes."""

    def __init__(
        self,
        flow: Flow,
        bench: Bench,
        send: Callable[[Improvement], object],
        seconds: float,
        share: float = 1.0,
        among: Collection[int] | None = None,
    ) -> None:
        self._flow = flow
        self._among = set(range(len(flow.nodes)) if among is None else among)
        self._slowest = set(slowest(flow, share, self._among))
        self._bench = bench
        self._send = send
        self._seconds = seconds
        self._until = float("inf")
        self._slight = 0.0
        self._number = 0
        self.tried: list[Candidate] = []

    def run(self, rewrites: Iterable[Rewrite], allowed: frozenset[str]) -> None:
        """Try them all, then those that pay together."""
        wanted = [one for one in rewrites if not one.precision or "precision" in allowed]
        self._slight = SLIGHT if "precision" in allowed else 0.0
        found = list(candidates(self._flow, wanted, self._absent))
        self._until = time.monotonic() + self._seconds
        parts = []
        for one in [one for one in found if not one.proposals[0].whole]:
            if one.rewrite.refines is None and self._better(one):
                parts.append(one)
            else:
                self._one(one)
        for one in parts:  # after other ways to do what is accepted, which more often pay
            self._one(one)
        together = self._together()
        for one in [one for one in found if one.proposals[0].whole]:
            self._try(one, together)
            self.tried.append(one)
        for one in together:
            one.energy, one.energy_reason = self._energy([one])
        for one in self.tried:
            self._report(one)
        self._all_of(together, "all accepted")
        if any(one.by_hand for one in together):
            self._all_of([one for one in together if not one.by_hand], "all that the patch does")

    def _absent(self, name: str, reason: str) -> None:
        self._number += 1
        self._send(Improvement(self._flow.step.id, self._number, name, "not tried", reason=reason))

    def _one(self, one: Candidate) -> None:
        """Try a candidate where it is about calls that are asked for, and what it refines pays."""
        base = self._refined(one)
        if one.rewrite.refines is not None and base is None:
            return
        if one.places and not one.places & self._slowest:
            one.status, one.reason = "not tried", FASTER if one.places & self._among else ELSEWHERE
            self.tried.append(one)
        elif base is None:
            self._try_with_parts(one)
        elif self._late:
            one.status, one.reason = "not tried", f"it is another way to {_short(base)}, and {MOST_IS_OVER}"
            self.tried.append(one)
        else:
            one = _containing(one, base.inside) if base.inside else one
            self._try(one)
            self.tried.append(one)

    def _better(self, one: Candidate) -> Candidate | None:
        """What is accepted and has a candidate in it."""
        return next((some for some in self.tried if some.status == "accepted" and _is_part(one, some)), None)

    @property
    def _late(self) -> bool:
        """Whether most of the time is over."""
        return time.monotonic() > self._until - PARTS * self._seconds

    def _refined(self, one: Candidate) -> Candidate | None:
        """The best of what a candidate is another way for, where it is of the same calls."""
        paying = [some for some in self.tried if some.rewrite.name == one.rewrite.refines and some.status == "accepted"]
        best = max(paying, key=_gain, default=None)
        return best if best is not None and best.places == one.places else None

    def _try_with_parts(self, one: Candidate) -> None:
        """Try a candidate, then with the parts in it that it would not find itself.

        Those are the accepted ones, then also those that pay nothing by themselves: a compiler may make them pay.
        """
        better = self._better(one)
        if better is not None and self._late:
            one.status, one.reason = "not tried", f"it is a part of {_short(better)}, and {MOST_IS_OVER}"
        else:
            self._try(one)
        self.tried.append(one)
        parts = [some for some in self.tried if some.rewrite.compiler_misses and some.places < one.places]
        parts = [some for some in parts if not some.by_hand and some is not one]
        paying = [some for some in parts if some.status == "accepted"]
        same = [some for some in parts if some.status == "accepted" or some.reason == NOT_PAYING]
        for within in [paying, same] if len(same) > len(paying) else [paying]:
            with_parts = _containing(one, within)
            if one.status != "not tried" and within and with_parts.proposals:
                self._try(with_parts)
                self.tried.append(with_parts)

    def _try(self, one: Candidate, together: Sequence[Candidate] = ()) -> None:
        if time.monotonic() > self._until:
            one.status, one.reason = "not tried", TIME_OVER
            return
        try:
            if not one.proposals[0].whole:
                one.functions = self._functions(one)
                self._check(one)
            else:
                one.functions = [None]
            if one.checked.refused is None:
                self._measure(one, together)
        except CannotTryError as error:
            one.status, one.reason = "not tried", str(error)
        except TimeIsOver:
            one.status, one.reason = "not tried", BROKEN_OFF
        except FAILURES as error:
            one.reason = f"it does not run: {first_line(error)}"
        one.reason = one.reason or one.checked.refused

    def _functions(self, one: Candidate) -> list[Function | None]:
        """What to call at each place; equal regions share one, unless it keeps parameters of its place."""
        made: dict[Any, Function] = {}
        functions: list[Function | None] = []
        for proposal in one.proposals:
            assert proposal.region is not None and proposal.make is not None  # noqa: S101, PT018 (not whole)
            shared = proposal.region.structure if one.rewrite.name == "compile" else id(proposal)
            if shared not in made:
                made[shared] = proposal.make()
            functions.append(made[shared])
        return functions

    def _check(self, one: Candidate) -> None:
        seen = set[Any]()
        limit = ANY_ERROR if one.rewrite.precision else 2.0
        for proposal, function in one.chosen:
            assert proposal.region is not None and function is not None  # noqa: S101, PT018 (not whole)
            structure = proposal.region.structure
            if structure in seen or len(seen) >= CHECKS or one.checked.refused:
                continue
            seen.add(structure)
            inputs = self._inputs(proposal)
            with limited(self._until - time.monotonic()) if one.rewrite.refines else contextlib.nullcontext():
                found = check(proposal.region, function, inputs, limit, self._slight)
            if found.refused or found.ratio >= one.checked.ratio:
                one.checked = found
            if one.alone is None and not found.refused:
                one.alone = self._bench.alone(proposal, function, inputs)

    def _inputs(self, proposal: Proposal) -> list[Any]:
        """The inputs of a region, as the step has them when it comes there."""
        assert proposal.region is not None  # noqa: S101 (callers look)
        player, base = self._bench.player, self._bench.base
        self._bench.use(base)
        player.begin()
        player.renew()
        import torch

        with torch.no_grad():
            for place, call in enumerate(player.step.calls):
                player.before(call)
                if place == proposal.region.anchor:
                    break
                player.make(place)
                player.after(call)
            return proposal.region.inputs_now()

    def _measure(self, one: Candidate, together: Sequence[Candidate]) -> None:
        bench = self._bench
        if one.proposals[0].whole:
            one.wall = bench.whole(self._all(together))
        else:
            one.busy, one.wall = bench.compare(bench.base, bench.variant(one.chosen))
        gain, least = one.measured, LEAST_OF_GRAPH if one.proposals[0].whole else 0
        if gain is not None and gain.gain.low > least and gain.gain.value >= LEAST_GAIN:
            one.status = "accepted"
        else:
            one.reason = NOT_PAYING

    def _together(self) -> list[Candidate]:
        """The accepted candidates that pay in company, best first; what does not is rejected."""
        paying = [one for one in self.tried if one.status == "accepted"]
        ranked = sorted(paying, key=lambda one: -_gain(one))
        first, lost = self._added(ranked)
        if first and lost and len(lost) > 1:
            second, others = self._added([one for one in ranked if one is not first[0]])
            if second and self._gains(second).low > self._gains(first).value:
                first, lost = second, {**others, id(ranked[0]): "several others together gain more"}
        for one in ranked:
            if one not in first:
                one.status, one.reason = "rejected", lost.get(id(one), NOT_PAYING)
        return first

    def _gains(self, chosen: Sequence[Candidate]) -> Interval:
        busy, wall = self._bench.compare(self._bench.base, self._all(chosen))
        return (busy or wall).gain

    def _all(self, chosen: Sequence[Candidate]) -> Variant:
        return self._bench.variant([pair for one in chosen for pair in one.chosen])

    def _added(self, ranked: Sequence[Candidate]) -> tuple[list[Candidate], dict[int, str]]:
        """Add one after the other, as long as the step gains by it."""
        kept: list[Candidate] = []
        lost: dict[int, str] = {}
        current = self._bench.base
        for one in ranked:
            other = next((some for some in kept if some.places & one.places), None)
            if other is not None:
                lost[id(one)] = f"{_short(other)} covers the same calls and gains more"
                continue
            if kept:
                more = self._all([*kept, one])
                busy, wall = self._bench.compare(current, more)
                if (busy or wall).gain.low <= 0:
                    lost[id(one)] = f"it gains nothing more beside {', '.join(map(_short, kept[:3]))}"
                    continue
            kept.append(one)
            current = self._all(kept)
        return kept, lost

    def _energy(self, chosen: Sequence[Candidate]) -> tuple[Times | None, str | None]:
        """Energy of the step as recorded and with some of the candidates; why there is none."""
        over = len(chosen) == 1 and time.monotonic() > self._until
        return (None, TIME_OVER) if over else self._bench.energy(self._all(chosen))

    def _report(self, one: Candidate) -> None:
        self._number += 1
        first = one.proposals[0]
        wall_reason = None if one.rewrite.removes_launches or self._bench.on_cpu else LAUNCHES
        self._send(
            Improvement(
                step=self._flow.step.id,
                number=self._number,
                rewrite=one.rewrite.name,
                status=one.status,
                what=first.what + "".join(f", with {some.rewrite.name} inside" for some in one.inside),
                place=None if first.change.frame is None else str(first.change.frame),
                places=len(one.proposals),
                calls=len(one.places),
                alone=times(one.alone),
                busy=times(one.busy),
                wall=None if wall_reason else times(one.wall),
                error=_finite(one.checked.rewritten) if one.checked.compared else None,
                error_before=_finite(one.checked.original) if one.checked.compared else None,
                error_ratio=_finite(one.checked.ratio) if one.checked.compared else None,
                reason=one.reason,
                wall_reason=wall_reason,
                energy=one.energy,
                energy_reason=one.energy_reason,
                change=described(one),
            )
        )

    def _all_of(self, chosen: Sequence[Candidate], name: str) -> None:
        """The row of candidates that are accepted, all at once."""
        graph = next((one for one in self.tried if one.proposals[0].whole and one.status == "accepted"), None)
        if not chosen and graph is None:
            return
        variant = self._all(chosen)
        busy, wall = self._bench.compare(self._bench.base, variant)
        if graph is not None and (made := self._bench.graph(variant)) is not None:
            wall = self._bench.walls(self._bench.base, made)
        energy, why = (chosen[0].energy, chosen[0].energy_reason) if len(chosen) == 1 else self._energy(chosen)
        listed = [*chosen, *([] if graph is None else [graph])]
        fewer = self._bench.on_cpu or any(one.rewrite.removes_launches for one in listed)
        self._number += 1
        self._send(
            Improvement(
                step=self._flow.step.id,
                number=self._number,
                rewrite=name,
                status="together",
                what=", ".join(dict.fromkeys(one.rewrite.name for one in listed)),
                places=sum(len(one.proposals) for one in chosen),
                calls=len(set[int]().union(*(one.places for one in chosen))),
                busy=times(busy),
                wall=times(wall) if fewer else None,
                energy=energy,
                wall_reason=None if fewer else LAUNCHES,
                energy_reason=why,
            )
        )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _is_part(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate is about some of the calls of another one of the same rewrite."""
    return one.rewrite is other.rewrite and one.places <= other.places


def _containing(one: Candidate, inside: list[Candidate]) -> Candidate:
    """A candidate with parts of it replaced; without proposals where its rewrite knows no parts."""
    parts = [pair for some in inside for pair in some.chosen]
    made = [one.rewrite.containing(proposal, _within(proposal, parts)) for proposal in one.proposals]
    return Candidate(one.rewrite, [some for some in made if some is not None], inside=inside)


def _within(proposal: Proposal, parts: Sequence[tuple[Proposal, Function | None]]) -> list[Within]:
    """Those of the parts that are in a place."""
    places = set(proposal.region.places) if proposal.region else set[int]()
    found = [(one.region, function) for one, function in parts if one.region and function]
    return [pair for pair in found if set(pair[0].places) <= places]


def _gain(one: Candidate) -> float:
    return one.measured.gain.value if one.measured else 0.0


def _short(one: Candidate) -> str:
    frame = one.proposals[0].change.frame
    name = " with ".join([one.rewrite.name, *(some.rewrite.name for some in one.inside)])
    return name if frame is None else f"{name} of {frame.module or frame.function}"


def times(found: Compared | None) -> Times | None:
    """A comparison as results carry it."""
    if found is None:
        return None
    return Times(found.before_ns, found.after_ns, found.gain.value, found.gain.low, found.gain.high)


def described(one: Candidate) -> dict[str, Any]:
    """The change as JSON: what `patching.py` reads."""
    changes = [change for some in one.inside for change in described(some)["changes"]]
    for proposal in one.proposals:
        change = proposal.change
        frame = None if change.frame is None else dataclasses.asdict(change.frame)
        made = {"kind": change.kind, "frame": frame, "values": change.values, "text": change.text}
        if made not in changes:
            changes.append(made)
    return {"changes": changes}


def energies(before: Sequence[Measurement], after: Sequence[Measurement]) -> tuple[Times | None, str | None]:
    """Energy of a step before and after, from measurements of both."""
    pair = [next(one for one in some if one.quantity == "energy_mj") for some in (before, after)]
    values = [(one.value, one.low, one.high) for one in pair if one.value is not None]
    if len(values) != len(pair):
        return None, next((one.reason for one in pair if one.reason), None)
    (old, old_low, old_high), (new, new_low, new_high) = values
    low, high = 1 - (new_high or new) / (old_low or old), 1 - (new_low or new) / (old_high or old)
    return Times(old, new, 1 - new / old, low, high), None
