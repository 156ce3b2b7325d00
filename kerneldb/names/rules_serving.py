"""Kernels of inference engines and small libraries: vLLM, SGLang, AITER, CK tile, llama.cpp, FBGEMM, CuPy, own code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import argument_types, element_type, main_type
from kerneldb.names.grammar_aten import read_norm, read_scan, read_types
from kerneldb.names.rules import rule

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_GGML_OP = re.compile(r"op_(\w+)")
_CUPY_OPERATIONS = {
    "true_divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "power": "pow",
    "absolute": "abs",
}
_CUPY_CATEGORIES = {"copy": "COPY", "sum": "REDUCTION", "max": "REDUCTION", "min": "REDUCTION", "mean": "REDUCTION"}
_OWN = (
    ("addition", "add"),
    ("subtract", "sub"),
    ("multiply", "mul"),
    ("divide", "div"),
    ("vector_?add", "add"),
    ("vec_?add", "add"),
    ("saxpy|axpy", "axpy"),
    ("scale", "mul"),
)
_CK_KINDS = (
    ("Rmsnorm", "NORMALIZATION", "rms_norm"),
    ("Layernorm", "NORMALIZATION", "layer_norm"),
    ("AddRmsnorm", "NORMALIZATION", "rms_norm"),
    ("Fmha", "ATTENTION", "attention"),
    ("FusedMoe", "GEMM", "gemm"),
    ("MoeSorting", "SCAN_SORT", "sort"),
    ("Topk", "SCAN_SORT", "topk"),
    ("Softmax", "SOFTMAX", "softmax"),
    ("Gemm", "GEMM", "gemm"),
    ("Conv", "CONVOLUTION", "convolution"),
    ("Reduce", "REDUCTION", "sum"),
    ("Elementwise", "ELEMENTWISE", None),
    ("Permute", "COPY", "transpose"),
    ("Transpose", "COPY", "transpose"),
    ("Smoothquant", "ELEMENTWISE", "quantize"),
)


def read_ck_tile(name: Structure) -> Facts:
    """Read ``ck_tile::kentry<1, Rmsnorm2dFwd<...Problem<T, ...>>, ...>``: what runs is argument 2 (or mangled)."""
    text = name.canonical
    for word, category, operation in _CK_KINDS:
        if word in text[:400]:
            facts: Facts = {"category": category, "operation": operation, "family": f"ck_tile_{word.lower()}"}
            break
    else:
        facts = {}
    types = argument_types(re.findall(r"(?<=[<,])\w+(?=[,>])", text))
    types = tuple(dtype for dtype in types if dtype not in {"int32", "int64", "bool"})
    facts["dtypes"], facts["dtype"] = types, types[0] if types else None
    if "Fwd" in text:
        facts["direction"] = "forward"
    tile = _CK_TILE.search(text)
    if tile is not None:
        facts["tile_m"], facts["tile_n"], facts["tile_k"] = (int(size) for size in tile.groups())
    return facts


# What a block computes: `TileGemmShape<sequence<M, N, K>, ...>`.
_CK_TILE = re.compile(r"TileGemmShape<sequence<(\d+),(\d+),(\d+)>")


def read_ggml(name: Structure) -> Facts:
    """Read llama.cpp's ``k_bin_bcast<&op_add, float, ...>`` and ``unary_gated_op_kernel<&op_silu, float>``."""
    types = argument_types(name.args)
    facts: Facts = {"dtypes": types, "dtype": main_type(types)}
    operation = next((match[1] for arg in name.args if (match := _GGML_OP.match(arg))), None)
    if operation is not None:
        facts["operation"] = f"{operation}_and_mul" if "gated" in name.base else operation
    if not types and name.base.endswith("_f32"):
        facts["dtype"], facts["dtypes"] = "fp32", ("fp32",)
    return facts


def read_cupy(name: Structure) -> Facts:
    """Read ``cupy_multiply__float64_float64_float64``: ufunc, element types of inputs and output."""
    ufunc, _, listed = name.base.removeprefix("cupy_").partition("__")
    operation = _CUPY_OPERATIONS.get(ufunc, ufunc)
    types = tuple(dict.fromkeys(dtype for word in listed.split("_") if (dtype := element_type(word))))
    facts: Facts = {"operation": operation, "dtypes": types, "dtype": types[0] if types else None}
    facts["category"] = _CUPY_CATEGORIES.get(operation, "ELEMENTWISE")
    return facts


def read_own(name: Structure) -> Facts:
    """Read a hand-written kernel whose name says what it does (``saxpy_kernel``, ``addition_kernel<float>``)."""
    operation = next((op for pattern, op in _OWN if re.search(pattern, name.base)), None)
    inner = name.canonical.partition("(")[2].rstrip(")")
    types = argument_types(name.args) or argument_types(part for part in inner.split(",") if "*" in part)
    facts: Facts = {"dtypes": types, "dtype": main_type(types)}
    if operation is not None:
        facts["operation"] = operation
    return facts


def read_own_product(name: Structure) -> Facts:
    """Read a hand-written product: ``gemm_tiled_kernel<32>``; a single number is the square tile."""
    facts = read_own(name)
    facts["operation"] = "gemm"
    if len(name.args) == 1 and name.args[0].isdecimal():
        facts["tile_m"] = facts["tile_n"] = int(name.args[0])
    return facts


def read_activation(name: Structure) -> Facts:
    """Read ``act_and_mul_kernel<T, silu_kernel>`` and relatives."""
    facts = read_types(name)
    found = re.search(r"silu|gelu|swiglu|relu", name.canonical)
    facts["operation"] = (found[0] if found else "act") + "_and_mul"
    return facts


_GGML = "llama.cpp/ggml"
# What multiplies or convolves has rules of its own.
_CK_REST = r"^ck::(?!.*(?:gemm|conv|contraction))\w*"
EARLY = (
    rule(r"rocprim::|^onesweep_", "SCAN_SORT", "rocPRIM", "rocprim", None, read_scan),
    rule(r"ck_tile::kentry|^_ZN7ck_tile", "OTHER", "CK", "ck_tile", None, read_ck_tile),
    rule(_CK_REST + "norm", "NORMALIZATION", "CK", "ck_norm", None, read_types),
    rule(_CK_REST + "softmax", "SOFTMAX", "CK", "ck_softmax", "softmax", read_types),
    rule(_CK_REST + "(?:reduce|pool)", "REDUCTION", "CK", "ck_reduce", None, read_types),
    rule(_CK_REST + "(?:elementwise|permute|transpose)", "ELEMENTWISE", "CK", "ck_elementwise", None, read_types),
    rule(r"^cupy_", "ELEMENTWISE", "CuPy", "cupy_ufunc", None, read_cupy),
    rule(
        r"split_embedding|bounds_check_indices|linearize_(?:cache_)?index|fbgemm_gpu|embedding_codegen|lxu_cache",
        "INDEXING",
        "FBGEMM",
        "embedding_bag",
        "embedding",
        read_types,
    ),
    rule(
        r"reshape_and_cache|concat_and_cache|copy_blocks|gather_cached|swap_blocks|store_kvcache",
        "INDEXING",
        "vLLM",
        "kv_cache",
        "kv_cache_write",
        read_types,
    ),
    rule(r"rotary_embedding|fused_rope|rope_kernel", "ELEMENTWISE", "vLLM", "rope", "rope", read_types),
    rule(r"act_and_mul|silu_and_mul|gelu_and_mul|swiglu_", "ELEMENTWISE", "vLLM", "act_and_mul", None, read_activation),
    rule(r"^(?:vllm|sgl|sglang)::.*rms_norm|fused_add_rms_norm", "NORMALIZATION", "vLLM", "rms_norm", None, read_norm),
    rule(r"aiter::.*(?:rmsnorm|rms_norm|layernorm)", "NORMALIZATION", "AITER", "aiter_norm", None, read_norm),
    rule(r"flashinfer::.*[Nn]orm", "NORMALIZATION", "FlashInfer", "flashinfer_norm", None, read_norm),
    rule(
        r"flashinfer::.*(?:[Ss]ampling|TopK|TopP|Renorm)", "SCAN_SORT", "FlashInfer", "sampling", "sampling", read_types
    ),
    rule(
        r"moe_align|topk_?[Gg]ating|moe_sum|routing(?:Indices|Main|Custom|Renormalize|DeepSeek)|expandInput|finalizeMoe|doActivation|sort_?[Tt]okens|moe_permute",
        "INDEXING",
        "vLLM",
        "moe_routing",
        "moe_routing",
        read_types,
    ),
    rule(
        r"scaled_fp8_quant|scaled_fp4|per_token_group_quant|scaled_int8_quant|quantize_with_block|cvt_fp16_to_fp4",
        "ELEMENTWISE",
        "vLLM",
        "quantize",
        "quantize",
        read_types,
    ),
    rule(r"^quantize_(?:mmq_)?q8_1", "ELEMENTWISE", _GGML, "quantize", "quantize", read_ggml),
    rule(r"^k_bin_bcast", "ELEMENTWISE", _GGML, "bin_bcast", None, read_ggml),
    rule(r"^unary_(?:gated_)?op_kernel", "ELEMENTWISE", _GGML, "unary", None, read_ggml),
    rule(r"^k_get_rows", "INDEXING", _GGML, "get_rows", "index_select", read_ggml),
    rule(r"^k_set_rows", "INDEXING", _GGML, "set_rows", "index_copy", read_ggml),
    rule(r"^k_(?:compute|repeat|sum)", "ELEMENTWISE", _GGML, "ggml", None, read_ggml),
    rule(r"^(?:rms|l2|group)_norm_f32|^norm_f32", "NORMALIZATION", _GGML, "norm", None, read_norm),
    rule(r"^rope_(?:multi|norm|neox|vision)", "ELEMENTWISE", _GGML, "rope", "rope", read_ggml),
    rule(r"^soft_max_f32", "SOFTMAX", _GGML, "soft_max", "softmax", read_ggml),
    rule(r"^concat_(?:cont|f32|non_cont|T)|^concat_f32", "CONCAT", _GGML, "concat", "cat", read_ggml),
    rule(r"^cpy_|^convert_unary|^dequantize_block", "COPY", _GGML, "cpy", "copy", read_ggml),
    rule(r"^scale_f32", "ELEMENTWISE", _GGML, "scale", "mul", read_ggml),
    rule(r"^argsort_f32|^k_argsort", "SCAN_SORT", _GGML, "argsort", "sort", read_ggml),
    rule(r"^(?:sum_rows|reduce_rows)_f32", "REDUCTION", _GGML, "sum_rows", "sum", read_ggml),
)
LATE = (
    rule(r"gemm|matmul|sgemm", "GEMM", "user", "user_gemm", "gemm", read_own_product),
    rule(r"^transpose|_transpose", "COPY", "user", "user_transpose", "transpose", read_own),
    rule(
        r"^(?:addition|subtract|multiply|divide|saxpy|vec(?:tor)?_?add|axpy)\w*",
        "ELEMENTWISE",
        "user",
        "user_elementwise",
        None,
        read_own,
    ),
)
