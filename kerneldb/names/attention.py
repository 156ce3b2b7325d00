"""Readers of attention kernels: FlashAttention, memory-efficient (CUTLASS), cuDNN, TensorRT-LLM, vLLM, llama.cpp."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import INDEX_TYPES, argument_types, element_type, inner_types, packed_types, typed
from kerneldb.names.model import directed
from kerneldb.names.structure import call

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_FMHA = re.compile(r"fmha_cutlass([FB])_(\w+?)_(aligned|notaligned)(?:_(\d+)x(\d+))?(?:_k(\d+))?(?:_\w*?)?_sm(\d+)")
_CUDNN = re.compile(
    r"sm(\d+)_flash_(f|b)prop_(?:w?g?mma_)?(\w+?)_knob_\w*?_(\d+)x(\d+)x(\d+)(?:_(\d+)x(\d+)x(\d+))?(?:_cga(\d+x\d+))?"
)


_MLA = re.compile(r"traits_mla<(\d+),")


def read_flash(name: Structure) -> Facts:
    """Read ``flash_fwd_kernel<Flash_fwd_kernel_traits<head_dim, blockM, blockN, warps, ..., T>, is_causal...>``."""
    facts = directed("attention", backward="bwd" in name.base)
    traits = next((arg for arg in name.args if "kernel_traits<" in arg), None)
    if traits is not None:
        _, args = call(traits)
        numbers = [int(arg) for arg in args if arg.isdecimal()]
        for key, number in zip(("head_dim", "tile_m", "tile_n"), numbers, strict=False):
            facts[key] = number  # type: ignore[literal-required]
        facts.update(typed(argument_types(args)))
        facts["details"] = {"warps": numbers[3]} if numbers[3:] else {}
    if "splitkv" in name.base:
        facts["split_k"] = True
    if "combine" in name.base:
        facts["operation"] = "attention_combine"
    return facts


def read_fmha(name: Structure) -> Facts:
    """Read ``fmha_cutlassF_bf16_aligned_64x64_rf_sm80``: direction, element type, queries x keys per block."""
    facts = directed("attention", backward=name.base.startswith(("fmha_cutlassB", "AttentionBackward")))
    match = _FMHA.match(name.base)
    if match is None:
        facts.update(typed(argument_types(name.args)))
        return facts
    facts.update(typed([element_type(match[2])]))
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
        facts = directed("attention", backward=bool(re.search(r"bprop|_d[oq]_|dq_", name.base)))
        if "lean_reduction" in name.base and facts["direction"] == "forward":
            facts["operation"] = "attention_combine"
        return {**facts, **typed(argument_types(name.args))}
    facts = directed("attention", backward=match[2] == "b")
    facts.update(typed(packed_types(match[3])))
    facts["arch"] = f"sm_{match[1]}"
    facts["tile_m"], facts["tile_n"], facts["tile_k"] = int(match[4]), int(match[5]), int(match[6])
    if match[10]:
        facts["cluster"] = match[10]
    return facts


def read_trtllm_attention(name: Structure) -> Facts:
    """Read ``fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext``."""
    text = name.base
    facts = directed("attention", backward=False)
    arch = re.match(r"fmhaSm(\d+)", text)
    if arch is not None:
        facts["arch"] = f"sm_{arch[1]}"
    facts.update(typed(map(element_type, re.findall(r"E\dm\d|Bfloat16|Fp16|Half|Fp32", text))))
    for key, pattern in (("head_dim", r"H(\d+)"), ("tile_m", r"Q(\d+)"), ("tile_n", r"Kv(\d+)")):
        match = re.search(pattern, text)
        if match is not None:
            facts[key] = int(match[1])  # type: ignore[literal-required]
    facts["details"] = {"causal": "Causal" in text, "paged": "PagedKv" in text}
    return facts


def read_attention(name: Structure) -> Facts:
    """Read plain attention names: direction, whether keys are split, head dimension in ``hd128``."""
    text = name.canonical
    facts = directed("attention", backward=bool(re.search(r"bwd|[Bb]ackward|Bwd", text)))
    if re.search(r"combine|reduce_segments|MergeState", name.base):
        facts["operation"] = "attention_combine"
    if re.search(r"splitkv|SplitKv|split_kv|3d|combine", name.base):
        facts["split_k"] = True
    head = re.search(r"_hd(\d+)", text)
    if head is not None:
        facts["head_dim"] = int(head[1])
    types = packed_types(name.base) or inner_types(text)
    facts.update(typed(dtype for dtype in types if dtype not in INDEX_TYPES))
    return facts


def read_mla(name: Structure) -> Facts:
    """Read FlashMLA's ``flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, T, 512>, ...>``."""
    facts = read_attention(name)
    facts.update(typed(inner_types(name.canonical)))
    head = _MLA.search(name.canonical)
    if head is not None:
        facts["head_dim"] = int(head[1])
    return facts


def read_scan(name: Structure) -> Facts:
    """Read ``selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<..., T, float>>``: direction and input type."""
    return {**directed("linear_attention", backward="bwd" in name.base), **typed(inner_types(name.canonical))}


def read_ggml_attention(name: Structure) -> Facts:
    """Read llama.cpp's ``flash_attn_tile<head_dim K, head_dim V, columns, ...>``."""
    facts: Facts = {"operation": "attention_combine" if "combine" in name.base else "attention", "direction": "forward"}
    if name.args and name.args[0].isdecimal():
        facts["head_dim"] = int(name.args[0])
    return facts
