"""What the meters share: the middle of a reading, and counters that never run backwards."""

from __future__ import annotations

import time
from typing import Final

NS: Final = 1_000_000_000


class Span:
    """The middle of a reading in both clocks: made when it begins, asked when it has ended."""

    def __init__(self) -> None:
        self._epoch = time.time_ns()
        self._monotonic = time.monotonic_ns()

    def middle(self) -> tuple[int, int]:
        """(`epoch_ns`, `monotonic_ns`)."""
        half = (time.monotonic_ns() - self._monotonic) // 2
        return self._epoch + half, self._monotonic + half


class Unwrapped:
    """A counter that starts again at 0 after `size` counts, counted on. Asked at least once per turn."""

    def __init__(self, size: float) -> None:
        self._size = size
        self._last: float | None = None
        self._turns = 0

    def __call__(self, raw: float) -> float:
        """The count with all turns so far."""
        if self._last is not None and raw < self._last:
            self._turns += 1
        self._last = raw
        return raw + self._turns * self._size
