"""Kernels of the ROCm libraries beside Tensile: who wrote them and what they do."""

from __future__ import annotations

import pytest

from kerneldb.names import decode

ROCPRIM = "void rocprim::ROCPRIM_400001_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400001_NS::detail::"
CK_TILE = (
    "void ck_tile::kentry<1, ck_tile::BatchedGemmKernel<ck_tile::GemmSpatiallyLocalTilePartitioner<"
    "ck_tile::TileGemmShape<ck_tile::sequence<256, 256, 64>, ck_tile::sequence<2, 2, 1> >, 8, 4> > >(int)"
)
NAMES = {
    "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::half_t>>(int)": ("GEMM", "CK", "gemm"),
    CK_TILE: ("GEMM", "CK", "gemm"),
    "_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelINS_28BlockFmhaPipeline": ("ATTENTION", "CK", "attention"),
    "aiter::fmha_fwd_hd128_bf16_causal_rtne_group": ("ATTENTION", "AITER", "attention"),
    "fmoe_fp8_blockscale_g1u1": ("GEMM", "AITER", "gemm"),
    "paged_attention_ll4mi_QKV_kernel": ("ATTENTION", "vLLM", "attention"),
    "attn_fwd": ("ATTENTION", "AOTriton", "attention"),
    "bwd_kernel_fuse": ("ATTENTION", "AOTriton", "attention_backward"),
    "naive_conv_ab_nonpacked_fwd_nhwc_half_double_half": ("CONVOLUTION", "MIOpen", "conv_fprop"),
    "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1": ("CONVOLUTION", "MIOpen", "convolution"),
    "MIOpenBatchNormFwdTrainSpatial": ("NORMALIZATION", "MIOpen", "batch_norm"),
    "MIOpenPoolingForward": ("REDUCTION", "MIOpen", "max_pool"),
    "SubTensorOpWithScalar1d": ("ELEMENTWISE", "MIOpen", "fill"),
    f"{ROCPRIM}wrapped_reduce_config<rocprim::default_config, float>>(int)": ("REDUCTION", "rocPRIM", None),
    f"{ROCPRIM}wrapped_radix_sort_onesweep_config<int>>(int)": ("SCAN_SORT", "rocPRIM", "sort"),
    "void rocprim::ROCPRIM_400001_NS::detail::onesweep_histograms_kernel<int>(int)": ("SCAN_SORT", "rocPRIM", "sort"),
    "void rocprim::detail::histogram_shared_kernel<1u, int>(int*)": ("SCAN_SORT", "rocPRIM", None),
    "void ck::kernel_elementwise<ck::GridwiseElementwise<float>>(int)": ("ELEMENTWISE", "CK", None),
    "void ck::kernel_normalization<ck::X>(int)": ("NORMALIZATION", "CK", None),
    "void ck::kernel_reduce_threadwise<ck::X>(int)": ("REDUCTION", "CK", None),
    "void ck::kernel_batched_gemm_softmax_gemm_xdl_cshuffle_v1<ck::X>(int)": ("GEMM", "CK", "gemm"),
    "void aiter::pa_decode_kernel<float>(float*)": ("ATTENTION", "AITER", "attention"),
    "void hipcub::detail::device_reduce_kernel<float>(float*)": ("REDUCTION", "hipCUB", "sum"),
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)": ("COMMUNICATION", "RCCL", None),
    "mscclKernel_Sum_half_LL": ("COMMUNICATION", "RCCL", None),
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)": ("COMMUNICATION", "NCCL", None),
    "__amd_rocclr_fillBufferAligned.kd": ("MEMSET", "ROCm", "memset"),
    "__amd_rocclr_copyBuffer": ("MEMCPY", "ROCm", None),
    "void wvSpltK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 2>(int)": ("GEMM", "vLLM", "gemm"),
    "void mul_mat_q<(ggml_type)12, 128, false>(char const*)": ("GEMM", "llama.cpp/ggml", "gemm"),
    "void mul_mat_vec_q<(ggml_type)14, 1, false, false>(void const*)": ("GEMV", "llama.cpp/ggml", "gemv"),
    "triton_tem_fused_mm_2": ("FUSED", "Triton", "mm"),
}


@pytest.mark.parametrize("name", NAMES)
def test_category_library_and_operation(name: str) -> None:
    found = decode(name)
    assert (found.category, found.library, found.operation) == NAMES[name]


def test_ck_tile_names_its_block() -> None:
    found = decode(CK_TILE)
    assert (found.tile_m, found.tile_n, found.tile_k) == (256, 256, 64)


def test_rocm_array_types_are_those_of_cuda() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, {}<char*, 1{}> >(int)"
    rocm, cuda = decode(name.format("std::array", "ul")), decode(name.format("at::detail::Array", ""))
    assert (rocm.category, rocm.operation, rocm.vector_width) == (cuda.category, cuda.operation, cuda.vector_width)
    assert rocm.vector_width == 4
