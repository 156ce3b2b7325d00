"""Readers of kernels of inference engines and small libraries: vLLM, CK tile, llama.cpp, CuPy, own code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.aten import read_types
from kerneldb.names.dtypes import INDEX_TYPES, argument_types, element_type, inner_types, main_type, typed
from kerneldb.names.model import directed

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
    ("Fmha", "ATTENTION", "attention"),
    ("UnifiedAttention", "ATTENTION", "attention"),
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

# What a block computes: `TileGemmShape<sequence<M, N, K>, ...>`.
_OPTIMIZER = re.compile(r"(Adam|SGD|LAMB|NovoGrad|Adagrad|LARS)(?:Stage\d)?\w*Functor")
_CK_TILE = re.compile(r"TileGemmShape<sequence<(\d+),(\d+),(\d+)>")


def read_ck_tile(name: Structure) -> Facts:
    """Read ``ck_tile::kentry<1, Rmsnorm2dFwd<...Problem<T, ...>>, ...>``: what runs is argument 2 (or mangled)."""
    text = name.canonical
    facts = typed(inner_types(text, without=("int32", "int64", "bool")))
    kind = next((kind for kind in _CK_KINDS if kind[0] in text[:400]), None)
    if kind is not None:
        word, facts["category"], facts["operation"] = kind
        facts["family"] = f"ck_tile_{word.lower()}"
    if "Fwd" in text:
        facts["direction"] = "forward"
    tile = _CK_TILE.search(text)
    if tile is not None:
        facts["tile_m"], facts["tile_n"], facts["tile_k"] = (int(size) for size in tile.groups())
    return facts


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
    category = _CUPY_CATEGORIES.get(operation, "ELEMENTWISE")
    return {"category": category, "operation": operation, **typed(map(element_type, listed.split("_")))}


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


def read_inner(name: Structure) -> Facts:
    """Read the element types among the template arguments, at any depth where none is one itself; no indices, masks."""
    own = [dtype for dtype in argument_types(name.args) if dtype not in INDEX_TYPES]
    return typed(own or inner_types(name.canonical))


def read_te_norm(name: Structure) -> Facts:
    """Read ``normalization::ln_fwd_tuned_kernel<Kernel_traits<weights, input, output, compute, ...>>``."""
    operation = "rms_norm" if "rms" in name.base else "layer_norm"
    return {**directed(operation, backward="bwd" in name.base), **read_inner(name)}


def read_optimizer(name: Structure) -> Facts:
    """Read ``multi_tensor_apply_kernel<..., AdamFunctor<float, float, int>>`` of Apex and TransformerEngine."""
    found = _OPTIMIZER.search(name.canonical)
    return {"operation": found[1].lower() if found else None, **read_inner(name)}
