"""Lookups: token embeddings, indexing by masks or positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer.calls import Tensor, call, spec
from kerneldb.replay.infer.products import VOCABULARIES
from kerneldb.replay.infer.view import Proposal, View, moved
from kerneldb.replay.wire.plan import CallSpec, ChildCall

MASKING: Final = frozenset({"index", "index_elementwise"})


def proposals(view: View) -> Iterator[Proposal]:
    """The lookups that this kernel may have been."""
    scene, model, family = view.scene, view.model, view.known.family
    if family in MASKING and view.known.details.get("element_bytes") in {1, None}:
        yield from _masks(view)
    rows = view.kind.grid[0] if family == "vectorized_gather" and view.kind.grid else scene.tokens
    for vocab in ((model.vocab,) if model.vocab else VOCABULARIES[:4]) if model.hidden else ():
        table, out = (Tensor((count, model.hidden), view.float_dtype) for count in (vocab, rows))
        why = f"{rows} rows of an embedding of {vocab}×{model.hidden}"
        if family == "vectorized_gather":
            index = Tensor(out.dims, "int64", (1, 0))
            yield Proposal(spec("gather", table, "0", index, "False", out), why, 2 * moved(out), 1.0)
        elif family in {"index_select", "embedding"}:
            yield Proposal(spec("index_select", table, "0", Tensor((rows,), "int64")), why, 2 * moved(out), 1.0)


def _masks(view: View) -> Iterator[Proposal]:
    """A mask of tokens (batch, keys), indexed by sequence and by key, for all queries: what masking code does."""
    batch, keys = view.scene.batch, view.scene.keys
    if view.fits(batch, keys):
        why = f"a mask of {batch}×{keys} tokens, by sequence and key"
        yield Proposal(_indexed(batch, keys), why, 10.0 * batch * keys, 1.0)


def _indexed(batch: int, keys: int) -> CallSpec:
    """`mask[sequences, positions]` with the calls below it that tell its indices."""
    mask = Tensor((batch, keys), "bool")
    dims = (batch, 1, 1, keys)
    below = [
        call("as_strided", mask, dims, (0, 0, 0, 0), None),
        call("reshape", Tensor(dims, "int64", (1, 1, 1, 0)), dims),
        call("reshape", Tensor(dims, "int64", (0, keys, keys, 1)), dims),
    ]
    return CallSpec(call("index", mask, None), tuple(ChildCall(one, 1, 1) for one in below))
