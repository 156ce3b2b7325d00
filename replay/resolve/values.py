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

from kerneldb.replay.resolve import outcomes, recorded
from kerneldb.replay.resolve.recorded import Argument, Number
from kerneldb.replay.resolve.tensors import DOMINANT, FACTOR, GRAM, INTEGERS, MASKED, POOLED, SHAPED, Fill, Shape
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
DIAGONAL: Final = Fill(DOMINANT, 0.0, 0.5)
DEFINITE: Final = Fill(GRAM)
TRIANGULAR: Final = Fill(FACTOR)
SAFE_INDEX: Final = Fill("constant", 0)
SAFE_INTEGER: Final = Fill("constant", 1)
MATRIX: Final = 2
SPACE: Final = 3
PACKED: Final = 3
LARGEST: Final = 1 << 40
SPAN: Final = {"signed char": 1 << 7, "unsigned char": 1 << 8, "short int": 1 << 15, "bool": 2,
               "c10::Half": 1 << 11, "c10::BFloat16": 1 << 8}  # fmt: skip
"""How many whole numbers from 0 on a kind of numbers has, where these are few."""
REAL_KINDS: Final = frozenset({"float", "double", "c10::Half", "c10::BFloat16", "c10::complex<float>"})
NUMBERED: Final = INTEGERS | {"float32", "float64", "float16", "bfloat16"}
"""Dtypes that hold numbers of places."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a rule may look at.

    The operator (short name), its recorded arguments by schema name, the calls that it made itself, calls near it, and
    all distinct calls below it.
    """

    op: str
    named: Mapping[str, Argument]
    calls: tuple[OpCall, ...] = ()
    near: tuple[OpCall, ...] = ()
    below: tuple[OpCall, ...] = ()

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
    if dtype in INTEGERS and fill.kind in {"uniform", "normal", "ascending"} | SHAPED:
        return Fill("integers", max(math.ceil(fill.low), 1), max(math.ceil(fill.high), 2))
    if dtype not in INTEGERS and fill.kind in {"integers", "range"}:
        return MASK if dtype == "bool" else POSITIVE
    if fill.kind == "shuffled" and dtype not in NUMBERED:
        return MASK if dtype == "bool" else ACTIVATION
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
    """As many in all as the output has, or the call that takes the result shows; one each where neither tells."""
    counts = known.count("repeats")
    taken = outcomes.found(iter((*known.below, *known.near)), outcomes.selected("long int"), LARGEST)
    total = known.value("output_size", taken if taken is not None and taken > counts else counts)
    return Fill("even", total, counts)


def _true(name: str, of: str = "self") -> Rule:
    """As many entries of the mask (or of the numbers) are true as were found there, or as were taken from `of`."""

    def rule(known: Known) -> Fill:
        given = known.named.get(name)
        if given is None:
            return MASK
        taking = (*known.below, *known.near)
        count = outcomes.found(iter(taking), outcomes.places(given), known.count(name))
        other = known.named.get(of)
        if count is None and other is not None and name == "mask":
            copies = max(known.count(of) // max(known.count("mask"), 1), 1)
            count = outcomes.found(iter(taking), outcomes.selected(other.kind), known.count(of))
            count = None if count is None else count // copies
        return MASK if count is None else Fill("count", 0, count)

    return rule


def _distinct(known: Known) -> Fill:
    """All different and in no order; of `unique`, as many different ones as the result has."""
    given, count = known.named.get("self"), known.count("self")
    if given is None:
        return ACTIVATION
    many = None
    if "unique" in known.op:
        many = outcomes.found(iter((*known.below, *known.near)), outcomes.selected(given.kind), count)
    if many is None and given.kind in REAL_KINDS:
        return ACTIVATION
    return Fill("shuffled", 0, min(many or count, SPAN.get(given.kind, count)))


def _once_each(known: Known) -> Fill:
    """Places that are written once each, in no order."""
    return Fill("shuffled", 0, max(known.size("self", known.value("dim", 0)), 1))


def _bag_starts(known: Known) -> Fill:
    """Bags of equal length; the last offset is the end of the last bag where that is included."""
    bags, total = max(known.count("offsets"), 1), known.count("indices")
    last = known.text("include_last_offset") == "True"
    return Fill("cumulative", 0, total if last else total * (bags - 1) / bags)


def _bag_of_each(known: Known) -> Fill:
    bags = max(known.count("bag_size"), known.count("offsets"), 1)
    return Fill("cumulative", 0, bags - 1)


def _lengths(known: Known) -> Fill:
    """Segments that add up to the data."""
    lengths = known.dims("lengths") or (1,)
    return Fill("even", known.size("data", len(lengths) - 1), lengths[-1])


def _target_lengths(known: Known) -> Fill:
    """As long as `log_alpha` [batch, time, 2 × longest + 1] shows, where that is made below."""
    start = known.size("log_probs", 1), known.size("log_probs", 0)
    made = (recorded.integers(one.text) for call in known.below for one in recorded.or_none(call)[:1])
    longest = next((dims[2] // 2 for dims in made if len(dims) == PACKED and dims[:2] == start), None)
    each = known.count("targets") // max(known.count("target_lengths"), 1)
    return Fill("constant", max(longest if longest is not None else each, 1))


def _classes_of_one_hot(known: Known) -> Fill:
    """Below the number of classes; where it was to be found, the last class first: it decides the result."""
    classes = known.value("num_classes", -1)
    if classes > 0:
        return Fill("integers", 0, classes)
    made = (recorded.integers(one.text) for call in known.below for one in recorded.or_none(call)[:1])
    rank = len(known.dims("self"))
    last = next((dims[-1] for dims in made if len(dims) == rank + 1), 2)
    return Fill("cumulative", last - 1, 0)


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


def _shift(known: Known) -> Fill:
    """The bias of a linear layer is one row; what a product is added to has all rows."""
    return WEIGHT if len(known.dims("self")) == 1 else ACTIVATION


def _added(known: Known) -> Fill:
    """A bias has fewer dims than what it is added to."""
    return WEIGHT if 1 == len(known.dims("other")) < len(known.dims("self")) else ACTIVATION


def _windows(known: Known) -> Fill:
    """Where in each window the largest element was: places elsewhere are skipped (0.78 of the time, on an H200)."""
    axes = SPACE if "3d" in known.op else MATRIX
    sizes = known.dims("self")[-axes:]
    places, window = max(math.prod(sizes), 1), _each_dim(known, "kernel_size", (), axes)
    of_each = (("stride", window), ("padding", (0,) * axes), ("dilation", (1,) * axes))
    others = [_each_dim(known, name, default, axes) for name, default in of_each]
    if len(sizes) < axes or not window or min(window) < 1 or max(itertools.chain(window, *others)) > LARGEST:
        return Fill("integers", 0, places)
    return Fill(POOLED, 0, places, tuple(itertools.chain(*zip(sizes, window, *others, strict=True))))


def _each_dim(known: Known, name: str, default: Shape, axes: int) -> Shape:
    """A size for all dims, or one for each."""
    argument = known.named.get(name)
    found = recorded.integers(argument.text) if argument is not None else ()
    return found * axes if len(found) == 1 else found if len(found) == axes else default


def _slots(known: Known) -> Fill:
    dims = known.first("key_cache", "k_cache", "kv_cache")
    return Fill("range", 0, max(dims[0], 1)) if dims else SAFE_INDEX


def _triangle(known: Known) -> Fill:
    """The factor, where that is `self`; elsewhere `self` is the right-hand side."""
    others = ("A", "LU", "LU_data", "input2", "LU_pivots")
    return ACTIVATION if any(name in known.named for name in others) else TRIANGULAR


GROUPED: Final = below(lambda known: known.size("weight", 0))

OPERATOR_RULES: Final[dict[str, dict[str, Rule]]] = {
    **_each((
        "index_select", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce",
        "scatter_reduce_", "gather_backward"), {
        "index": below(lambda known: known.size("self", known.value("dim", 0)))}),
    **_each((
        "nll_loss", "nll_loss_forward", "nll_loss_backward", "nll_loss_nd", "nll_loss2d", "nll_loss2d_forward",
        "nll_loss2d_backward", "cross_entropy_loss", "multi_margin_loss", "multi_margin_loss_backward",
        "multilabel_margin_loss", "multilabel_margin_loss_forward", "multilabel_margin_loss_backward"), {
        "target": below(_classes), "total_weight": TRUE}),
    **_each((
        "poisson", "log", "log_", "log2", "log10", "log1p", "sqrt", "sqrt_", "rsqrt", "rsqrt_", "multinomial",
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
    **_each(("mm", "addmm", "_addmm_activation"), {"mat2": _mat2, "self": _shift}),
    **_each(("add", "add_"), {"other": _added}),
    **_each(("masked_scatter", "masked_scatter_"), {"mask": _scatter_mask}),
    **_each(("native_dropout_backward", "_masked_scale"), {"mask": _dropout_mask}),
    **_each(("embedding_backward", "embedding_dense_backward"), {
        "indices": below(lambda known: known.value("num_weights", 1))}),
    **_each(("_grouped_mm", "_scaled_grouped_mm"), {"offs": _group_ends}),
    **_each(("_embedding_bag", "embedding_bag", "_embedding_bag_forward_only"), {
        "indices": GROUPED, "offsets": _bag_starts}),
    **_each((
        "_embedding_bag_backward", "_embedding_bag_dense_backward", "_embedding_bag_sparse_backward",
        "_embedding_bag_per_sample_weights_backward"), {
        "indices": below(lambda known: known.value("num_weights", known.size("weight", 0))),
        "offsets": _bag_starts, "offset2bag": _bag_of_each,
        "bag_size": lambda known: Fill("even", known.count("indices"), known.count("bag_size"))}),
    **_each(("index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_", "index_reduce",
             "index_reduce_"), {"index": _once_each}),
    **_each(("nonzero", "nonzero_numpy", "argwhere", "to_sparse", "_to_sparse", "count_nonzero"), {
        "self": _true("self")}),
    "where": {"condition": _true("condition")},
    **_each(("masked_select", "masked_select_backward"), {"mask": _true("mask")}),
    "masked_scatter_backward": {"mask": _true("mask", "grad_output")},
    **_each((
        "sort", "argsort", "msort", "topk", "kthvalue", "median", "nanmedian", "mode", "unique_dim", "_unique",
        "_unique2", "unique_consecutive", "unique_dim_consecutive", "cummax", "cummin"), {"self": _distinct}),
    **_each((
        "cholesky", "linalg_cholesky", "linalg_cholesky_ex", "linalg_ldl_factor", "linalg_ldl_factor_ex",
        "linalg_eigh", "_linalg_eigh"), dict.fromkeys(("self", "A"), DEFINITE)),
    # a full matrix, in which rows are exchanged
    **_each((
        "linalg_lu_factor", "linalg_lu_factor_ex", "linalg_lu", "_lu_with_info", "linalg_solve", "linalg_solve_ex",
        "_linalg_solve_ex", "linalg_inv", "linalg_inv_ex", "inverse", "linalg_det", "_linalg_det", "det",
        "linalg_slogdet", "_linalg_slogdet", "slogdet", "logdet", "linalg_pinv"),
        dict.fromkeys(("self", "A"), ACTIVATION)),
    **_each((
        "linalg_solve_triangular", "triangular_solve", "linalg_lu_solve", "lu_solve", "cholesky_solve", "lu_unpack",
        "cholesky_inverse", "_cholesky_solve_helper"), {
        **dict.fromkeys(("A", "LU", "LU_data", "input2"), TRIANGULAR), "self": _triangle}),
    "matrix_power": {"self": DIAGONAL},
    "bernoulli": {"self": POSITIVE, "p": POSITIVE},
    "bernoulli_": {"p": POSITIVE},
    **_each(("quantile", "nanquantile"), {"q": POSITIVE}),
    **_each(("randint_like",), {"low": Fill("constant", 0), "high": Fill("constant", 10)}),
    "normal": {"std": POSITIVE},
    "binomial": {"prob": POSITIVE, "count": Fill("constant", 10)},
    **_each(("segment_reduce", "_segment_reduce_backward"), {
        "lengths": _lengths, "offsets": lambda known: Fill("cumulative", 0, known.size("data", 0))}),
    "_padded_dense_to_jagged_forward": {"offsets": lambda known: Fill(
        "cumulative", 0, known.value("total_L", known.size("dense", 0) * known.size("dense", 1)))},
    "_jagged_to_padded_dense_forward": {"offsets": lambda known: Fill("cumulative", 0, known.size("values", 0))},
    "_linalg_check_errors": {"info": Fill("constant", 0)},
    "_test_check_tensor": {"self": TRUE},
    **_each(("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"), {"indices": _windows}),
    **_each(("adaptive_max_pool2d_backward", "max_unpool2d"), {
        "indices": below(lambda known: known.size("self", -1) * known.size("self", -2))}),
    **_each(("ctc_loss", "_ctc_loss"), {
        "targets": lambda known: Fill("integers", 1, max(known.size("log_probs", -1), 2)),
        "input_lengths": lambda known: Fill("constant", known.size("log_probs", 0)),
        "target_lengths": _target_lengths}),
    **_each(("take", "put_"), {"index": below(lambda known: known.count("self"))}),
    **_each(("_assert_async", "is_nonzero"), {"self": TRUE}),
    **_each(("grid_sampler", "grid_sampler_2d"), {"grid": Fill("uniform", -1.0, 1.0)}),
    **_each(("_foreach_addcdiv_", "_foreach_addcdiv", "addcdiv", "addcdiv_"), {"tensor2": NEAR_ONE}),
    "embedding": {"indices": GROUPED, "weight": WEIGHT},
    "embedding_renorm_": {"indices": below(lambda known: known.size("self", 0))},
    "one_hot": {"self": _classes_of_one_hot},
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
    **dict.fromkeys(("pivots", "LU_pivots"), lambda known: Fill(
        "integers", 1, known.size("pivots" if "pivots" in known.named else "LU_pivots", -1) + 1)),
    **dict.fromkeys(("batch_sizes", "repeats"), SAFE_INTEGER),
}  # fmt: skip
