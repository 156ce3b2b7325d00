"""Deals the items of a plan out to workers: large portions first, small ones at the end, so that all end together."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
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
        self._workers: list[subprocess.Popen[bytes]] = []
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

    @contextlib.contextmanager
    def attending(self, worker: subprocess.Popen[bytes]) -> Iterator[None]:
        """Within this block, `stop` ends the worker."""
        with self._lock:
            self._workers.append(worker)
        try:
            yield
        finally:
            with self._lock:
                self._workers.remove(worker)

    def stop(self) -> None:
        """Deal out nothing more, and end the workers; their runs notice, and write down what they left."""
        with self._lock:
            self.stopped = True
            for worker in self._workers:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)
