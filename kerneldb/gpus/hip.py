"""In what HIP's launching calls count a grid.

Kineto and rocmProfileData print the grid as the launching call was given it. `hipExtModuleLaunchKernel` and
`hipHccModuleLaunchKernel` take `globalWorkSizeX`, work-items; every other call takes blocks (`hipModuleLaunchKernel`:
`gridDimX`; `hipExtLaunchKernel`: `numBlocks`). Source: HIP API reference, Execution Control; Kineto, RocLogger.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

WORK_ITEMS: Final = "work-items"
BLOCKS: Final = "blocks"
IN_WORK_ITEMS: Final = re.compile(r"hip(Ext|Hcc)ModuleLaunchKernel")


def grid_unit(call: str) -> str:
    """What the launching call `call` counts in a grid."""
    return WORK_ITEMS if IN_WORK_ITEMS.search(call) else BLOCKS


def in_blocks(grid: Sequence[int], block: Sequence[int]) -> tuple[int, ...] | None:
    """A grid of work-items in blocks; the last block of an axis may be partly empty. None without a block."""
    if len(grid) != len(block) or min(block, default=0) <= 0:
        return None
    return tuple(-(-items // width) for items, width in zip(grid, block, strict=True))
