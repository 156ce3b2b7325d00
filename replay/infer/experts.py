"""Products of a mixture of experts: every expert multiplies the tokens that the router gives it.

How many these are is in no config, and differs from launch to launch. The tiles of the grid tell it to within a tile;
of persistent kernels the duration does, where the weight's bytes do not take it. An even share stands in otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer import grids, outlines
from kerneldb.replay.infer.calls import item_bytes
from kerneldb.replay.infer.outlines import Outline
from kerneldb.replay.infer.timing import bandwidth
from kerneldb.replay.infer.view import View

EVEN: Final = 0.8
BY_GRID: Final = 0.95
BY_TIME: Final = 0.85
STEP: Final = 8
UNKNOWN: Final = "the tokens of an expert are not known"


def products(view: View) -> Iterator[Outline]:
    """The products of one expert."""
    model = view.model
    hidden, width = model.hidden, model.expert_ffn or model.ffn
    if not (model.experts and width):
        return
    for k, n, name in ((hidden, width, "up"), (hidden, 2 * width, "gate and up"), (width, hidden, "down")):
        for m, word, weight, by_time in _rows(view, n, k):
            yield Outline(m, n, k, 1, f"{name} of an expert, {word} ({UNKNOWN})", weight, by_time)


def _rows(view: View, n: int, k: int) -> Iterator[tuple[int, str, float, bool]]:
    tokens, model = view.scene.tokens, view.model
    found = _by_grid(view, n)
    if found:
        yield min(found, tokens), "rows by the grid", BY_GRID, False
    timed = None if found else _by_time(view, n, k)
    if timed and timed <= tokens:
        yield timed, "rows by time", BY_TIME, True
    even = max(tokens * max(model.per_token, 1) // model.experts, 1)
    if even not in {min(found or 0, tokens), timed}:
        yield min(even, tokens), "rows if they are shared out evenly", EVEN, False


def _by_grid(view: View, n: int) -> int | None:
    """The rows that the tiles cover; None where the grid is that of the GPU, or of other columns."""
    wide, high, count = view.known.tile_m, view.known.tile_n, grids.blocks(view.kind)
    if not wide or not high or not count or outlines.persistent(view):
        return None
    across = -(-n // wide)
    return count // across * high if count % across == 0 else None


def _by_time(view: View, n: int, k: int) -> int | None:
    """The rows that take the duration; None where reading the weight takes most of it."""
    reading = n * k * item_bytes(view.dtype) / bandwidth(view.device)
    if not view.duration_ns or reading * 2 > view.duration_ns:
        return None
    return max(round(outlines.operations(view) / (n * k) / STEP) * STEP, STEP)
