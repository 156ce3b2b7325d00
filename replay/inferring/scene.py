"""The dims of the model, and those of one step of it: batch, tokens, keys.

Model dims come from its config, or from the trace: rows of normalisations and softmaxes are tokens, elements over rows
are widths. A step's keys (the length of the cache) come from launches that differ between steps: copies say their bytes
exactly, elementwise kernels a range.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.inferring import grids
from kerneldb.replay.inferring.calls import SIZES, item_bytes
from kerneldb.replay.inferring.grids import Span
from kerneldb.replay.inferring.units import Reading, Unit
from kerneldb.replay.unknowns import Kind

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "n_embed", "dim", "hidden_dim"),
    "ffn": ("intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size", "encoder_ffn_dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "head_dim": ("head_dim", "attention_head_size", "d_kv"),
    "vocab": ("vocab_size",),
}
NESTED: Final = ("text_config", "language_config", "llm_config", "thinker_config")
FFN_FACTOR: Final = 4
EXACT_WEIGHT: Final = 3.0
NARROW: Final = 8
NEARLY: Final = 0.9
SMALL_BATCH: Final = 512
LONGEST: Final = 1 << 20
BESIDE_SOFTMAX: Final = 100
ARANGE: Final = 3


Votes = dict[int, float]


@dataclass(frozen=True, slots=True)
class Model:
    """Dims of a transformer. `widths` are further widths seen in the trace. Zero is what is not known."""

    hidden: int = 0
    ffn: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    vocab: int = 0
    dtype: str = "fp16"
    widths: tuple[int, ...] = ()
    source: str = "config"


@dataclass(frozen=True, slots=True)
class Scene:
    """One step: `batch` sequences, `queries` new tokens in each, `keys` tokens to attend to."""

    model: Model
    batch: int
    queries: int
    keys: int

    @property
    def tokens(self) -> int:
        """Rows of the step's activations."""
        return self.batch * self.queries


def from_config(config: Mapping[str, Any], dtype: str) -> Model:
    """The dims that a parsed `config.json` says; those of the language part where it has several."""
    inner: Mapping[str, Any] = next((config[key] for key in NESTED if isinstance(config.get(key), Mapping)), {})
    merged = {**config, **inner}
    found = {name: _first(merged, keys) for name, keys in NAMES.items()}
    hidden, heads = found["hidden"], found["heads"]
    return Model(
        hidden=hidden,
        ffn=found["ffn"] or FFN_FACTOR * hidden,
        heads=heads,
        kv_heads=found["kv_heads"] or (1 if merged.get("multi_query") else heads),
        head_dim=found["head_dim"] or (hidden // heads if heads else 0),
        vocab=found["vocab"],
        dtype=dtype,
    )


def _first(config: Mapping[str, Any], keys: Iterable[str]) -> int:
    return next((int(config[key]) for key in keys if isinstance(config.get(key), int) and config[key]), 0)


def dtype_of(reading: Reading, found: Sequence[Unit]) -> str:
    """The dtype that most time of matrix products goes to; of all kernels where there is none."""
    spent: Counter[str] = Counter()
    for unit in found:
        known = reading.name(unit.main)
        if known.dtype in SIZES and known.dtype is not None:
            weight = 1000 if known.category in {"GEMM", "GEMV", "ATTENTION"} else 1
            spent[known.dtype] += weight * (reading.sequence.duration_ns[unit.main] or 1)
    named = [dtype for dtype, _ in spent.most_common() if dtype in {"fp16", "bf16", "fp32", "tf32", "e4m3"}]
    return named[0] if named else "fp16"


def row_votes(reading: Reading, members: Iterable[Unit], model: Model) -> Counter[int]:
    """How many kernels of a step speak for a number of tokens."""
    votes: Counter[int] = Counter()
    for unit in members:
        kind, known = reading.kind(unit.main), reading.name(unit.main)
        if known.category in {"NORMALIZATION", "REDUCTION", "INDEXING"}:
            found = grids.rows(kind)
            if found is not None:
                votes[found.most] += 3
        if model.hidden:
            for span in grids.elements(kind)[:1]:
                width = next((one for one in (model.ffn, model.hidden) if one and span.most % one == 0), 0)
                if width:
                    votes[span.most // width] += 1
    return votes


def scene_of(reading: Reading, members: Sequence[Unit], model: Model, keys: int | None, *, growing: bool) -> Scene:
    """The scene of one step. `keys` where they are known; `growing`: the cache grows from step to step."""
    votes = row_votes(reading, members, model)
    tokens = max(votes, key=lambda one: (votes[one], one)) if votes else 1
    phase = reading.sequence.phase[members[0].main] or ""
    if "decode" in phase or (growing and tokens <= SMALL_BATCH):
        return Scene(model, tokens, 1, keys or 1)
    queries = _queries(reading, members, model, tokens)
    return Scene(model, max(tokens // queries, 1), queries, keys or queries)


def _queries(reading: Reading, members: Sequence[Unit], model: Model, tokens: int) -> int:
    """Tokens per sequence, from the elements of attention scores, or from `arange`."""
    votes: Counter[int] = Counter()
    for index, unit in enumerate(members):
        known = reading.name(unit.main)
        for span in grids.elements(reading.kind(unit.main))[:1]:
            if model.heads and span.most % (model.heads * tokens) == 0:
                length = span.most // (model.heads * tokens)
                if tokens % length == 0 and length > model.head_dim:
                    votes[length] += BESIDE_SOFTMAX if _beside_softmax(reading, members, index) else 1
            if known.operation == "arange":
                fitting = [one for one in range(span.most, span.least - 1, -1) if one and tokens % one == 0]
                votes.update(fitting[:1] * ARANGE)
    usual = [(count, length) for length, count in votes.items() if length > 1]
    return max(usual)[1] if usual else tokens


def _beside_softmax(reading: Reading, members: Sequence[Unit], index: int) -> bool:
    near = members[max(index - 1, 0) : index + 2]
    return any(reading.name(unit.main).category == "SOFTMAX" for unit in near)


def key_votes(reading: Reading, members: Iterable[Unit], everywhere: frozenset[int], scene: Scene) -> Votes:
    """Numbers of keys that the launches peculiar to a step speak for (those of kinds not seen in every step)."""
    votes: Votes = defaultdict(float)
    model = scene.model
    heads, rows = scene.batch * model.heads * scene.queries, scene.batch * scene.queries
    cached = scene.batch * model.kv_heads * model.head_dim
    for unit in members:
        for place in unit.places:
            if reading.sequence.order[place] in everywhere:
                continue
            kind = reading.kind(place)
            for span in _exact(kind, model.dtype):
                _vote(votes, span, (heads, rows, scene.batch), EXACT_WEIGHT)
            for span in grids.elements(kind)[:1]:
                _vote(votes, span, (heads, rows, scene.batch), 1.0)
            joined = grids.cat_elements(kind)
            if joined is not None and cached:
                _vote(votes, joined, (cached,), EXACT_WEIGHT, shift=scene.queries)
    return votes


def _exact(kind: Kind, dtype: str) -> tuple[Span, ...]:
    if kind.kind != "memcpy" or kind.copy_kind != "DtoD" or not kind.bytes:
        return ()
    count = kind.bytes // item_bytes(dtype)
    return (Span(count, count),)


def _vote(votes: Votes, span: Span, per_key: Iterable[int], weight: float, shift: int = 0) -> None:
    for each in dict.fromkeys(one for one in per_key if one):
        low, high = -(-span.least // each), span.most // each
        if 1 < low <= high < min(low + NARROW, LONGEST):
            for keys in range(low, high + 1):
                votes[keys + shift] += weight / (high - low + 1)


def settled(votes: Sequence[Votes]) -> list[int | None]:
    """The keys of every step: those with most votes that fit a cache growing by one, or starting over."""
    best = [_foremost(one) for one in votes]
    found: list[int | None] = []
    for index, foremost in enumerate(best):
        before, after = found[-1] if found else None, best[index + 1] if index + 1 < len(best) else None
        keys = foremost
        if before is not None and votes[index].get(before + 1, 0) >= NEARLY * votes[index].get(foremost or 0, 0):
            keys = before + 1
        elif foremost is None and after is not None:
            keys = after - 1
        found.append(keys)
    return found


def _foremost(votes: Votes) -> int | None:
    return min(votes, key=lambda keys: (-votes[keys], keys)) if votes else None
