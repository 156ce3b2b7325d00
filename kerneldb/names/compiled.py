"""Readers of kernels made by compilers (TorchInductor, nvFuser, Thunder) and of hand-written Triton."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import packed_types, typed

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_INDUCTOR = re.compile(
    r"triton_(poi|red|per|tem|for|unk|spl|mm|bmm|mix|tmem)(?:_fused)?(?:_(?!\d+$)(.*?))?(?:_(\d+))?$"
)
_KINDS = {
    "poi": "inductor_pointwise",
    "red": "inductor_reduction",
    "per": "inductor_persistent_reduction",
    "tem": "inductor_template",
    "mm": "inductor_template",
    "bmm": "inductor_template",
    "for": "inductor_foreach",
    "spl": "inductor_split_scan",
}
# Operations whose own name has an underscore inside: Inductor joins the listed names with the same character
# (torch/_inductor/codegen: get_fused_kernel_name), so only this list says where one ends.
_LONG_NAMES = """
_to_copy _unsafe_view _softmax _log_softmax _scaled_mm _unsafe_index _unsafe_index_put _native_batch_norm_legit
_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _softmax_backward_data
_log_softmax_backward_data _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
_scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable
_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward _fused_rms_norm
_fused_rms_norm_backward _prelu_kernel _adaptive_avg_pool2d _assert_async _local_scalar_dense _cdist_forward
_foreach_add _foreach_mul _foreach_div _foreach_sqrt _foreach_addcmul _foreach_addcdiv _foreach_lerp _foreach_copy
_fused_adam _fused_adamw _safe_softmax _int_mm _grouped_mm _weight_int8pack_mm _conj _neg_view _unsafe_masked_index
_unsafe_masked_index_put_accumulate
adaptive_avg_pool2d adaptive_max_pool2d all_gather_into_tensor all_reduce all_to_all as_strided as_strided_scatter
avg_pool1d avg_pool2d avg_pool3d avg_pool2d_backward batch_norm binary_cross_entropy_with_logits bitwise_and
bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor clamp_max clamp_min constant_pad_nd
convert_element_type convolution_backward copy_ cross_entropy cross_entropy_loss diagonal_scatter div_ dropout_backward
elu_backward embedding_backward embedding_dense_backward empty_like empty_strided fill_ flex_attention
flex_attention_backward floor_divide full_like gelu_backward glu_backward grid_sampler_2d group_norm
hardsigmoid_backward
hardswish_backward hardtanh_backward index_add index_copy index_fill index_put index_put_ index_select
inductor_force_stride_order inductor_lookup_seed inductor_random inductor_randint inductor_seeds instance_norm
isin_tensor layer_norm leaky_relu leaky_relu_backward lift_fresh lift_fresh_copy linalg_vector_norm log_sigmoid
log_sigmoid_backward log_sigmoid_forward log_softmax logical_and logical_not logical_or logical_xor logit_backward
masked_fill masked_scatter masked_select max_pool1d max_pool2d max_pool2d_with_indices
max_pool2d_with_indices_backward max_pool3d moe_forward moe_forward_shared mse_loss mse_loss_backward mul_ add_ sub_
native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
native_group_norm_backward native_layer_norm native_layer_norm_backward new_empty new_empty_strided new_full new_ones
new_zeros nll_loss nll_loss_backward nll_loss_forward nll_loss2d_forward nll_loss2d_backward ones_like pixel_shuffle
pixel_unshuffle rand_like randint_like randn_like reduce_scatter_tensor reflection_pad1d reflection_pad2d
repeat_interleave replication_pad2d rms_norm scalar_tensor scaled_dot_product_attention scatter_add scatter_reduce
select_backward select_scatter sigmoid_backward silu_and_mul silu_backward slice_backward slice_scatter
smooth_l1_loss soft_margin_loss softplus_backward split_with_sizes squeeze_ sym_size sym_stride tanh_backward
tensor_split threshold_backward true_divide unified_attention unified_attention_with_output unsqueeze_
upsample_bicubic2d
upsample_bilinear2d upsample_nearest1d upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d var_mean
view_as_complex view_as_real view_copy wait_tensor zeros_like zero_ rotary_embedding per_token_group_quant fp8_quantize
static_scaled_fp8_quant dynamic_scaled_fp8_quant fused_add_rms_norm all_gather reduce_scatter
"""


def _words(text: str) -> list[str]:
    """Cut at underscores; a leading one stays with the word that follows (``_to_copy``: ``_to``, ``copy``)."""
    words, hidden = [], False
    for word in text.split("_"):
        if not word:
            hidden = True
            continue
        words.append(f"_{word}" if hidden else word)
        hidden = False
    if hidden and words:
        words[-1] += "_"
    return words


_KNOWN = {tuple(_words(name)) for name in _LONG_NAMES.split()}
_LONGEST = max(map(len, _KNOWN))


def fused_operations(text: str) -> list[str]:
    """Split the operations listed in an Inductor name: ``_unsafe_view_add_mean_pow`` has four.

    The longest known name wins at each place; what is unknown is taken word by word.
    """
    words = _words(text)
    operations, index = [], 0
    while index < len(words):
        length = next((n for n in range(_LONGEST, 1, -1) if tuple(words[index : index + n]) in _KNOWN), 1)
        operations.append("_".join(words[index : index + length]))
        index += length
    return operations


def read_inductor(name: Structure) -> Facts:
    """Read ``triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1``: kind and fused operations."""
    match = _INDUCTOR.match(name.base)
    if match is None:
        return {}
    kind, listed, number = match.groups()
    operations = fused_operations(listed) if listed else []
    facts: Facts = {"family": _KINDS.get(kind, "inductor"), "operation": "+".join(operations) or None}
    facts["details"] = {"ops": ",".join(operations)}
    if number:
        facts["details"]["number"] = int(number)
    if any(operation.endswith("_backward") for operation in operations):
        facts["direction"] = "backward"
    return facts


def read_fused(name: Structure) -> Facts:
    """Read ``fused__autocast_to__12152488584593855096``: operations between underscores, a hash behind."""
    listed = re.sub(r"^(?:fused|nvfuser|CudaCodeGen)_|_?_?\d{6,}$", "", name.base).strip("_")
    return {"operation": listed or None, "details": {"ops": listed} if listed else {}}


def read_bias(name: Structure) -> Facts:
    """Read ``fused_bias_gelu...``: the bias and what is applied behind it."""
    rest = name.base.removeprefix("fused_bias").strip("_.").removesuffix("_kernel")
    return {"operation": f"bias+{rest}" if rest else "bias", "epilogue": f"bias+{rest}" if rest else "bias"}


def read_word_types(name: Structure) -> Facts:
    """Read the element types among the words of a name, as in Triton's ``_finalize_matmul_scatter_bf16``."""
    return typed(packed_types(name.base))
