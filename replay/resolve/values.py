"""Values by meaning: indices in range, probabilities positive, offsets ascending; floats drawn, never zeros.

Activations are drawn from N(0, 1), weights from N(0, 0.02), the gains of norms from N(1, 0.02). An integer tensor whose
meaning is unknown holds the constant 1, or 0 where its name says index: an index out of range on CUDA poisons the
context of the whole process. Such tensors are noted as `int-default`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.recorded import Argument, Number
from kerneldb.replay.resolve.tensors import INTEGERS, MASKED, Fill, Shape
from kerneldb.replay.wire.plan import OpCall

ACTIVATION: Final = Fill("normal", 0.0, 1.0)
WEIGHT: Final = Fill("normal", 0.0, 0.02)
GAIN: Final = Fill("normal", 1.0, 0.02)
POSITIVE: Final = Fill("uniform", 0.05, 0.95)
NEAR_ONE: Final = Fill("uniform", 0.5, 1.5)
SMALL: Final = Fill("normal", 0.0, 0.1)
TRUE: Final = Fill("constant", 1)
DIVISOR: Final = Fill("uniform", 1.0, 4.0)
MASK: Final = Fill("uniform", 0.0, 2.0)
SAFE_INDEX: Final = Fill("constant", 0)
SAFE_INTEGER: Final = Fill("constant", 1)
MATRIX: Final = 2
PACKED: Final = 3


@dataclass(frozen=True, slots=True)
class Known:
    """What a rule may look at.

    The operator (short name), its recorded arguments by schema name, the calls below it, and calls near it.
    """

    op: str
    named: Mapping[str, Argument]
    calls: tuple[OpCall, ...] = ()
    near: tuple[OpCall, ...] = ()

    def dims(self, name: str) -> Shape:
        """Recorded dims of a tensor argument; empty where there is none."""
        argument = self.named.get(name)
        return argument.dims if argument is not None and argument.is_tensor else ()

    def count(self, name: str) -> int:
        """Elements of a tensor argument; 1 where there is none."""
        return math.prod(self.dims(name))

    def size(self, name: str, axis: int) -> int:
        """One of these dims; 1 where there is none."""
        dims = self.dims(name)
        return int(dims[axis]) if -len(dims) <= axis < len(dims) else 1

    def text(self, name: str) -> str:
        """The text of a recorded scalar argument; empty where there is none."""
        argument = self.named.get(name)
        return argument.text if argument is not None and argument.kind == recorded.SCALAR else ""

    def value(self, name: str, default: int) -> int:
        """A recorded integer argument."""
        text = self.text(name)
        return int(text) if recorded.spelling(text) is int else default

    def number(self, name: str) -> Number | None:
        """A recorded scalar argument."""
        text = self.text(name)
        return recorded.number(text) if text else None

    def first(self, *names: str) -> Shape:
        """The dims of the first of these tensor arguments that was recorded."""
        return next((dims for dims in map(self.dims, names) if dims), ())


Rule = Fill | Callable[[Known], Fill]


def fill_for(known: Known, name: str, dtype: str) -> tuple[Fill, str | None]:
    """How to fill the tensor argument `name` of torch dtype name `dtype`, and a note where its meaning is unknown."""
    rule = OPERATOR_RULES.get(known.op, {}).get(name)
    whole = dtype in INTEGERS
    if rule is None:
        rule = (INTEGER_NAMES if whole else BOOL_NAMES if dtype == "bool" else REAL_NAMES).get(name)
    if rule is not None:
        fill = _fitting(rule if isinstance(rule, Fill) else rule(known), dtype)
        return fill, "values:masked" if fill.kind == MASKED else None
    if dtype == "bool":
        return MASK, None
    if whole:
        return (SAFE_INDEX if "ind" in name or "idx" in name or name.endswith("ids") else SAFE_INTEGER), "int-default"
    return ACTIVATION, None


def _fitting(fill: Fill, dtype: str) -> Fill:
    """A rule may serve several dtypes: real draws become integers in the same range, integer draws stay in it."""
    if dtype in INTEGERS and fill.kind in {"uniform", "normal", "ascending"}:
        return Fill("integers", max(math.ceil(fill.low), 1), max(math.ceil(fill.high), 2))
    if dtype not in INTEGERS and fill.kind in {"integers", "range"}:
        return MASK if dtype == "bool" else POSITIVE
    return fill


def below(limit: Callable[[Known], int]) -> Rule:
    """Indices in [0, limit)."""
    return lambda known: Fill("integers", 0, max(limit(known), 1))


def _each(names: Iterable[str], rules: dict[str, Rule]) -> dict[str, dict[str, Rule]]:
    return dict.fromkeys(names, rules)


def _scores(known: Known) -> Fill:
    """Scores that a mask over queries and keys was put on: most masks of that shape are causal."""
    return Fill(MASKED, 0.0, 1.0) if any(_hides(call, known.dims("self")) for call in known.near) else ACTIVATION


def _hides(call: OpCall, dims: Shape) -> bool:
    held = [one.dims for one in recorded.or_none(call) if one.is_tensor]
    masks = [one for one in held if one != dims and len(one) >= MATRIX and one[-MATRIX:] == dims[-MATRIX:]]
    return dims in held and bool(masks) and 1 < dims[-2] <= dims[-1]


def _classes(known: Known) -> int:
    """Class axis of the scores: [N, C, …], or [C] for a single sample."""
    return (known.first("self", "input") or (1,))[:2][-1]


def _bag_starts(known: Known) -> Fill:
    """Where the bags of an embedding bag begin: all equally long, as far as the sum of their lengths tells."""
    count, bags = known.count("indices"), max(known.count("offsets"), 1)
    last = count if known.text("include_last_offset") == "True" else count * (bags - 1) / bags
    return Fill("cumulative", 0, last)


def _group_ends(known: Known) -> Fill:
    """Ends of the groups of a grouped GEMM: from its own GEMMs where it makes some (CPU), else even groups.

    Grouped are the rows of self [M, K] beside mat2 [G, K, N], K of two matrices, the columns of mat2 beside [G, M, K].
    """
    batched = len(known.dims("self")) > MATRIX, len(known.dims("mat2")) > MATRIX
    operand, axis = ("mat2", 1) if batched[0] else ("self", 0) if batched[1] else ("self", 1)
    total, groups = known.size(operand, axis), max(known.count("offs"), 1)
    pairs = [recorded.or_none(call)[:2] for call in known.calls if call.op == "aten::mm"]
    sizes = [pair[operand == "mat2"].dims[axis] for pair in pairs]
    if len(sizes) == groups and sum(sizes) == total:
        return Fill("values", values=tuple(itertools.accumulate(sizes)))
    return Fill("cumulative", total / groups, total)


def _token_ends(known: Known, *names: str) -> Fill:
    """Ends of the sequences of a packed batch: [total, heads, dim], or [1, total, heads, dim]."""
    dims = known.first(*names) or (1,)
    return Fill("cumulative", 0, dims[0] * (dims[1] if len(dims) > PACKED else 1))


def _repeats(known: Known) -> Fill:
    counts = known.count("repeats")
    return Fill("constant", max(known.value("output_size", counts) // max(counts, 1), 1))


def _scatter_mask(known: Known) -> Fill:
    """As many true entries as there are source values to take, mask broadcast included."""
    copies = max(known.count("self") // max(known.count("mask"), 1), 1)
    return Fill("count", 0, min(known.count("source") // copies, known.count("mask")))


def _dropout_mask(known: Known) -> Fill:
    scale = known.number("scale")
    kept = 1 / scale if isinstance(scale, float) and scale >= 1 else 0.5
    return Fill("count", 0, round(kept * known.count("mask")))


def _power_base(known: Known) -> Fill:
    exponent = known.number("exponent")
    return POSITIVE if isinstance(exponent, float) and not exponent.is_integer() else ACTIVATION


def _row(known: Known) -> int:
    return max(known.size("output", known.value("dim", -1)), 1)


def _log_sum_exp(known: Known) -> Fill:
    """Log Σ exp of k scores from N(0, 1) is log k + 1/2: with it, backward sees probabilities of the right size."""
    packed = known.op.startswith(("_flash", "_efficient"))
    keys = known.size("key" if known.dims("key") else "k", 1 if packed else -2)
    return Fill("normal", math.log(max(keys, 1)) + 0.5, 0.01)


def _mat2(known: Known) -> Fill:
    """A weight is the second matrix and, in `linear`, a transposed one; batched or two activations are not."""
    argument = known.named.get("mat2")
    return WEIGHT if argument is not None and argument.strides[:1] == (1,) else ACTIVATION


def _slots(known: Known) -> Fill:
    dims = known.first("key_cache", "k_cache", "kv_cache")
    return Fill("range", 0, max(dims[0], 1)) if dims else SAFE_INDEX


GROUPED: Final = below(lambda known: known.size("weight", 0))

OPERATOR_RULES: Final[dict[str, dict[str, Rule]]] = {
    **_each((
        "index_select", "gather", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_",
        "index_reduce", "index_reduce_", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce",
        "scatter_reduce_", "gather_backward"), {
        "index": below(lambda known: known.size("self", known.value("dim", 0)))}),
    **_each((
        "nll_loss", "nll_loss_forward", "nll_loss_backward", "nll_loss_nd", "nll_loss2d", "nll_loss2d_forward",
        "nll_loss2d_backward", "cross_entropy_loss", "multi_margin_loss"), {
        "target": below(_classes), "total_weight": TRUE}),
    **_each((
        "log", "log_", "log2", "log10", "log1p", "sqrt", "sqrt_", "rsqrt", "rsqrt_", "multinomial",
        "logit", "_foreach_sqrt", "_foreach_sqrt_", "_foreach_log", "_foreach_rsqrt", "binary_cross_entropy",
        "binary_cross_entropy_backward"), {"self": POSITIVE, "target": POSITIVE}),
    **_each((
        "div", "div_", "true_divide", "remainder", "remainder_", "floor_divide", "floor_divide_", "fmod", "fmod_",
        "_foreach_div", "_foreach_div_"), {"other": DIVISOR}),
    **_each((
        "native_layer_norm", "layer_norm", "native_layer_norm_backward", "rms_norm", "_fused_rms_norm",
        "_fused_rms_norm_backward", "native_group_norm", "native_group_norm_backward", "group_norm", "batch_norm",
        "native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit", "cudnn_batch_norm",
        "cudnn_batch_norm_backward", "miopen_batch_norm", "miopen_batch_norm_backward", "_batch_norm_impl_index",
        "_batch_norm_with_update", "batch_norm_backward", "instance_norm"), {"weight": GAIN, "mean": SMALL}),
    **_each(("pow", "pow_", "_foreach_pow"), {"self": _power_base}),
    **_each(("mm", "addmm", "_addmm_activation"), {"mat2": _mat2}),
    **_each(("masked_scatter", "masked_scatter_"), {"mask": _scatter_mask}),
    **_each(("native_dropout_backward", "_masked_scale"), {"mask": _dropout_mask}),
    **_each(("embedding_backward", "embedding_dense_backward"), {
        "indices": below(lambda known: known.value("num_weights", 1))}),
    **_each(("_grouped_mm", "_scaled_grouped_mm"), {"offs": _group_ends}),
    **_each(("_embedding_bag", "embedding_bag", "_embedding_bag_forward_only"), {
        "indices": GROUPED, "offsets": _bag_starts}),
    **_each(("bernoulli", "bernoulli_"), {"self": POSITIVE, "p": POSITIVE}),
    **_each(("max_pool2d_with_indices_backward", "adaptive_max_pool2d_backward", "max_unpool2d"), {
        "indices": below(lambda known: known.size("self", -1) * known.size("self", -2))}),
    **_each(("ctc_loss", "_ctc_loss"), {
        "targets": lambda known: Fill("integers", 1, max(known.size("log_probs", -1), 2)),
        "input_lengths": lambda known: Fill("constant", known.size("log_probs", 0)),
        "target_lengths": lambda known: Fill(
            "constant", max(known.count("targets") // max(known.count("target_lengths"), 1), 1))}),
    **_each(("take", "put_"), {"index": below(lambda known: known.count("self"))}),
    **_each(("_assert_async", "is_nonzero"), {"self": TRUE}),
    **_each(("grid_sampler", "grid_sampler_2d"), {"grid": Fill("uniform", -1.0, 1.0)}),
    **_each(("_foreach_addcdiv_", "_foreach_addcdiv", "addcdiv", "addcdiv_"), {"tensor2": NEAR_ONE}),
    "embedding": {"indices": GROUPED, "weight": WEIGHT},
    "embedding_renorm_": {"indices": below(lambda known: known.size("self", 0))},
    "one_hot": {"self": below(lambda known: known.value("num_classes", 2))},
    "bincount": {"self": below(lambda known: max(known.value("minlength", 2), 2))},
    "repeat_interleave": {"repeats": _repeats},
    "searchsorted": {"sorted_sequence": Fill("ascending", -2.0, 2.0)},
    "bucketize": {"boundaries": Fill("ascending", -2.0, 2.0)},
    "_softmax": {"self": _scores},
    "_softmax_backward_data": {"output": lambda known: Fill("uniform", 0.0, 2.0 / _row(known))},
    "_log_softmax_backward_data": {"output": lambda known: Fill("normal", -math.log(_row(known)) - 0.5, 1.0)},
    "tanh_backward": {"output": Fill("uniform", -0.95, 0.95)},
    "sigmoid_backward": {"output": POSITIVE},
    "_pack_padded_sequence": {"lengths": lambda known: Fill("constant", known.size("input", 0))},
}  # fmt: skip

REAL_NAMES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("weight", "w1", "w2", "w13", "w13_weight", "bias"), WEIGHT),
    **dict.fromkeys(("running_mean", "save_mean"), SMALL),
    **dict.fromkeys(("logsumexp", "softmax_lse"), _log_sum_exp),
    **dict.fromkeys((
        "running_var", "save_var", "save_invstd", "invstd", "rstd", "exp_avg_sqs", "max_exp_avg_sqs", "scale",
        "scale_a", "scale_b", "scales", "inv_scale", "grad_scale", "state_steps"), NEAR_ONE),
    "found_inf": Fill("constant", 0),
}  # fmt: skip
BOOL_NAMES: Final[dict[str, Rule]] = dict.fromkeys(("attn_mask", "attn_bias", "key_padding_mask"), TRUE)
INTEGER_NAMES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("cum_seq_q", "cu_seqlens_q", "cu_seqlens", "qo_indptr", "q_indptr"),
        lambda known: _token_ends(known, "query", "q")),
    **dict.fromkeys(("cum_seq_k", "cu_seqlens_k", "kv_indptr", "paged_kv_indptr"),
        lambda known: _token_ends(known, "key", "k")),
    **dict.fromkeys(("block_table", "block_tables", "page_table", "kv_indices"), below(
        lambda known: (known.first("key_cache", "k_cache", "kv_cache", "key", "k") or (1,))[0])),
    "slot_mapping": _slots,
    **dict.fromkeys(("seq_lens", "seqused_k", "context_lens", "cache_seqlens"), lambda known: Fill(
        "constant", max(known.value("max_seqlen_k", known.value("max_seq_len", known.value("max_k", 1))), 1))),
    **dict.fromkeys(("topk_ids", "expert_ids"), below(
        lambda known: (known.first("w1", "w13", "w13_weight", "w2", "gating_output") or (1,))[0])),
    "positions": below(lambda known: known.size("cos_sin_cache", 0)),
    **dict.fromkeys(("batch_sizes", "repeats"), SAFE_INTEGER),
}  # fmt: skip
