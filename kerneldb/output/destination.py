"""Where bytes go: stdout, or a file that appears under its name only when complete."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[BinaryIO]:
    """A binary stream for `path` (None: stdout).

    A regular file is written under a temporary name in the same folder and renamed at the end, so readers never see
    half of it and a failure leaves an older file untouched. Devices and pipes are written directly.
    """
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
    else:
        target = path.resolve()
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as stream:
                yield cast("BinaryIO", stream)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
