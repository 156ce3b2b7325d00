"""Builds the calls of a search: the attempt's call in memory, with its values, its cache state, its library."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import Final

from kerneldb.replay.infer.search import MASKED, Attempt
from kerneldb.replay.resolve import BuiltCall, drafts
from kerneldb.replay.resolve.draft import blas_library, built
from kerneldb.replay.resolve.tensors import hide

NUMBER: Final = "wrapped-number"


def build(attempt: Attempt, device: str) -> BuiltCall:
    """The call of an attempt in memory: of its first draft that can be built. Raises UnresolvedCallError.

    A number is meant where a recorded call may have had a 0-dim tensor.
    """
    on_paper = sorted(drafts(attempt.spec, device, hidden=False), key=lambda one: NUMBER not in one.notes)
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
