"""Grammars of NVIDIA's matrix-product and convolution symbols, all of them words joined by underscores.

=========================  ========================================================================================
nvjet (cuBLASLt)           ``nvjet_[sm90_]{A}{acc}{D}_{tM}x{tN}_{tK}x{stages}_{cluster}_{h|v}_{bz|badd}_.._{TNT}``
xmma (cuBLAS, cuDNN)       ``sm90_xmma_gemm_{A}{B}_{C}{acc}_{scale}_{tn}_n_tilesize128x128x64_.._execute_kernel``
by architecture (cuBLAS)   ``ampere_{in}_s16816gemm_{out}_{tM}x{tN}_[sliced1x2_]ldg8_f2f_stages_{tK}x{stages}_{tn}``
CUTLASS (2.x)              ``cutlass_80_[wmma_]tensorop_{in}_s16816gemm_[relu_]{in}_{tM}x{tN}_{tK}x{stages}_{tn}_..``
CUTLASS (3.x)              ``cutlass3x_sm100_tensorop_s64x256x32gemm_{A}_{B}_{acc}_{C}_{D}_{tM}x{tN}x{tK}_..``
=========================  ========================================================================================

Beside them: readers of products that are spelled out as C++ templates (cuBLAS' GEMV, CUTLASS, CK) or as Triton names.
Words that no grammar knows are kept in ``details['flags']``, so a new generation's names still decode for the rest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import (
    argument_types,
    distinct,
    element_type,
    inner_types,
    letter_type,
    main_type,
    packed_types,
    typed,
)
from kerneldb.names.structure import number_at

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_GENERATIONS = {
    "maxwell": "sm_50",
    "pascal": "sm_60",
    "volta": "sm_70",
    "turing": "sm_75",
    "ampere": "sm_80",
    "hopper": "sm_90",
    "blackwell": "sm_100",
}
_EPILOGUE_WORDS = "relu gelu bias drelu dgelu bgrad bgrada bgradb swiglu silu aux reluaux geluaux biasgelu scalemax"
_EPILOGUES = frozenset(_EPILOGUE_WORDS.split())
_NVJET_WORDS = (("h", "raster", "h"), ("v", "raster", "v"), ("bz", "beta", "zero"), ("badd", "beta", "add"))
_SIZES = re.compile(r"\d+(?:x\d+)+")
_MMA = re.compile(r"([a-z])((?:\d+x\d+x)?\d*)(gemm|cudnn|fprop|dgrad|wgrad)(\w*)")
_XMMA_NOISE_WORDS = "trt gemm implicit execute kernel cublas cudnn infer train split k segment off"
_XMMA_NOISE = {"", *_XMMA_NOISE_WORDS.split()}
_XMMA_TYPES = re.compile(r"(?:(?:bf16|tf32|f16|f32|f64|i8|u8|i32|e4m3|e5m2|f8)){1,2}")
_LAYOUT = re.compile(r"[nt]{2,3}|[NT]{2,3}")
_CONVOLUTIONS = {"fprop": "conv_fprop", "dgrad": "conv_dgrad", "wgrad": "conv_wgrad"}
_NUMBERED = re.compile(r"(align[ac]?|stage|ldg|cga|warpsize|warpgroupsize|sliced|tensor|tile|g)(\d[\dx]*[a-z]?)")

_TENSOR_LAYOUTS = re.compile(r"tuple|TensorLayout|RowMajor|ColumnMajor")  # of Composable Kernel
_CK_TYPES = {"unsigned short": "bhalf_t", "_BitInt": "fp8_t"}
_MOE_INPUT = re.compile(r"(?:pertoken|blockscale|per1x\d+|noquant|smf)(MXfp4|Fp8|Fp4|Int8|Bf16|Fp16)")
_OGS = re.compile(r"_matmul_ogs_(?:([NT]{2,3})_)?(\w+?)_(\d+)x(\d+)x(\d+)(?:x(\d+))?(?:_(\w+))?$")
# The first members of llama.cpp's enum ggml_type (ggml.h): how the weights of its quantised products are stored.
_GGML_TYPES = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1", 10: "q2_K", 11: "q3_K",
    12: "q4_K", 13: "q5_K", 14: "q6_K", 15: "q8_K", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s",
    20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m", 30: "bf16", 39: "mxfp4",
}  # fmt: skip


class _Words:
    """What the words of one symbol add up to."""

    def __init__(self) -> None:
        self.facts: Facts = {}
        self.sizes: list[tuple[int, ...]] = []
        self.types: list[str] = []
        self.epilogue: list[str] = []
        self.flags: list[str] = []
        self.details: dict[str, str | int | bool] = {}

    def read(self, words: list[str]) -> None:
        """Take in the words one by one."""
        for word in words:
            if word in _GENERATIONS:
                self.facts["arch"] = _GENERATIONS[word]
            elif word in _EPILOGUES:
                self.epilogue.append(word)
            elif _SIZES.fullmatch(word):
                self.sizes.append(tuple(int(size) for size in word.split("x")))
            elif _LAYOUT.fullmatch(word) and "layout" not in self.facts:
                self.facts["layout"] = word[:2].lower()
                if word[2:]:
                    self.details["output_layout"] = word[2:].lower()
            elif (dtype := element_type(word)) is not None:
                self.types.append(dtype)
            elif not (self._mma(word) or self._number(word) or self._flag(word)):
                self.flags.append(word)

    def _mma(self, word: str) -> bool:
        """Read ``s16816gemm``: accumulator letter, shape of the tensor instruction, kind of product."""
        match = _MMA.fullmatch(word)
        if match is None:
            return False
        letter, shape, kind, _ = match.groups()
        self.details["accumulator_letter"] = letter
        if shape:
            self.details["instruction"] = shape
        if kind in _CONVOLUTIONS:
            self.facts["operation"] = _CONVOLUTIONS[kind]
        return True

    def _number(self, word: str) -> bool:
        match = _NUMBERED.fullmatch(word)
        if match is None:
            return word in {"stages", "tensorop", "n", "cutlass", "f2f", "5x"}
        key, value = match.groups()
        if key == "stage":
            self.facts["pipeline_stages"] = int(value)
        elif key in {"align", "aligna"}:
            self.facts["vector_width"] = int(value)
        elif key == "tile" and value.isdecimal():
            return False
        else:
            self.details[key] = int(value) if value.isdecimal() else value
        return True

    def _flag(self, word: str) -> bool:
        if word.lower() in {"splitk", "streamk"}:
            self.facts["split_k"] = True
        elif word[:4] in {"nhwc", "nchw"} or word in {"ncdhw", "ndhwc"}:
            self._tensor_layout(word)
        elif word in _CONVOLUTIONS:
            self.facts["operation"] = _CONVOLUTIONS[word]
        elif word.startswith("tilesize"):
            tile = tuple(int(size) for size in word[8:].split("x") if size.isdecimal())
            if tile[1:]:  # else the name was cut short
                self.sizes.insert(0, tile)
        else:
            return False
        return True

    def _tensor_layout(self, word: str) -> None:
        """Take the input's layout, named first; a second one is the output's (``nhwckrsc_nchw``: filters are krsc)."""
        if (self.facts.get("layout") or "")[:2] in {"nh", "nc", "nd"}:
            self.details["output_layout"] = word
        else:
            self.facts["layout"] = word[:4] if word[4:] == "krsc" else word

    def finish(self) -> Facts:
        """Return the facts: tile from the first sizes, element types, epilogue, and what is left as flags."""
        if self.sizes:
            self._tile(*self.sizes)
        if self.epilogue:
            self.facts["epilogue"] = "+".join(self.epilogue)
        if self.flags:
            self.details["flags"] = " ".join(self.flags)
        letter = str(self.details.pop("accumulator_letter", ""))
        accumulator = letter_type(letter)
        if not self.types and accumulator is not None:
            self.types.append(self._bare_type(letter, accumulator))
        if self.types or accumulator is not None:
            self.facts.update(typed([*self.types, accumulator]))
        self.facts["details"] = self.details
        return self.facts

    def _tile(self, tile: tuple[int, ...], *more: tuple[int, ...]) -> None:
        """Take the tile, which may be followed by its depth with the stages, and by the cluster."""
        self.facts["tile_m"], self.facts["tile_n"] = tile[:2]
        cluster: tuple[int, ...] = ()
        if tile[2:]:
            self.facts["tile_k"] = tile[2]
            cluster = more[0] if more and more[0][2:] else ()
        elif more:
            self.facts["tile_k"], self.facts["pipeline_stages"] = more[0][:2]
            cluster = more[1] if more[1:] else ()
        if cluster:
            self.facts["cluster"] = "x".join(map(str, cluster))

    def _bare_type(self, letter: str, accumulator: str) -> str:
        """Return the input type where only the accumulator is named.

        A tensor instruction with fp32 accumulators and unnamed inputs is TF32 from Ampere on (CUTLASS'
        ``tensorop_s1688gemm``) and fp16 before, where tensor cores knew no other type.
        """
        if "instruction" not in self.details or letter != "s":
            return accumulator
        return "fp16" if self.facts.get("arch") in {"sm_70", "sm_75"} else "tf32"


def _read(words: list[str]) -> Facts:
    reader = _Words()
    reader.read(words)
    return reader.finish()


def read_nvjet(name: Structure) -> Facts:
    """Read ``nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_bias_TNT``.

    The letters are input, accumulator, output (five: A, B, C, accumulator, D); ``bz``: beta is 0, ``badd``: C is added.
    """
    words = name.base.split("_")[1:]
    reader = _Words()
    if words and words[0].startswith("sm") and words[0][2:].isdecimal():
        reader.facts["arch"] = f"sm_{words.pop(0)[2:]}"
    letters = words.pop(0) if words else ""
    reader.types.extend(distinct(letter_type(letter) for letter in letters))
    reader.details["letters"] = letters
    for word, key, value in _NVJET_WORDS:
        if word in words:
            words.remove(word)
            reader.details[key] = value
    cooperative = next((word for word in words if word.startswith("coop")), None)
    if cooperative is not None:
        words.remove(cooperative)
        reader.details["cooperative"] = cooperative[4:]
    reader.facts["split_k"] = False
    reader.read(words)
    return reader.finish()


def read_words(name: Structure) -> Facts:
    """Read a symbol by architecture, such as ``ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_tn``."""
    return _read(name.base.split("_"))


def read_xmma(name: Structure) -> Facts:
    """Read ``sm80_xmma_gemm_...`` and ``sm80_xmma_fprop_implicit_gemm_...``."""
    words = name.base.split("_")
    types = [word for word in words if _XMMA_TYPES.fullmatch(word)]
    reader = _Words()
    reader.facts["arch"] = f"sm_{words[0][2:]}"
    reader.facts["split_k"] = "split_k" in name.base or "splitK" in name.base
    reader.types.extend(distinct(packed_types("_".join(types))))
    kind = words[2] if words[2:] else ""
    if kind in _CONVOLUTIONS:
        reader.facts["operation"] = _CONVOLUTIONS[kind]
        reader.facts["direction"] = "forward" if kind == "fprop" else "backward"
    if words[-1] == "trt":
        reader.facts["library"] = "TensorRT"
    reader.read([word for word in words[3:] if word not in types and word not in _XMMA_NOISE])
    return reader.finish()


def read_cutlass(name: Structure) -> Facts:
    """Read ``cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x2_tn_align8``, alone or in ``cutlass::Kernel2<...>``."""
    symbol = name.base if name.base.startswith("cutlass") else name.args[0] if name.args else ""
    words = symbol.split("<", maxsplit=1)[0].split("_")
    if not words[0].startswith("cutlass"):
        return _read_template(symbol)
    facts: Facts = {}
    arch = next((word for word in words[1:3] if word.isdecimal() or (word[:2] == "sm" and word[2:].isdecimal())), None)
    if arch is not None:
        words.remove(arch)
        facts["arch"] = f"sm_{arch.removeprefix('sm')}"
    facts.update(_read(words[1:]))
    operation = str(facts.get("operation"))
    if operation.startswith("conv_"):
        facts["category"], facts["family"] = "CONVOLUTION", "cutlass_conv"
        facts["library"] = "cuDNN"
        facts["direction"] = "forward" if operation == "conv_fprop" else "backward"
    return facts


# Blocks of a cluster along one dimension; any tile is larger.
_LARGEST_CLUSTER = 4
_TEMPLATE_SHAPE = re.compile(
    r"(?:GemmShape|MatrixShape|tuple|Shape)<(?:C<|Int<|constant<int,)?(\d+)>?,(?:C<|Int<|constant<int,)?(\d+)>?(?:,(?:C<|Int<|constant<int,)?(\d+))?"
)


def _read_template(symbol: str) -> Facts:
    """Read a CUTLASS kernel that is spelled out as a template, not as a symbol: tile and what kind of product."""
    facts: Facts = {}
    shapes = [[int(size) for size in match.groups() if size] for match in _TEMPLATE_SHAPE.finditer(symbol)]
    if shapes and max(shapes[0]) <= _LARGEST_CLUSTER:
        facts["cluster"] = "x".join(map(str, shapes.pop(0)))
    if shapes:
        facts["tile_m"], facts["tile_n"] = shapes[0][:2]
        facts["tile_k"] = shapes[0][2] if shapes[0][2:] else None
    facts["dtypes"] = types = inner_types(symbol)
    facts["dtype"] = main_type(types)
    if "Conv" in symbol or "conv" in symbol:
        facts["category"], facts["library"], facts["family"] = "CONVOLUTION", "cuDNN", "cutlass_conv"
        kind = re.search(r"Fprop|Dgrad|Wgrad", symbol)
        facts["operation"] = _CONVOLUTIONS.get(kind[0].lower(), "convolution") if kind else "convolution"
        if kind is not None:
            facts["direction"] = "forward" if kind[0] == "Fprop" else "backward"
    elif "Flash" in symbol or "Attention" in symbol or "Fmha" in symbol:
        facts["category"], facts["operation"] = "ATTENTION", "attention"
        facts["library"] = "FlashAttention" if "Flash" in symbol else "CUTLASS"
        facts["family"] = "flash_attention_3" if "Sm90" in symbol else "fmha"
    elif "ReduceSplitK" in symbol:
        facts["family"], facts["operation"] = "splitK_reduce", "splitK_reduce"
        facts["split_k"] = True
    return facts


def read_gemv(name: Structure) -> Facts:
    """Read a cuBLAS matrix-vector template: the element types lead its arguments, behind the index types."""
    args = [arg for arg in name.args if "<" not in arg]
    leading = next((index for index, arg in enumerate(args) if arg != "int"), 0)
    facts = typed(map(element_type, args[leading:]))
    letters = re.search(r"gemv2([TN])|gemvNSP|gemmSN_([TN]{2})", name.base)
    if letters is not None:
        facts["layout"] = (letters[1] or letters[2] or "n").lower()
    return facts


GEMVX_TEMPLATE = 10


def read_gemvx(name: Structure) -> Facts:
    """Read ``internal::gemvx::kernel<int, int, A, x, y, accumulator, ..., template, ...>`` (argument 11)."""
    facts = read_gemv(name)
    template = number_at(name.args, GEMVX_TEMPLATE)
    if template is not None:
        facts["template"] = str(template)
        facts["details"] = {"template": template}
    return facts


def read_splitk(name: Structure) -> Facts:
    """Read ``splitKreduce_kernel<32, 16, int, A, B, ...>``: only its types say more."""
    types = argument_types(arg for arg in name.args if arg != "int")
    return {**typed(dtype for dtype in types if dtype != "bool"), "split_k": True}


def read_conv_words(name: Structure) -> Facts:
    """Read ``cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1`` (also as ``volta_scudnn_...``)."""
    words = [word for word in name.base.split("_") if word not in {"cudnn", "infer", "train", "v1", "v0"}]
    facts = _read(words)
    facts.setdefault("operation", "convolution")
    return facts


def read_trt_words(name: Structure) -> Facts:
    """Read ``trt_volta_h884cudnn_256x64_ldg8_relu_...``; ``int8x4`` is how 8-bit inputs are packed."""
    words = [word.partition("x")[0] if word.startswith("int8x") else word for word in name.base.split("_")[1:]]
    facts = _read(sorted(words, key=lambda word: word != "int8"))
    facts.setdefault("operation", "gemm" if "gemm" in name.base else "convolution")
    return facts


def read_trtllm_gemm(name: Structure) -> Facts:
    """Read TensorRT-LLM's ``bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256..._sm100f``: A, B, accumulator, tile, arch."""
    facts = typed(map(element_type, re.findall(r"MxE\dm\d|E\dm\d|Bfloat16|Fp\d+", name.base)))
    tile = re.search(r"_t(\d+)x(\d+)x(\d+)", name.base)
    if tile is not None:
        facts["tile_m"], facts["tile_n"], facts["tile_k"] = int(tile[1]), int(tile[2]), int(tile[3])
    arch = re.search(r"sm(\d+)", name.base)
    if arch is not None:
        facts["arch"] = f"sm_{arch[1]}"
    return facts


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
    facts = typed(packed_types(types))
    facts["tile_m"], facts["tile_n"], facts["tile_k"] = int(tile_m), int(tile_n), int(tile_k)
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
    facts = typed([stored])
    if name.base == "mul_mat_q" and len(name.args) > 1 and name.args[1].isdecimal():
        facts["tile_n"] = int(name.args[1])
    return facts


def read_template_product(name: Structure) -> Facts:
    """Read a product spelled out as a template: its element types."""
    types = inner_types(_TENSOR_LAYOUTS.sub("", name.canonical)) or packed_types(name.base)
    return {"dtypes": types, "dtype": main_type(types)}


def read_ck_product(name: Structure) -> Facts:
    """Read a product of Composable Kernel, which holds bf16 as ``unsigned short`` (``ck::bhalf_t``), fp8 as 8 bits."""
    for held, meant in _CK_TYPES.items():
        name = name.respelled(held, meant)
    return read_template_product(name)


def read_fused_moe(name: Structure) -> Facts:
    """Read ``fmoe_bf16_pertokenFp8_g1u1_…``: the result is bf16, and what is multiplied was quantised to fp8."""
    quantised = _MOE_INPUT.search(name.base)
    return typed([element_type(quantised[1].lower())]) if quantised else typed(packed_types(name.base))
