"""Matrix products: sizes from a model's weights, tokens and attention, ranked by tiles and by neighbours.

Layout letters of cuBLAS count its column-major operands, of which the first is PyTorch's second: `tn` is `x @ W.T`, the
product of a linear layer, `nn` a product of two row-major matrices. Persistent kernels launch one block per
multiprocessor; others one block per tile, rounded up to a cluster, times the parts of a split K.

In a mixture of experts, every expert multiplies the tokens that the router gives it.
How many these are is in no config, and differs from launch to launch. The tiles of the grid tell it to within a tile;
of persistent kernels the duration does, where the weight's bytes do not take it. Otherwise an even share is assumed.

Where no model is around a product, or none that its tiles fit, only the launch is known: M and N are the tiles of the
grid (of a kernel without a library's name: its threads, one result each), and what is left open is sized by the
duration: K, or all three where the grid is that of a persistent kernel or was not recorded. Sizes are rounded to what
programs use, powers of two first. Where the model's dims fit, they come first.

Fused attention (`attention`): cuDNN's, FlashAttention's and the memory-efficient kernels of PyTorch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import DTYPES, FP8, Tensor, item_bytes, spec, tokens_first, transposed, weight_bytes
from kerneldb.replay.infer.dims import ModelDims
from kerneldb.replay.infer.units import Launch
from kerneldb.replay.infer.view import Proposal, View, bandwidth, expected, likeness, peak, shown
from kerneldb.replay.wire.plan import CallSpec

STEPS: Final = {64: 0.8, 8: 0.65}
POWER: Final = 0.95
LEAST: Final = 8
NEAR: Final = 1.7
OWN: Final = 32.0
PAIRS: Final = 6
LONG: Final = 64
SQUARE: Final = 4
WAVE_SLACK: Final = 4
HOPPER: Final = "sm90_xmma"
SWIZZLED: Final = frozenset({"cutlass", "xmma_gemm", "cublas_gemm"})
TILED_FAMILIES: Final = SWIZZLED | {"arch_gemm"}
"""Families that launch a block for each tile, where they are not persistent."""
LESS: Final = 0.97


@dataclass(frozen=True, slots=True)
class SizeCandidate:
    """batch × (M, N, K) as PyTorch counts, where it comes from, and how much that counts (0 to 1).

    `by_time`: the duration gave a size.
    """

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


def of_launch(view: View) -> Iterator[SizeCandidate]:
    """The products that the launch and the duration allow."""
    yield from _vectors(view) if view.known.category == "GEMV" else _matrices(view)


def _matrices(view: View) -> Iterator[SizeCandidate]:
    faces = list(_faces(view))
    for rank, (m, n, batch, label) in enumerate(faces):
        wanted = operations(view) / (m * n * batch)
        reach = OWN if view.known.family == "user_gemm" else NEAR
        square = dict.fromkeys((one for one in (n, m) if wanted / reach <= one <= wanted * reach), 1.0)
        for k, weight in [*square.items(), *(pair for pair in _rounded(wanted) if pair[0] not in square)]:
            yield SizeCandidate(m, n, k, batch, f"{label}, K by time", weight * LESS**rank, by_time=True)
    if not faces:
        for side, weight in _rounded(operations(view) ** (1 / 3)):
            yield SizeCandidate(side, side, side, 1, "a cube by time", weight, by_time=True)


def operations(view: View) -> float:
    """Multiply-adds in the recorded duration."""
    return (view.duration_ns or 0.0) * peak(view.device, view.known.dtype) * 1000 / 2


def _faces(view: View) -> Iterator[tuple[int, int, int, str]]:
    """M, N and batch that make the grid."""
    known, grid, block = view.known, view.kind.grid, view.kind.block
    wide, high = known.tile_m or 0, known.tile_n or 0  # columns and rows of the result in a tile
    if known.family == "mul_mat" and block is not None:
        wide = 16 * block[1]  # llama.cpp's products have 16 columns per warp
    if grid is None or persistent(view):
        return
    if not wide or not high:
        if block is not None and grid[1] * block[1] > 1:
            yield grid[1] * block[1], grid[0] * block[0], grid[2] * block[2], "one thread per result"
        return
    parts = grid[2]
    for across, down in _pairs(view, grid[0], grid[1]):
        label = f"{across}×{down} tiles of {wide}×{high}"
        if parts == 1 or view.known.split_k is not False:
            yield down * high, across * wide, 1, label
        if parts > 1 and view.known.split_k is not True:
            yield down * high, across * wide, parts, f"{parts} × {label}"


def persistent(view: View) -> bool:
    """Whether the grid is as large as the GPU, and not as the product: one wave of blocks."""
    if view.known.family == "nvjet" or HOPPER in view.kind.name:
        return True
    return view.known.family == "cutlass" and one_wave(view)


def one_wave(view: View) -> bool:
    """Whether there is about one block for each multiprocessor."""
    units, count = view.device.multiprocessors, grids.blocks(view.kind)
    return bool(units and count and units - WAVE_SLACK <= count <= units)


def _pairs(view: View, across: int, down: int) -> list[tuple[int, int]]:
    """Tiles across and down: as launched, turned, and what a flattened grid may hold, squares first."""
    launched = [(across, down), (down, across)]
    if view.known.family not in SWIZZLED:
        return launched[:1]
    if min(across, down) > 1:
        return launched
    count = across * down
    divided = [(count // one, one) for one in range(1, int(count**0.5) + 1) if count % one == 0]
    near = [pair for pair in reversed(divided) if pair[0] < LONG * pair[1]][: PAIRS // 2]
    both = (pair for one, two in near for pair in ((one, two), (two, one)))
    return list(dict.fromkeys((*both, *launched)))[:PAIRS]


def _rounded(wanted: float) -> list[tuple[int, float]]:
    """A power of two where one is near, then multiples of 64 and of 8, with weights."""
    if wanted < 1:
        return []
    power = 1 << max(round(wanted).bit_length() - 1, 0)
    powers = [one for one in (power, 2 * power) if wanted / NEAR <= one <= wanted * NEAR]
    found = dict.fromkeys(sorted(powers, key=lambda one: abs(one - wanted)), POWER)
    for step, weight in STEPS.items():
        if wanted >= step:
            found.setdefault(max(round(wanted / step) * step, LEAST), weight)
    return list(found.items())


def _vectors(view: View) -> Iterator[SizeCandidate]:
    """One row times a matrix whose bytes take the duration: a square one, or with the grid's results.

    llama.cpp's products of one vector have a block for each result (`calc_rows_per_block` of its mmvq.cu).
    """
    count = (view.duration_ns or 0.0) * bandwidth(view.device) / weight_bytes(view.known.dtype)
    blocks = 0 if view.kind.grid is None else view.kind.grid[0]
    one_each = view.known.family == "mul_mat_vec" and blocks
    for side, weight in [] if one_each else _rounded(count**0.5):
        yield SizeCandidate(1, side, side, 1, "a square matrix times a vector, by time", weight, by_time=True)
    for rank, n in enumerate(blocks * each for each in ((1,) if one_each else (8, 1, 4, 16, 2)) if blocks):
        for k, weight in _rounded(count / n):
            share = weight if max(n, k) <= SQUARE * min(n, k) else weight * LESS**SQUARE
            yield SizeCandidate(1, n, k, 1, f"{n} results of a vector, K by time", share * LESS**rank, by_time=True)


VOCABULARIES: Final = (
    32000, 32001, 32768, 50257, 50272, 50304, 51200, 65024, 100352, 128256, 130528, 151936, 152064, 200064, 250880,
    256000, 256128, 262144,
)  # fmt: skip
REACH: Final = 3
TILED: Final = 0.5
LIKELY: Final = 0.35
"""The likeness of times that differ by a factor of two."""
MORE: Final = 2
LEAST_HIDDEN: Final = 128
COMMON: Final = "a common vocabulary"
OUT: Final = {"fp32": "6", "fp16": "5", "bf16": "15"}


Call = tuple[CallSpec, str, float]
"""A call, what it is, and its share of the strength."""
EVEN: Final = 0.8
ROW_STEP: Final = 8
UNKNOWN: Final = "the tokens of an expert are not known"


def proposals(view: View) -> Iterator[Proposal]:
    """The products that this kernel may have been."""
    sizes = [*_linear(view), *expert_sizes(view), *_attention(view)]
    if not view.added and not any(_may_be(view, size) for size in sizes):
        share = 0.4 if view.model.hidden and view.model.source == "config" else 1.0
        sizes.extend(replace(one, weight=one.weight * share) for one in of_launch(view))
    for size in sizes:
        fit, moved, likely = _fit(view, size) * size.weight, _bytes(view, size), _likely(view, size)
        for call, why, share in _calls(view, size):
            yield Proposal(call, why, moved, fit * share, size.flops, view.dtype, size.by_time, likely)


def _likely(view: View, size: SizeCandidate) -> float:
    """Fused attention leaves no product of scores, unless a softmax is near; and a block computes one tile."""
    near = (*view.before[:REACH], *view.after[:REACH])
    unfused = not view.fused or any(one.known.category == "SOFTMAX" for one in near)
    likely = 1.0 if unfused or size.label not in {"scores", "values"} else 0.4
    return likely * (0.6 if _exceeds(view, size) else 1.0)


def _exceeds(view: View, size: SizeCandidate) -> bool:
    """Whether the product has many more tiles than blocks ran, whichever side of the tile is its rows'."""
    known, count = view.known, grids.blocks(view.kind)
    one, two = known.tile_m, known.tile_n
    if known.family not in TILED_FAMILIES or persistent(view) or not (one and two and count):
        return False
    tiles = min(-(-size.n // wide) * -(-size.m // high) for wide, high in ((one, two), (two, one)))
    return tiles * size.batch > MORE * count


def _may_be(view: View, size: SizeCandidate) -> bool:
    """Whether the tiles of a size make the grid and, unless a config names it, its time is about the recorded one."""
    if _tiling(view, size) < TILED:
        return False
    time_ns = expected(view.device, _bytes(view, size), size.flops, view.dtype)
    return view.model.source == "config" or likeness(time_ns, view.duration_ns) >= LIKELY


def _bytes(view: View, size: SizeCandidate) -> float:
    elements = size.m * size.k + size.k * size.n + (2 if view.added else 1) * size.m * size.n
    return float(item_bytes(view.dtype) * size.batch * elements)


def weights(model: ModelDims) -> Iterator[tuple[int, int, str, float]]:
    """(K, N, name, weight) of the layers that a model has, first those that are known to be there."""
    yield from ((k, n, "a weight recorded in the run", 1.0) for k, n in model.weights)
    h, f, v = model.hidden, model.ffn, model.vocab
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    dense = 0.5 if model.experts and not model.expert_ffn else 1.0
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


def _linear(view: View) -> Iterator[SizeCandidate]:
    seen: set[tuple[int, int, int]] = set()
    for k, n, name, weight in weights(view.model):
        if name == COMMON and view.layered:
            continue
        for m in (view.step.tokens, view.step.batch):
            if (m, n, k) not in seen:
                seen.add((m, n, k))
                yield SizeCandidate(m, n, k, 1, f"{name} of {m} tokens", weight)


def _attention(view: View) -> Iterator[SizeCandidate]:
    """Scores, their product with the values, and the outer product of frequencies and positions (rotary embeddings)."""
    step, width = view.step, view.model.head_dim
    batch = step.batch * view.model.heads
    if batch and width:
        yield SizeCandidate(step.queries, step.keys, width, batch, "scores")
        yield SizeCandidate(step.queries, width, step.keys, batch, "values")
    for sequences in (1, step.batch) if view.known.dtype == "fp32" and width else ():
        yield SizeCandidate(width // 2, step.queries, 1, sequences, "rotary")


def _calls(view: View, size: SizeCandidate) -> Iterator[Call]:
    """The operators that make this product, with the layouts that the kernel's name allows."""
    dtype = "fp32" if view.dtype == "tf32" else view.dtype if view.dtype in DTYPES else "fp16"
    why = f"{size.label}: {f'{size.batch}×' if size.batch > 1 else ''}{size.m}×{size.n}×{size.k}"
    if view.known.dtype and view.known.dtype not in DTYPES:
        why += f", {dtype} in place of {view.known.dtype}"
    if size.batch > 1 or size.label in {"scores", "values", "rotary"}:
        yield from _batched(view, size, dtype, why)
    elif dtype in FP8:
        left, right, _ = _factors(size, dtype)
        scale = Tensor((), "fp32")
        out = next((OUT[one] for one in view.known.dtypes[::-1] if one in OUT), OUT["bf16"])
        yield spec("_scaled_mm", left, right, scale, scale, None, None, out, "False"), why, 1.0
    elif not view.added:
        left, linear, plain = _factors(size, dtype)
        bias = Tensor((size.n,), dtype)
        order = (linear, plain) if (view.known.layout or "tn").startswith("t") else (plain, linear)
        for share, right in zip((1.0, 0.75), order, strict=True):
            both = [(spec("mm", left, right), why), (spec("addmm", bias, left, right, "1", "1"), f"{why} with bias")]
            ranked = reversed(both) if "bias" in (view.known.epilogue or "") else both
            for (made, word), each in zip(ranked, (1.0, 0.8), strict=True):
                yield made, word, share * each
        if view.known.category == "GEMV" and size.m == 1:
            made = spec("mv", Tensor((size.n, size.k), dtype), Tensor((size.k,), dtype))
            yield made, f"{why} (matrix times vector)", 0.9


def _factors(size: SizeCandidate, dtype: str) -> tuple[Tensor, Tensor, Tensor]:
    """Both factors, the second as in a linear layer (a transpose), and in order."""
    dims = (size.k, size.n)
    return Tensor((size.m, size.k), dtype), Tensor(dims, dtype, transposed(dims)), Tensor(dims, dtype)


def _batched(view: View, size: SizeCandidate, dtype: str, why: str) -> Iterator[Call]:
    left = Tensor((size.batch, size.m, size.k), dtype)
    dims = (size.batch, size.k, size.n)
    right = Tensor(dims, dtype, transposed(dims) if size.label == "scores" else None)
    width, fused = view.model.head_dim, None
    if size.label == "scores" and view.step.queries <= 1 and view.model.kv_heads == view.model.heads:
        # Queries as a view of a fused projection (a row of query, key and value per head): what decoding makes of it.
        fused = Tensor(left.dims, left.dtype, (3 * width, width, 1))
    if view.added:
        firsts = [left] if fused is None or view.step.queries > 1 else [fused, left]
        scale = view.model.head_dim**-0.5 if size.label == "scores" else 1.0
        row, full = (Tensor((size.batch, rows, size.n), right.dtype) for rows in (1, size.m))
        addends = [row] if size.m == 1 or view.kernels[0].kind.kind != "memcpy" else [full, row]
        for (rank, first), addend in itertools.product(enumerate(firsts), addends):
            made = spec("baddbmm", addend, first, right, "1.", repr(scale))
            yield made, f"{why} on an addend of {shown(addend.dims)}", 0.9**rank
        return
    if fused is not None:
        yield spec("bmm", fused, right), f"{why}, from a fused projection", 0.7
    yield spec("bmm", left, right), why, 1.0


def _fit(view: View, size: SizeCandidate) -> float:
    """From 0 to 1: do the tiles make the grid, do the elements flow from and to the neighbours, does the layout fit?"""
    batched = size.label in {"scores", "values"}
    # Attention has no bias; only a linear layer has one.
    bias = 0.2 if batched and "bias" in (view.known.epilogue or "") else 0.8
    if view.added:
        bias = _addend_fit(view, size) if batched else 0.0
    # A product of two row-major matrices is that of attention with its values; linear layers read a transpose.
    layout = 1.0 if (view.known.layout or "t").startswith("n") == (size.label == "values") else 0.2
    # Do neighbours work on as many elements as the product writes, or reads?
    written, read = size.batch * size.m * size.n, size.batch * size.m * size.k
    flow = 0.5 * _meets(view.after, written) + 0.5 * _meets(view.before, read)
    if size.label == "scores" and view.precedes("softmax"):
        flow = 1.0
    return (2 * _tiling(view, size) + flow + bias + layout) / 5


def _addend_fit(view: View, size: SizeCandidate) -> float:
    first, count = view.kernels[0], size.batch * size.m * size.n
    if first.kind.kind == "memcpy":
        return 1.0 if (first.kind.bytes or 0) == count * item_bytes(view.dtype) else 0.0
    return 1.0 if first.holds(count) else 0.1


def _tiling(view: View, size: SizeCandidate) -> float:
    """1 where the tiles make the grid (also times a split K), 0.6 where the kernel is persistent, else less."""
    known, count = view.known, grids.blocks(view.kind)
    if known.tile_m is None or known.tile_n is None or count is None:
        return 0.5
    tiles = -(-size.n // known.tile_m) * -(-size.m // known.tile_n) * size.batch
    if persistent(view) and one_wave(view) and tiles >= count:
        return 0.7
    cluster = max((int(part) for part in (known.cluster or "1").split("x") if part.isdecimal()), default=1)
    padded = -(-tiles // cluster) * cluster
    if count in {tiles, padded}:
        return 0.5 if known.split_k else 1.0
    if count > padded and count % padded == 0:
        return 1.0 if known.split_k else 0.2
    return 0.1


def _meets(near: tuple[Launch, ...], count: int) -> float:
    near_spans = [one for one in near[:REACH] if one.spans]
    met = (fit for one, fit in zip(near_spans, (1.0, 0.8, 0.6), strict=False) if one.holds(count))
    return next(met, 0.1 if near_spans else 0.3)


def expert_sizes(view: View) -> Iterator[SizeCandidate]:
    """The expert_sizes of one expert."""
    model = view.model
    hidden, width = model.hidden, model.expert_ffn or model.ffn
    if not (model.experts and width):
        return
    for k, n, name in ((hidden, width, "up"), (hidden, 2 * width, "gate and up"), (width, hidden, "down")):
        for m, word, weight, by_time in _rows(view, n, k):
            yield SizeCandidate(m, n, k, 1, f"{name} of an expert, {word} ({UNKNOWN})", weight, by_time)


def _rows(view: View, n: int, k: int) -> Iterator[tuple[int, str, float, bool]]:
    tokens, model = view.step.tokens, view.model
    found = _by_grid(view, n)
    if found:
        yield min(found, tokens), "rows by the grid", 0.95, False
    timed = None if found else _by_time(view, n, k)
    if timed and timed <= tokens:
        yield timed, "rows by time", 0.85, True
    even = max(tokens * max(model.per_token, 1) // model.experts, 1)
    if even not in {min(found or 0, tokens), timed}:
        yield min(even, tokens), "rows if they are shared out evenly", EVEN, False


def _by_grid(view: View, n: int) -> int | None:
    """The rows that the tiles cover; None where the grid is that of the GPU, or of other columns."""
    wide, high, count = view.known.tile_m, view.known.tile_n, grids.blocks(view.kind)
    if not wide or not high or not count or persistent(view):
        return None
    across = -(-n // wide)
    return count // across * high if count % across == 0 else None


def _by_time(view: View, n: int, k: int) -> int | None:
    """The rows that take the duration; None where reading the weight takes most of it."""
    reading = n * k * item_bytes(view.dtype) / bandwidth(view.device)
    if not view.duration_ns or reading * 2 > view.duration_ns:
        return None
    return max(round(operations(view) / (n * k) / ROW_STEP) * ROW_STEP, ROW_STEP)


def attention(view: View) -> Iterator[Proposal]:
    """The attention calls that this kernel may have been."""
    step, model = view.step, view.model
    if not model.heads or not model.head_dim:
        return
    dtype = view.float_dtype
    work = 4.0 * step.batch * model.heads * step.queries * step.keys * model.head_dim
    held = step.batch * model.head_dim * (2 * model.heads * step.queries + 2 * model.kv_heads * step.keys)
    shapes = [(step.batch, model.heads, length, model.head_dim) for length in (step.queries, step.keys)]
    for turned, word, share in _orders(view):
        query, key = (
            Tensor(dims, dtype, tokens_first(dims) if one else None) for dims, one in zip(shapes, turned, strict=True)
        )
        for causal in (True, False) if step.queries > 1 else (False,):
            fit = share * (1.0 if causal or step.queries == 1 else 0.85)
            why = f"attention of {step.batch}×{model.heads} heads, {step.queries} on {step.keys}, {word}"
            why += ", causal" if causal else ""
            flops = work / 2 if causal else work
            yield Proposal(
                _attention_call(view, (query, key, key), str(causal)), why, item_bytes(dtype) * held, fit, flops, dtype
            )


def _orders(view: View) -> Iterator[tuple[tuple[bool, bool], str, float]]:
    """Which of queries, and of keys and values, are transposed views."""
    if view.step.queries > 1:
        yield (True, False), "queries transposed", 1.0
        yield (True, True), "transposed", 0.9
    yield (False, False), "in order", 0.85


def _attention_call(view: View, tensors: tuple[Tensor, Tensor, Tensor], causal: str) -> CallSpec:
    scale, family = f"{view.model.head_dim**-0.5:.17g}", view.known.family or ""
    if family == "cudnn_sdpa":
        lengths = (str(view.step.queries), str(view.step.keys))
        rest = (None, None, None, *lengths, "False", "0.", causal, "False", scale)
        return spec("_cudnn_attention_forward", *tensors, *rest)
    if "fmha" in view.kind.name or "efficient" in family:
        return spec("_scaled_dot_product_efficient_attention", *tensors, None, "False", "0.", causal, scale)
    return spec("_scaled_dot_product_flash_attention", *tensors, "0.", causal, "False", scale)
