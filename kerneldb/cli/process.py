"""The process of a command: begins and ends without work that a short command need not do."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from typing import TYPE_CHECKING, Final

from kerneldb.output import terminal

if TYPE_CHECKING:
    from collections.abc import Callable

COLLECTED_AT: Final = (50_000, 50, 50)
"""Libraries make hundreds of thousands of objects that stay: with Python's own thresholds the garbage collector visits
them dozens of times while they are loaded."""

_ends: list[int] = []


def run(command: Callable[[], object]) -> None:
    """Run a command that ends with SystemExit, as those of click do.

    What is registered to be done at exit is done, and all output written; then the process is gone, without taking
    apart what the system frees at once (a tenth of a second of a command that takes half a second).
    """
    terminal.guard()
    gc.set_threshold(*COLLECTED_AT)
    atexit.register(_leave)  # what is registered first is called last
    try:
        command()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            _ends.append(ended.code or 0)
        raise


def _leave() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader is gone, or the stream closed
            stream.flush()
    if _ends:
        os._exit(_ends[0])
