"""The dims of a model from its launches alone, where no config is given.

Tokens are the rows of normalisations, softmaxes and lookups. A width is elements over tokens: that of the sum before a
normalisation (or of the squares before a mean) is the hidden size, that of an activation function the feed-forward
size. Softmax rows over tokens are heads; cosines over tokens, and the names of attention kernels, give the head's dims.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.grids import Span
from kerneldb.replay.infer.scene import Model
from kerneldb.replay.infer.units import Reading, Unit

ACTIVATIONS: Final = frozenset({"silu", "gelu", "relu", "tanh", "sigmoid", "elu", "hardswish", "threshold", "clamp"})
ANGLES: Final = frozenset({"cos", "sin"})
BEFORE_NORMS: Final = frozenset({"add", "pow", "mul"})
COMMON: Final = (
    768, 896, 1024, 1536, 2048, 2304, 2560, 2816, 3072, 3584, 4096, 4864, 5120, 5632, 6144, 6912, 7168, 8192, 8960,
    9216, 9728, 10240, 11008, 12288, 13696, 13824, 14336, 16384, 17920, 18432, 18944, 20480, 22016, 25600, 27648, 28672,
    29568, 36864, 49152, 53248,
)  # fmt: skip
TILE: Final = re.compile(r"_(\d+)x(\d+)x(\d+)_")
HEADS_FROM: Final = 2048
LARGE_HEAD: Final = 128
SMALL_HEAD: Final = 64
MOST_HEADS: Final = 512
WIDEST: Final = 1 << 17
WIDTHS: Final = 6


def model_of(reading: Reading, members: Sequence[Unit], dtype: str) -> Model:
    """The dims that one step shows; zero where it shows none."""
    tokens = _tokens(reading, members)
    if not tokens:
        return Model(dtype=dtype, source="trace")
    widths: Counter[int] = Counter()
    hidden: Counter[int] = Counter()
    ffn: Counter[int] = Counter()
    for index, unit in enumerate(members):
        width = _width(reading, unit, tokens)
        if not width:
            continue
        widths[width] += 1
        following = reading.name(members[index + 1].main) if index + 1 < len(members) else None
        operation = reading.name(unit.main).operation
        if following is not None and operation in BEFORE_NORMS and following.category in {"NORMALIZATION", "REDUCTION"}:
            hidden[width] += 1
        if operation in ACTIVATIONS:
            ffn[width] += 1
    wide = _usual(hidden) or _usual(widths)
    head_dim = _head_dim(reading, members, tokens, wide)
    heads = _heads(reading, members, tokens) or (wide // head_dim if head_dim else 0)
    return Model(
        hidden=wide,
        ffn=_usual(ffn),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim if heads * head_dim == wide else (wide // heads if heads else 0),
        dtype=dtype,
        widths=tuple(width for width, _ in widths.most_common(WIDTHS) if 1 < width <= WIDEST),
        source="trace",
    )


def _usual(votes: Counter[int]) -> int:
    return votes.most_common(1)[0][0] if votes else 0


def _tokens(reading: Reading, members: Sequence[Unit]) -> int:
    votes: Counter[int] = Counter()
    for unit in members:
        known = reading.name(unit.main)
        if known.category == "NORMALIZATION" or known.operation == "mean" or known.family == "vectorized_gather":
            found = grids.rows(reading.kind(unit.main))
            if found is not None:
                votes[found.most if found.most != found.least else found.least] += 1
    return _usual(votes)


def _width(reading: Reading, unit: Unit, tokens: int) -> int:
    """Elements per token of an elementwise kernel; a common width where the range leaves several."""
    spans = grids.elements(reading.kind(unit.main))[:1]
    return next((_in(span, tokens) for span in spans), 0)


def _in(span: Span, tokens: int) -> int:
    if span.most % tokens == 0 and span.most // tokens in COMMON:
        return span.most // tokens
    common = [one for one in COMMON if span.holds(one * tokens)]
    if common:
        return common[-1]
    return span.most // tokens if span.most % tokens == 0 else 0


def _heads(reading: Reading, members: Sequence[Unit], tokens: int) -> int:
    votes: Counter[int] = Counter()
    for unit in members:
        if reading.name(unit.main).category == "SOFTMAX":
            found = grids.rows(reading.kind(unit.main))
            if found is not None and found.most % tokens == 0 and found.most // tokens <= MOST_HEADS:
                votes[found.most // tokens] += 1
    return _usual(votes)


def _head_dim(reading: Reading, members: Sequence[Unit], tokens: int, hidden: int) -> int:
    for unit in members:
        kind, known = reading.kind(unit.main), reading.name(unit.main)
        if known.head_dim:
            return known.head_dim
        tile = TILE.search(kind.name) if known.family == "cudnn_sdpa" else None
        if tile is not None:
            return int(tile[3])
        spans = grids.elements(kind)[:1] if known.operation in ANGLES else ()
        for span in spans:
            if span.most // tokens in {SMALL_HEAD, LARGE_HEAD} and span.most % tokens == 0:
                return span.most // tokens
    return LARGE_HEAD if hidden >= HEADS_FROM else SMALL_HEAD
