"""The dims of a model from operator calls that were recorded in the same run: other steps of it, other ranks.

The second factor of a matrix product is a weight (K × N), whatever the number of tokens; the table of a lookup says
vocabulary and width, the input of a normalisation its width, and attention its heads. Where none of these was recorded,
the width is what most weights lead to and from, and the vocabulary what the widest of them makes of it. Layouts of
dims are those of the operators' schemas (aten/src/ATen/native/native_functions.yaml).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from kerneldb.replay.infer.scene import Model
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.wire.plan import OpCall

FACTORS: Final = {"mm": 1, "addmm": 2, "_scaled_mm": 1, "_int_mm": 1}
"""Where the weight stands among the arguments, as K × N."""
TURNED: Final = {"linear": 1, "addmv": 1, "mv": 0}
"""The same, as N × K."""
TABLES: Final = frozenset({"embedding", "index_select"})
NORMS: Final = frozenset({"native_layer_norm", "_fused_rms_norm", "rms_norm", "layer_norm"})
ATTENTION: Final = frozenset({
    "_cudnn_attention_forward", "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
})  # fmt: skip
"""Operators whose queries and keys are batch × heads × tokens × dims."""
MATRIX: Final = 2
HEADED: Final = 4
LEAST: Final = 2
MOST: Final = 24
WORDS: Final = 30_000
"""Vocabularies are at least as large, and WIDER times as large as the width: the second layer of a pair is not."""
WIDER: Final = 4
SLIP: Final = 8
"""Tokens are mistaken by small factors: a block or a warp takes several rows."""


def completed(model: Model, seen: Iterable[tuple[OpCall, int]]) -> Model:
    """`model` with what recorded calls (with their launches) tell, which counts before what kernels seem to say."""
    weights: Counter[tuple[int, int]] = Counter()
    sizes: dict[str, Counter[int]] = {name: Counter() for name in ("hidden", "vocab", "heads", "kv_heads", "head_dim")}
    for call, count in seen:
        dims = json.loads(call.input_dims or "[]")
        operator = short_name(call.op)
        weights.update(dict.fromkeys(_weights(operator, dims), count))
        for name, size in _sizes(operator, dims):
            sizes[name][size] += count
    told = {name: max(votes, key=lambda one: (votes[one], one)) for name, votes in sizes.items() if votes}
    usual: dict[str, Any] = {**_from_weights(weights, told.get("hidden")), **told}
    known = _of_width(model, usual.get("hidden") or model.hidden)
    return replace(known, **usual, weights=tuple(one for one, _ in weights.most_common(MOST)))


def _from_weights(weights: Counter[tuple[int, int]], hidden: int | None) -> dict[str, int]:
    """Width and vocabulary as far as weights tell them. Layers add to a width, so that weights lead to and from it."""
    words = {k: n for k, n in sorted(weights) if n >= max(WORDS, WIDER * k)}
    inner, outer = {k for k, _ in weights}, {n for _, n in weights}
    votes: Counter[int] = Counter()
    for sides, count in weights.items():
        votes.update(dict.fromkeys(set(sides) & inner & (outer | set(words)), count))
    width = hidden or max(votes, key=lambda one: (votes[one], -one), default=0)
    found = {"hidden": width, "vocab": words.get(width, 0)}
    return {name: size for name, size in found.items() if size}


def _of_width(model: Model, hidden: int) -> Model:
    """`model` with another width. Widths are elements over tokens: where one is wrong, all are, by the same ratio."""
    if hidden == model.hidden or not model.hidden:
        return model
    ratio = hidden / model.hidden
    near = 1 / SLIP <= ratio <= SLIP
    scaled = [one * ratio if near else float(one) for one in (model.ffn, *model.widths)]
    ffn, *widths = (round(one) if one.is_integer() else 0 for one in scaled)
    heads = hidden // model.head_dim if model.head_dim and hidden % model.head_dim == 0 else 0
    kept = tuple(one for one in widths if one)
    return replace(model, hidden=hidden, ffn=ffn, widths=kept, heads=heads, kv_heads=heads)


def _weights(operator: str, dims: list[Any]) -> Iterator[tuple[int, int]]:
    """K and N of the weight of a product."""
    place = TURNED.get(operator, FACTORS.get(operator))
    if place is not None and _is_shape(dims, place, MATRIX) and min(dims[place]) >= LEAST:
        first, second = dims[place]
        yield (second, first) if operator in TURNED else (first, second)


def _sizes(operator: str, dims: list[Any]) -> Iterator[tuple[str, int]]:
    if operator in TABLES and _is_shape(dims, 0, MATRIX):
        yield from zip(("vocab", "hidden"), dims[0], strict=True)
    elif operator in NORMS and dims and dims[0] and _is_shape(dims, 0, len(dims[0])):
        yield "hidden", dims[0][-1]
    elif operator in ATTENTION and _is_shape(dims, 0, HEADED) and _is_shape(dims, 1, HEADED):
        yield from (("heads", dims[0][1]), ("head_dim", dims[0][3]), ("kv_heads", dims[1][1]))


def _is_shape(dims: list[Any], place: int, length: int) -> bool:
    """Whether the argument at `place` is a tensor of `length` dims, none of them empty."""
    held = dims[place] if place < len(dims) else None
    return isinstance(held, list) and len(held) == length and all(isinstance(one, int) and one > 0 for one in held)
