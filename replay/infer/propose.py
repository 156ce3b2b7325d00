"""From a sequence of launches to guesses: calls to be found, each with the candidates for it."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kerneldb.replay.infer import data_movement, dims, pointwise, products, units
from kerneldb.replay.infer.dims import (
    ModelDims,
    StepDims,
    dtype_of,
    from_config,
    key_votes,
    model_of,
    settled,
    step_dims_of,
)
from kerneldb.replay.infer.units import Reading, Unit
from kerneldb.replay.infer.view import Proposal, View, expected, likeness
from kerneldb.replay.plan.unknowns import Clues, Guess, Sequence
from kerneldb.replay.wire.plan import Candidate

CANDIDATES: Final = 16
AROUND: Final = 4
TIME_SHARE: Final = 0.5
ONCE: Final = 2
"""Products of no layer: the vocabulary, of all tokens and of the last."""
LAYERS: Final = 4

FAMILIES: Final[Mapping[str, Callable[[View], Iterator[Proposal]]]] = {
    "GEMM": products.proposals,
    "GEMV": products.proposals,
    "SOFTMAX": data_movement.softmax,
    "NORMALIZATION": data_movement.norm,
    "REDUCTION": data_movement.reduction,
    "SCAN_SORT": data_movement.cumulative,
    "ELEMENTWISE": pointwise.proposals,
    "COPY": data_movement.copies,
    "CONCAT": data_movement.concatenations,
    "ATTENTION": products.attention,
    "INDEXING": data_movement.lookups,
}
Context = tuple[tuple[int, ...], ...]
"""The kinds of a unit between those of the units before and after."""


@dataclass(frozen=True, slots=True)
class Study:
    """A sequence taken apart: its units, their contexts and step_dims, and the usual duration of each context.

    `fused`: it has kernels of fused attention. `layered` are the units of products that a step launches like layers do.
    """

    reading: Reading
    units: list[Unit]
    contexts: list[Context]
    step_dims: list[StepDims]
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
    groups: dict[tuple[Context, StepDims], list[int]] = defaultdict(list)
    for index, unit in enumerate(study.units):
        if any(sequence.kinds[kind].wanted for kind in unit.kinds):
            groups[study.contexts[index], study.step_dims[index]].append(index)
    guesses = [_guess(study, members) for members in groups.values()]
    merged: dict[object, Guess] = {}
    for guess in guesses:
        kinds = tuple(study.reading.sequence.order[places[0]] for places in guess.kernels)
        key = kinds, tuple(one.spec.call for one in guess.candidates), guess.reason
        known = merged.setdefault(key, guess)
        if known is not guess:
            both = tuple(tuple(sorted(one + two)) for one, two in zip(known.kernels, guess.kernels, strict=True))
            merged[key] = replace(known, kernels=both)
    return list(merged.values())


def _study(sequence: Sequence, clues: Clues) -> Study:
    reading = units.read(sequence)
    found = units.units(reading)
    steps, kinds = units.steps(reading, found), [(), *(unit.kinds for unit in found), ()]
    contexts: list[Context] = list(zip(kinds, kinds[1:], kinds[2:], strict=False))
    dtype = dtype_of(sequence, found)
    if clues.config is not None:
        model = from_config(clues.config, dtype)
    else:
        longest = [found[index] for index in max(steps, key=len, default=[])]
        model = dims.completed(model_of(longest, dtype), clues.seen)
    spent: dict[Context, list[int]] = defaultdict(list)
    for unit, context in zip(found, contexts, strict=True):
        duration = sequence.duration_ns[unit.main]
        if duration is not None:
            spent[context].append(duration)
    durations = {context: float(statistics.median(held)) for context, held in spent.items()}
    fused = any(one.known.category == "ATTENTION" for one in reading.launches)
    step_dims = _dims_of_steps(reading, found, steps, model)
    # The units whose product is launched more than once or twice in their step, and not much less than any other.
    layered: list[int] = []
    for members in steps:
        multiplying = [one for one in members if found[one].launch.known.category in units.PRODUCTS]
        counts = Counter(found[one].kind for one in multiplying)
        least = max(ONCE + 1, max(counts.values(), default=0) / LAYERS)
        layered += [one for one in multiplying if counts[found[one].kind] >= least]
    return Study(reading, found, contexts, step_dims, durations, fused, frozenset(layered))


def _dims_of_steps(reading: Reading, found: list[Unit], steps: list[list[int]], model: ModelDims) -> list[StepDims]:
    """The step of every unit, by the step it is in."""
    members = [[found[index] for index in step] for step in steps]
    kinds = [frozenset(kind for unit in step for kind in unit.kinds) for step in members]
    growing = any(one != kinds[0] for one in kinds)
    step_dims = [step_dims_of(reading, step, model, None, growing=growing) for step in members]
    if growing:
        everywhere = frozenset.intersection(*kinds)
        votes = [key_votes(reading, step, everywhere, one) for step, one in zip(members, step_dims, strict=True)]
        step_dims = [
            step_dims_of(reading, step, model, keys if one.queries == 1 else None, growing=growing)
            for step, keys, one in zip(members, settled(votes), step_dims, strict=True)
        ]
    return [one for one, step in zip(step_dims, steps, strict=True) for _ in step]


def _guess(study: Study, members: list[int]) -> Guess:
    kernels = tuple(zip(*(study.units[index].places for index in members), strict=True))
    view = _view(study, members[0])
    family = FAMILIES.get(view.known.category)
    if family is None:
        return Guess(kernels, (), f"no rules for {view.known.category.lower()} kernels")
    proposals = family(view)
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
    proposed = sorted(best.values(), key=lambda one: -(one.score or 0))
    ranked = tuple(proposed[:CANDIDATES])
    return Guess(kernels, ranked, None if ranked else f"no size fits the launch of {view.known.short_name}")


def _view(study: Study, index: int) -> View:
    unit = study.units[index]
    return View(
        kind=unit.launch.kind,
        known=unit.launch.known,
        kernels=tuple(study.reading.launches[kind] for kind in unit.kinds),
        step=study.step_dims[index],
        device=study.reading.sequence.device,
        before=tuple(one.launch for one in reversed(study.units[max(index - AROUND, 0) : index])),
        after=tuple(one.launch for one in study.units[index + 1 : index + 1 + AROUND]),
        duration_ns=study.durations.get(study.contexts[index]),
        added=unit.added,
        fused=study.fused,
        layered=index in study.layered,
    )
