"""Lookups: token embeddings, indexing by masks or positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer.calls import Nothing, Number, Numbers, Tensor, call, numel, spec
from kerneldb.replay.infer.products import VOCABULARIES
from kerneldb.replay.infer.view import Proposal, View, moved
from kerneldb.replay.wire.plan import CallSpec, ChildCall

FIRST: Final = Number("0")
MASKING: Final = frozenset({"index", "index_elementwise"})


def proposals(view: View) -> Iterator[Proposal]:
    """The lookups that this kernel may have been."""
    scene, model = view.scene, view.model
    family = view.known.family
    dtype = view.known.dtype if view.known.dtype in {"fp16", "bf16", "fp32"} else model.dtype
    if family in MASKING and view.known.details.get("element_bytes") in {1, None}:
        yield from _masks(view)
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


def _masks(view: View) -> Iterator[Proposal]:
    """A mask of tokens (batch, keys), indexed by sequence and by key, for all queries: what masking code does."""
    scene = view.scene
    dims = (scene.batch, 1, 1, scene.keys)
    if any(span.holds(numel(dims)) for span in view.spans):
        why = f"a mask of {scene.batch}×{scene.keys} tokens, by sequence and key"
        yield Proposal(_indexed(scene.batch, scene.keys), why, 10.0 * numel(dims), 1.0)


def _indexed(batch: int, keys: int) -> CallSpec:
    """`mask[sequences, positions]` with the calls below it that tell its indices."""
    mask = Tensor((batch, keys), "bool")
    dims = (batch, 1, 1, keys)
    below = [
        call("as_strided", mask, Numbers(dims), Numbers((0, 0, 0, 0)), Nothing()),
        call("reshape", Tensor(dims, "int64", (1, 1, 1, 0)), Numbers(dims)),
        call("reshape", Tensor(dims, "int64", (0, keys, keys, 1)), Numbers(dims)),
    ]
    return CallSpec(call("index", mask, Nothing()), tuple(ChildCall(one, 1, 1) for one in below))
