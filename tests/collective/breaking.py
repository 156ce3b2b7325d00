"""Operators and collectives that end or delay their worker; imported by workers with `--import`."""

from __future__ import annotations

import datetime
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import torch

from kerneldb.replay.recording import ranks
from kerneldb.replay.routes import collective
from kerneldb.replay.routes.collective import Exchange
from kerneldb.replay.steps import exchanges
from kerneldb.replay.steps.exchanges import StepExchange

LIBRARY = torch.library.Library("kerneldb_fleet", "DEF")
LIBRARY.define("kill(Tensor self) -> Tensor")
LIBRARY.define("sleep(Tensor self) -> Tensor")


def _kill(tensor: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
    return tensor


def _sleep(tensor: Any) -> Any:
    time.sleep(0.1)
    return tensor.clone()


def _kill_second(one: Exchange) -> None:
    if one.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    collective.EXCHANGES["allreduce"](one)


def _lack_memory(one: Exchange) -> None:
    if one.rank == 1:
        raise MemoryError("rank 1 has no memory left")
    collective.EXCHANGES["allreduce"](one)


def _raise_second(one: StepExchange, given: Sequence[Any], taken: Sequence[Any]) -> None:
    if torch.distributed.get_rank() == 1:
        message = "one rank alone cannot make it"
        raise RuntimeError(message)
    exchanges.EXCHANGES["allreduce"](one, given, taken)


LIBRARY.impl("kill", _kill, "CPU")
LIBRARY.impl("sleep", _sleep, "CPU")
collective.EXCHANGES["killing"] = _kill_second
collective.EXCHANGES["greedy"] = _lack_memory
ranks.AGREEMENT = datetime.timedelta(seconds=1)  # type: ignore[misc]  # the other rank never comes
exchanges.EXCHANGES["raising"] = _raise_second
