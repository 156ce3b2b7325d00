"""Shapes that the tensors of a transformer have in one step, by the number of their elements."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from kerneldb.replay.infer.calls import Dims
from kerneldb.replay.infer.grids import Span
from kerneldb.replay.infer.scene import Scene

FLAT_LIMIT: Final = 3
BEST: Final = 0.9
NEXT: Final = 0.97
OTHER_SPAN: Final = 0.6


def shapes(scene: Scene) -> Iterator[tuple[Dims, str]]:
    """The shapes of contiguous tensors, with names, usual ones first."""
    model, batch, queries, keys = scene.model, scene.batch, scene.queries, scene.keys
    half = model.head_dim // 2
    yield (batch, queries, model.hidden), "hidden states"
    yield (batch, queries, model.ffn), f"feed-forward states{model.assumed}"
    yield (batch, model.heads, queries, keys), "attention scores"
    yield (batch, queries, 1), "one number per token"
    yield (batch, model.heads, queries, model.head_dim), "queries by head"
    yield (batch, model.kv_heads, queries, model.head_dim), "keys by head"
    yield (batch, queries, model.head_dim), "rotary angles"
    yield (batch, model.heads, queries, half), "half of the queries"
    yield (batch, model.kv_heads, queries, half), "half of the keys"
    yield (batch * model.heads, 1, keys), "a bias by position"
    yield (batch, 1, queries, keys), "the mask"
    yield (1, 1, queries, keys), "the mask of one sequence"
    yield (batch, queries, 2 * model.ffn), f"gate and up{model.assumed}"
    yield (batch, keys), "tokens of the cache"
    yield (batch, queries), "tokens"
    yield (batch, 1, model.vocab), "logits of the last token"
    yield (batch, queries, model.vocab), "logits"
    yield (queries,), "positions"
    yield (keys,), "positions of the cache"
    yield (1, half, 1), "frequencies"
    yield (model.heads,), "heads"
    yield from (((batch, queries, width), "a width seen") for width in model.widths)


def fitting(scene: Scene, spans: tuple[Span, ...]) -> Iterator[tuple[Dims, str, float]]:
    """The shapes whose elements lie in one of `spans`, each with a fit below 1; a flat one for each span at last."""
    seen: set[Dims] = set()
    fit = BEST
    for number, span in enumerate(spans):
        for dims, name in shapes(scene):
            if 0 not in dims and dims not in seen and span.holds(prod(dims)):
                seen.add(dims)
                yield dims, name, fit * OTHER_SPAN**number
                fit *= NEXT
    for number, span in enumerate(spans[:FLAT_LIMIT]):
        if (span.most,) not in seen:
            yield (span.most,), "elements of the grid", fit * NEXT * OTHER_SPAN**number
