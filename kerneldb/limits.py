"""What an input may cost. Each limit has an environment variable, which messages name; see `docs/robustness.md`."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Final

from kerneldb.errors import UsageError

UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
GIVEN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", re.IGNORECASE)
OF_MEMORY: Final = 0.8
"""An ingest may take this part of the machine's memory: the system ends processes at random where none is left."""


class ExceededError(Exception):
    """A limit is exceeded; the message lacks the name of the file, which who reads it knows."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A limit, its variable, and what stands for it where that is not set; 0 means none."""

    variable: str
    usual: int

    def value(self) -> int:
        """The limit as it is set. Raises UsageError for what is no number."""
        text = os.environ.get(self.variable, "")
        found = GIVEN.fullmatch(text) if text else None
        if text and found is None:
            raise UsageError(
                f"{self.variable}={text!r} is no number; give one such as 500, 20M or 4G, or 0 for no limit"
            )
        return self.usual if found is None else int(float(found[1]) * UNITS[found[2].upper()])

    def check(self, found: int, what: str) -> None:
        """Raise ExceededError where `found` is more than the limit; `what` says of what, as in `{} bytes`."""
        most = self.value()
        if most and found > most:
            message = f"{what.format(f'{found:,}')}, more than {self.variable} allows ({most:,})"
            raise ExceededError(f"{message}. If you trust the file, set {self.variable} higher.")


def _machine() -> int:
    try:
        return int(OF_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError):
        return 0


MEMORY: Final = Limit("KERNELDB_MAX_MEMORY", _machine())
"""Bytes that the process may hold while it reads a trace."""
NAME: Final = Limit("KERNELDB_MAX_NAME", 10_000_000)
"""Bytes of one name or other text of a row."""
EVENT: Final = Limit("KERNELDB_MAX_EVENT", 256 << 20)
"""Bytes of one event of a PyTorch trace; usual ones have some hundred."""
MEMBERS: Final = Limit("KERNELDB_MAX_MEMBERS", 10_000)
"""Traces of one archive."""
RATIO: Final = Limit("KERNELDB_MAX_RATIO", 500)
"""Bytes that one stored byte may become. Traces become up to some fifty."""
DEPTH: Final = Limit("KERNELDB_MAX_DEPTH", 50)
"""Folders in folders that are searched for traces."""
ALWAYS_BYTES: Final = 64 << 20
"""What decompresses to no more is not looked at."""
STATM: Final = Path("/proc/self/statm")


def check_memory() -> None:
    """Raise ExceededError where the process holds more memory than it may."""
    if MEMORY.value() and STATM.exists():
        held = int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        MEMORY.check(held, "reading it takes {} bytes of memory")


def check_ratio(stored: int, decompressed: int) -> None:
    """Raise ExceededError where so few bytes became so many."""
    if decompressed > ALWAYS_BYTES:
        RATIO.check(decompressed // max(stored, 1), "one stored byte becomes {} bytes")
