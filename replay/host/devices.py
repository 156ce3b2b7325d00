"""Which devices a replay uses."""

from __future__ import annotations

import os
from typing import Any, Final

from kerneldb.errors import UsageError
from kerneldb.replay import facts
from kerneldb.replay.errors import ReplayError

ALL: Final = "all"
CPU: Final = "cpu"
HIDING: Final = "CUDA_VISIBLE_DEVICES"


def chosen(wanted: str, device: str) -> tuple[str, ...]:
    """The devices for `--gpus` (`all`, or how many): the first ones; that many workers where `device` is cpu.

    Raises UsageError for another text, ReplayError where there are fewer.
    """
    if wanted != ALL and not (wanted.isdecimal() and int(wanted)):
        message = f"--gpus {wanted}: give a number, or all"
        raise UsageError(message)
    if device == CPU:
        if wanted == ALL:
            message = "--gpus all counts GPUs; give the number of workers with --device cpu"
            raise UsageError(message)
        return (CPU,) * int(wanted)
    there = _count()
    count = there if wanted == ALL else int(wanted)
    if count > there or not there:
        message = f"--gpus {wanted}: this machine has {there}"
        raise ReplayError(message)
    return tuple(f"cuda:{number}" for number in range(count))


def _count() -> int:
    """GPUs that PyTorch would see; this process gets no context on them.

    The driver counts them in milliseconds where nothing hides or divides any; PyTorch takes seconds to import, and its
    workers wait for that.
    """
    counted = None if HIDING in os.environ else _boards()
    if counted is not None:
        return counted
    return int(facts.pytorch().cuda.device_count())


def _boards() -> int | None:
    """NVIDIA boards of this machine; None without a driver, or where one of them is divided (MIG)."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        boards = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
        return None if any(_divided(pynvml, board) for board in boards) else len(boards)
    except pynvml.NVMLError:
        return None


def _divided(nvml: Any, board: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(board)[0])
    except nvml.NVMLError_NotSupported:
        return False
