"""Other kernels between the timed runs of one.

In a model a kernel follows many others, whose code and constants fill the instruction caches of the multiprocessors.
Run again and again alone, it finds its own code there and is faster: 0.4 to 2.8 % of a model's GPU time on an H200. A
handful of small kernels of other kinds before each run takes that away. They touch a few kilobytes, so the L2 stays as
it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

SIZE: Final = 64


class Interlude:
    """Call it to launch one small kernel each of about two dozen kinds on `device`."""

    def __init__(self, device: str) -> None:
        import torch

        self._single = torch.randn(SIZE, SIZE, device=device)
        self._half = self._single.half()
        self._index = torch.arange(SIZE, device=device)
        self._steps = self._kinds()

    def __call__(self) -> None:
        """Launch them; nothing is waited for."""
        for step in self._steps:
            step()

    def _kinds(self) -> list[Callable[[], Any]]:
        import torch

        one, half, index = self._single, self._half, self._index
        pointwise = [
            *(functools.partial(kind, one) for kind in (torch.sin, torch.exp, torch.tanh, torch.abs, torch.neg)),
            *(functools.partial(kind, half) for kind in (torch.cos, torch.sigmoid, torch.rsqrt, torch.relu)),
            lambda: half.to(torch.float32),
            lambda: one.to(torch.float16),
            lambda: half.mul(2),
            lambda: half.add(half),
            lambda: one.pow(2),
            lambda: torch.where(one > 0, one, one),
            lambda: torch.nn.functional.gelu(half),
        ]
        rows = [
            *(functools.partial(kind, one) for kind in (torch.sum, torch.mean, torch.max)),
            lambda: one.cumsum(0),
            one.sort,
            lambda: torch.softmax(half, -1),
            lambda: torch.nn.functional.layer_norm(one, (SIZE,)),
        ]
        others = [
            lambda: one @ one,
            lambda: half @ half,
            lambda: torch.cat([one, one]),
            lambda: one.index_select(0, index),
            lambda: one.t().contiguous(),
        ]
        return [*pointwise, *rows, *others]
