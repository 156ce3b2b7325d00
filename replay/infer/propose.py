"""From a sequence of launches to guesses: calls to be found, each with the candidates for it."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kerneldb.replay.infer import (
    attention,
    copies,
    deriving,
    joining,
    lookups,
    pointwise,
    products,
    recorded,
    rowwise,
    scene,
    units,
)
from kerneldb.replay.infer.scene import Model, Scene
from kerneldb.replay.infer.timing import expected, likeness
from kerneldb.replay.infer.units import Reading, Unit
from kerneldb.replay.infer.view import Near, Proposal, View
from kerneldb.replay.plan.unknowns import Clues, Guess, Kind, Sequence
from kerneldb.replay.wire.plan import Candidate

CANDIDATES: Final = 16
AROUND: Final = 4
TIME_SHARE: Final = 0.5
NOT_WANTED: Final = "memory"
ONCE: Final = 2
"""Products of no layer: the vocabulary, of all tokens and of the last."""
LAYERS: Final = 4

Family = Callable[[View], Iterator[Proposal]]
FAMILIES: Final[Mapping[str, Family]] = {
    "GEMM": products.proposals,
    "GEMV": products.proposals,
    "ELEMENTWISE": pointwise.proposals,
    "COPY": copies.proposals,
    "SOFTMAX": rowwise.proposals,
    "NORMALIZATION": rowwise.proposals,
    "REDUCTION": rowwise.proposals,
    "SCAN_SORT": rowwise.proposals,
    "CONCAT": joining.proposals,
    "ATTENTION": attention.proposals,
    "INDEXING": lookups.proposals,
}
Context = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Study:
    """A sequence taken apart: its units, their contexts and scenes, and the usual duration of each context.

    `fused`: it has kernels of fused attention. `layered` are the units of products that a step launches like layers do.
    """

    reading: Reading
    units: list[Unit]
    contexts: list[Context]
    scenes: list[Scene]
    durations: Mapping[Context, float]
    fused: bool
    layered: frozenset[int]


def infer(sequence: Sequence, clues: Clues) -> list[Guess]:
    """The calls that the wanted launches of a sequence may have been, best candidates first.

    Each wanted place is in exactly one guess; a guess without candidates says why. Linear in the launches.
    """
    if not sequence.order:
        return []
    study = _study(sequence, clues)
    groups: dict[tuple[Context, Scene], list[int]] = defaultdict(list)
    for index, unit in enumerate(study.units):
        if any(study.reading.kind(place).wanted for place in unit.places):
            groups[study.contexts[index], study.scenes[index]].append(index)
    guesses = [_guess(study, members) for members in groups.values()]
    return _merged(study, guesses)


def _study(sequence: Sequence, clues: Clues) -> Study:
    reading = units.read(sequence)
    found = units.units(reading)
    contexts = list(units.contexts(reading, found))
    dtype = scene.dtype_of(reading, found)
    numbers = units.steps(reading, found)
    if clues.config is not None:
        model = scene.from_config(clues.config, dtype)
    else:
        model = recorded.completed(deriving.model_of(reading, _longest(found, numbers), dtype), clues.seen)
    scenes = _scenes(reading, found, numbers, model)
    spent: dict[Context, list[int]] = defaultdict(list)
    for unit, context in zip(found, contexts, strict=True):
        duration = sequence.duration_ns[unit.main]
        if duration is not None:
            spent[context].append(duration)
    durations = {context: float(statistics.median(held)) for context, held in spent.items()}
    fused = any(known.category == "ATTENTION" for known in reading.known)
    return Study(reading, found, contexts, scenes, durations, fused, _layered(reading, found, numbers))


def _layered(reading: Reading, found: list[Unit], numbers: list[int]) -> frozenset[int]:
    """The units whose product is launched more than once or twice in their step, and not much less than any other."""
    layered: list[int] = []
    for members in units.by_step(numbers).values():
        products_ = [one for one in members if reading.name(found[one].main).category in units.PRODUCTS]
        counts = Counter(reading.sequence.order[found[one].main] for one in products_)
        least = max(ONCE + 1, max(counts.values(), default=0) / LAYERS)
        layered += [one for one in products_ if counts[reading.sequence.order[found[one].main]] >= least]
    return frozenset(layered)


def _longest(found: list[Unit], numbers: list[int]) -> list[Unit]:
    """The step with most calls."""
    grouped = units.by_step(numbers)
    return [found[index] for index in max(grouped.values(), key=len, default=[])]


def _scenes(reading: Reading, found: list[Unit], numbers: list[int], model: Model) -> list[Scene]:
    """The scene of every unit, by the step it is in."""
    grouped = units.by_step(numbers)
    members = [[found[index] for index in indices] for indices in grouped.values()]
    kinds = [frozenset(reading.sequence.order[place] for unit in step for place in unit.places) for step in members]
    everywhere = frozenset.intersection(*kinds) if len(kinds) > 1 else frozenset[int]()
    growing = len(kinds) > 1 and any(one != kinds[0] for one in kinds)
    rough = [scene.scene_of(reading, step, model, None, growing=growing) for step in members]
    keys: list[int | None] = [None] * len(members)
    if growing:
        votes = [scene.key_votes(reading, step, everywhere, one) for step, one in zip(members, rough, strict=True)]
        keys = scene.settled(votes)
    exact = [
        scene.scene_of(reading, step, model, length if one.queries == 1 else None, growing=growing)
        for step, length, one in zip(members, keys, rough, strict=True)
    ]
    by_number = dict(zip(grouped, exact, strict=True))
    return [by_number[number] for number in numbers]


def _guess(study: Study, members: list[int]) -> Guess:
    first = study.units[members[0]]
    kernels = tuple(zip(*(study.units[index].places for index in members), strict=True))
    view = _view(study, members[0])
    family = FAMILIES.get(view.known.category)
    if family is None:
        return Guess(kernels, (), f"no rules for {view.known.category.lower()} kernels")
    ranked = _ranked(view, family(view))
    reason = None if ranked else f"no size fits the launch of {study.reading.name(first.main).short_name}"
    return Guess(kernels, ranked, reason)


def _view(study: Study, index: int) -> View:
    unit = study.units[index]
    kind, known = study.reading.kind(unit.main), study.reading.name(unit.main)
    return View(
        kind=kind,
        known=known,
        kernels=tuple(_near(study, place) for place in unit.places),
        scene=study.scenes[index],
        device=study.reading.sequence.device,
        before=tuple(_near(study, study.units[at].main) for at in range(index - 1, max(index - 1 - AROUND, -1), -1)),
        after=tuple(
            _near(study, study.units[at].main) for at in range(index + 1, min(index + 1 + AROUND, len(study.units)))
        ),
        duration_ns=study.durations.get(study.contexts[index]),
        added=unit.added is not None,
        fused=study.fused,
        layered=index in study.layered,
    )


def _near(study: Study, place: int) -> Near:
    return Near(study.reading.kind(place), study.reading.name(place))


def _ranked(view: View, proposals: Iterator[Proposal]) -> tuple[Candidate, ...]:
    """The best candidates, by evidence and by how well their expected time agrees."""
    best: dict[str, Candidate] = {}
    for one in proposals:
        time_ns = expected(view.device, one.moved, one.flops, one.dtype)
        share = 0.0 if one.by_time else TIME_SHARE if one.flops else TIME_SHARE / 2
        evidence = share * likeness(time_ns, view.duration_ns) + (1 - share) * min(one.fit, 1.2) / 1.2
        score = one.likely * evidence
        candidate = Candidate(one.spec, one.why, round(score, 4), expected_ns=round(time_ns))
        key = repr(one.spec.call)
        if key not in best or (best[key].score or 0) < score:
            best[key] = candidate
    ranked = sorted(best.values(), key=lambda one: -(one.score or 0))
    return tuple(ranked[:CANDIDATES])


def _merged(study: Study, guesses: list[Guess]) -> list[Guess]:
    """Guesses of the same kernels with the same candidates are one, whatever stood around them."""
    merged: dict[object, Guess] = {}
    for guess in guesses:
        kinds = tuple(study.reading.sequence.order[places[0]] for places in guess.kernels)
        key = kinds, tuple(one.spec.call for one in guess.candidates), guess.reason
        known = merged.get(key)
        if known is None:
            merged[key] = guess
        else:
            both = tuple(tuple(sorted(one + two)) for one, two in zip(known.kernels, guess.kernels, strict=True))
            merged[key] = replace(known, kernels=both)
    return list(merged.values())


def wanted(kind: Kind) -> bool:
    """Whether a call is asked for a kind."""
    return kind.wanted
