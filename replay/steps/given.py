"""What the step finds in memory that it did not make: parameters, caches, inputs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Final

from kerneldb.replay.resolve.calls import ResolvedCall
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.resolve.tensors import INTEGERS, Fill, TensorSpec
from kerneldb.replay.steps.prepared import Prepared
from kerneldb.replay.wire.steps import UNKNOWN, Step, StepCall

PLAIN: Final = Fill("normal", 0.0, 1.0)
WEIGHT: Final = Fill("normal", 0.0, 0.02)
GAIN: Final = Fill("normal", 1.0, 0.02)
FROM_BEFORE: Final = {0: GAIN, 1: GAIN, 2: WEIGHT, 3: WEIGHT}
"""What was there before the step and has no other meaning, by its number of dims; images and caches have more."""
VARIANCE: Final = Fill("uniform", 0.01, 1.0)
"""Of what a square root is taken of, as an optimizer does: below zero, all parameters would be no numbers soon."""
ROOTS: Final = frozenset({"sqrt", "sqrt_", "_foreach_sqrt", "_foreach_sqrt_"})
COPY: Final = "copy_"


class Meanings:
    """How storages from before the step are filled, by what its calls do with them."""

    def __init__(self, step: Step, prepared: Sequence[Prepared]) -> None:
        self._step = step
        self._prepared = prepared

    def fill(self, place: int, dtype: str, spec: TensorSpec | None) -> Fill:
        """The values of a storage whose first use is the tensor `place`, of a torch dtype name, as what `spec` says."""
        fill, tensor = PLAIN if spec is None else spec.fill, self._step.tensors[place]
        storage = tensor.storage
        if fill == PLAIN and self._step.storages[storage].given:
            fill = VARIANCE if storage in self._rooted else FROM_BEFORE.get(len(tensor.dims), PLAIN)
        if dtype in INTEGERS and fill.kind in {"normal", "uniform", "constant"}:
            return self._copied_for(storage) or (fill if fill.kind == "constant" else Fill("constant", 0))
        return fill

    @functools.cached_property
    def _rooted(self) -> set[int]:
        """The storages that square roots are taken of."""
        calls = [call for call, made in self._calls() if _operator(made) in ROOTS]
        return {self._step.tensors[one].storage for call in calls for one in call.inputs[0] if one != UNKNOWN}

    def _copied_for(self, storage: int) -> Fill | None:
        """How integers are drawn that the step copies first: as what takes a copy needs them, such as indices."""
        copies = set[int]()
        for call, made in self._calls():
            taken = self._taken(call)
            copied = {one for some in taken[1:2] for one in some}
            if _operator(made) == COPY and copied and copies | {storage} >= copied:
                copies.update(taken[0])
                continue
            for value, storages in zip(made.values, taken, strict=False):
                if isinstance(value, TensorSpec) and copies.intersection(storages) and value.fill.kind == "integers":
                    return value.fill
        return None

    def _calls(self) -> Iterator[tuple[StepCall, ResolvedCall]]:
        for call, how in zip(self._step.calls, self._prepared, strict=True):
            if how.resolved is not None:
                yield call, how.resolved

    def _taken(self, call: StepCall) -> list[list[int]]:
        return [[self._step.tensors[one].storage for one in slots if one != UNKNOWN] for slots in call.inputs]


def _operator(made: ResolvedCall) -> str:
    return short_name(made.overload.name.split(".")[0])
