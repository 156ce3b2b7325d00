"""Attention: FLOPs and bytes of the fused scaled-dot-product kernels.

Forward: two products per head, `2 * B * H * Sq * Skv * (D + Dv)`, which is the usual `4 * B * H * Sq * Skv * D` when
both head dimensions agree. Backward: five products (scores again, dV, dP, dQ, dK), `2 * B * H * Sq * Skv * (3 D + 2
Dv)`, so 2.5 times the forward (torch `torch/utils/flop_counter.py`, sdpa_flop_count and sdpa_backward_flop_count). A
causal mask halves the number, as the FlashAttention benchmarks count (Dao-AILab/flash-attention
`benchmarks/benchmark_flash_attention.py`); torch's own counter does not. H is the number of query heads (grouped-query
attention shares keys, not work). Dropped, because the trace does not hold what would be needed: causal masks with Sq
!= Skv (aligned top-left or bottom-right by backend), sliding windows, and packed variable-length batches. Bytes are q
+ k + v read and out written (backward: grad_out, q, k, v, out read, dq, dk, dv written; the statistics of one number
per row are left out). `numel` is the number of output elements (backward: of dq).
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from kerneldb.work.model import Problem
from kerneldb.work.registry import model
from kerneldb.work.tensors import bytes_of, total

if TYPE_CHECKING:
    from kerneldb.work.tensors import Call, Tensor

# Partial-result sums, passes before and after the backward kernel, random states.
_HELPERS = re.compile(r"combine|conver|prepare|preprocess|philox|unpack|dot_do_o|reduc|merge|cache")
_RANK = 4


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """Where an operator keeps what: argument positions, and whether heads come before the sequence."""

    query: int
    causal: int
    heads_first: bool
    lengths: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    mask_type: bool = False

    @property
    def backward(self) -> bool:
        """Backward operators start with grad_out."""
        return self.query == 1


_LAYOUTS: dict[str, _Layout] = {
    "aten::scaled_dot_product_attention": _Layout(0, 5, heads_first=True),
    "aten::_scaled_dot_product_flash_attention": _Layout(0, 4, heads_first=True),
    "aten::_scaled_dot_product_efficient_attention": _Layout(0, 6, heads_first=True),
    "aten::_scaled_dot_product_cudnn_attention": _Layout(0, 6, heads_first=True),
    "aten::_cudnn_attention_forward": _Layout(0, 10, heads_first=True, lengths=(4, 5)),
    "aten::_flash_attention_forward": _Layout(0, 8, heads_first=False, lengths=(3, 4), windows=(11, 12)),
    "aten::_efficient_attention_forward": _Layout(
        0, 9, heads_first=False, lengths=(4, 5), windows=(13,), mask_type=True
    ),
    "flash_attn::_flash_attn_forward": _Layout(0, 5, heads_first=False, windows=(6, 7)),
    "aten::_scaled_dot_product_flash_attention_backward": _Layout(1, 11, heads_first=True, lengths=(6, 7)),
    "aten::_scaled_dot_product_efficient_attention_backward": _Layout(1, 11, heads_first=True),
    "aten::_scaled_dot_product_cudnn_attention_backward": _Layout(1, 14, heads_first=True, lengths=(9, 10)),
    "aten::_cudnn_attention_backward": _Layout(1, 14, heads_first=True, lengths=(9, 10)),
    "aten::_flash_attention_backward": _Layout(1, 11, heads_first=False, lengths=(6, 7), windows=(15, 16)),
    "aten::_efficient_attention_backward": _Layout(
        1, 14, heads_first=False, lengths=(6, 7), windows=(18,), mask_type=True
    ),
}


@model(*_LAYOUTS, categories=("ATTENTION",), helpers=_HELPERS)
def attention(call: Call) -> Problem | None:
    """Work of one fused attention call."""
    layout = _LAYOUTS[call.op]
    query, key, value = (call.tensor(layout.query + offset) for offset in range(3))
    if query is None or key is None or value is None:
        return None
    if layout.query and call.tensor(0) is None:
        return None
    out = query.numel // query.dims[-1] * value.dims[-1] if query.dims and query.dims[-1] and value.dims else None
    factor = _mask_factor(call, layout)
    flops = _flops(layout, query, key, value, factor)
    parts = [*(tensor.stored_bytes for tensor in (query, key, value)), bytes_of(out, query.dtype)]
    method = "attention backward 10bhsd" if layout.backward else "attention 4bhsd"
    if layout.backward:  # grad_out is as large as out
        gradients = (bytes_of(tensor.numel, tensor.dtype) for tensor in (query, key, value))
        parts += [bytes_of(out, query.dtype), *gradients]
    if flops is None:
        method = "attention, bytes only"
    elif factor != 1:
        method += ", causal /2"
    return Problem.of_call(query.numel if layout.backward else out, method, total(parts), flops)


def _flops(layout: _Layout, query: Tensor, key: Tensor, value: Tensor, factor: float | None) -> float | None:
    if factor is None or {len(query.dims), len(key.dims), len(value.dims)} != {_RANK}:
        return None
    sequence, heads = (2, 1) if layout.heads_first else (1, 2)
    queries, keys = query.dims[sequence], key.dims[sequence]
    if factor != 1 and queries != keys:
        return None
    depth, width = query.dims[3], value.dims[3]
    per_pair = 3 * depth + 2 * width if layout.backward else depth + width
    return factor * 2.0 * query.dims[0] * query.dims[heads] * queries * keys * per_pair


def _mask_factor(call: Call, layout: _Layout) -> float | None:
    """1 without a mask, 0.5 with a causal one, None where the recorded arguments do not settle it."""
    if any(call.tensor(position) for position in layout.lengths):
        return None
    if any(call.text(position) not in (None, "-1") for position in layout.windows):
        return None
    if layout.mask_type:
        kind = call.integer(layout.causal)
        return None if kind is None else {0: 1.0, 1: 0.5, 2: 0.5}.get(kind)
    causal = call.flag(layout.causal)
    return None if causal is None else (0.5 if causal else 1.0)
