"""Another backend of `scaled_dot_product_attention` than the recorded step took."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Node, Slot
from kerneldb.replay.rewrites.region import CannotTryError, Region, region

SWITCHES: Final = {"flash": "flash", "efficient": "mem_efficient", "cudnn": "cudnn", "math": "math"}
"""Backends, as PyTorch's switches call them. `math` stays on: calls that no other one can make need it."""
NAMES: Final = {
    "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION", "math": "MATH",
}  # fmt: skip
OPERATORS: Final[Mapping[str, str]] = {
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_flash_attention_for_cpu": "flash",
    "_flash_attention_forward": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_efficient_attention_forward": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_cudnn_attention_forward": "cudnn",
}
TOKENS_FIRST: Final = frozenset({"_flash_attention_forward", "_efficient_attention_forward"})
"""Operators whose tensors have tokens before heads."""
MASKS: Final = ("attn_bias", "attn_mask", "bias")
RAGGED: Final = ("cum_seq_q", "cu_seqlens_q", "seqused_k", "block_table")
IMAGE: Final = 4


class AttentionBackend(Rewrite):
    """Fused attention by each of the other backends."""

    name = "attention_backend"
    about = "scaled_dot_product_attention by another backend (flash, efficient, cuDNN; math on a CPU)"

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each call and backend."""
        others = ("math",) if flow.player.device == "cpu" else ("flash", "efficient", "cudnn")
        for node in flow.nodes:
            if node.op not in OPERATORS or not _plain(flow, node):
                continue
            try:
                covered = region(flow, [node.place])
            except CannotTryError:
                continue
            if covered.outputs != node.call.outputs[:1]:
                continue  # a backward pass takes what this backend saves
            for backend in others:
                if backend != OPERATORS[node.op]:
                    make = functools.partial(_function, covered, node, backend)
                    yield Proposal(covered, make, Change("setting", text=_line(backend)), what=backend)


def _plain(flow: Flow, node: Node) -> bool:
    dims = flow.tensor(node.argument("query")).dims
    ragged = any(isinstance(node.argument(one), Slot) for one in RAGGED)
    return len(dims) == IMAGE and not node.argument("dropout_p") and not ragged


def _line(backend: str) -> str:
    """The line of a program that leaves only this fused backend."""
    return "; ".join(
        f"torch.backends.cuda.enable_{switch}_sdp({name == backend})"
        for name, switch in SWITCHES.items()
        if name != "math"
    )


def _function(covered: Region, node: Node, backend: str) -> Function:
    import torch.nn.functional as functions
    from torch.nn.attention import SDPBackend, sdpa_kernel

    order = {slot: number for number, slot in enumerate(covered.inputs)}
    places = [order[node.argument(name)] for name in ("query", "key", "value")]
    mask = next((order[slot] for slot in map(node.argument, MASKS) if isinstance(slot, Slot)), None)
    causal = bool(node.argument("is_causal")) or node.argument("custom_mask_type") == 1
    scale, first = node.argument("scale"), node.op in TOKENS_FIRST
    kind = getattr(SDPBackend, NAMES[backend])

    def call(*tensors: Any) -> list[Any]:
        query, key, value = (tensors[one].transpose(1, 2) if first else tensors[one] for one in places)
        grouped = {"enable_gqa": True} if key.shape[1] != query.shape[1] else {}
        with sdpa_kernel(kind):
            made = functions.scaled_dot_product_attention(
                query, key, value, None if mask is None else tensors[mask], is_causal=causal, scale=scale, **grouped
            )
        return [made.transpose(1, 2) if first else made]

    return call
