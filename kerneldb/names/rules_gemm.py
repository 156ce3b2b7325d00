"""Matrix products on NVIDIA and AMD: cuBLAS, cuBLASLt, CUTLASS, Tensile, CK, DeepGEMM, quantised products, GEMV."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import argument_types, distinct, main_type, packed_types
from kerneldb.names.grammar_gemm import (
    read_cutlass,
    read_gemv,
    read_gemvx,
    read_nvjet,
    read_splitk,
    read_trtllm_gemm,
    read_words,
    read_xmma,
)
from kerneldb.names.grammar_tensile import read_tensile
from kerneldb.names.rules import rule

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_OGS = re.compile(r"_matmul_ogs_(?:([NT]{2,3})_)?(\w+?)_(\d+)x(\d+)x(\d+)(?:x(\d+))?(?:_(\w+))?$")
# The first members of llama.cpp's enum ggml_type (ggml.h): how the weights of its quantised products are stored.
_GGML_TYPES = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1", 10: "q2_K", 11: "q3_K",
    12: "q4_K", 13: "q5_K", 14: "q6_K", 15: "q8_K", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s",
    20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m", 30: "bf16", 39: "mxfp4",
}  # fmt: skip
_CK = re.compile(r"tuple|TensorLayout|RowMajor|ColumnMajor")


def read_kernel(name: Structure) -> Facts:
    """Read a template called just ``kernel``: cuBLAS' gemvx, known by the type of its parameters."""
    if "cublasGemvParams" in name.canonical:
        return read_gemvx(name)
    return {"category": "OTHER", "family": None, "library": None, "operation": None}


def read_matmul_ogs(name: Structure) -> Facts:
    """Read triton_kernels' ``_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu``: out x A x B, tile x split of K."""
    match = _OGS.match(name.base)
    if match is None:
        return {}
    layout, types, tile_m, tile_n, tile_k, split, epilogue = match.groups()
    named = packed_types(types)
    facts: Facts = {
        "dtypes": named,
        "dtype": named[0] if named else None,
        "tile_m": int(tile_m),
        "tile_n": int(tile_n),
        "tile_k": int(tile_k),
    }
    if layout:
        facts["layout"] = layout[:2].lower()
    if split:
        facts["split_k"] = int(split) > 1
    if epilogue:
        facts["epilogue"] = epilogue
    return facts


def read_ggml_product(name: Structure) -> Facts:
    """Read llama.cpp's ``mul_mat_q<(ggml_type)12, 128, false>``: how the weights are stored."""
    first = name.args[0] if name.args else ""
    stored = _GGML_TYPES.get(int(first)) if first.isdecimal() else None
    suffix = re.search(r"_(q\d_[K0-9]|iq\w+)$", name.base)
    if suffix is not None:
        stored = suffix[1]
    facts: Facts = {"dtype": stored, "dtypes": distinct([stored])}
    if name.base == "mul_mat_q" and len(name.args) > 1 and name.args[1].isdecimal():
        facts["tile_n"] = int(name.args[1])
    return facts


def read_template_product(name: Structure) -> Facts:
    """Read a product spelled out as a template: its element types."""
    words = re.findall(r"(?<=[<,])\w+(?=[,>])", _CK.sub("", name.canonical))
    types = tuple(dtype for dtype in argument_types(words) if dtype not in {"int32", "int64", "uint32", "bool"})
    types = types or packed_types(name.base)
    return {"dtypes": types, "dtype": main_type(types)}


_BLAS, _LT = "cuBLAS", "cuBLASLt"
RULES = (
    rule(r"^nvjet_", "GEMM", _LT, "nvjet", "gemm", read_nvjet),
    rule(r"^sm\d+_xmma_(?:sparse_)?gemm", "GEMM", _BLAS, "xmma_gemm", "gemm", read_xmma),
    rule(
        r"^(?:maxwell|pascal|volta|turing|ampere|hopper|blackwell)_\w*gemm",
        "GEMM",
        _BLAS,
        "arch_gemm",
        "gemm",
        read_words,
    ),
    rule(
        r"^cutlass\w*_(?:tensorop|simt)\w*(?:fprop|dgrad|wgrad)",
        "CONVOLUTION",
        "cuDNN",
        "cutlass_conv",
        None,
        read_cutlass,
    ),
    rule(r"^cutlass3x_|^cutlass_\d+_|^cutlass_(?:tensorop|simt)", "GEMM", "CUTLASS", "cutlass", "gemm", read_cutlass),
    rule(r"internal::gemvx::kernel$", "GEMV", _BLAS, "gemvx", "gemv", read_gemvx),
    rule(r"^kernel$", "GEMV", _BLAS, "gemvx", "gemv", read_kernel),
    rule(r"gemv2[TN]", "GEMV", _BLAS, "gemv2T", "gemv", read_gemv),
    rule(r"gemvNSP", "GEMV", _BLAS, "gemvNSP", "gemv", read_gemv),
    rule(r"gemmSN", "GEMV", _BLAS, "gemmSN", "gemv", read_gemv),
    rule(r"gemmk1", "GEMV", _BLAS, "gemmk1", "gemv", read_gemv),
    rule(r"\bdot_kernel|reduce_1Block_kernel", "GEMV", _BLAS, "dot_kernel", "dot", read_gemv),
    rule(r"split[Kk]_?[Rr]educe|SplitKReduce", "GEMM", _LT, "splitK_reduce", "splitK_reduce", read_splitk),
    rule(
        r"epilogue::impl::globalKernel|^globalKernel$", "GEMM", _LT, "gemm_epilogue", "epilogue", read_template_product
    ),
    rule(r"cublasLt::|^scal_kernel|cublas.*scal_kernel", "GEMM", _LT, "gemm_epilogue", "scale", read_template_product),
    rule(
        r"^cublas|^gemv|\bger_kernel|trsm|syrk|herk|symm_kernel|trmm",
        "GEMM",
        _BLAS,
        "blas",
        "gemm",
        read_template_product,
    ),
    rule(r"magma", "GEMM", "MAGMA", "magma_gemm", "gemm", read_template_product),
    rule(r"^Cijk_|^C[ijkl]{3,4}_A", "GEMM", "rocBLAS/Tensile", "tensile", "gemm", read_tensile),
    rule(r"rocblas_gemv|rocblas.*gemv", "GEMV", "rocBLAS/Tensile", "rocblas_gemv", "gemv", read_template_product),
    rule(r"rocblas.*dot|rocblas_reduction", "GEMV", "rocBLAS/Tensile", "rocblas_dot", "dot", read_template_product),
    rule(r"^rocblas", "GEMM", "rocBLAS/Tensile", "rocblas", "gemm", read_template_product),
    rule(r"hipblaslt|^hipblas", "GEMM", "hipBLASLt", "hipblaslt", "gemm", read_template_product),
    rule(
        r"deep_gemm::|^fp8_gemm_kernel|^sm(?:90|100)_(?:fp8|bf16)_\w*gemm",
        "GEMM",
        "DeepGEMM",
        "deep_gemm",
        "gemm",
        read_template_product,
    ),
    rule(
        r"^(?:bmm|gemm)_(?:Bfloat16|Mx?E\w+|E\dm\d|Fp16)",
        "GEMM",
        "TensorRT-LLM",
        "trtllm_gemm",
        "gemm",
        read_trtllm_gemm,
    ),
    rule(r"^_p?_?matmul_ogs", "GEMM", "Triton", "matmul_ogs", "gemm", read_matmul_ogs),
    rule(r"^_finalize_matmul", "GEMM", "Triton", "gemm_epilogue", "scatter", read_template_product),
    rule(
        r"fused_moe_kernel|marlin|Marlin|awq_gemm|gptq|exllama|machete|qserve|_w8a8|scaled_mm|wvSpl(?:i)?tK|LLGemm1|LLMM1",
        "GEMM",
        "vLLM",
        "quantised_gemm",
        "gemm",
        read_template_product,
    ),
    rule(r"mul_mat_vec|dequantize_mul_mat", "GEMV", "llama.cpp/ggml", "mul_mat_vec", "gemv", read_ggml_product),
    rule(r"^mul_mat", "GEMM", "llama.cpp/ggml", "mul_mat", "gemm", read_ggml_product),
    rule(
        r"^cutlass::reference|cutlass\w*::(?:Kernel2?|device_kernel)|^Kernel2?$|^device_kernel$|cutlass::gemm::device",
        "GEMM",
        "CUTLASS",
        "cutlass",
        "gemm",
        read_cutlass,
    ),
    rule(r"aiter::.*gemm|^(?:f4|bf16|fp8|i8)gemm_", "GEMM", "AITER", "aiter_gemm", "gemm", read_template_product),
    rule(r"^(?:aiter::)?fmoe_", "GEMM", "AITER", "aiter_fused_moe", "gemm", read_template_product),
    rule(
        r"ck_tile::.*[Gg]emm|^ck::.*(?:gemm|contraction)|kernel_(?:batched_|grouped_)?gemm|GridwiseGemm",
        "GEMM",
        "CK",
        "ck_gemm",
        "gemm",
        read_template_product,
    ),
    rule(r"fbgemm_gpu::.*gemm|fbgemm.*(?:gemm|matmul)", "GEMM", "FBGEMM", "fbgemm_gemm", "gemm", read_template_product),
    rule(r"_int_mm|weight_int4pack_mm|tinygemm", "GEMM", "PyTorch ATen", "int_mm", "gemm", read_template_product),
)
