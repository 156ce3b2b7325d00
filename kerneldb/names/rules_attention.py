"""Attention kernels: FlashAttention, memory-efficient (CUTLASS), cuDNN, TensorRT-LLM, FlashInfer, vLLM, ROCm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import argument_types, distinct, element_type, packed_types
from kerneldb.names.rules import rule
from kerneldb.names.structure import call

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_FMHA = re.compile(r"fmha_cutlass([FB])_(\w+?)_(aligned|notaligned)(?:_(\d+)x(\d+))?(?:_k(\d+))?(?:_\w*?)?_sm(\d+)")
_CUDNN = re.compile(
    r"sm(\d+)_flash_(f|b)prop_(?:w?g?mma_)?(\w+?)_knob_\w*?_(\d+)x(\d+)x(\d+)(?:_(\d+)x(\d+)x(\d+))?(?:_cga(\d+x\d+))?"
)
_TRTLLM = re.compile(r"fmhaSm(\d+)")
_SPLIT = re.compile(r"(splitkv|SplitKv|split_kv|3d|combine)")


def read_flash(name: Structure) -> Facts:
    """Read ``flash_fwd_kernel<Flash_fwd_kernel_traits<head_dim, blockM, blockN, warps, ..., T>, is_causal...>``."""
    backward = "bwd" in name.base
    facts: Facts = {"operation": "attention_backward" if backward else "attention"}
    facts["direction"] = "backward" if backward else "forward"
    traits = next((arg for arg in name.args if "kernel_traits<" in arg), None)
    if traits is not None:
        _, args = call(traits)
        numbers = [int(arg) for arg in args if arg.isdecimal()]
        for key, number in zip(("head_dim", "tile_m", "tile_n"), numbers, strict=False):
            facts[key] = number  # type: ignore[literal-required]
        facts["dtypes"] = types = argument_types(args)
        facts["dtype"] = types[0] if types else None
        facts["details"] = {"warps": numbers[3]} if numbers[3:] else {}
    if "splitkv" in name.base:
        facts["split_k"] = True
    if "combine" in name.base:
        facts["operation"] = "attention_combine"
    return facts


def read_fmha(name: Structure) -> Facts:
    """Read ``fmha_cutlassF_bf16_aligned_64x64_rf_sm80``: direction, element type, queries x keys per block."""
    match = _FMHA.match(name.base)
    backward = name.base.startswith(("fmha_cutlassB", "AttentionBackward"))
    facts: Facts = {"operation": "attention_backward" if backward else "attention"}
    facts["direction"] = "backward" if backward else "forward"
    if match is None:
        types = argument_types(name.args)
        facts["dtypes"], facts["dtype"] = types, types[0] if types else None
        return facts
    dtype = element_type(match[2])
    facts["dtype"], facts["dtypes"] = dtype, distinct([dtype])
    facts["arch"] = f"sm_{match[7]}"
    if match[4]:
        facts["tile_m"], facts["tile_n"] = int(match[4]), int(match[5])
    facts["details"] = {"aligned": match[3] == "aligned"}
    if match[6]:
        facts["details"]["max_head_dim"] = int(match[6])
    return facts


def read_cudnn_attention(name: Structure) -> Facts:
    """Read ``cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_...``."""
    match = _CUDNN.search(name.base)
    if match is None:
        backward = bool(re.search(r"bprop|_d[oq]_|dq_", name.base))
        forward = "attention_combine" if "lean_reduction" in name.base else "attention"
        return {
            "operation": "attention_backward" if backward else forward,
            "direction": "backward" if backward else "forward",
        }
    backward = match[2] == "b"
    types = packed_types(match[3])
    facts: Facts = {
        "operation": "attention_backward" if backward else "attention",
        "direction": "backward" if backward else "forward",
        "arch": f"sm_{match[1]}",
        "dtype": types[0] if types else None,
        "dtypes": types,
        "tile_m": int(match[4]),
        "tile_n": int(match[5]),
        "tile_k": int(match[6]),
    }
    if match[10]:
        facts["cluster"] = match[10]
    return facts


def read_trtllm_attention(name: Structure) -> Facts:
    """Read ``fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext``."""
    text = name.base
    facts: Facts = {"operation": "attention", "direction": "forward"}
    arch = _TRTLLM.match(text)
    if arch is not None:
        facts["arch"] = f"sm_{arch[1]}"
    types = distinct(element_type(found) for found in re.findall(r"E\dm\d|Bfloat16|Fp16|Half|Fp32", text))
    facts["dtypes"], facts["dtype"] = types, types[0] if types else None
    for key, pattern in (("head_dim", r"H(\d+)"), ("tile_m", r"Q(\d+)"), ("tile_n", r"Kv(\d+)")):
        match = re.search(pattern, text)
        if match is not None:
            facts[key] = int(match[1])  # type: ignore[literal-required]
    facts["details"] = {"causal": "Causal" in text, "paged": "PagedKv" in text}
    return facts


def read_attention(name: Structure) -> Facts:
    """Read what plain attention names tell: direction, whether keys are split, head dimension in ``hd128``."""
    text = name.canonical
    backward = bool(re.search(r"bwd|[Bb]ackward|Bwd", text))
    facts: Facts = {"operation": "attention_backward" if backward else "attention"}
    facts["direction"] = "backward" if backward else "forward"
    if re.search(r"combine|reduce_segments|MergeState", name.base):
        facts["operation"] = "attention_combine"
    if _SPLIT.search(name.base):
        facts["split_k"] = True
    head = re.search(r"_hd(\d+)", text)
    if head is not None:
        facts["head_dim"] = int(head[1])
    types = packed_types(name.base) or argument_types(re.findall(r"(?<=[<,])\w+(?=[,>])", text))
    types = tuple(dtype for dtype in types if dtype not in {"int32", "int64", "uint32", "bool"})
    facts["dtypes"], facts["dtype"] = types, types[0] if types else None
    return facts


def read_ggml_attention(name: Structure) -> Facts:
    """Read llama.cpp's ``flash_attn_tile<head_dim K, head_dim V, columns, ...>``."""
    facts: Facts = {"operation": "attention_combine" if "combine" in name.base else "attention", "direction": "forward"}
    if name.args and name.args[0].isdecimal():
        facts["head_dim"] = int(name.args[0])
    return facts


_FLASH = "FlashAttention"
RULES = (
    rule(r"flash_fwd_splitkv_combine", "ATTENTION", _FLASH, "flash_fwd_splitkv_combine", None, read_flash),
    rule(r"flash_fwd_splitkv", "ATTENTION", _FLASH, "flash_fwd_splitkv", None, read_flash),
    rule(r"flash_fwd", "ATTENTION", _FLASH, "flash_fwd", None, read_flash),
    rule(r"flash_bwd", "ATTENTION", _FLASH, "flash_bwd", None, read_flash),
    rule(r"flash::|FlashAttnFwd|FlashAttnBwd", "ATTENTION", _FLASH, "flash_attention_3", None, read_attention),
    rule(r"fmha_cutlassF|AttentionKernel$", "ATTENTION", "CUTLASS", "mem_efficient_attention", None, read_fmha),
    rule(r"fmha_cutlassB|AttentionBackwardKernel$", "ATTENTION", "CUTLASS", "mem_efficient_attention", None, read_fmha),
    rule(r"cudnn::fusion::compute_dot_do_o", "ATTENTION", "cuDNN", "compute_dot_do_o", None, read_cudnn_attention),
    rule(r"cudnn::fusion::lean_reduction", "ATTENTION", "cuDNN", "lean_reduction", None, read_cudnn_attention),
    rule(r"cudnn::fusion::convert_dq", "ATTENTION", "cuDNN", "convert_dq", None, read_cudnn_attention),
    rule(
        r"cudnn\w*sdpa|cudnn.*flash|fmha_v2",
        "ATTENTION",
        "cuDNN",
        "cudnn_sdpa",
        None,
        read_cudnn_attention,
    ),
    rule(r"^fmhaSm\d+", "ATTENTION", "TensorRT-LLM", "fmha", None, read_trtllm_attention),
    rule(
        r"tensorrt_llm::.*(?:mmha|attention|fmha)|masked_multihead_attention",
        "ATTENTION",
        "TensorRT-LLM",
        "mmha",
        None,
        read_attention,
    ),
    rule(
        r"flashinfer::.*(?:Decode|Prefill|MergeState|Attention)|Batch(?:Prefill|Decode)With",
        "ATTENTION",
        "FlashInfer",
        "flashinfer_attention",
        None,
        read_attention,
    ),
    rule(
        r"paged_attention_v\d|kernel_unified_attention_\dd|^reduce_segments$|paged_attention",
        "ATTENTION",
        "vLLM",
        "paged_attention",
        None,
        read_attention,
    ),
    rule(
        r"^_fwd_grouped_kernel_stage\d|^_fwd_kernel_stage\d|_decode_att_",
        "ATTENTION",
        "SGLang",
        "decode_attention",
        None,
        read_attention,
    ),
    rule(
        r"^aiter::.*(?:fmha|mha|attn|mla)|^(?:fmha|mla)_(?:fwd|bwd|a\d+w\d+)|_pa_decode|^aiter::pa_|^pa_(?:bf16|fp8|noquant)",
        "ATTENTION",
        "AITER",
        "aiter_attention",
        None,
        read_attention,
    ),
    rule(
        r"^attn_fwd$|^attn_bwd|^bwd_kernel_d|^bwd_kernel_fuse|^bwd_preprocess|^debug_simulate_encoded_softmax",
        "ATTENTION",
        "AOTriton",
        "attn",
        None,
        read_attention,
    ),
    rule(r"Fmha(?:Fwd|Bwd|Batch)|fmha_(?:fwd|bwd)", "ATTENTION", "CK", "ck_fmha", None, read_attention),
    rule(
        r"^flash_attn_(?:tile|vec|ext|combine|mask|stream)|^flash_attn_\w+",
        "ATTENTION",
        "llama.cpp/ggml",
        "flash_attn",
        None,
        read_ggml_attention,
    ),
    rule(r"gated_delta_net", "ATTENTION", "llama.cpp/ggml", "gated_delta_net", "linear_attention"),
    rule(
        r"^_attn_(?:fwd|bwd)|^triton_flash|^flex_attention|^_flash_attn",
        "ATTENTION",
        "Triton",
        "triton_attention",
        None,
        read_attention,
    ),
    rule(
        r"chunk_(?:gated_)?delta|^chunk_(?:fwd|bwd|local)|fused_recurrent|mamba|selective_scan|_ssd_",
        "ATTENTION",
        "Triton",
        "linear_attention",
        "linear_attention",
    ),
    rule(r"xformers|^fmha_|scaled_dot_product", "ATTENTION", "xFormers", "fmha", None, read_attention),
)
