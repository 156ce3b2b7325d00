"""Other kernels between the timed runs of one.

In a model a kernel follows many others, whose code and constants fill the instruction caches of the multiprocessors.
Run again and again alone, it finds its own code there and is faster: 0.4 to 2.8 % of a model's GPU time on an H200. A
dozen small kernels of other kinds before each run take that away; seven do there, four do not, and more than a dozen
change nothing (results/2026-11-22-h200-interlude). They touch a few kilobytes, so the L2 stays as it is.

On a GPU they are one CUDA graph: launched one by one they would take a millisecond of the host before each run, and
fill nine tenths of what the profiler writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

from kerneldb.replay.measure import loops
from kerneldb.replay.worker.profiling import Session

SIZE: Final = 64


class Disturber:
    """Call it to launch small kernels of a dozen kinds on `device`."""

    def __init__(self, device: str) -> None:
        import torch

        self._single = torch.randn(SIZE, SIZE, device=device)
        self._half = self._single.half()
        self._index = torch.arange(SIZE, device=device)
        self._steps = self._kinds()
        self._graph = self._captured() if torch.device(device).type == "cuda" else None

    def __call__(self) -> None:
        """Launch them; nothing is waited for."""
        if self._graph is not None:
            self._graph.replay()
        else:
            self._launch()

    def _launch(self) -> None:
        for step in self._steps:
            step()

    def _captured(self) -> Any:
        """The graph; None where the device cannot capture it."""
        with Session(gpu=True):
            self._launch()  # as all graphs, it is captured where the profiler has been attached before
        with contextlib.suppress(RuntimeError):
            return loops.captured(self._launch, self._launch)

    def _kinds(self) -> list[Callable[[], Any]]:
        import torch

        one, half = self._single, self._half
        return [
            lambda: torch.sin(one),
            lambda: one.pow(2),
            lambda: torch.nn.functional.gelu(half),
            one.max,
            lambda: one.cumsum(0),
            one.sort,
            lambda: torch.softmax(half, -1),
            lambda: torch.nn.functional.layer_norm(one, (SIZE,)),
            lambda: one @ one,
            lambda: half @ half,
            lambda: torch.cat([one, one]),
            lambda: one.index_select(0, self._index),
        ]
