"""How the calls of a step are made, and what waits where one cannot be."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from kerneldb.replay.resolve.calls import ResolvedCall, Settings
from kerneldb.replay.resolve.tensors import TensorSpec
from kerneldb.replay.routes.base import Call

Fills = tuple[Any, Any, int, TensorSpec | None]


@dataclasses.dataclass(slots=True)
class Program:
    """A call ready to be made: `fills` says where (a list or mapping, a key of it) which tensor of the step goes."""

    function: Any
    args: list[Any]
    kwargs: dict[str, Any]
    fills: list[Fills]


@dataclasses.dataclass(slots=True)
class Prepared:
    """How a call of the step is made now.

    `resolved` is what is called, with tensors of the step where `slots` name them (per argument, as in the plan), and
    `own` ones elsewhere; `apart` a call of a route that brings its inputs; with `linked`, those that the step has are
    passed in their place. `program` is what runs, made of either when it first does; of a rewrite there is only that.
    None of them: the call is filled.
    """

    resolved: ResolvedCall | None = None
    settings: Settings = contextlib.nullcontext
    apart: Call | None = None
    linked: bool = False
    own: dict[tuple[int, int], Any] = dataclasses.field(default_factory=dict)
    program: Program | None = None


class Clock:
    """Lets the device wait: `torch.cuda._sleep` counts cycles, how many a nanosecond has is measured once."""

    def __init__(self, device: str) -> None:
        self._cycles_per_ns = 0.0
        if device == "cpu":
            return
        import torch

        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(2):
            torch.cuda.synchronize()
            first.record()
            torch.cuda._sleep(20_000_000)
            last.record()
            last.synchronize()
        self._cycles_per_ns = 20_000_000 / (float(first.elapsed_time(last)) * 1e6)

    def wait(self, nanoseconds: float) -> None:
        """Enqueue a wait."""
        if self._cycles_per_ns:
            import torch

            torch.cuda._sleep(max(1, int(nanoseconds * self._cycles_per_ns)))
