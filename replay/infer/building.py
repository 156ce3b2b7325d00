"""Builds the calls of a search: the attempt's call in memory, with its values, its cache state, its library."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.infer.search import MASKED, Attempt
from kerneldb.replay.resolve import BuiltCall, drafts
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve.tensors import hide
from kerneldb.replay.wire.plan import CallSpec

NUMBER: Final = "wrapped-number"


@dataclass(slots=True)
class Played:
    """A call built from an attempt; `cache` overrides the cache state of the run where the attempt says so."""

    plain: BuiltCall
    note: str
    cache: str | None = None
    setting: str = ""
    masked: bool = False

    @property
    def overload(self) -> str:
        """The overload called."""
        return self.plain.overload

    @property
    def inputs(self) -> Sequence[Any]:
        """The inputs of the plain call."""
        return self.plain.inputs

    @property
    def notes(self) -> tuple[str, ...]:
        """Its notes, with how the attempt differs."""
        return (*self.plain.notes, *([f"hidden:{self.note}"] if self.note else []))

    @property
    def function(self) -> Any:
        """The operator."""
        return self.plain.function

    def call(self) -> Any:
        """Run it once."""
        with _library(self.setting):
            return self.plain.call()

    def refill(self, seed: int = 0) -> None:
        """Draw all inputs anew."""
        self.plain.refill(seed)
        if self.masked:
            hide(self.plain.inputs[0].tensor)


def build(attempt: Attempt, device: str) -> Played:
    """The call of an attempt in memory. Raises UnresolvedCallError."""
    plain = _built(attempt.spec, device)
    masked = attempt.values == MASKED
    if masked:
        hide(plain.inputs[0].tensor)
    return Played(plain, attempt.note, attempt.cache or None, attempt.setting, masked)


def _built(spec: CallSpec, device: str) -> BuiltCall:
    """The first draft that can be built; a number is meant where a recorded call may have had a 0-dim tensor."""
    failure: UnresolvedCallError | None = None
    for draft in sorted(drafts(spec, device, hidden=False), key=lambda one: NUMBER not in one.notes):
        try:
            return draft.build(device)
        except UnresolvedCallError as error:
            failure = failure or error
    raise failure or UnresolvedCallError(Reason.NO_OVERLOAD, spec.call.op)


@contextlib.contextmanager
def _library(setting: str) -> Iterator[None]:
    if not setting:
        yield
        return
    import torch

    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library(setting)
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)
