"""Lookups: token embeddings, indexing by masks or positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.inferring.calls import Number, Tensor, spec
from kerneldb.replay.inferring.products import VOCABULARIES
from kerneldb.replay.inferring.view import Proposal, View, moved

FIRST: Final = Number("0")


def proposals(view: View) -> Iterator[Proposal]:
    """The lookups that this kernel may have been."""
    scene, model = view.scene, view.model
    family = view.known.family
    dtype = view.known.dtype if view.known.dtype in {"fp16", "bf16", "fp32"} else model.dtype
    rows = view.kind.grid[0] if family == "vectorized_gather" and view.kind.grid else scene.tokens
    for vocab in (model.vocab,) if model.vocab else VOCABULARIES[:4]:
        if not model.hidden:
            return
        table = Tensor((vocab, model.hidden), dtype)
        out = Tensor((rows, model.hidden), dtype)
        why = f"{rows} rows of an embedding of {vocab}×{model.hidden}"
        if family == "vectorized_gather":
            index = Tensor((rows, model.hidden), "int64", (1, 0))
            yield Proposal(spec("gather", table, FIRST, index, Number("False"), out), why, 2 * moved(out), 1.0)
        elif family in {"index_select", "embedding"}:
            yield Proposal(spec("index_select", table, FIRST, Tensor((rows,), "int64")), why, 2 * moved(out), 1.0)
