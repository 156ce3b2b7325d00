"""The resolver: rebuilds a recorded operator call from what the profiler wrote of it.

`candidates` gives the calls it may have been, the most likely first; the caller runs them and compares what came out
(kernels on a GPU, child calls on a CPU) until one fits. A call that cannot be rebuilt raises UnresolvedCallError, whose
`reason` is one of `Reason`; no error of torch leaves this package in another form.

    recorded    the recorded texts, parsed           tensors    dtypes; tensors of any strides, and their values
    schema      overloads of this torch that fit     values     which values a tensor gets, by its meaning
    arguments   values for each argument             lists      lists of tensors and of indices
    layouts     tensors without strides              outcomes   how many elements a call found
    windows     lists of integers without values     renamed    operators of older versions of torch
    calls       calls with all arguments: on paper (ResolvedCall), with variants by what no trace records, and built
                (BuiltCall)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from kerneldb.replay.errors import CallFailedError, Reason, UnresolvedCallError
from kerneldb.replay.resolve import recorded, renamed, schema
from kerneldb.replay.resolve.arguments import Option, Problem, options
from kerneldb.replay.resolve.calls import BuiltCall, ResolvedCall, built, variants
from kerneldb.replay.resolve.schema import load_libraries
from kerneldb.replay.wire.plan import CallSpec, ChildCall

__all__ = [
    "BuiltCall",
    "CallFailedError",
    "CallSpec",
    "ChildCall",
    "Reason",
    "ResolvedCall",
    "UnresolvedCallError",
    "candidates",
    "load_libraries",
    "overload_name",
    "resolved_calls",
]

COMBINATION_LIMIT: Final = 24


def overload_name(spec: CallSpec) -> str:
    """The overload that was called, as in `aten::add.Tensor`. Raises UnresolvedCallError."""
    return _fitting(renamed.current(spec))[0].name


def resolved_calls(
    spec: CallSpec, device: str = "cuda", *, hidden: bool = True, kernels: Sequence[str] = ()
) -> Iterator[ResolvedCall]:
    """The calls that `spec` may have been, on paper: plain ones, best first, then variants of the first by `hidden`.

    `device` is a torch device text, `kernels` are the names of what the call launched: they tell the dtypes of lists.
    Raises UnresolvedCallError before the first one where there is none.
    """
    spec = renamed.current(spec)
    best: ResolvedCall | None = None
    failure: UnresolvedCallError | None = None
    for fit in _fitting(spec)[:3]:
        try:
            # One resolved per combination of options; those with the fewest second choices first.
            problem = Problem(spec, fit, _arguments(spec, (fit,)), device, tuple(kernels))
            count = min(len(problem.arguments), len(problem.overload.parameters))
            ranked = [list(enumerate(options(problem, index))) for index in range(count)]
            limited = itertools.islice(itertools.product(*ranked), COMBINATION_LIMIT * COMBINATION_LIMIT)
            chosen = sorted(limited, key=lambda combination: sum(rank for rank, _ in combination))[:COMBINATION_LIMIT]
            plain = [_resolved(problem.overload, [option for _, option in combination]) for combination in chosen]
        except UnresolvedCallError as error:
            failure = failure or error
            continue
        best = best or plain[0]
        yield from plain
    if best is None:
        raise failure or UnresolvedCallError(Reason.NO_OVERLOAD, spec.call.op)
    if hidden:
        yield from variants(best, spec, device)


def candidates(
    spec: CallSpec, device: str = "cuda", *, hidden: bool = True, seed: int = 0, kernels: Sequence[str] = ()
) -> Iterator[BuiltCall]:
    """The calls that `spec` may have been, with their inputs on `device`, best first; each is built when asked for.

    Raises UnresolvedCallError where none can be built.
    """
    return built(resolved_calls(spec, device, hidden=hidden, kernels=kernels), device, seed)


def _fitting(spec: CallSpec) -> list[schema.Overload]:
    known = schema.overloads(spec.call.op)
    if not known:
        raise UnresolvedCallError(Reason.NO_OPERATOR, spec.call.op)
    fits = schema.ranked(known, _arguments(spec, known))
    if not fits:
        raise UnresolvedCallError(Reason.NO_OVERLOAD, spec.call.op)
    return fits


def _arguments(spec: CallSpec, known: Sequence[schema.Overload]) -> tuple[recorded.Argument, ...]:
    """The recorded arguments; none of an operator that has none, of which the profiler records nothing."""
    if spec.call.input_dtypes is None and not any(one.parameters for one in known):
        return ()
    return recorded.arguments(spec.call)


def _resolved(called: schema.Overload, chosen: list[Option]) -> ResolvedCall:
    return ResolvedCall(called, tuple(one.value for one in chosen)).noted(
        *(note for one in chosen for note in one.notes)
    )
