"""Fused attention: cuDNN's, FlashAttention's and the memory-efficient kernels of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer.calls import Argument, Dims, Nothing, Number, Tensor, item_bytes, spec
from kerneldb.replay.infer.view import Proposal, View, shown
from kerneldb.replay.wire.plan import CallSpec

FALSE: Final = Number("False")
TRUE: Final = Number("True")
ZERO: Final = Number("0.")
NONE: Final = Nothing()


def proposals(view: View) -> Iterator[Proposal]:
    """The attention calls that this kernel may have been."""
    scene, model = view.scene, view.model
    if not model.heads or not model.head_dim:
        return
    dtype = view.known.dtype if view.known.dtype in {"fp16", "bf16", "fp32"} else model.dtype
    one = item_bytes(dtype)
    work = 4.0 * scene.batch * model.heads * scene.queries * scene.keys * model.head_dim
    size = one * scene.batch * model.head_dim * (2 * model.heads * scene.queries + 2 * model.kv_heads * scene.keys)
    for strides, word, share in _orders(view):
        for causal in (True, False) if scene.queries > 1 else (False,):
            made = _call(view, _tensors(view, dtype or "fp16", strides), causal=causal)
            fit = share * (1.0 if causal or scene.queries == 1 else 0.85)
            why = f"attention of {scene.batch}×{model.heads} heads, {scene.queries} on {scene.keys}, {word}"
            flops = work / 2 if causal else work
            yield Proposal(made, why + (", causal" if causal else ""), size, fit, flops, dtype)


def _orders(view: View) -> Iterator[tuple[tuple[bool, bool], str, float]]:
    """Which of queries, and of keys and values, are transposed views."""
    if view.scene.queries > 1:
        yield (True, False), "queries transposed", 1.0
        yield (True, True), "transposed", 0.9
    yield (False, False), "in order", 0.85


def _tensors(view: View, dtype: str, turned: tuple[bool, bool]) -> tuple[Tensor, Tensor, Tensor]:
    scene, model = view.scene, view.model
    query = _heads((scene.batch, model.heads, scene.queries, model.head_dim), dtype, turned=turned[0])
    key = _heads((scene.batch, model.heads, scene.keys, model.head_dim), dtype, turned=turned[1])
    return query, key, key


def _heads(dims: Dims, dtype: str, *, turned: bool) -> Tensor:
    _, heads, length, width = dims
    return Tensor(dims, dtype, (length * heads * width, width, heads * width, 1) if turned else None)


def _call(view: View, tensors: tuple[Tensor, Tensor, Tensor], *, causal: bool) -> CallSpec:
    scale = Number(f"{view.model.head_dim**-0.5:.17g}")
    is_causal = TRUE if causal else FALSE
    family = view.known.family or ""
    if family == "cudnn_sdpa":
        lengths = (Number(str(view.scene.queries)), Number(str(view.scene.keys)))
        rest: tuple[Argument, ...] = (NONE, NONE, NONE, *lengths, FALSE, ZERO, is_causal, FALSE, scale)
        return spec("_cudnn_attention_forward", *tensors, *rest)
    if "fmha" in view.kind.name or "efficient" in family:
        rest = (NONE, FALSE, ZERO, is_causal, scale)
        return spec("_scaled_dot_product_efficient_attention", *tensors, *rest)
    return spec("_scaled_dot_product_flash_attention", *tensors, ZERO, is_causal, FALSE, scale)


def describe(tensor: Tensor) -> str:
    """The dims of a tensor as text."""
    return shown(tensor.dims)
