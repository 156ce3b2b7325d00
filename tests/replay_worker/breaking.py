"""Operators that break their worker, each in its way; imported by a worker with `--import`."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch

LIBRARY = torch.library.Library("kerneldb_test", "DEF")


def _kill(tensor: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
    return tensor


def _hang(tensor: Any) -> Any:
    time.sleep(60)
    return tensor


def _exhaust(tensor: Any) -> Any:
    raise MemoryError


for _name, _function in (("kill", _kill), ("hang", _hang), ("exhaust", _exhaust)):
    LIBRARY.define(f"{_name}(Tensor self) -> Tensor")
    LIBRARY.impl(_name, _function, "CPU")
