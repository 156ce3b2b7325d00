"""The clock of an energy measurement: one that tests can put forward by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds, and a way to wait."""

    def now(self) -> float:
        """Seconds that never run backwards, from an arbitrary start."""
        ...

    def epoch(self) -> float:
        """Seconds of wall-clock time, UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """`time.monotonic`."""
        return time.monotonic()

    def epoch(self) -> float:
        """`time.time`."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """`time.sleep`."""
        time.sleep(seconds)
