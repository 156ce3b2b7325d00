"""Convolutions and what surrounds them: cuDNN, MIOpen, CK; layout changes are family ``conv_layout``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import argument_types, distinct, element_type, main_type, packed_types
from kerneldb.names.grammar_aten import read_norm, read_types
from kerneldb.names.grammar_gemm import read_conv_words, read_xmma
from kerneldb.names.rules import rule

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_IGEMM = re.compile(r"igemm_(fwd|bwd|wrw)_(gtcx?\d*)_(n\w{2,3}w?c?)_(\w+?)_bx\d+_ex\d+_bt(\d+)x(\d+)x(\d+)")
_IGEMM_OPERATIONS = {"fwd": "conv_fprop", "bwd": "conv_dgrad", "wrw": "conv_wgrad"}
_KINDS = (
    (re.compile(r"[Ww]grad|wrw|bwd_weight|Weight"), "conv_wgrad"),
    (re.compile(r"[Dd]grad|bwd|backward|Backward"), "conv_dgrad"),
    (re.compile(r"[Ff]prop|fwd|[Ff]orward|implicit_convolve|explicit_convolve"), "conv_fprop"),
)


def read_igemm(name: Structure) -> Facts:
    """Read MIOpen's ``igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32_wt...``; ``wrw`` is the weights' gradient."""
    match = _IGEMM.match(name.base)
    if match is None:
        return {}
    dtype = element_type(match[4])
    return {
        "operation": _IGEMM_OPERATIONS[match[1]],
        "direction": "forward" if match[1] == "fwd" else "backward",
        "layout": match[3],
        "dtype": dtype,
        "dtypes": distinct([dtype]),
        "tile_m": int(match[5]),
        "tile_n": int(match[6]),
        "tile_k": int(match[7]),
        "details": {"generator": match[2]},
    }


def read_convolution(name: Structure) -> Facts:
    """Read which of the three convolutions a name speaks of, and its element types."""
    text = name.head + " ".join(name.args)
    operation = next((kind for pattern, kind in _KINDS if pattern.search(text)), "convolution")
    types = argument_types(arg for arg in name.args if arg not in {"int", "long"})
    types = tuple(dtype for dtype in types if dtype not in {"bool", "uint32"})
    if not types and not name.base.startswith("_Z"):
        types = packed_types(name.base)
    facts: Facts = {"operation": operation, "dtypes": types, "dtype": main_type(types)}
    if operation != "convolution":
        facts["direction"] = "forward" if operation == "conv_fprop" else "backward"
    return facts


def read_layout(name: Structure) -> Facts:
    """Read layout kernels: element types from the template, or from the end (``batched_transpose_64x64_half``)."""
    if name.args:
        return read_types(name)
    words = [element_type(word) for word in name.base.split("_")]
    types = distinct(words)
    tile = re.search(r"_(\d+)x(\d+)", name.base)
    facts: Facts = {"dtypes": types, "dtype": types[0] if types else None}
    if tile is not None:
        facts["tile_m"], facts["tile_n"] = int(tile[1]), int(tile[2])
    return facts


_CUDNN = "cuDNN"
RULES = (
    rule(r"^sm\d+_xmma_\w*(?:fprop|dgrad|wgrad)", "CONVOLUTION", _CUDNN, "xmma_conv", None, read_xmma),
    rule(
        r"^(?:cudnn_)?(?:infer_|train_)?(?:maxwell|pascal|volta|turing|ampere|hopper)_\w*cudnn",
        "CONVOLUTION",
        _CUDNN,
        "scudnn",
        "convolution",
        read_conv_words,
    ),
    rule(
        r"nchwToNhwc|nhwcToNchw|nchwAddPadding|ToNdhwc|foldedNhwc",
        "CONVOLUTION",
        _CUDNN,
        "conv_layout",
        "layout_transform",
        read_layout,
    ),
    rule(
        r"cudnn.*(?:tensorTransform|transform_tensor|transpose)",
        "CONVOLUTION",
        _CUDNN,
        "conv_layout",
        "layout_transform",
        read_layout,
    ),
    rule(
        r"^batched_transpose_|transpose_(?:NCHW|CNHW)|gridwise_\w*transpose",
        "CONVOLUTION",
        "MIOpen",
        "conv_layout",
        "layout_transform",
        read_layout,
    ),
    rule(r"^SubTensorOpWithCast", "CONVOLUTION", "MIOpen", "conv_layout", "cast"),
    rule(r"^SubTensorOpWith|^SubTensorOp", "ELEMENTWISE", "MIOpen", "op_tensor", "fill"),
    rule(r"^Op[1-5]dTensor|^OpTensor", "ELEMENTWISE", "MIOpen", "op_tensor", "add", read_types),
    rule(r"cask_cudnn\w*::|compute\w*OffsetsKernel", "CONVOLUTION", _CUDNN, "conv_offsets", "offsets"),
    rule(r"cudnn::.*im2col|^im2col4d", "CONVOLUTION", _CUDNN, "im2col", "im2col", read_types),
    rule(
        r"cudnn.*::bn_|^bn_(?:fw|bw)|cudnn.*(?:batchnorm|BatchNorm|[Nn]orm[A-Z]|layernorm)",
        "NORMALIZATION",
        _CUDNN,
        "cudnn_norm",
        None,
        read_norm,
    ),
    rule(r"cudnn.*softmax", "SOFTMAX", _CUDNN, "cudnn_softmax", "softmax", read_types),
    rule(r"cudnn.*pooling", "REDUCTION", _CUDNN, "cudnn_pool", "max_pool", read_types),
    rule(r"scalePackedTensor|cudnn::ops::scale", "ELEMENTWISE", _CUDNN, "cudnn_ops", "scale", read_types),
    rule(r"cudnn::.*reduce(?!_wgrad)", "REDUCTION", _CUDNN, "cudnn_ops", "sum", read_types),
    rule(r"winograd|Winograd", "CONVOLUTION", _CUDNN, "winograd", None, read_convolution),
    rule(
        r"(?:im|ex)plicit_convolve|wgrad_alg\d|dgrad_alg\d|dgrad_engine|wgrad_engine|reduce_wgrad|cudnn::cnn|cudnn::detail|cudnn::fft|^fft[12]d_",
        "CONVOLUTION",
        _CUDNN,
        "cudnn_conv",
        None,
        read_convolution,
    ),
    rule(r"^_ZN\d+cutlass_cudnn|^cutlass__5x_cudnn", "CONVOLUTION", _CUDNN, "cutlass_conv", None, read_convolution),
    rule(r"^cudnn.*(?:conv|gemm)|^cudnn", "CONVOLUTION", _CUDNN, "cudnn", None, read_convolution),
    rule(r"^igemm_", "CONVOLUTION", "MIOpen", "igemm", None, read_igemm),
    rule(r"^MIOpenBatchNorm|^MIOpen\w*Norm", "NORMALIZATION", "MIOpen", "miopen_norm", None, read_norm),
    rule(r"^MIOpenSoftmax|^Softmax", "SOFTMAX", "MIOpen", "miopen_softmax", "softmax"),
    rule(r"^mloPooling|^MIOpenPool", "REDUCTION", "MIOpen", "miopen_pool", "max_pool"),
    rule(r"^MIOpen(?:Neuron|Activ)", "ELEMENTWISE", "MIOpen", "miopen_activation", "activation"),
    rule(r"^Im2Col|^Im2d2Col|^Col2Im|^Im3d2Col", "CONVOLUTION", "MIOpen", "im2col", "im2col"),
    rule(
        r"^miopen|^MIOpen|gridwise_convolution|naive_conv|sp3AsmConv|miopenSp3|^mlo|gcnAsmConv|xdlops_bwd",
        "CONVOLUTION",
        "MIOpen",
        "miopen_conv",
        None,
        read_convolution,
    ),
    rule(
        r"kernel_grouped_conv|Conv\w*Xdl|device_grouped_conv|ck_tile::.*Conv|ck::.*conv",
        "CONVOLUTION",
        "CK",
        "ck_conv",
        None,
        read_convolution,
    ),
    rule(
        r"^(?:const|k)_conv|conv_depthwise|DepthwiseConv|depthwise_conv|conv_transpose\w*|^conv2d",
        "CONVOLUTION",
        "PyTorch ATen",
        "depthwise_conv",
        None,
        read_convolution,
    ),
    rule(r"^ssm_conv", "CONVOLUTION", "llama.cpp/ggml", "ssm_conv", "conv1d"),
    rule(r"causal_conv1d", "CONVOLUTION", "vLLM", "causal_conv1d", "conv1d", read_types),
)
