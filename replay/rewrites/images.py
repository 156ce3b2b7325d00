"""Images of a training step in the layout that a compiler gives them.

A training step is compiled as one function here, in the layouts that were recorded. Compiled by the program, its
forward pass comes first: inductor makes the images of its convolutions channels-last, and the backward pass, which is
compiled for what the forward pass keeps, follows. So the function gets such images and weights from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kerneldb.replay.rewrites.region import CONVOLUTIONS, Region

BACKWARD: Final = "convolution_backward"
SMALL: Final = 64
"""Convolutions of so many channels are left as they are where all are: inductor's rule for training."""
DIMS: Final = 4


def trains_images(found: Region) -> bool:
    """Whether a region has the backward pass of convolutions that a compiler makes channels-last.

    The rule is that of inductor (`decide_layout_opt` in torch/_inductor/graph.py, for training): no groups, and not all
    of them small.
    """
    nodes = [found.flow.nodes[place] for place in found.places]
    calls = [one for one in nodes if one.op in {BACKWARD, "convolution", *CONVOLUTIONS}]
    weights = [_weight(found, one) for one in calls]
    plain = all(one.argument("groups") == 1 for one in calls) and all(len(dims) == DIMS for dims in weights)
    trained = any(one.op == BACKWARD for one in calls)
    return trained and plain and any(max(dims[:2]) > SMALL for dims in weights)


def _weight(found: Region, call: Any) -> Sequence[int]:
    slot = call.argument("weight")
    return () if slot is None else found.flow.tensor(slot).dims


def in_channels_last(made: Any) -> Any:
    """A graph whose convolutions take their weights, and images that no convolution made, in that layout."""
    import torch

    of_images = set[Any]()
    changed = dict[Any, Any]()
    for node in list(made.graph.nodes):
        taken = set(node.all_input_nodes)
        if node.target is torch.ops.aten.convolution.default:
            with made.graph.inserting_before(node):
                for place, one in enumerate(node.args[:2]):
                    if place or one not in of_images:
                        node.replace_input_with(one, _converted(made, one, changed))
        elif node.target is torch.ops.aten.convolution_backward.default:
            for one in taken & set(changed):
                node.replace_input_with(one, changed[one])
        if node.target is torch.ops.aten.convolution.default or taken & of_images:
            of_images.add(node)
    made.recompile()
    return made


def _converted(made: Any, node: Any, changed: dict[Any, Any]) -> Any:
    import torch

    if node not in changed:
        layout = {"memory_format": torch.channels_last}
        changed[node] = made.graph.call_function(torch.ops.aten.clone.default, (node,), layout)
    return changed[node]
