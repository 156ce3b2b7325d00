"""Fused attention: cuDNN's, FlashAttention's and the memory-efficient kernels of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from kerneldb.replay.infer.calls import Tensor, item_bytes, spec, tokens_first
from kerneldb.replay.infer.view import Proposal, View
from kerneldb.replay.wire.plan import CallSpec


def proposals(view: View) -> Iterator[Proposal]:
    """The attention calls that this kernel may have been."""
    scene, model = view.scene, view.model
    if not model.heads or not model.head_dim:
        return
    dtype = view.float_dtype
    work = 4.0 * scene.batch * model.heads * scene.queries * scene.keys * model.head_dim
    held = scene.batch * model.head_dim * (2 * model.heads * scene.queries + 2 * model.kv_heads * scene.keys)
    shapes = [(scene.batch, model.heads, length, model.head_dim) for length in (scene.queries, scene.keys)]
    for turned, word, share in _orders(view):
        query, key = (
            Tensor(dims, dtype, tokens_first(dims) if one else None) for dims, one in zip(shapes, turned, strict=True)
        )
        for causal in (True, False) if scene.queries > 1 else (False,):
            fit = share * (1.0 if causal or scene.queries == 1 else 0.85)
            why = f"attention of {scene.batch}×{model.heads} heads, {scene.queries} on {scene.keys}, {word}"
            why += ", causal" if causal else ""
            flops = work / 2 if causal else work
            yield Proposal(
                _call(view, (query, key, key), str(causal)), why, item_bytes(dtype) * held, fit, flops, dtype
            )


def _orders(view: View) -> Iterator[tuple[tuple[bool, bool], str, float]]:
    """Which of queries, and of keys and values, are transposed views."""
    if view.scene.queries > 1:
        yield (True, False), "queries transposed", 1.0
        yield (True, True), "transposed", 0.9
    yield (False, False), "in order", 0.85


def _call(view: View, tensors: tuple[Tensor, Tensor, Tensor], causal: str) -> CallSpec:
    scale, family = f"{view.model.head_dim**-0.5:.17g}", view.known.family or ""
    if family == "cudnn_sdpa":
        lengths = (str(view.scene.queries), str(view.scene.keys))
        rest = (None, None, None, *lengths, "False", "0.", causal, "False", scale)
        return spec("_cudnn_attention_forward", *tensors, *rest)
    if "fmha" in view.kind.name or "efficient" in family:
        return spec("_scaled_dot_product_efficient_attention", *tensors, None, "False", "0.", causal, scale)
    return spec("_scaled_dot_product_flash_attention", *tensors, "0.", causal, "False", scale)
