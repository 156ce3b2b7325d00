"""The calls by which a process changes files, counted by a small library (`calls.c`) that is loaded before libc."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("calls.c")
COUNTS, ENDS, ENDS_HALFWAY, FAILS = range(4)
"""What becomes of the call of a number: nothing, a kill before or in the middle of it, or an error from it on."""


def built(folder: Path) -> Path | None:
    """The library, built in the folder; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "calls.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def is_loaded() -> bool:
    """Whether this process was started with the library."""
    return hasattr(ctypes.CDLL(None), "kerneldb_arm")


@dataclasses.dataclass(frozen=True, slots=True)
class Trap:
    """What a process is to meet at the call `number` that changes something below a folder."""

    number: int
    way: int
    error: int = 0

    def set(self, folder: Path, counted: mmap.mmap) -> None:
        """In the process: begin to count, into memory that its parent shares."""
        shared = ctypes.addressof(ctypes.c_long.from_buffer(counted))
        library = ctypes.CDLL(None)
        library.kerneldb_arm.argtypes = [
            ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_void_p
        ]  # fmt: skip
        library.kerneldb_arm(os.fsencode(folder), self.number, self.way, self.error, shared)


def counter() -> mmap.mmap:
    """Memory for a number that a child counts up."""
    return mmap.mmap(-1, ctypes.sizeof(ctypes.c_long))


def value(counted: mmap.mmap) -> int:
    """What was counted."""
    return ctypes.c_long.from_buffer_copy(counted).value
