"""The dims of the model, and those of one step of it: batch, tokens, keys.

Model dims come from its config, or from the trace: rows of normalisations and softmaxes are tokens, elements over rows
are widths. A step's keys (the length of the cache) come from launches that differ between steps: copies say their bytes
exactly, elementwise kernels a range.

Where no config is given, the dims of the model come from its launches (`model_of`). Tokens are the rows of
normalisations, softmaxes and lookups. A width is elements over tokens: that of the sum before a normalisation (or of
the squares before a mean) is the hidden size, that of an activation function the feed-forward size. Softmax rows over
tokens are heads; cosines over tokens, and the names of attention kernels, give the head's dims.

Operator calls that were recorded in the same run (other steps, other ranks) say more (`completed`). The second factor
of a matrix product is a weight (K × N), whatever the number of tokens; the table of a lookup says vocabulary and width,
the input of a normalisation its width, and attention its heads. Where none of these was recorded, the width is what
most weights lead to and from, and the vocabulary what the widest of them makes of it. Layouts of dims are those of the
operators' schemas (aten/src/ATen/native/native_functions.yaml).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from kerneldb.errors import UsageError
from kerneldb.names import Decoded
from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import item_bytes
from kerneldb.replay.infer.grids import Span
from kerneldb.replay.infer.units import Launch, Reading, Unit
from kerneldb.replay.plan.unknowns import Sequence as Launches
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.wire.plan import OpCall

SIZES: Final[Mapping[str, tuple[int, tuple[str, ...]]]] = {
    "hidden": (1 << 18, ("hidden_size", "n_embd", "d_model", "n_embed", "dim", "hidden_dim")),
    "ffn": (1 << 20, ("intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size", "encoder_ffn_dim")),
    "heads": (1 << 12, ("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads")),
    "kv_heads": (1 << 12, ("num_key_value_heads", "num_kv_heads", "n_head_kv")),
    "head_dim": (1 << 14, ("head_dim", "attention_head_size", "d_kv")),
    "vocab": (1 << 24, ("vocab_size",)),
    "experts": (1 << 14, ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")),
    "per_token": (1 << 14, ("num_experts_per_tok", "num_experts_per_token", "experts_per_token")),
    "expert_ffn": (1 << 20, ("moe_intermediate_size", "expert_intermediate_size")),
    "shared_ffn": (1 << 20, ("shared_expert_intermediate_size",)),
}
"""Limits well above the largest models (larger numbers are refused), and the keys that configs have for a size."""
EXPERTS: Final = frozenset({"experts", "per_token", "expert_ffn", "shared_ffn"})
"""Sizes that dense models may give as 0, and others by layer."""
SHOWN: Final = 24
NESTED: Final = ("text_config", "language_config", "llm_config", "thinker_config")
EXACT_WEIGHT: Final = 3.0
NARROW: Final = 8
NEARLY: Final = 0.9
SMALL_BATCH: Final = 512
LONGEST: Final = 1 << 20
COMPUTED: Final = frozenset({"fp16", "bf16", "fp32", "tf32", "e4m3"})
"""Dtypes that a model may compute in."""

Votes = dict[int, float]
ACTIVATIONS: Final = frozenset({"silu", "gelu", "relu", "tanh", "sigmoid", "elu", "hardswish", "threshold", "clamp"})
NORMS: Final = frozenset({"NORMALIZATION", "REDUCTION"})
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
FACTORS: Final = {"mm": 1, "addmm": 2, "_scaled_mm": 1, "_int_mm": 1}
"""Which argument is the weight, as K × N."""
TURNED: Final = {"linear": 1, "addmv": 1, "mv": 0}
"""The same, as N × K."""
TABLES: Final = frozenset({"embedding", "index_select"})
NORM_OPERATORS: Final = frozenset({"native_layer_norm", "_fused_rms_norm", "rms_norm", "layer_norm"})
ATTENTION: Final = frozenset({
    "_cudnn_attention_forward", "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
})  # fmt: skip
"""Operators whose queries and keys are batch × heads × tokens × dims."""
MATRIX: Final = 2
HEADED: Final = 4
LEAST_SIDE: Final = 2
MOST: Final = 24
WORDS: Final = 30_000
"""Vocabularies are at least as large, and WIDER times as large as the width: the second layer of a pair is not."""
WIDER: Final = 4
SLIP: Final = 8
"""Tokens are mistaken by small factors: a block or a warp takes several rows."""


@dataclass(frozen=True, slots=True)
class ModelDims:
    """Dims of a transformer. Zero is what is not known.

    `widths` are further widths seen in the trace, `weights` (K, N) of products that were recorded in the same run.
    `expert_ffn` is the width of each of the `experts` (that of `ffn` where it is 0), `shared_ffn` that of one for all
    tokens. `assumed` is said of products of `ffn` where no config or trace tells it.
    """

    hidden: int = 0
    ffn: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    vocab: int = 0
    dtype: str = "fp16"
    widths: tuple[int, ...] = ()
    weights: tuple[tuple[int, int], ...] = ()
    source: str = "config"
    experts: int = 0
    per_token: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    assumed: str = ""


@dataclass(frozen=True, slots=True)
class StepDims:
    """One step: `batch` sequences, `queries` new tokens in each, `keys` tokens to attend to."""

    model: ModelDims
    batch: int
    queries: int
    keys: int

    @property
    def tokens(self) -> int:
        """Rows of the step's activations."""
        return self.batch * self.queries


def from_config(config: Mapping[str, Any], dtype: str) -> ModelDims:
    """The dims that a parsed `config.json` says; those of the language part where it has several.

    Raises UsageError where a size is invalid, where sizes contradict each other, and where there is no hidden size.
    """
    merged = _language_part(config)
    found = {name: _first(merged, name) for name in SIZES}
    if not found["hidden"]:
        raise UsageError(f"the configuration of the model has no hidden size ({', '.join(SIZES['hidden'][1])})")
    # Raises UsageError where heads do not divide what is shared out among them, or experts are too few.
    hidden, heads, kv_heads = found["hidden"], found["heads"], found["kv_heads"]
    if heads and not found["head_dim"] and hidden % heads:
        around = f"{_key(merged, 'hidden')} = {hidden}"
        _refuse(merged, "heads", f"it does not divide {around}; correct one of them, or add head_dim")
    if heads and kv_heads and heads % kv_heads:
        _refuse(merged, "kv_heads", f"it does not divide {_key(merged, 'heads')} = {heads}; correct one of them")
    if found["experts"] and found["per_token"] > found["experts"]:
        _refuse(merged, "per_token", f"more than {_key(merged, 'experts')} = {found['experts']}; correct one of them")
    hidden, heads = found["hidden"], found["heads"]
    assumed = not found["ffn"] and not found["expert_ffn"]
    sizes: dict[str, Any] = {
        **found,
        "ffn": 4 * hidden if assumed else found["ffn"],
        "kv_heads": found["kv_heads"] or (1 if merged.get("multi_query") else heads),
        "head_dim": found["head_dim"] or (hidden // heads if heads else 0),
        "experts": found["experts"] if found["experts"] > 1 else 0,
    }
    return ModelDims(**sizes, dtype=dtype, assumed=" (4 × hidden assumed)" if assumed else "")


def _refuse(config: Mapping[str, Any], name: str, why: str) -> NoReturn:
    key = _key(config, name)
    value = repr(config[key]) if key is not None else ""
    text = value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
    raise UsageError(f"the configuration of the model has {key} = {text}: {why}")


def _key(config: Mapping[str, Any], name: str) -> str | None:
    """The first of the keys of a size that is there."""
    return next((one for one in SIZES[name][1] if config.get(one) is not None), None)


def _language_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entries of the language model, over those around them; multimodal models nest it, some of them twice."""
    inner = next((config[key] for key in NESTED if isinstance(config.get(key), Mapping)), None)
    return config if inner is None else {**config, **_language_part(inner)}


def _first(config: Mapping[str, Any], name: str) -> int:
    """A size; zero where the config has none of its keys. Raises UsageError where it is invalid."""
    key = _key(config, name)
    value = None if key is None else config[key]
    if value is None or (name in EXPERTS and (value == 0 or isinstance(value, list))):
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        _refuse(config, name, "give a whole number above 0, or null")
    most, _ = SIZES[name]
    if value > most:
        _refuse(config, name, f"larger than that of any model; give a whole number up to {most:,}")
    return value


def dtype_of(sequence: Launches, found: Iterable[Unit]) -> str:
    """The dtype that most time of matrix products goes to; of all kernels where there is none."""
    spent: Counter[str] = Counter()
    for unit in found:
        known = unit.launch.known
        if known.dtype in COMPUTED:
            weight = 1000 if known.category in {"GEMM", "GEMV", "ATTENTION"} else 1
            spent[known.dtype] += weight * (sequence.duration_ns[unit.main] or 1)
    return max(spent, key=spent.__getitem__, default="fp16")


def step_dims_of(
    reading: Reading, members: Sequence[Unit], model: ModelDims, keys: int | None, *, growing: bool
) -> StepDims:
    """The step of one step. `keys` where they are known; `growing`: the cache grows from step to step."""
    # How many kernels of a step speak for a number of tokens
    votes: Counter[int] = Counter()
    for unit in members:
        rowwise = unit.launch.known.category in {"NORMALIZATION", "REDUCTION", "INDEXING"}
        found = grids.rows(unit.launch.kind) if rowwise else None
        if found is not None:
            votes[found.most] += 3
        for span in grids.elements(unit.launch.kind)[:1] if model.hidden else ():
            width = next((one for one in (model.ffn, model.hidden) if one and span.most % one == 0), 0)
            if width:
                votes[span.most // width] += 1
    tokens = max(votes, key=lambda one: (votes[one], one)) if votes else 1
    phase = reading.sequence.phase[members[0].main] or ""
    if "decode" in phase or (growing and tokens <= SMALL_BATCH):
        return StepDims(model, tokens, 1, keys or 1)
    queries = _queries(members, model, tokens)
    return StepDims(model, max(tokens // queries, 1), queries, keys or queries)


def _queries(members: Sequence[Unit], model: ModelDims, tokens: int) -> int:
    """Tokens per sequence, from the elements of attention scores, or from `arange`."""
    votes: Counter[int] = Counter()
    for index, unit in enumerate(members):
        for span in grids.elements(unit.launch.kind)[:1]:
            if model.heads and span.most % (model.heads * tokens) == 0:
                length = span.most // (model.heads * tokens)
                if tokens % length == 0 and length > model.head_dim:
                    near = members[max(index - 1, 0) : index + 2]
                    beside = any(one.launch.known.category == "SOFTMAX" for one in near)
                    votes[length] += 100 if beside else 1
            if unit.launch.known.operation == "arange":
                longest = next((one for one in range(span.most, span.least - 1, -1) if one and tokens % one == 0), 0)
                votes[longest] += 3
    usual = [(count, length) for length, count in votes.items() if length > 1]
    return max(usual)[1] if usual else tokens


def key_votes(reading: Reading, members: Iterable[Unit], everywhere: frozenset[int], step: StepDims) -> Votes:
    """Numbers of keys that the launches peculiar to a step speak for (those of kinds not seen in every step)."""
    votes: Votes = defaultdict(float)
    model = step.model
    heads, rows = step.batch * model.heads * step.queries, step.batch * step.queries
    cached = step.batch * model.kv_heads * model.head_dim
    for kind in (reading.launches[one].kind for unit in members for one in unit.kinds if one not in everywhere):
        if kind.kind == "memcpy" and kind.copy_kind == "DtoD" and kind.bytes:
            count = kind.bytes // item_bytes(model.dtype)
            _vote(votes, Span(count, count), (heads, rows, step.batch), EXACT_WEIGHT)
        for span in grids.elements(kind)[:1]:
            _vote(votes, span, (heads, rows, step.batch), 1.0)
        joined = grids.cat_elements(kind)
        if joined is not None and cached:
            _vote(votes, joined, (cached,), EXACT_WEIGHT, shift=step.queries)
    return votes


def _vote(votes: Votes, span: Span, per_key: Iterable[int], weight: float, shift: int = 0) -> None:
    for each in dict.fromkeys(one for one in per_key if one):
        low, high = -(-span.least // each), span.most // each
        if 1 < low <= high < min(low + NARROW, LONGEST):
            for keys in range(low, high + 1):
                votes[keys + shift] += weight / (high - low + 1)


def settled(votes: Sequence[Votes]) -> list[int | None]:
    """The keys of every step: those with most votes that fit a cache growing by one, or starting over."""
    best = [min(one, key=lambda keys: (-one[keys], keys), default=None) for one in votes]
    found: list[int | None] = []
    for held, foremost, after in zip(votes, best, [*best[1:], None], strict=True):
        before, keys = found[-1] if found else None, foremost
        if before is not None and held.get(before + 1, 0) >= NEARLY * held.get(foremost or 0, 0):
            keys = before + 1
        elif foremost is None and after is not None:
            keys = after - 1
        found.append(keys)
    return found


def model_of(members: Sequence[Unit], dtype: str) -> ModelDims:
    """The dims that one step shows; zero where it shows none."""
    launches = [unit.launch for unit in members]
    rows = (grids.rows(one.kind) for one in launches if _takes_tokens(one.known))
    tokens = _usual(Counter(found.most for found in rows if found is not None))
    if not tokens:
        return ModelDims(dtype=dtype, source="trace")
    pairs = zip(launches, [*(one.known.category for one in launches[1:]), ""], strict=True)
    sized = [(one.known.operation, after, width) for one, after in pairs if (width := _width(one, tokens))]
    widths = Counter(width for _, _, width in sized)
    hidden = Counter(
        width for operation, after, width in sized if operation in {"add", "pow", "mul"} and after in NORMS
    )
    ffn = Counter(width for operation, _, width in sized if operation in ACTIVATIONS)
    wide = _usual(hidden) or _usual(widths)
    head_dim = _head_dim(launches, tokens, wide)
    heads = _heads(launches, tokens) or (wide // head_dim if head_dim else 0)
    return ModelDims(
        hidden=wide,
        ffn=_usual(ffn),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim if heads * head_dim == wide else (wide // heads if heads else 0),
        dtype=dtype,
        widths=tuple(width for width, _ in widths.most_common(6) if 1 < width <= WIDEST),
        source="trace",
    )


def _usual(votes: Counter[int]) -> int:
    return max(votes, key=votes.__getitem__, default=0)


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
        for span in grids.elements(one.kind)[:1] if known.operation in {"cos", "sin"} else ():
            if span.most in {SMALL_HEAD * tokens, LARGE_HEAD * tokens}:
                return span.most // tokens
    return LARGE_HEAD if hidden >= HEADS_FROM else SMALL_HEAD


def completed(model: ModelDims, seen: Iterable[tuple[OpCall, int]]) -> ModelDims:
    """`model` with what recorded calls (with their launches) tell, which counts before what kernels seem to say."""
    weights: Counter[tuple[int, int]] = Counter()
    sizes: dict[str, Counter[int]] = {name: Counter() for name in ("hidden", "vocab", "heads", "kv_heads", "head_dim")}
    for call, count in seen:
        dims = json.loads(call.input_dims or "[]")
        operator = short_name(call.op)
        weights.update(dict.fromkeys(_weights(operator, dims), count))
        for name, size in _sizes(operator, dims):
            sizes[name][size] += count
    sized = {name: max(votes, key=lambda one: (votes[one], one)) for name, votes in sizes.items() if votes}
    # Width and vocabulary as far as weights tell them. Layers add to a width, so that weights lead to and from it.
    words = {k: n for k, n in sorted(weights) if n >= max(WORDS, WIDER * k)}
    inner, outer = {k for k, _ in weights}, {n for _, n in weights}
    votes: Counter[int] = Counter()
    for sides, count in weights.items():
        votes.update(dict.fromkeys(set(sides) & inner & (outer | set(words)), count))
    width = sized.get("hidden") or max(votes, key=lambda one: (votes[one], -one), default=0)
    found = {"hidden": width, "vocab": words.get(width, 0)}
    usual: dict[str, Any] = {**{name: size for name, size in found.items() if size}, **sized}
    known = _of_width(model, usual.get("hidden") or model.hidden)
    return replace(known, **usual, weights=tuple(one for one, _ in weights.most_common(MOST)))


def _of_width(model: ModelDims, hidden: int) -> ModelDims:
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
    if place is not None and _is_shape(dims, place, MATRIX) and min(dims[place]) >= LEAST_SIDE:
        first, second = dims[place]
        yield (second, first) if operator in TURNED else (first, second)


def _sizes(operator: str, dims: list[Any]) -> Iterator[tuple[str, int]]:
    if operator in TABLES and _is_shape(dims, 0, MATRIX):
        yield from zip(("vocab", "hidden"), dims[0], strict=True)
    elif operator in NORM_OPERATORS and dims and dims[0] and _is_shape(dims, 0, len(dims[0])):
        yield "hidden", dims[0][-1]
    elif operator in ATTENTION and _is_shape(dims, 0, HEADED) and _is_shape(dims, 1, HEADED):
        yield from (("heads", dims[0][1]), ("head_dim", dims[0][3]), ("kv_heads", dims[1][1]))


def _is_shape(dims: list[Any], place: int, length: int) -> bool:
    """Whether the argument at `place` is a tensor of `length` dims, none of them empty."""
    held = dims[place] if place < len(dims) else None
    return isinstance(held, list) and len(held) == length and all(isinstance(one, int) and one > 0 for one in held)
