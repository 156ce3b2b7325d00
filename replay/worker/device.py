"""What every worker does before its first call: end with its parent, open the device, import what the user names."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from kerneldb.replay import facts, processes, routes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.monitor import Monitor
from kerneldb.replay.options import Options
from kerneldb.replay.wire.messages import Sender

PR_SET_PDEATHSIG: Final = 1


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the supervisor dies: a hung call would otherwise hold the GPU for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def open_device(options: Options, sender: Sender) -> Monitor:
    """Make the device current, register routes and the user's modules, and report ready. Raises ReplayError."""
    # CUPTI must stay attached: CUDA graphs captured between two profiler sessions break where it is torn down.
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    facts.require(options.device)
    routes.register_defaults()
    import_modules(options.modules)
    monitor = Monitor(facts.uuid(options.device), facts.index(options.device) or 0)
    sender.ready(facts.gather(options.device, monitor))
    gc.freeze()
    return monitor


def import_modules(modules: Sequence[str]) -> None:
    """Import the modules that the user names. Raises ReplayError where one cannot be."""
    for module in modules:
        try:
            processes.import_named(module)
        except (ImportError, OSError) as error:
            msg = f"cannot import {module}: {error}"
            raise ReplayError(msg) from error
