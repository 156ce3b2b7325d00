"""Convolutions in channels-last layout, all of a network: what is fast alone may be slow beside norms."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.compiled import outermost
from kerneldb.replay.rewrites.flow import Flow
from kerneldb.replay.rewrites.products import Kept
from kerneldb.replay.rewrites.region import CannotTryError, Region, graph, region

CONVOLUTIONS: Final = frozenset(
    {"convolution", "_convolution", "cudnn_convolution", "mkldnn_convolution", "conv2d", "miopen_convolution"}
)
IMAGE: Final = 4


class ChannelsLast(Rewrite):
    """A network of convolutions with its images and weights in channels-last layout."""

    name = "channels_last"
    about = "weights and images of convolutions in channels-last layout, through the whole network"

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for the network: the outermost function around its convolutions, else from the first to the last."""
        places = [one.place for one in flow.nodes if one.op in CONVOLUTIONS]
        if not places:
            return
        if any("backward" in one.op for one in flow.nodes):
            raise CannotTryError(
                "the layout of a training step is also that of its backward pass, which is not rebuilt"
            )
        frame, around = outermost(flow, places) or (None, list(range(places[0], places[-1] + 1)))
        covered = region(flow, around)
        text = "model.to(memory_format=torch.channels_last), and the images likewise"
        change = Change("channels_last" if frame else "advice", frame, text=text)
        make = functools.partial(_function, covered, set(places))
        yield Proposal(covered, make, change, what=f"{len(places)} convolutions")


def _function(covered: Region, places: set[int]) -> Function:
    import torch

    original, flow = graph(covered, any_layout=True), covered.flow
    weights = {flow.nodes[one].argument("weight") for one in places}
    last = torch.channels_last
    kept = {slot: Kept(lambda some: some[0].to(memory_format=last)) for slot in weights}

    def converted(slot: int, tensor: Any) -> Any:
        if slot in kept and tensor.dim() == IMAGE:
            return kept[slot].of([tensor])
        image = tensor.dim() == IMAGE and tensor.is_floating_point()
        return tensor.to(memory_format=last) if image else tensor

    def call(*tensors: Any) -> Any:
        return original(*[converted(*one) for one in zip(covered.inputs, tensors, strict=True)])

    return call
