"""The rewrites: changes that are tried in a recorded step. Each is one class (`base.Rewrite`) with one registration.

One of a package of its own calls `register` in a module that is imported (`--import MODULE`).
"""

from __future__ import annotations

import functools
from typing import Final

from kerneldb.replay.errors import ReplayError
from kerneldb.replay.rewrites.base import Rewrite

_REWRITES: Final[dict[str, Rewrite]] = {}


def register(rewrite: object) -> None:
    """Make `rewrite` known under its name. Raises ReplayError for anything but a rewrite, and for a name twice."""
    _load()
    if not isinstance(rewrite, Rewrite) or not getattr(rewrite, "name", ""):
        raise ReplayError(f"{type(rewrite).__name__} is not a rewrite: give an instance of a subclass of Rewrite")
    if rewrite.name in _REWRITES:
        raise ReplayError(f"there is a rewrite {rewrite.name!r} already; give yours another name")
    _REWRITES[rewrite.name] = rewrite


def known() -> tuple[Rewrite, ...]:
    """All rewrites, in the order in which they are tried."""
    _load()
    return tuple(_REWRITES.values())


@functools.cache
def _load() -> None:
    from kerneldb.replay.rewrites.attention import Attention
    from kerneldb.replay.rewrites.backends import AttentionBackend
    from kerneldb.replay.rewrites.bags import EmbeddingBags
    from kerneldb.replay.rewrites.compiled import Autotuned, Batched, Compiled, CudaGraph
    from kerneldb.replay.rewrites.copies import RoundTrips
    from kerneldb.replay.rewrites.float8 import Float8
    from kerneldb.replay.rewrites.grouped import GroupedProducts
    from kerneldb.replay.rewrites.layout import ChannelsLast
    from kerneldb.replay.rewrites.many import Foreach, FusedAdam
    from kerneldb.replay.rewrites.norms import LayerNorm, RmsNorm
    from kerneldb.replay.rewrites.products import MergedProducts
    from kerneldb.replay.rewrites.settings import BlasLibrary, CudnnBenchmark, ReducedPrecision, Tf32

    ours = (
        RmsNorm, LayerNorm, Attention, EmbeddingBags, MergedProducts, GroupedProducts, RoundTrips, FusedAdam, Foreach,
        ChannelsLast, CudnnBenchmark, BlasLibrary, AttentionBackend, Compiled, Batched, Autotuned, CudaGraph, Tf32,
        ReducedPrecision, Float8,
    )  # fmt: skip
    _REWRITES.update({kind.name: kind() for kind in ours})
