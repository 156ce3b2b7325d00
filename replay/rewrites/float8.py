"""Products of linear layers in float8, with the error that this makes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Node, Slot
from kerneldb.replay.rewrites.places import innermost
from kerneldb.replay.rewrites.products import WEIGHT, Kept, factor, is_weight
from kerneldb.replay.rewrites.region import CannotTryError, Region, region

ALIGNED: Final = 16
HIGH: Final = frozenset({"torch.bfloat16", "torch.float16"})
HOPPER: Final = (8, 9)
LEAST: Final = 1e-12


class Float8(Rewrite):
    """Both factors of a linear layer in float8 (e4m3), each scaled to its largest element; the weight once."""

    name = "float8"
    about = "products of linear layers in float8 (3 bits of mantissa), scaled by tensor"
    precision = True

    def lacks(self, flow: Flow) -> str | None:
        """A GPU that multiplies float8."""
        if flow.player.device == "cpu":
            return None
        import torch

        able = torch.cuda.get_device_capability(flow.player.device) >= HOPPER
        return None if able else "needs a GPU with float8 products (compute capability 8.9)"

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each product with a parameter."""
        for node in flow.nodes:
            if node.op not in {"mm", "addmm"} or not is_weight(flow, node) or not _fits(flow, node):
                continue
            try:
                covered = region(flow, [node.place])
            except CannotTryError:
                continue
            if factor(node) not in covered.inputs:  # a kernel of a compiler made it: nobody knows of what
                continue
            text = "linear layers in float8, scaled by tensor, such as torchao's Float8DynamicActivationFloat8Weight"
            change = Change("advice", innermost(flow, [node.place]), text=text)
            yield Proposal(covered, functools.partial(_function, covered, node), change, what=node.op)


def _fits(flow: Flow, node: Node) -> bool:
    sizes = (*flow.tensor(node.argument(WEIGHT)).dims, flow.tensor(factor(node)).dims[0])
    return str(flow.player.dtype(flow.result(node))) in HIGH and not any(size % ALIGNED for size in sizes)


def scaled(tensor: Any) -> tuple[Any, Any]:
    """A tensor in float8, and what it is to be multiplied with."""
    import torch

    most = torch.finfo(torch.float8_e4m3fn).max
    scale = (tensor.abs().amax().float() / most).clamp_min(LEAST)
    return (tensor / scale).clamp(-most, most).to(torch.float8_e4m3fn), scale


def _function(covered: Region, node: Node) -> Function:
    import torch

    order = {slot: number for number, slot in enumerate(covered.inputs)}
    x, weight, shift = order[factor(node)], order[node.argument(WEIGHT)], node.argument("self")
    bias = order[shift] if node.op == "addmm" and isinstance(shift, Slot) else None
    kept = Kept(lambda some: scaled(some[0].t().contiguous()))

    def call(*tensors: Any) -> list[Any]:
        low, scale = scaled(tensors[x])
        columns, by = kept.of([tensors[weight]])
        made = torch._scaled_mm(low, columns.t(), scale_a=scale, scale_b=by, out_dtype=tensors[x].dtype)
        return [made if bias is None else made + tensors[bias]]

    return call
