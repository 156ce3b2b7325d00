# ruff: noqa: E501 - names are kept whole
"""Names beyond the documents, each for one branch of a grammar."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldb.names import CATEGORIES, decode
from kerneldb.names.decoding import RULES, _reader

NAMES: list[tuple[str, dict[str, Any]]] = [
    ("MEMORY_COPY_HOST_TO_DEVICE", {"category": "MEMCPY", "library": "ROCm", "family": "memcpy", "operation": "HtoD"}),
    ("__amd_rocclr_copyBuffer.kd", {"category": "MEMCPY", "library": "ROCm", "family": "memcpy", "operation": None}),
    (
        "__amd_rocclr_copyBufferRectAligned",
        {"category": "MEMCPY", "library": "ROCm", "family": "memcpy", "operation": None},
    ),
    ("__amd_rocclr_fillBufferAligned", {"category": "MEMSET", "library": "ROCm"}),
    (
        "[CUDA memcpy Host-to-Device]",
        {"category": "MEMCPY", "library": "CUDA", "family": "memcpy", "operation": "HtoD"},
    ),
    ("[CUDA memcpy PtoP]", {"category": "MEMCPY", "library": "CUDA", "family": "memcpy", "operation": "PtoP"}),
    (
        "[CUDA memcpy Unified Host-to-Device]",
        {"category": "MEMCPY", "library": "CUDA", "family": "memcpy", "operation": "HtoD", "unified": True},
    ),
    ("[CUDA memset]", {"category": "MEMSET", "library": "CUDA"}),
    ("CopyDeviceToHost", {"category": "MEMCPY", "library": "ROCm", "family": "memcpy", "operation": "DtoH"}),
    ("[HIP memcpy HtoD]", {"category": "MEMCPY", "library": "ROCm", "family": "memcpy", "operation": "HtoD"}),
    ("FillBuffer", {"category": "MEMSET", "library": "ROCm", "family": "memset"}),
    (
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn",
        {
            "category": "GEMM",
            "library": "cuBLAS",
            "family": "arch_gemm",
            "operation": "gemm",
            "dtype": "fp16",
            "arch": "sm_70",
            "tile_m": 128,
            "layout": "tn",
        },
    ),
    ("ampere_dgemm_64x64_nt", {"category": "GEMM", "dtype": "fp64", "layout": "nt"}),
    ("cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4", {"category": "GEMM", "dtype": "tf32", "pipeline_stages": 6}),
    (
        "Cijk_Ailk_Bjlk_SB_MT128x64x16_MI32x32x2x1_GSU4_ISA90a",
        {"split_k": True, "dtype": "fp32", "layout": "nt", "arch": "gfx90a"},
    ),
    ("Cijk_Alik_Bljk_B_BS_BH_Bias_UserArgs_MT128x224x64", {"dtypes": ("bf16", "fp32"), "library": "hipBLASLt"}),
    ("Cijk_II8_BiasS_HAS_ScaleAlphaVec_PostGSU8_VW4.kd", {"family": "splitK_reduce", "GSU": 8, "vector_width": 4}),
    ("Cijk_S_GA", {"category": "GEMM", "family": "gemm_epilogue"}),
    (
        "triton_poi_fused_constant_pad_nd_moe_forward_0",
        {
            "category": "FUSED",
            "library": "Triton",
            "family": "inductor_pointwise",
            "operation": "constant_pad_nd+moe_forward",
        },
    ),
    (
        "triton_tem_fused_mm_3",
        {"category": "FUSED", "library": "Triton", "family": "inductor_template", "operation": "mm"},
    ),
    ("triton_per_fused_native_layer_norm_native_layer_norm_backward_2", {"category": "FUSED", "direction": "backward"}),
    (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, double>(int)",
        {"category": "OPTIMIZER", "operation": "adamw", "dtype": "fp32"},
    ),
    (
        "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2, false, false, cutlass::half_t, Flash_kernel_traits<128, 64, 128, 8, cutlass::half_t> >, false>(flash::Flash_bwd_params)",
        {
            "category": "ATTENTION",
            "library": "FlashAttention",
            "family": "flash_bwd",
            "operation": "attention_backward",
            "direction": "backward",
            "head_dim": 128,
            "dtype": "fp16",
        },
    ),
    (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<128>, cute::C<176>, cute::C<128> >, 128, cutlass::bfloat16_t>>>>(int)",
        {
            "category": "ATTENTION",
            "library": "FlashAttention",
            "family": "flash_attention_3",
            "operation": "attention",
            "tile_m": 128,
            "tile_n": 176,
            "cluster": "1x1x1",
            "dtype": "bf16",
        },
    ),
    (
        "void mul_mat_q<(ggml_type)13, 64, false>(char const*)",
        {"category": "GEMM", "dtype": "q5_K", "library": "llama.cpp/ggml"},
    ),
    ("void k_bin_bcast<&(op_mul(float, float)), float>(float const*)", {"category": "ELEMENTWISE", "operation": "mul"}),
    (
        "saxpy_kernel(float, float const*, float*, int)",
        {"category": "ELEMENTWISE", "library": "user", "operation": "axpy"},
    ),
]


@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_name_decodes(name: str, expected: dict[str, Any]) -> None:
    found = decode(name)
    fields = {key: getattr(found, key) if hasattr(found, key) else found.details.get(key) for key in expected}
    assert fields == expected


def test_kind_decides_about_copies_and_fills() -> None:
    assert decode("Memcpy DtoD (Device -> Device)", "memcpy").operation == "DtoD"
    assert decode("whatever", "memcpy").category == "MEMCPY"
    assert decode("Memset (Device)", "memset").category == "MEMSET"
    assert decode("__amd_rocclr_copyBuffer", "memset").category == "MEMSET"


def test_every_rule_names_a_known_category_a_library_and_a_family() -> None:
    assert len(RULES) > 200
    for rule in RULES:
        assert rule.facts["category"] in CATEGORIES, rule.pattern
        assert rule.facts["library"], rule.pattern
        assert rule.facts["family"], rule.pattern


def test_readers_of_all_lines_are_there() -> None:
    names = {rule.reader for rule in RULES if rule.reader is not None}
    assert len(names) > 50
    assert all(callable(_reader(name)) for name in names)
