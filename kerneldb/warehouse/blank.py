"""Files that hold no database yet, or the beginning of one: what is left where the making of a file was cut short.

DuckDB writes the headers of a new file one after the other, and refuses a file that has not all of them, be it of no
bytes at all. Such a file never held a row, so it is made anew, in its place.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HEADERS: Final = 3 * 4096
"""Bytes of a DuckDB file before its first block: the main header and two that tell of the newest checkpoint."""
MARK: Final = b"DUCK"
MARK_AT: Final = 8


class NotFilledError(Exception):
    """The file cannot be written; the cause is BlockingIOError where another process holds it."""


def is_blank(path: Path) -> bool:
    """Whether the file ends before its first block: it has no bytes, or not all headers of a DuckDB file."""
    if path.stat().st_size >= HEADERS:
        return False
    with path.open("rb") as file:
        return _is_blank(file)


def _is_blank(file: IO[bytes]) -> bool:
    file.seek(0)
    found = file.read(HEADERS)
    return not found or (len(found) < HEADERS and found[MARK_AT:].startswith(MARK))


def fill(path: Path, make: Callable[[Path], object]) -> None:
    """Make the file, missing or blank, a database without tables, such as `make` makes at another path.

    It is looked at again under the lock that DuckDB itself takes, so programs that begin with one file at a time do not
    write over each other. A write-ahead log beside it is of another file, which may be sought: it gets another name.
    Raises NotFilledError.
    """
    try:
        _fill(path, make)
    except OSError as error:
        raise NotFilledError(error.strerror) from error


def _fill(path: Path, make: Callable[[Path], object]) -> None:
    with path.open("ab+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_blank(file):
            with tempfile.TemporaryDirectory(prefix="kerneldb-") as folder:
                new = Path(folder, path.name)
                make(new)
                headers = new.read_bytes()
            _put_aside(path.with_name(f"{path.name}.wal"))
            file.truncate(0)
            file.write(headers)
            file.flush()
            os.fsync(file.fileno())


def _put_aside(log: Path) -> None:
    names = (log.with_name(f"{log.name}.old{number or ''}") for number in itertools.count())
    if log.exists():
        log.rename(next(name for name in names if not name.exists()))
