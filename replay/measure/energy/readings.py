"""What the meters share: readings with their time, counters that never run backwards, and libraries of vendors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kerneldb.errors import KerneldbError


def timed(energy_mj: Callable[[], float]) -> tuple[int, int, float]:
    """`epoch_ns` and `monotonic_ns` of the middle of a reading, and what it gave: how a `Sample` begins."""
    epoch, monotonic = time.time_ns(), time.monotonic_ns()
    energy = energy_mj()
    half = (time.monotonic_ns() - monotonic) // 2
    return epoch + half, monotonic + half, energy


@contextmanager
def failing_as(kind: type[KerneldbError], message: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn `errors` of the block into one of `kind`: `message`, and what they say."""
    try:
        yield
    except errors as error:
        text = f"{message}: {error}"
        raise kind(text) from error


class Unwrapped:
    """A counter that starts again at 0 after `size` counts, counted on. Asked at least once per turn."""

    def __init__(self, size: float) -> None:
        self._size = size
        self._last = 0.0
        self._turns = 0

    def __call__(self, raw: float) -> float:
        """The count with all turns so far."""
        self._turns += raw < self._last
        self._last = raw
        return raw + self._turns * self._size


class LibraryMeter:
    """A meter that asks a vendor's library about the device `handle`; `errors` is what the library raises."""

    def __init__(self, library: Any, errors: type[Exception], handle: Any) -> None:
        self._library = library
        self._errors = errors
        self._handle = handle

    def close(self) -> None:
        """Nothing: the library counts its users, and others of this process may still read."""

    def _read(self, function: str, *arguments: Any) -> Any:
        """What the library answers; None where this driver or device cannot."""
        asked = getattr(self._library, function, None)
        if asked is None:
            return None
        try:
            return asked(self._handle, *arguments)
        except self._errors:
            return None


def visible(device: str, *variables: str) -> int | str:
    """What `cuda:N` is outside of this process: a number, or a UUID, by the first variable that lists so many."""
    number = int(device.partition(":")[2] or 0)
    for variable in variables:
        listed = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
        if number < len(listed):
            return int(listed[number]) if listed[number].isdigit() else listed[number]
    return number
