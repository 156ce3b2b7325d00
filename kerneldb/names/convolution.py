"""Readers of convolutions and of the changes of layout around them: cuDNN, MIOpen, CK."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.aten import read_types
from kerneldb.names.dtypes import argument_types, element_type, main_type, packed_types, typed

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
    return {
        "operation": _IGEMM_OPERATIONS[match[1]],
        "direction": "forward" if match[1] == "fwd" else "backward",
        "layout": match[3],
        **typed([element_type(match[4])]),
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
    facts = typed(map(element_type, name.base.split("_")))
    tile = re.search(r"_(\d+)x(\d+)", name.base)
    if tile is not None:
        facts["tile_m"], facts["tile_n"] = int(tile[1]), int(tile[2])
    return facts
