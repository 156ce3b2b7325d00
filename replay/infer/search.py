"""The search for one call: which one to try next, what a try says, and which one is accepted.

Candidates come first, best first. A call is accepted where the same kernels came out (same name; the same grid and
block, unless the trace lacks them) in a time within 15 % of the recorded one; among several, the launch counts first,
then the time, then what spoke for it before. Equal times of another grid are chance: such a call stays as a graded
result, but not a call that was found. The search ends early where the best candidate agrees within 5 %. Where the
kernels agree and the time is off by more than 10 %, the same call is run with other values or another state of the
cache, which no trace records; where it is not to be accepted then, with the size that the launch leaves open scaled by
the ratio.

`scaled` changes the dims that the launch leaves open by how far the time was off. A persistent matrix product does not
show K in its grid, a softmax or a reduction not its row length, a capped concatenation not its tokens, attention not
its keys. What the grid does show (elements of elementwise kernels) is left alone.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from kerneldb.replay.infer import attention
from kerneldb.replay.resolve import BuiltCall, resolved_calls
from kerneldb.replay.resolve.calls import blas_library, built
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.resolve.tensors import hide
from kerneldb.replay.routes.grades import KernelMatch
from kerneldb.replay.wire.plan import CallSpec, Candidate, Item
from kerneldb.replay.wire.results import AttemptResult, CallResult, Grade
from kerneldb.replay.worker.executor import Verdict

CLOSE: Final = math.log(1.05)
NEAR: Final = 0.1
ACCEPTED: Final = 0.15
LIMIT: Final = 24
PATIENCE: Final = 6
SCORE_GAP: Final = 0.25
SHAPES: Final = ("grid", "block")
MASKED: Final = "masked"
CACHES: Final = ("cold", "warm")
NOTE: Final = re.compile(r"; ((?:(?:values|cache|setting):\w+ ?)+)$")
OPEN: Final = {
    **dict.fromkeys(("mm", "bmm"), ((0, -1), (1, -2))),
    **dict.fromkeys(("addmm", "baddbmm"), ((1, -1), (2, -2))),
    **dict.fromkeys(("_softmax", "_log_softmax", "argmax", "argmin", "sum", "mean", "amax", "amin"), ((0, -1),)),
}
"""Where the open dim is: arguments, and their dims from the end."""
LEAST: Final = 8
SAME: Final = 0.05
NUMBER: Final = "wrapped-number"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call to try: a candidate, or one made from it; `values`, `cache` and `setting` are variants of how it runs.

    `scaled`: a size was chosen by the time that another call took.
    """

    spec: CallSpec
    why: str
    candidate: int | None
    score: float
    values: str = ""
    cache: str = ""
    setting: str = ""
    scaled: bool = False

    @property
    def note(self) -> str:
        """How it differs from the plain call."""
        words = (("values", self.values), ("cache", self.cache), ("setting", self.setting))
        return " ".join(f"{name}:{word}" for name, word in words if word)

    @property
    def reason(self) -> str:
        """Why it is tried, and how it differs."""
        return f"{self.why}; {self.note}" if self.note else self.why


def attempt_of(candidate: Candidate, place: int) -> Attempt:
    """The attempt that a candidate asks for; one that was found by an earlier search in the variant that was found."""
    noted = NOTE.search(candidate.why)
    words: dict[str, Any] = dict(word.split(":", 1) for word in noted[1].split()) if noted else {}
    why = candidate.why[: noted.start()] if noted else candidate.why
    return Attempt(candidate.spec, why, place, candidate.score or 0.0, **words)


@dataclass(slots=True)
class Outcome:
    """What came of an attempt: its verdict, and the log of the ratio of replayed and recorded time.

    `off`: the share by which the replayed time is more or less than the recorded one. `named`: the kernels have the
    recorded names; `shaped`: nor does a recorded grid or block differ; `launched`: all of the launch was recorded, and
    is equal.
    """

    verdict: Verdict
    distance: float
    off: float
    named: bool
    shaped: bool
    launched: bool

    @property
    def timely(self) -> bool:
        """Whether the time speaks for the call."""
        return self.off <= ACCEPTED

    @property
    def acceptable(self) -> bool:
        """Whether kernels, launches and time speak for the call."""
        return self.shaped and self.timely

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int]:
        """What counts, in order; smaller is better."""
        close = 0 if self.distance <= CLOSE else 1 if self.timely else 2
        return not self.named, not self.shaped, not self.launched, close, len(self.verdict.match.extra)


@dataclass(slots=True)
class Search:
    """The attempts for one item. Their numbers are places in `attempts`; it grows as outcomes come in.

    `places` maps attempts that ran to their place in `tries`: one that found no memory before is a try, too.
    `chosen` is the attempt that was chosen, and is run again for its time.
    """

    item: Item
    attempts: list[Attempt] = field(default_factory=list)
    tries: list[AttemptResult] = field(default_factory=list)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    refined: bool = False
    chosen: int | None = None

    def __post_init__(self) -> None:
        """Begin with the candidates."""
        self.attempts = [attempt_of(one, place) for place, one in enumerate(self.item.candidates)][:LIMIT]

    def played(self, attempt: int) -> Item:
        """The item as if the call of this attempt were recorded: roles of inputs go by it."""
        return replace(self.item, spec=self.attempts[attempt].spec)

    def build(self, attempt: int, device: str) -> Any:
        """The call of an attempt. Raises UnresolvedCallError."""
        return build(self.attempts[attempt], device)

    def failed(self, attempt: int, reason: str) -> None:
        """An attempt could not run."""
        one = self.attempts[attempt]
        self.tries.append(
            AttemptResult(one.spec.call, one.reason, Grade.L4, one.candidate, reason=reason, attempt=attempt)
        )

    def judged(self, verdict: Verdict) -> None:
        """An attempt ran; or the chosen one ran again, and its time is that of all its runs."""
        one = self.attempts[verdict.attempt]
        known = self.outcomes.get(verdict.attempt)
        outcome = outcome_of(verdict if known is None else known.verdict)
        self.outcomes[verdict.attempt] = outcome
        if known is None:
            self.places[verdict.attempt] = len(self.tries)
            self.tries.append(_try(one, outcome))
        else:
            self.chosen = verdict.attempt
            self.tries[self.places[verdict.attempt]] = _try(one, outcome)

    def better(self, new: Verdict, old: Verdict | None) -> bool:
        """Whether a new verdict is to be accepted rather than the one held so far."""
        return old is None or self._rank(new) < self._rank(old)

    def goes_on(self, attempt: int) -> bool:
        """Whether to try a further call after this attempt; makes further ones where the candidates are used up."""
        if len(self.tries) >= LIMIT or self._without_kernels(attempt):
            return False
        best = self._best()
        if self.refined:
            return attempt + 1 < len(self.attempts) and self._needs(self.attempts[attempt + 1], best)
        settled = best is not None and self._settled(best)
        if not settled and attempt + 1 < len(self.attempts) and self._worth(attempt + 1, best):
            return True
        if best is None:
            return False
        self.refined = True
        del self.attempts[attempt + 1 :]
        self.attempts.extend(self._refinements(best))
        return attempt + 1 < len(self.attempts)

    def found(self) -> Candidate | None:
        """The call that is accepted: the same kernels, launched alike, in about the same time."""
        accepted = self._accepted()
        if accepted is None:
            return None
        one = self.attempts[accepted]
        score = round(one.score * math.exp(-self.outcomes[accepted].distance), 4)
        if one.candidate is None:
            return Candidate(one.spec, one.reason, score)
        return replace(self.item.candidates[one.candidate], why=one.reason, score=score)

    def trail(self) -> tuple[AttemptResult, ...]:
        """All tries in order, the accepted one marked."""
        accepted = self._accepted()
        accepted = None if accepted is None else self.places[accepted]
        return tuple(replace(one, accepted=place == accepted) for place, one in enumerate(self.tries))

    def _without_kernels(self, attempt: int) -> bool:
        """Whether the call ran where no kernel can tell (on a CPU)."""
        known = self.outcomes.get(attempt)
        return known is not None and not known.verdict.activities and not known.verdict.durations

    def _rank(self, verdict: Verdict) -> tuple[bool, bool, bool, int, int, float]:
        known = self.outcomes.get(verdict.attempt) or outcome_of(verdict)
        return *known.rank, -self.attempts[verdict.attempt].score + known.distance

    def _best(self) -> int | None:
        if self.chosen is not None:
            return self.chosen
        return min(self.outcomes, key=lambda one: self._rank(self.outcomes[one].verdict), default=None)

    def _accepted(self) -> int | None:
        best = self._best()
        return best if best is not None and self.outcomes[best].acceptable else None

    def _settled(self, best: int) -> bool:
        """Agrees closely, and no untried candidate was thought better of."""
        known = self.outcomes[best]
        if not (known.named and known.launched and known.timely):
            return False
        ahead = [one for one in self.attempts[:PATIENCE] if one.score > self.attempts[best].score]
        return known.distance <= CLOSE or len(self.tries) > len(ahead) + 1

    def _worth(self, attempt: int, best: int | None) -> bool:
        """Whether the next candidate is worth a run: always while no kernel agreed, else while it scores near."""
        if best is None or not self.outcomes[best].acceptable:
            return True
        near = self.attempts[best].score - self.attempts[attempt].score <= SCORE_GAP
        return near and len(self.tries) < PATIENCE

    def _needs(self, variant: Attempt, best: int | None) -> bool:
        """Whether the best call so far leaves a wish for this variant of one."""
        if best is None or not self.outcomes[best].named:
            return True
        return not self.outcomes[best].timely if variant.scaled else self.outcomes[best].off > NEAR

    def _refinements(self, best: int) -> Iterator[Attempt]:
        one, known = self.attempts[best], self.outcomes[best]
        if not known.named:  # the best candidates that are products, under PyTorch's other library
            foremost = self.attempts[:4]
            matching = (each for each in foremost if "mm" in each.spec.call.op or "linear" in each.spec.call.op)
            yield from (replace(each, setting="cublaslt", candidate=None, score=each.score * 0.9) for each in matching)
            return
        if known.off <= NEAR:
            return
        ratio = time_ratio(known.verdict)
        for spec, word in attention.variants(one.spec):
            yield replace(one, spec=spec, why=f"{one.why}; {word}", candidate=None, score=one.score * 0.95)
        if "softmax" in one.spec.call.op and ratio < 1:
            yield replace(one, values=MASKED, candidate=None)
        for cache in CACHES:
            yield replace(one, cache=cache, candidate=None, score=one.score * 0.95)
        if known.timely:
            return
        for spec, word in scaled(one.spec, 1 / ratio if ratio else 1.0):
            yield replace(one, spec=spec, why=f"{one.why}; {word}", candidate=None, score=one.score * 0.8, scaled=True)


def outcome_of(verdict: Verdict) -> Outcome:
    """What a verdict says: are the kernels the planned ones, do their launches agree, and how far is the time?"""
    grades = [one.grade for one in verdict.match.kernels if _counts(one)]
    named = bool(verdict.match.kernels) and all(grade.rank <= Grade.L1.rank for grade in grades)
    launched = named and all(grade is Grade.L0 for grade in grades)
    shaped = named and False not in {_same(_pairs(verdict), name) for name in SHAPES}
    ratio = time_ratio(verdict)
    distance = abs(math.log(ratio)) if ratio else math.inf
    return Outcome(verdict, distance, abs(ratio - 1), named, shaped, launched)


def _counts(match: KernelMatch) -> bool:
    """Fills of counters come and go with versions of libraries."""
    return match.planned.kind == "kernel"


def time_ratio(verdict: Verdict) -> float:
    """Replayed over recorded time of the planned kernels that came out; 0 where either is not known."""
    recorded = replayed = 0.0
    for one in verdict.match.kernels:
        if one.place is not None and one.planned.median_ns and _counts(one):
            recorded += one.planned.median_ns
            replayed += statistics.median_high(verdict.durations[one.place] or [0.0])
    return replayed / recorded if recorded else 0.0


def _try(one: Attempt, outcome: Outcome) -> AttemptResult:
    verdict = outcome.verdict
    pairs = _pairs(verdict)
    reasons = dict.fromkeys(match.reason for match in verdict.match.kernels if match.reason)
    recorded = float(sum(match.planned.median_ns or 0 for match in pairs)) or None
    return AttemptResult(
        call=one.spec.call,
        why=one.reason,
        grade=verdict.grade,
        candidate=one.candidate,
        overload=verdict.overload,
        same_name=outcome.named,
        same_grid=_same(pairs, "grid"),
        same_block=_same(pairs, "block"),
        same_shared=_same(pairs, "shared_bytes"),
        time_ns=None if recorded is None else round(time_ratio(verdict) * recorded, 1),
        recorded_ns=recorded,
        score=round(one.score, 4),
        reason="; ".join(reasons) or None,
        attempt=verdict.attempt,
    )


def _pairs(verdict: Verdict) -> list[KernelMatch]:
    """The kernels that count and came out."""
    return [match for match in verdict.match.kernels if _counts(match) and match.seen is not None]


def _same(pairs: Sequence[KernelMatch], name: str) -> bool | None:
    """Whether a field of the launch is equal in all of them; None where none has it on both sides."""
    both = [(getattr(one.planned, name), getattr(one.seen, name)) for one in pairs]
    known = [one == two for one, two in both if one is not None and two is not None]
    return all(known) if known else None


def again(item: Item, result: CallResult) -> Item | None:
    """The item with the call that was replayed as its only one; None where the journal does not say which it was."""
    tried = next((one for one in result.trail if one.attempt == result.attempt and one.time_ns is not None), None)
    kept = result.found
    if tried is not None:
        known = (one.spec for one in item.candidates if one.spec.call == tried.call)
        kept = Candidate(next(known, CallSpec(tried.call)), tried.why, tried.score)
    return None if kept is None else replace(item, spec=kept.spec, candidates=(kept,))


def scaled(spec: CallSpec, ratio: float) -> Iterator[tuple[CallSpec, str]]:
    """The call with its open dim `ratio` times as large, in steps that libraries like; nothing where no dim is open."""
    sides = OPEN.get(short_name(spec.call.op), attention.keys(spec.call))
    dims = json.loads(spec.call.input_dims or "[]")
    if not sides or not all(_has_dims(dims, place, -axis) for place, axis in sides):
        return
    word = "keys" if attention.is_attention(spec.call) else "K" if len(sides) > 1 else "row length"
    first, open_axis = sides[0]
    for size in _rounded(dims[first][open_axis], ratio):
        for place, axis in sides:
            dims[place][axis] = size
        strides = json.loads(spec.call.input_strides or "[]")
        known = len(strides) == len(dims)
        made = json.dumps([_strides(one, two) for one, two in zip(dims, strides, strict=True)]) if known else None
        call = attention.counted(replace(spec.call, input_dims=json.dumps(dims), input_strides=made), size)
        yield replace(spec, call=call, children=(), neighbours=()), f"{word} {size} by time"


def _has_dims(dims: Sequence[Any], place: int, least: int) -> bool:
    """Whether the argument at `place` is a tensor of at least `least` dims; lists of tensors are not."""
    held = dims[place] if place < len(dims) else []
    return len(held) >= least and all(isinstance(one, int) for one in held)


def _rounded(size: int, ratio: float) -> list[int]:
    if abs(ratio - 1) < SAME or not size:
        return []
    sizes = (max(round(size * ratio / step) * step, LEAST) for step in (64, 8))
    return [one for one in dict.fromkeys(sizes) if one != size]


def _strides(dims: Any, strides: Any) -> Any:
    """Dense strides in the order of the given ones."""
    if not dims or not strides or isinstance(dims[0], list):
        return strides
    order = sorted(range(len(dims)), key=lambda place: (strides[place], -place))
    made, step = [0] * len(dims), 1
    for place in order:
        made[place] = step if strides[place] else 0
        step *= dims[place] if strides[place] else 1
    return made


def build(attempt: Attempt, device: str) -> BuiltCall:
    """The call of an attempt in memory: of its first resolved that can be built. Raises UnresolvedCallError.

    A number is meant where a recorded call may have had a 0-dim tensor.
    """
    on_paper = sorted(resolved_calls(attempt.spec, device, hidden=False), key=lambda one: NUMBER not in one.notes)
    plain = next(built(on_paper, device))
    masked = attempt.values == MASKED
    if masked:
        hide(plain.inputs[0].tensor)
    return replace(
        plain,
        notes=(*plain.notes, *([f"hidden:{attempt.note}"] if attempt.note else [])),
        settings=partial(blas_library, attempt.setting) if attempt.setting else contextlib.nullcontext,
        cache=attempt.cache or None,
        masked=masked,
    )
