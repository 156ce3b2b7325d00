"""Which devices a replay uses."""

from __future__ import annotations

from typing import Final

from kerneldb.errors import UsageError
from kerneldb.replay.errors import ReplayError

ALL: Final = "all"
CPU: Final = "cpu"


def chosen(wanted: str, device: str) -> tuple[str, ...]:
    """The devices for `--gpus` (`all`, or how many): the first ones; that many workers where `device` is cpu.

    Raises UsageError for another text, ReplayError where there are fewer.
    """
    if wanted != ALL and not (wanted.isdigit() and int(wanted)):
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
    """GPUs that PyTorch sees; this process gets no context on them."""
    try:
        import torch
    except ImportError as error:
        from kerneldb.replay.facts import INSTALL

        message = f"replay needs PyTorch: {INSTALL}"
        raise ReplayError(message) from error
    return int(torch.cuda.device_count())
