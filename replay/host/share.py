"""Deals the items of a plan out to workers: large portions first, small ones at the end, so that all end together."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Sequence
from typing import Final

DEALT_AT_ONCE: Final = 0.5
SMALLEST: Final = 3
"""Items share a profiler session; fewer are not worth one."""


class Pool:
    """The items that nobody has yet, for `devices` workers. Its methods may be called from several threads.

    `at_once` is the part of what is left that all of them together get in one round.
    """

    def __init__(self, items: Iterable[str], devices: int, *, at_once: float = DEALT_AT_ONCE) -> None:
        self._lock = threading.Lock()
        self._items = list(items)
        self._part = at_once / devices
        self.stopped = False

    def __len__(self) -> int:
        return len(self._items)

    def take(self) -> Sequence[str]:
        """The next portion, from all over what is left; none where nothing is left, or all is to stop.

        Neighbours in a plan are alike: those that take many tries would all fall to one worker.
        """
        with self._lock:
            if self.stopped:
                return ()
            left = len(self._items)
            size = min(left, max(SMALLEST, math.ceil(left * self._part)))
            portion = [self._items[number * left // size] for number in range(size)]
            taken = set(portion)
            self._items = [item for item in self._items if item not in taken]
            return portion

    def rest(self) -> Sequence[str]:
        """What nobody has."""
        with self._lock:
            return tuple(self._items)

    def give_back(self, items: Sequence[str]) -> None:
        """Take items back for others."""
        with self._lock:
            self._items = [*items, *self._items]


class Member:
    """One worker's share of a pool (see `kerneldb.replay.host.supervisor.Share`)."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def stopped(self) -> bool:
        """Whether all are to stop."""
        return self._pool.stopped

    def take(self) -> Sequence[str]:
        """The next portion."""
        return self._pool.take()

    def give_back(self, items: Sequence[str]) -> None:
        """Leave items to others."""
        self._pool.give_back(items)

    def attend(self, process: subprocess.Popen[bytes] | None) -> None:
        """The worker that runs now."""
        self._process = process

    def stop(self) -> None:
        """End the worker; its supervisor notices, and writes down what it left."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
