"""Matrix products: sizes from a model's weights, tokens and attention, ranked by tiles and by neighbours.

Layout letters of cuBLAS count its column-major operands, of which the first is PyTorch's second: `tn` is `x @ W.T`, the
product of a linear layer, `nn` a product of two row-major matrices. Persistent kernels launch one block per
multiprocessor; others one block per tile, rounded up to a cluster, times the parts of a split K.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kerneldb.replay.infer import experts, grids, outlines
from kerneldb.replay.infer.calls import SIZES, Nothing, Number, Tensor, item_bytes, numel, spec, transposed
from kerneldb.replay.infer.scene import Model
from kerneldb.replay.infer.timing import expected, likeness
from kerneldb.replay.infer.view import Near, Proposal, View, shown
from kerneldb.replay.wire.plan import CallSpec

VOCABULARIES: Final = (
    32000, 32001, 32768, 50257, 50272, 50304, 51200, 65024, 100352, 128256, 130528, 151936, 152064, 200064, 250880,
    256000, 256128, 262144,
)  # fmt: skip
PARTS: Final = 5
REACH: Final = 3
TILED: Final = 0.5
LIKELY: Final = 0.35
"""The likeness of times that differ by a factor of two."""
BESIDE_CONFIG: Final = 0.4
BESIDE_FUSED: Final = 0.4
TOO_FEW_BLOCKS: Final = 0.6
MORE: Final = 2
LEAST_HIDDEN: Final = 128
COMMON: Final = "a common vocabulary"
NO_DENSE_LAYER: Final = 0.5
EIGHT_BITS: Final = frozenset({"fp8", "e4m3", "e5m2", "fp8e4m3", "fp8e5m2"})
OUT: Final = {"fp32": "6", "fp16": "5", "bf16": "15"}


@dataclass(frozen=True, slots=True)
class Size:
    """batch × (M, N, K) as PyTorch counts, and the name of it."""

    m: int
    n: int
    k: int
    batch: int = 1
    label: str = ""
    weight: float = 1.0
    by_time: bool = False

    @property
    def flops(self) -> float:
        """Operations, a multiply-add as two."""
        return 2.0 * self.batch * self.m * self.n * self.k


def proposals(view: View) -> Iterator[Proposal]:
    """The products that this kernel may have been."""
    sizes = [*_linear(view), *_experts(view), *_attention(view), *_rotary(view)]
    if not view.added and not any(_may_be(view, size) for size in sizes):
        sizes.extend(_outlined(view))
    for size in sizes:
        fit = _fit(view, size)
        for call, why, share in _calls(view, size):
            bytes_ = _bytes(view, size)
            strength = fit * size.weight * share
            likely = _likely(view, size)
            yield Proposal(call, why, bytes_, strength, size.flops, _peak(view), by_time=size.by_time, likely=likely)


def _likely(view: View, size: Size) -> float:
    """Fused attention leaves no product of scores, unless a softmax stands near; a block makes no several tiles."""
    near = (*view.before[:REACH], *view.after[:REACH])
    unfused = not view.fused or any(one.known.category == "SOFTMAX" for one in near)
    likely = 1.0 if unfused or size.label not in {"scores", "values"} else BESIDE_FUSED
    return likely * (TOO_FEW_BLOCKS if _exceeds(view, size) else 1.0)


def _exceeds(view: View, size: Size) -> bool:
    """Whether the product has many more tiles than blocks ran, whichever side of the tile is its rows'."""
    known, count = view.known, grids.blocks(view.kind)
    one, two = known.tile_m, known.tile_n
    if known.family not in outlines.TILED or outlines.persistent(view) or not (one and two and count):
        return False
    tiles = min(-(-size.n // wide) * -(-size.m // high) for wide, high in ((one, two), (two, one)))
    return tiles * size.batch > MORE * count


def _may_be(view: View, size: Size) -> bool:
    """Whether the tiles of a size make the grid and, unless a config names it, its time is about the recorded one."""
    if _tiling(view, size) < TILED:
        return False
    time_ns = expected(view.device, _bytes(view, size), size.flops, _peak(view))
    return view.model.source == "config" or likeness(time_ns, view.duration_ns) >= LIKELY


def _outlined(view: View) -> Iterator[Size]:
    """Sizes from the launch and the duration alone."""
    share = BESIDE_CONFIG if view.model.hidden and view.model.source == "config" else 1.0
    for one in outlines.outlines(view):
        yield Size(one.m, one.n, one.k, one.batch, one.label, one.weight * share, by_time=True)


def _peak(view: View) -> str:
    return view.known.dtype or view.model.dtype


def _bytes(view: View, size: Size) -> float:
    each = item_bytes(view.known.dtype or view.model.dtype)
    twice = 2 if view.added else 1
    return float(each * size.batch * (size.m * size.k + size.k * size.n + twice * size.m * size.n))


def weights(model: Model) -> Iterator[tuple[int, int, str, float]]:
    """(K, N, name, weight) of the layers that a model has, first those that are known to be there."""
    yield from ((k, n, "a weight recorded in the run", 1.0) for k, n in model.weights)
    h, f, v = model.hidden, model.ffn, model.vocab
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    dense = NO_DENSE_LAYER if model.experts and not model.expert_ffn else 1.0
    known = [
        (h, q, "query", 1.0), (q, h, "attention output", 1.0), (h, kv, "key or value", 1.0),
        (h, q + 2 * kv, "query, key and value", 1.0), (h, 2 * kv, "key and value", 0.8),
        *_feed_forward(h, f, model.assumed, dense), (h, v, "vocabulary", 1.0), (h, h, "hidden", 0.95),
        (h, model.experts, "router", 1.0), *_feed_forward(h, model.shared_ffn, " of the shared expert", 1.0),
    ]  # fmt: skip
    yield from (one for one in known if one[0] and one[1])
    if h >= LEAST_HIDDEN and not v:
        yield from ((h, one, COMMON, 0.7) for one in VOCABULARIES)
    others = sorted({one for one in (*model.widths, h) if one})
    if not f:
        yield from ((one, two, "widths seen", 0.8) for one, two in itertools.product(others, others))


def _feed_forward(hidden: int, width: int, word: str, share: float) -> Iterator[tuple[int, int, str, float]]:
    yield hidden, width, f"up{word}", share
    yield hidden, 2 * width, f"gate and up{word}", share * 0.95
    yield width, hidden, f"down{word}", share


def _linear(view: View) -> Iterator[Size]:
    scene = view.scene
    rows = dict.fromkeys((scene.tokens, scene.batch))
    seen: set[tuple[int, int, int]] = set()
    for k, n, name, weight in weights(view.model):
        if name == COMMON and view.layered:
            continue
        for m in rows:
            if (m, n, k) not in seen:
                seen.add((m, n, k))
                yield Size(m, n, k, 1, f"{name} of {m} tokens", weight)


def _experts(view: View) -> Iterator[Size]:
    for one, by_time in experts.products(view):
        yield Size(one.m, one.n, one.k, one.batch, one.label, one.weight, by_time)


def _attention(view: View) -> Iterator[Size]:
    """Scores and their product with the values."""
    scene, model = view.scene, view.model
    batch = scene.batch * model.heads
    if batch and model.head_dim:
        yield Size(scene.queries, scene.keys, model.head_dim, batch, "scores")
        yield Size(scene.queries, model.head_dim, scene.keys, batch, "values")


def _rotary(view: View) -> Iterator[Size]:
    """The outer product of frequencies and positions (rotary embeddings)."""
    if view.known.dtype == "fp32" and view.model.head_dim:
        scene = view.scene
        yield Size(view.model.head_dim // 2, scene.queries, 1, 1, "rotary")
        yield Size(view.model.head_dim // 2, scene.queries, 1, scene.batch, "rotary")


def _calls(view: View, size: Size) -> Iterator[tuple[CallSpec, str, float]]:
    """The operators that make this product, with the layouts that the kernel's name allows."""
    dtype = _operand(view)
    why = (
        f"{size.label}: {size.batch if size.batch > 1 else ''}{'×' if size.batch > 1 else ''}{size.m}×{size.n}×{size.k}"
    )
    if view.known.dtype and view.known.dtype not in SIZES:
        why += f", {dtype} in place of {view.known.dtype}"
    if size.batch > 1 or size.label in {"scores", "values", "rotary"}:
        yield from _batched(view, size, dtype, why)
    elif dtype in EIGHT_BITS:
        yield _scaled(view, size, dtype), why, 1.0
    elif not view.added:
        yield from _flat(view, size, dtype, why)
        if view.known.category == "GEMV" and size.m == 1:
            made = spec("mv", Tensor((size.n, size.k), dtype), Tensor((size.k,), dtype))
            yield made, f"{why} (matrix times vector)", 0.9


def _operand(view: View) -> str:
    """The dtype of both factors; half precision where PyTorch has none of that name (quantised weights)."""
    dtype = view.known.dtype or view.model.dtype
    return "fp32" if dtype == "tf32" else dtype if dtype in SIZES else "fp16"


def _scaled(view: View, size: Size, dtype: str) -> CallSpec:
    """A product of 8-bit floats, with a scale for each factor."""
    left, right = Tensor((size.m, size.k), dtype), Tensor((size.k, size.n), dtype, transposed((size.k, size.n)))
    scale = Tensor((), "fp32")
    out = next((OUT[one] for one in view.known.dtypes[::-1] if one in OUT), OUT["bf16"])
    return spec("_scaled_mm", left, right, scale, scale, Nothing(), Nothing(), Number(out), Number("False"))


def _flat(view: View, size: Size, dtype: str, why: str) -> Iterator[tuple[CallSpec, str, float]]:
    left = Tensor((size.m, size.k), dtype)
    layout = view.known.layout or "tn"
    linear = Tensor((size.k, size.n), dtype, transposed((size.k, size.n)))
    plain = Tensor((size.k, size.n), dtype)
    order = (linear, plain) if layout.startswith("t") else (plain, linear)
    bias = Tensor((size.n,), dtype)
    one = Number("1")
    with_bias = "bias" in (view.known.epilogue or "")
    for share, right in zip((1.0, 0.75), order, strict=True):
        product = spec("mm", left, right)
        added = spec("addmm", bias, left, right, one, one)
        both = ((added, " with bias"), (product, "")) if with_bias else ((product, ""), (added, " with bias"))
        for rank, (made, word) in enumerate(both):
            yield made, why + word, share * (1.0, 0.8)[rank]


def _batched(view: View, size: Size, dtype: str, why: str) -> Iterator[tuple[CallSpec, str, float]]:
    left = Tensor((size.batch, size.m, size.k), dtype)
    turned = Tensor((size.batch, size.k, size.n), dtype, transposed((size.batch, size.k, size.n)))
    plain = Tensor((size.batch, size.k, size.n), dtype)
    right = turned if size.label == "scores" else plain
    if view.added:
        yield from _added(view, size, (left, right), why)
        return
    wide = _fused(view, size, dtype)
    if wide is not None:
        yield spec("bmm", wide, right), f"{why}, from a fused projection", 0.7
    yield spec("bmm", left, right), why, 1.0


def _added(view: View, size: Size, factors: tuple[Tensor, Tensor], why: str) -> Iterator[tuple[CallSpec, str, float]]:
    """`baddbmm` with an addend: one row for all queries (a bias by position), or a full one."""
    left, right = factors
    scale = view.model.head_dim**-0.5 if size.label == "scores" else 1.0
    numbers = (Number("1."), Number(repr(scale)))
    row = Tensor((size.batch, 1, size.n), left.dtype)
    full = Tensor((size.batch, size.m, size.n), left.dtype)
    fused = _fused(view, size, left.dtype)
    firsts = [left] if fused is None or view.scene.queries > 1 else [fused, left]
    addends = [row] if size.m == 1 or view.kernels[0].kind.kind != "memcpy" else [full, row]
    for (rank, first), addend in itertools.product(enumerate(firsts), addends):
        share = 0.9**rank
        yield spec("baddbmm", addend, first, right, *numbers), f"{why} on an addend of {shown(addend.dims)}", share


def _fused(view: View, size: Size, dtype: str) -> Tensor | None:
    """Queries as a view of a fused projection (one row of query, key and value per head): what decoding makes of it."""
    model = view.model
    if size.label != "scores" or view.scene.queries > 1 or model.kv_heads != model.heads:
        return None
    strides = (3 * model.head_dim, model.head_dim, 1)
    return Tensor((size.batch, size.m, size.k), dtype, strides)


def _fit(view: View, size: Size) -> float:
    """From 0 to 1: do the tiles make the grid, and do the elements flow from and to the neighbours?"""
    return (2 * _tiling(view, size) + _flow(view, size) + _helper(view, size) + _layout(view, size)) / PARTS


def _layout(view: View, size: Size) -> float:
    """A product of two row-major matrices is that of attention with its values; linear layers read a transpose."""
    first = (view.known.layout or "t")[0]
    plain = size.label == "values"
    return 1.0 if plain == (first == "n") else 0.2


def _helper(view: View, size: Size) -> float:
    """Attention has no bias; only a linear layer has one."""
    has_bias = "bias" in (view.known.epilogue or "")
    batched = size.label in {"scores", "values"}
    if view.added:
        return _addend_fit(view, size) if batched else 0.0
    return 0.2 if batched and has_bias else 0.8


def _addend_fit(view: View, size: Size) -> float:
    first = view.kernels[0]
    count = numel((size.batch, size.m, size.n))
    if first.kind.kind == "memcpy":
        exact = (first.kind.bytes or 0) == count * item_bytes(view.known.dtype or view.model.dtype)
        return 1.0 if exact else 0.0
    return 1.0 if first.holds(count) else 0.1


def _tiling(view: View, size: Size) -> float:
    """1 where the tiles make the grid (also times a split K), 0.6 where the kernel is persistent, else less."""
    known, count = view.known, grids.blocks(view.kind)
    if known.tile_m is None or known.tile_n is None or count is None:
        return 0.5
    tiles = -(-size.n // known.tile_m) * -(-size.m // known.tile_n) * size.batch
    if outlines.persistent(view) and outlines.one_wave(view) and tiles >= count:
        return 0.7
    across = _cluster(known.cluster)
    padded = -(-tiles // across) * across
    if count in {tiles, padded}:
        return 0.5 if known.split_k else 1.0
    if count > padded and count % padded == 0:
        return 1.0 if known.split_k else 0.2
    return 0.1


def _cluster(text: str | None) -> int:
    sizes = [int(part) for part in (text or "1").split("x") if part.isdecimal()]
    return max(sizes, default=1)


def _flow(view: View, size: Size) -> float:
    """Do neighbours work on as many elements as the product writes, or reads?"""
    out, read = numel((size.batch, size.m, size.n)), numel((size.batch, size.m, size.k))
    if size.label == "scores" and view.precedes("softmax"):
        return 1.0
    forward = _meets(view.after, out)
    backward = _meets(view.before, read)
    return 0.5 * forward + 0.5 * backward


def _meets(near: tuple[Near, ...], count: int) -> float:
    told = [one for one in near[:REACH] if one.spans]
    for rank, one in enumerate(told):
        if one.holds(count):
            return (1.0, 0.8, 0.6)[rank]
    return 0.3 if not told else 0.1
