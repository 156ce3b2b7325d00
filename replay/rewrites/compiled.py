"""Functions of the program through `torch.compile`, and the step as a CUDA graph.

Each function of the program is tried, from single norms to the whole model: a compiler fuses what is in it, and a
larger part is not always better. Without frames in the trace, all of the step is.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Frame
from kerneldb.replay.rewrites.images import in_channels_last, trains_images
from kerneldb.replay.rewrites.many import OPTIMIZERS
from kerneldb.replay.rewrites.places import functions, ours
from kerneldb.replay.rewrites.region import CannotTryError, Region, Within, graph, region

LEAST_SHARE: Final = 0.02
"""Functions with less of the recorded time are not tried."""
NO_GPU: Final = "needs a GPU"


class Compiled(Rewrite):
    """A function by what inductor makes of its calls."""

    name = "compile"
    about = "a function through torch.compile"
    removes_launches = True
    options: ClassVar[dict[str, Any]] = {}
    """Arguments of torch.compile."""

    def lacks(self, flow: Flow) -> str | None:
        """What torch.compile makes code with. It is not tried here: its first run takes half a minute."""
        if flow.player.device == "cpu":
            found = any(map(shutil.which, ("c++", "g++", "clang++")))
            return None if found else "torch.compile needs a C++ compiler on a CPU"
        return None if importlib.util.find_spec("triton") else "torch.compile needs triton on a GPU"

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each run of each function; of a training step, forward and backward together."""
        if any("backward" in one.op for one in flow.nodes):
            yield from self._training(flow)
            return
        total = sum(sum(one.call.recorded_ns) for one in flow.nodes)
        listed = list(functions(flow))
        if not listed:
            yield self._proposal(flow, None, [one.place for one in flow.nodes])
        for frame, runs in listed:
            time = sum(sum(flow.nodes[place].call.recorded_ns) for places in runs for place in places)
            if time < LEAST_SHARE * total or frame.function.startswith("_call_impl"):
                continue
            for places in runs:
                try:
                    yield self._proposal(flow, frame, places)
                except CannotTryError:
                    break

    def _training(self, flow: Flow) -> Iterator[Proposal]:
        backward = [one.place for one in flow.nodes if "backward" in one.op]
        forward = range(backward[0])
        found = outermost(flow, [one for one in forward if flow.nodes[one].op], modules=True)
        updates = [
            one.place for one in flow.nodes[backward[-1] :]
            if any(flow.frames.frames[number].path.startswith(OPTIMIZERS) for number in flow.functions(one.place))
        ]  # fmt: skip
        until = updates[0] if updates else backward[-1] + 1
        begin = found[1][0] if found else 0
        yield self._proposal(flow, found[0] if found else None, list(range(begin, until)))

    def containing(self, proposal: Proposal, inside: Sequence[Within]) -> Proposal:
        """The function with faster parts inside."""
        assert proposal.region is not None  # noqa: S101 (each of ours has one)
        return dataclasses.replace(proposal, make=functools.partial(_function, proposal.region, inside, self.options))

    def _proposal(self, flow: Flow, frame: Frame | None, places: Sequence[int]) -> Proposal:
        covered = region(flow, places)
        text = "torch.compile(model), or of the function that runs a step"
        values = {"options": dict(self.options)} if self.options else {}
        change = Change("compile" if frame else "advice", frame, values, text=text)
        make = functools.partial(_function, covered, (), self.options)
        return Proposal(covered, make, change, what=str(frame or "the step"))


def _function(covered: Region, inside: Sequence[Within], options: Mapping[str, Any]) -> Function:
    import torch

    images = trains_images(covered)
    made = graph(covered, inside=inside, any_layout=images)
    made = in_channels_last(made) if images else made
    return torch.compile(made, dynamic=False, options=dict(options) or None)  # type: ignore[no-any-return]


class Autotuned(Compiled):
    """The same, with products and convolutions chosen by measurement among libraries and generated kernels."""

    name = "autotune"
    about = "a compiled function whose products and convolutions are chosen by measurement (max_autotune)"
    refines = Compiled.name
    options: ClassVar[dict[str, Any]] = {"max_autotune": True}

    def lacks(self, flow: Flow) -> str | None:
        """A GPU: what there is to choose from on a CPU is compiled for minutes."""
        return NO_GPU if flow.player.device == "cpu" else super().lacks(flow)


class Batched(Compiled):
    """The same, with small kernels that do not need each other in one launch."""

    name = "batched_launches"
    about = "a compiled function whose small independent kernels run in one launch (combo_kernels)"
    refines = Compiled.name
    options: ClassVar[dict[str, Any]] = {"combo_kernels": True}

    def lacks(self, flow: Flow) -> str | None:
        """A GPU."""
        return NO_GPU if flow.player.device == "cpu" else super().lacks(flow)


class CudaGraph(Rewrite):
    """The step as one CUDA graph: the host launches it at once."""

    name = "cuda_graph"
    about = "the step as a CUDA graph: no launches by the host"
    removes_launches = True

    def lacks(self, flow: Flow) -> str | None:
        """A GPU."""
        return NO_GPU if flow.player.device == "cpu" else None

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for the step."""
        found = outermost(flow, [one.place for one in flow.nodes if one.op], modules=True)
        text = "torch.cuda.graph around the step, or torch.compile(model, mode='reduce-overhead')"
        training = any("backward" in one.op for one in flow.nodes)
        values = {"training": True} if training else {}  # a patch makes it of what is compiled only
        change = Change("advice", text=text) if found is None else Change("cuda_graph", found[0], values, text)
        yield Proposal(None, None, change, what="the step", whole=True)


def outermost(flow: Flow, places: Sequence[int], *, modules: bool = False) -> tuple[Frame, list[int]] | None:
    """The outermost function of the program around most of these calls, with all calls in that run of it.

    Prefers functions of modules: those of a script that call the model do more than a patch should take.
    """
    wanted = set(places)
    best: tuple[int, int, Frame, list[int]] | None = None
    for number, (frame, inside) in enumerate(flow.runs()):
        covers = len(wanted & set(inside))
        if not ours(frame) or covers < 2 or (modules and not frame.module):  # noqa: PLR2004
            continue
        key = (covers + (len(wanted) if frame.module else 0), -number)
        if best is None or key > best[:2]:
            best = (*key, frame, inside)
    return None if best is None else (best[2], best[3])
