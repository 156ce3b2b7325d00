"""The write-ahead log that was left beside an SQLite file: a private copy of both, with the log worked in."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import struct
from pathlib import Path
from typing import Final

from kerneldb.errors import UnreadableTraceError

LOCK_BYTES_AT: Final = 1 << 30
LOCK_BYTES: Final = 512
HEADER_BYTES: Final = 32
FRAME_BYTES: Final = 24
PAGES: Final = range(512, 65537)
SALTS: Final = slice(16, 24)
FRAME_SALTS: Final = slice(8, 16)
"""Both salts of a log stand in its header and in each frame that belongs to it: what follows is left from before.
Source: https://www.sqlite.org/fileformat2.html, "WAL File Format"."""


def log_of(path: Path, ending: str = "-wal") -> Path:
    """Where SQLite keeps the write-ahead log of the database `path`, if it has one (`-journal`: the other kind)."""
    real = path.resolve()
    return real.with_name(real.name + ending)


def merged(path: Path, folder: Path) -> Path:
    """A copy of the database in `folder` with what its log has. Raises UnreadableTraceError where there is no room."""
    copy = folder / "copy.db"
    try:
        _require_room(path, folder)
        shutil.copyfile(path, copy)
        _copy_log(log_of(path), log_of(copy))
    except OSError as error:
        raise _no_copy(path, folder, error.strerror or str(error)) from error
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")  # reads the log, and no table; closing works it in
        connection.execute("COMMIT")
    if log_of(copy).exists():
        raise _no_copy(path, folder, f"SQLite did not work {log_of(path).name} in")
    return copy


def refuse_locked(path: Path, log: Path) -> None:
    """Raise UnreadableTraceError where another process has a database with a write-ahead log open.

    Each connection then holds a lock on the bytes from 1 GiB on, whatever it does. Source:
    https://www.sqlite.org/lockingv3.html and os_unix.c of SQLite. The struct is that of Linux.
    """
    import fcntl

    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, LOCK_BYTES_AT, LOCK_BYTES, 0)
    with path.open("rb") as file:
        kind = struct.unpack_from("h", fcntl.fcntl(file, fcntl.F_GETLK, asked))[0]
    if kind != fcntl.F_UNLCK:
        message = f"{path}: another program is writing it ({log.name} beside it). Wait until it has finished."
        raise UnreadableTraceError(message)


def _require_room(path: Path, folder: Path) -> None:
    """Of a file with holes the copy has none."""
    wanted, free = path.stat().st_size, shutil.disk_usage(folder).free
    if wanted > free:
        raise _no_copy(path, folder, f"{wanted:,} bytes are wanted, {free:,} are free")


def _copy_log(log: Path, copy: Path) -> None:
    """Only the frames that SQLite would look at: a log may be any size, for nothing but holes."""
    with log.open("rb") as old, copy.open("wb") as new:
        header = old.read(HEADER_BYTES)
        new.write(header)
        page = int.from_bytes(header[8:12], "big")
        if page not in PAGES:
            return
        while len(frame := old.read(FRAME_BYTES + page)) == FRAME_BYTES + page and frame[FRAME_SALTS] == header[SALTS]:
            new.write(frame)


def _no_copy(path: Path, folder: Path, why: str) -> UnreadableTraceError:
    log = log_of(path).name
    return UnreadableTraceError(
        f"{path}: its log {log} beside it needs a copy of both in {folder.parent} ({why}). "
        "Make room there, or open the file with sqlite3 once, which works the log in."
    )
