"""The dims of a model from its launches alone, where no config is given.

Tokens are the rows of normalisations, softmaxes and lookups. A width is elements over tokens: that of the sum before a
normalisation (or of the squares before a mean) is the hidden size, that of an activation function the feed-forward
size. Softmax rows over tokens are heads; cosines over tokens, and the names of attention kernels, give the head's dims.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from kerneldb.names import Decoded
from kerneldb.replay.infer import grids
from kerneldb.replay.infer.scene import Model
from kerneldb.replay.infer.units import Launch, Unit

ACTIVATIONS: Final = frozenset({"silu", "gelu", "relu", "tanh", "sigmoid", "elu", "hardswish", "threshold", "clamp"})
ANGLES: Final = frozenset({"cos", "sin"})
NORMS: Final = frozenset({"NORMALIZATION", "REDUCTION"})
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


def model_of(members: Sequence[Unit], dtype: str) -> Model:
    """The dims that one step shows; zero where it shows none."""
    launches = [unit.launch for unit in members]
    tokens = _tokens(launches)
    if not tokens:
        return Model(dtype=dtype, source="trace")
    pairs = zip(launches, [*(one.known.category for one in launches[1:]), ""], strict=True)
    told = [(one.known.operation, after, width) for one, after in pairs if (width := _width(one, tokens))]
    widths = Counter(width for _, _, width in told)
    hidden = Counter(width for operation, after, width in told if operation in BEFORE_NORMS and after in NORMS)
    ffn = Counter(width for operation, _, width in told if operation in ACTIVATIONS)
    wide = _usual(hidden) or _usual(widths)
    head_dim = _head_dim(launches, tokens, wide)
    heads = _heads(launches, tokens) or (wide // head_dim if head_dim else 0)
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
    return max(votes, key=votes.__getitem__, default=0)


def _tokens(launches: Iterable[Launch]) -> int:
    rows = (grids.rows(one.kind) for one in launches if _takes_tokens(one.known))
    return _usual(Counter(found.most for found in rows if found is not None))


def _takes_tokens(known: Decoded) -> bool:
    return known.category == "NORMALIZATION" or known.operation == "mean" or known.family == "vectorized_gather"


def _width(one: Launch, tokens: int) -> int:
    """Elements per token of an elementwise kernel; a common width where the range leaves several."""
    for span in grids.elements(one.kind)[:1]:
        width = span.most // tokens if span.most % tokens == 0 else 0
        common = [each for each in COMMON if span.holds(each * tokens)]
        return width if width in COMMON or not common else common[-1]
    return 0


def _heads(launches: Iterable[Launch], tokens: int) -> int:
    softmaxes = (grids.rows(one.kind) for one in launches if one.known.category == "SOFTMAX")
    rows = [found.most for found in softmaxes if found is not None and found.most % tokens == 0]
    return _usual(Counter(each // tokens for each in rows if each // tokens <= MOST_HEADS))


def _head_dim(launches: Iterable[Launch], tokens: int, hidden: int) -> int:
    for one in launches:
        known = one.known
        if known.head_dim:
            return known.head_dim
        tile = TILE.search(one.kind.name) if known.family == "cudnn_sdpa" else None
        if tile is not None:
            return int(tile[3])
        for span in grids.elements(one.kind)[:1] if known.operation in ANGLES else ():
            if span.most in {SMALL_HEAD * tokens, LARGE_HEAD * tokens}:
                return span.most // tokens
    return LARGE_HEAD if hidden >= HEADS_FROM else SMALL_HEAD
