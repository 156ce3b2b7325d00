# ruff: noqa: E501 - names are kept whole; an expectation may hold any field
"""Every kernel name that the source documents and the table of name grammars print, with what it must decode to."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldb.names import decode

ATEN = "PyTorch ATen"
TENSILE_GFX1151 = (
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB1_AMAS3_BL1_BS1_EPS1_GLVWA8_GLVWB8_GRVW8_GSU1_GSUASB_ISA1151_IU1_K1_KLA_"
    "LBSPPA0_LBSPPB128_LPA0_LPB8_LRVW16_MIAV1_MMFGLC_NLCA1_NLCB1_PGR1_PLR0_SIA3_SS1_SU32_SUS256_SVW4_TT4_64_TLDS1_UMLDSA0_UMLDSB1_"
    "USFGROn1_VAW2_VSn1_VW4_VWB2_WSGRA1_WSGRB1_WS32_WG32_4_1_WGM8"
)
GEMVX = (
    "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, (bool)0, "
    "(bool)1, (bool)1, (bool)0, (int){}, (bool)0, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<const __nv_bfloat16>, "
    "cublasGemvTensorStridedBatched<const __nv_bfloat16>, cublasGemvTensorStridedBatched<__nv_bfloat16>, float>>(T13)"
)
NATIVE = "void at::native::"
LAMBDAS = "[lambda() (instance 3)]::operator ()() const::[lambda() (instance 7)]::operator ()() const::[lambda({}) (instance 1)]"
BF16_MUL = "at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>"
FLASH_TRAITS = (
    "Flash_fwd_kernel_traits<(int)128, (int)64, (int)128, (int)4, (bool)0, (bool)0, cutlass::bfloat16_t, Flash_kernel_traits<(int)128, "
    "(int)64, (int)128, (int)4, cutlass::bfloat16_t>>"
)
PYTORCH_FLASH = (
    "pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64,128,128,4,false,false,cutlass::bfloat16_t,"
    "Flash_kernel_traits<64,128,128,4,cutlass::bfloat16_t> >, false, true>"
)
AMPERE = "ampere_fp16_s16816gemm_fp16_64x64_"
GEMM_64 = {
    "category": "GEMM",
    "library": "cuBLAS",
    "family": "arch_gemm",
    "operation": "gemm",
    "dtype": "fp16",
    "arch": "sm_80",
}
TILE_64 = {"tile_m": 64, "tile_n": 64, "tile_k": 64, "layout": "tn", "dtypes": ("fp16", "fp32")}
ELEMENTWISE = {"category": "ELEMENTWISE", "library": ATEN}


def functor(operation: str, dtype: str | None = None) -> dict[str, Any]:
    return {**ELEMENTWISE, "operation": operation, "dtype": dtype}


def vectorized(operation: str, dtype: str | None, width: int = 4) -> dict[str, Any]:
    return {**functor(operation, dtype), "family": "vectorized_elementwise", "vector_width": width}


def is_copy(family: str, dtype: str | None) -> dict[str, Any]:
    return {"category": "COPY", "library": ATEN, "operation": "copy", "family": family, "dtype": dtype}


def reduction(operation: str | None, dtype: str | None = None) -> dict[str, Any]:
    return {"category": "REDUCTION", "library": ATEN, "family": "reduce", "operation": operation, "dtype": dtype}


def cat(element_bytes: int | None, **more: Any) -> dict[str, Any]:
    found = {"category": "CONCAT", "library": ATEN, "family": "cat", "operation": "cat", **more}
    return {**found, "element_bytes": element_bytes} if element_bytes else found


def fused(family: str, operation: str) -> dict[str, Any]:
    return {"category": "FUSED", "library": "Triton", "family": family, "operation": operation}


def scan(dtype: str | None) -> dict[str, Any]:
    return {"category": "SCAN_SORT", "library": "CUB", "family": "cub", "operation": "cumsum", "dtype": dtype}


def attention(library: str, family: str, operation: str = "attention", **more: Any) -> dict[str, Any]:
    return {"category": "ATTENTION", "library": library, "family": family, "operation": operation, **more}


def copy_event(operation: str | None, library: str = "CUDA") -> dict[str, Any]:
    return {"category": "MEMCPY", "library": library, "family": "memcpy", "operation": operation}


# The analysis of Vicuna-7B: symbols, and functors and templates as it abbreviates them.
VICUNA: list[tuple[str, dict[str, Any]]] = [
    (f"{AMPERE}ldg8_f2f_stages_64x5_tn", {**GEMM_64, **TILE_64, "pipeline_stages": 5}),
    (f"{AMPERE}sliced1x2_ldg8_f2f_stages_64x5_tn", {**GEMM_64, **TILE_64, "pipeline_stages": 5, "sliced": "1x2"}),
    (f"{AMPERE}sliced1x2_ldg8_f2f_stages_64x6_tn", {**GEMM_64, **TILE_64, "pipeline_stages": 6, "sliced": "1x2"}),
    (
        "cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align8",
        {
            "category": "GEMM",
            "library": "CUTLASS",
            "family": "cutlass",
            "dtype": "fp16",
            "tile_m": 16,
            "tile_n": 16,
            "tile_k": 128,
            "pipeline_stages": 2,
            "layout": "tn",
            "vector_width": 8,
            "arch": "sm_80",
            "epilogue": None,
        },
    ),
    (
        "cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x64_32x4_tn_align8",
        {
            "category": "GEMM",
            "library": "CUTLASS",
            "operation": "gemm",
            "dtype": "fp16",
            "tile_m": 256,
            "tile_n": 64,
            "tile_k": 32,
            "pipeline_stages": 4,
            "epilogue": "relu",
            "dtypes": ("fp16", "fp32"),
        },
    ),
    (f"{NATIVE}vectorized_elementwise_kernel<4, {{Functor}}, ...>", vectorized(None, None)),  # type: ignore[arg-type]
    (
        f"{NATIVE}elementwise_kernel<128, {{vec_size}}, {{functor}}>",
        {**ELEMENTWISE, "family": "elementwise", "operation": None},
    ),
    (
        f"{NATIVE}unrolled_elementwise_kernel<{{functor}}, ...>",
        {**ELEMENTWISE, "family": "unrolled_elementwise", "operation": None},
    ),
    (f"{NATIVE}reduce_kernel<{{block_size}}, {{vec_size}}, {{ReduceOp}}>", reduction(None)),
    (f"{NATIVE}(anonymous namespace)::CatArrayBatchedCopy{{_variants}}", cat(None)),
    ("CUDAFunctor_add", functor("add")),
    ("CUDAFunctorOnSelf_add", functor("add")),
    ("CUDAFunctorOnSelf_add<float>", functor("add", "fp32")),
    ("CUDAFunctor_add<c10::Half>", functor("add", "fp16")),
    ("BinaryFunctor<...MulFunctor>", functor("mul")),
    ("BinaryFunctor<c10::Half...MulFunctor>", functor("mul", "fp16")),
    ("BinaryFunctor<float...MulFunctor>", functor("mul", "fp32")),
    ("MulFunctor", functor("mul")),
    ("rsqrt_kernel_cuda", functor("rsqrt")),
    ("rsqrt_kernel", functor("rsqrt")),
    ("silu_kernel", functor("silu")),
    ("neg_kernel_cuda", functor("neg")),
    ("neg_kernel", functor("neg")),
    ("cos_kernel", functor("cos")),
    ("sin_kernel", functor("sin")),
    ("pow_tensor_scalar", functor("pow")),
    ("CompareEqFunctor", functor("eq")),
    ("compare_scalar_kernel", functor("compare")),
    ("float16_copy_kernel_cuda", is_copy("functor", None)),
    ("float16_copy_kernel", is_copy("functor", None)),
    ("direct_copy_kernel_cuda", is_copy("functor", None)),
    ("direct_copy_kernel", is_copy("functor", None)),
    ("FillFunctor", functor("fill")),
    ("FillFunctor<bool>", functor("fill", "bool")),
    ("FillFunctor<long>", functor("fill", "int64")),
    ("MeanOps", reduction("mean")),
    ("SumOps", reduction("sum")),
    ("MaxOps", reduction("max")),
    ("ReduceOp<float, MeanOps...>", reduction("mean", "fp32")),
    ("ReduceOp<float, SumOps...>", reduction("sum", "fp32")),
    ("ReduceOp<...MaxOps...>", reduction("max")),
    (
        f"{NATIVE}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, ...>",
        vectorized("add", "fp16"),
    ),
    (f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps...>>", reduction("mean", "fp32")),
    ("CatArrayBatchedCopy<OpaqueType<2u>, ...64, 64>", cat(2)),
    ("CatArrayBatchedCopy_contig<OpaqueType<2u>, ...128, 1>", cat(2)),
    ("CatArrayBatchedCopy_aligned16_contig<OpaqueType<8u>...", cat(8)),
    ("CatArrayBatchedCopy", cat(None)),
    ("Memcpy DtoD", copy_event("DtoD")),
    ("Memcpy HtoD", copy_event("HtoD")),
    ("Memcpy DtoH", copy_event("DtoH")),
    ("cub::DeviceScanKernel<...ScanTileState<long>...>", scan("int64")),
    ("cub::DeviceScanInitKernel", scan(None)),
    ("DeviceScan", {"category": "SCAN_SORT", "library": "CUB"}),
    ("sm80_xmma_gemm_...", {"category": "GEMM", "library": "cuBLAS", "family": "xmma_gemm", "arch": "sm_80"}),
    ("gemmk1_kernel", {"category": "GEMV", "library": "cuBLAS", "family": "gemmk1", "operation": "gemv"}),
    ("void fused_bias_...", {"category": "ELEMENTWISE", "library": "cuDNN", "operation": "bias"}),
    ("maxwell_scudnn_...", {"category": "CONVOLUTION", "library": "cuDNN", "dtype": "fp32", "arch": "sm_50"}),
    ("splitKreduce_kernel", {"category": "GEMM", "library": "cuBLASLt", "family": "splitK_reduce", "split_k": True}),
    ("at::native::index_elementwise_kernel", {"category": "INDEXING", "library": ATEN, "operation": "index"}),
]
# The report on DeepSeek-OCR: its top kernels, written out in full.
DEEPSEEK: list[tuple[str, dict[str, Any]]] = [
    (GEMVX.format(7), {"category": "GEMV", "library": "cuBLAS", "family": "gemvx", "template": "7", "dtype": "bf16"}),
    (
        GEMVX.format(6),
        {"category": "GEMV", "library": "cuBLAS", "family": "gemvx", "template": "6", "dtypes": ("bf16", "fp32")},
    ),
    (
        f"{NATIVE}unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::{LAMBDAS.format('float')}, "
        "std::array<char *, (unsigned long)2>, (int)4, TrivialOffsetCalculator<(int)1, unsigned int>, TrivialOffsetCalculator<(int)1, "
        "unsigned int>, at::native::memory::LoadWithCast<(int)1>, at::native::memory::StoreWithCast<(int)1>>(int, T1, T2, T4, T5, T6, T7)",
        {**is_copy("unrolled_elementwise", "fp32"), "vector_width": 4, "casts": True},
    ),
    (
        f"{NATIVE}vectorized_elementwise_kernel<(int)4, {BF16_MUL}, std::array<char *, (unsigned long)3>>(int, T2, T3)",
        vectorized("mul", "bf16"),
    ),
    (
        f"{NATIVE}vectorized_elementwise_kernel<(int)4, at::native::<unnamed>::silu_kernel(at::TensorIteratorBase &)::"
        f"{LAMBDAS.format('c10::BFloat16')}, std::array<char *, (unsigned long)2>>(int, T2, T3)",
        vectorized("silu", "bf16"),
    ),
    (
        f"{NATIVE}elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<{BF16_MUL}>(at::TensorIteratorBase &, "
        "const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
        {**functor("mul", "bf16"), "family": "elementwise", "vector_width": 4},
    ),
    (
        f"{NATIVE}<unnamed>::CatArrayBatchedCopy_vectorized<at::native::<unnamed>::OpaqueType<(unsigned int)2>, unsigned int, (int)3, "
        "(int)128, (int)1, (int)16, (int)8>(char *, at::native::<unnamed>::CatArrInputTensorMetadata<T1, T2, T4, T5>, int, T2)",
        cat(2, vector_width=8, dims=3, tile=128),
    ),
    (
        f"{NATIVE}vectorized_elementwise_kernel<(int)4, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float) "
        "(instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)",
        {**is_copy("vectorized_elementwise", "fp32"), "dtypes": ("fp32", "bf16")},
    ),
    (
        f"void flash::flash_fwd_splitkv_kernel<{FLASH_TRAITS}, (bool)0, (bool)0, (bool)0>(flash::Flash_fwd_params)",
        attention(
            "FlashAttention",
            "flash_fwd_splitkv",
            dtype="bf16",
            head_dim=128,
            tile_m=64,
            tile_n=128,
            direction="forward",
        ),
    ),
    (
        f"{NATIVE}vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char *, "
        "(unsigned long)3>>(int, T2, T3)",
        vectorized("add", "bf16"),
    ),
    (
        f"{NATIVE}<unnamed>::CatArrayBatchedCopy<at::native::<unnamed>::OpaqueType<(unsigned int)2>, unsigned int, (int)4, (int)64, "
        "(int)64>(T1 *, int, T2)",
        cat(2, dims=4, tile=64, vector_width=None),
    ),
    (
        f"{NATIVE}elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, "
        "float, at::native::binary_internal::MulFunctor<float>>>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
        {**functor("mul", "fp32"), "family": "elementwise", "vector_width": 2},
    ),
    (
        f"{NATIVE}reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned "
        "int, float, (int)4, (int)4>>(T3)",
        {**reduction("mean", "fp32"), "threads": 512},
    ),
    (
        f"{NATIVE}elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<at::native::neg_kernel_cuda("
        f"at::TensorIteratorBase &)::{LAMBDAS.format('c10::BFloat16')}>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>"
        "(int, T3)",
        functor("neg", "bf16"),
    ),
    (
        f"void flash::flash_fwd_splitkv_combine_kernel<{FLASH_TRAITS}, (int)4, (int)1, (bool)1>(flash::Flash_fwd_params)",
        attention("FlashAttention", "flash_fwd_splitkv_combine", "attention_combine", dtype="bf16", head_dim=128),
    ),
    (
        "void Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x3_tn_align8>(Params)",
        {"category": "GEMM", "library": "CUTLASS", "dtype": "bf16", "tile_m": 128, "tile_n": 256, "epilogue": "relu"},
    ),
    (
        "void Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(Params)",
        {"category": "GEMM", "library": "CUTLASS", "dtype": "bf16", "tile_m": 32, "tile_n": 32, "epilogue": None},
    ),
    (
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(AttentionKernel<bfloat16_t, Sm80, 1, 64, 64, 64, 1, 1>::Params)",
        attention("CUTLASS", "mem_efficient_attention", dtype="bf16", tile_m=64, tile_n=64, arch="sm_80"),
    ),
    ("fmha_cutlassF", attention("CUTLASS", "mem_efficient_attention", direction="forward")),
    (
        "void cudnn::fusion::lean_reduction_kernel<false, false, false>(void*, float*, float*)",
        attention("cuDNN", "lean_reduction", "attention_combine", direction="forward"),
    ),
]
GFX1151: list[tuple[str, dict[str, Any]]] = [
    ("triton_poi_fused__to_copy_0", fused("inductor_pointwise", "_to_copy")),
    (
        "triton_poi_fused__to_copy_add_mul_1",
        {**fused("inductor_pointwise", "_to_copy+add+mul"), "ops": "_to_copy,add,mul"},
    ),
    (
        TENSILE_GFX1151,
        {
            "category": "GEMM",
            "library": "rocBLAS/Tensile",
            "family": "tensile",
            "operation": "gemm",
            "dtype": "fp16",
            "arch": "gfx1151",
            "dtypes": ("fp16", "fp32"),
            "tile_m": 128,
            "tile_n": 128,
            "tile_k": 32,
            "layout": "nn",
            "split_k": False,
            "MI": "16x16x16x1",
            "WG": "32_4_1",
            "TT": "4_64",
            "PGR": 1,
            "PLR": 0,
            "SIA": 3,
            "1LDSB": 1,
            "SU": 32,
            "SUS": 256,
            "USFGRO": -1,
            "VS": -1,
            "LPB": 8,
            "LRVW": 16,
            "WS": 32,
            "KL": "A",
            "GSUA": "SB",
            "MMF": "GLC",
            "WGM": 8,
        },
    ),
    (f"{TENSILE_GFX1151}.kd", {"category": "GEMM", "arch": "gfx1151"}),
    (
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB1_..._PGR1_PLR0_SIA3_SU32_SUS256_..._WSGRA1_WSGRB1_WS32_WG32_4_1_...",
        {"category": "GEMM", "dtype": "fp16", "tile_k": 32, "PGR": 1, "SIA": 3},
    ),
    ("Cijk_...", {"category": "GEMM", "library": "rocBLAS/Tensile"}),
]
# The table of name grammars (research on replay).
GRAMMARS: list[tuple[str, dict[str, Any]]] = [
    ("gemm_fusion_dot_124", {"category": "GEMM", "library": "XLA"}),
    ("input_add_reduce_fusion_1", {"category": "FUSED", "library": "XLA"}),
    ("input_transpose_fusion_14", {"category": "FUSED", "library": "XLA"}),
    ("wrapped_transpose_4", {"category": "COPY", "library": "XLA"}),
    ("loop_dynamic_update_slice_fusion_7", {"category": "FUSED", "library": "XLA"}),
    ("input_concatenate_fusion_4", {"category": "FUSED", "library": "XLA"}),
    ("triton_softmax_5", {"category": "SOFTMAX", "library": "XLA"}),
    ("loop_add_fusion", {"category": "FUSED", "library": "XLA"}),
    ("fusion_380", {"category": "FUSED", "library": "XLA"}),
    (
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
        {"category": "COMMUNICATION", "library": "NCCL", "operation": None},
    ),
    (
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
        {
            "category": "COMMUNICATION",
            "library": "NCCL",
            "operation": "send_recv",
            "dtype": "int8",
            "algorithm": "RING",
        },
    ),
    (
        "multimem_all_reduce_kernel<c10::BFloat16, 16>",
        {"category": "COMMUNICATION", "operation": "all_reduce", "dtype": "bf16"},
    ),
    ("Memcpy HtoD (Pinned -> Device)", {**copy_event("HtoD"), "source": "Pinned"}),
    ("flash::flash_fwd_splitkv_kernel<…>", attention("FlashAttention", "flash_fwd_splitkv")),
    (PYTORCH_FLASH, attention("FlashAttention", "flash_fwd", head_dim=64, tile_m=128, tile_n=128, dtype="bf16")),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", attention("CUTLASS", "mem_efficient_attention", dtype="bf16")),
    ("cudnn_generated_fort_native_sdpa", attention("cuDNN", "cudnn_sdpa")),
    (
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        attention(
            "TensorRT-LLM", "fmha", head_dim=64, tile_m=128, tile_n=128, dtype="fp8_e4m3", arch="sm_100", causal=True
        ),
    ),
    ("attn_fwd", attention("AOTriton", "attn")),
    (
        "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT",
        {
            "category": "GEMM",
            "library": "cuBLASLt",
            "family": "nvjet",
            "dtype": "bf16",
            "tile_m": 64,
            "tile_n": 64,
            "tile_k": 64,
            "pipeline_stages": 16,
            "cluster": "2x1",
            "layout": "tn",
            "epilogue": "bias",
            "split_k": False,
            "raster": "v",
            "beta": "zero",
        },
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        {
            "category": "GEMM",
            "library": "cuBLAS",
            "family": "xmma_gemm",
            "dtype": "bf16",
            "dtypes": ("bf16", "fp32"),
            "arch": "sm_90",
            "tile_m": 128,
            "tile_n": 128,
            "tile_k": 64,
            "layout": "tn",
            "split_k": False,
        },
    ),
    (
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_split_k_kernel__5x_cublas",
        {"category": "GEMM", "dtype": "fp32", "split_k": True, "pipeline_stages": 3, "vector_width": 4},
    ),
    (
        "internal::gemvx::kernel<__nv_bfloat16,…,7,…>",
        {"category": "GEMV", "library": "cuBLAS", "family": "gemvx", "dtype": "bf16"},
    ),
    ("cublasLt::splitKreduce_kernel<…>", {"category": "GEMM", "family": "splitK_reduce"}),
    ("void epilogue::impl::globalKernel<8, 32, float>(float*)", {"category": "GEMM", "family": "gemm_epilogue"}),
    (
        "cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>",
        {"category": "GEMM", "library": "CUTLASS", "dtype": "bf16"},
    ),
    (
        "cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8",
        {
            "category": "CONVOLUTION",
            "library": "cuDNN",
            "operation": "conv_fprop",
            "dtype": "bf16",
            "tile_m": 256,
            "layout": "nhwc",
        },
    ),
    (
        "cudnn::engines_precompiled::nchwToNhwcKernel",
        {"category": "CONVOLUTION", "library": "cuDNN", "family": "conv_layout"},
    ),
    (
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256_sm100f",
        {"category": "GEMM", "library": "TensorRT-LLM", "dtype": "mxfp8", "tile_m": 128, "tile_n": 16, "tile_k": 256},
    ),
    (
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1",
        {
            "category": "GEMM",
            "library": "hipBLASLt",
            "dtype": "bf16",
            "tile_m": 256,
            "layout": "tn",
            "epilogue": "bias",
        },
    ),
    (
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu",
        {"category": "GEMM", "library": "Triton", "dtypes": ("bf16", "mxfp4"), "epilogue": "swiglu", "split_k": False},
    ),
    (
        "triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1",
        fused("inductor_reduction", "_unsafe_view+add+mean+mul+pow+rsqrt"),
    ),
    ("multi_tensor_apply_kernel", {"category": "ELEMENTWISE", "family": "foreach"}),
    ("CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, 64, 64>", cat(2, dims=4)),
    ("vectorized_gather_kernel<16, long>", {"category": "INDEXING", "operation": "gather", "dtype": None}),
    ("cub::DeviceScanKernel<…>", scan(None)),
    ("reduce_kernel<512, 1, ReduceOp<float, MeanOps<…>>>", reduction("mean", "fp32")),
    ("vectorized_elementwise_kernel<4, GeluCUDAKernelImpl(…)::{lambda()#2}…>", vectorized("gelu", None)),
]


@pytest.mark.parametrize(("name", "expected"), [*VICUNA, *DEEPSEEK, *GFX1151, *GRAMMARS])
def test_name_decodes(name: str, expected: dict[str, Any]) -> None:
    found = decode(name)
    fields = {key: getattr(found, key) if hasattr(found, key) else found.details.get(key) for key in expected}
    assert fields == expected


def test_gemv_templates_stay_apart() -> None:
    first, second = decode(GEMVX.format(7)), decode(GEMVX.format(6))
    assert (first.short_name, second.short_name) == (
        "gemvx::kernel<__nv_bfloat16, 7>",
        "gemvx::kernel<__nv_bfloat16, 6>",
    )
    assert first.match_name != second.match_name
    assert first.details["template"] == 7
