"""A database file as the operating system sees it, the folders beside it for what is in the making, and the machine."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.errors import WarehouseError

UNKNOWN_MEMORY = 4 << 30
PROBE_BYTES: Final = 1 << 20

if TYPE_CHECKING:
    from collections.abc import Iterator

    Stamp = tuple[tuple[int, int, int] | None, ...]


OF_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Errors of writing; nothing of kerneldb writes where traces are."""
OF_POLARS: Final = re.compile(r"\(os error (\d+)\)")


def of_disk(error: BaseException | None, folder: Path) -> WarehouseError | None:
    """What it means that `folder` cannot be written, where `error` or a cause of it says so; None where none does."""
    while error is not None:
        number = error.errno if isinstance(error, OSError) else None
        if type(error).__module__.startswith("polars") and (found := OF_POLARS.search(str(error))):
            number = int(found[1])
        if number in OF_DISK:
            message = f"{folder}: {os.strerror(number)}. Nothing was lost; make room there, and give the command again."
            return WarehouseError(message)
        error = error.__cause__
    return None


def refusing(folder: Path) -> WarehouseError | None:
    """What it means that `folder` cannot be written, found out by writing there; None where it can."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            probe.write(bytes(PROBE_BYTES))
    except OSError as error:
        message = f"{folder}: cannot be written ({error.strerror}). Nothing was lost; give the command again."
        return of_disk(error, folder) or WarehouseError(message)
    return None


def stamp_of(path: Path) -> Stamp:
    """Inode, size and time (ns) of a database file and of its write-ahead log; None for what is not there."""
    return _state(path), _state(path.with_name(f"{path.name}.wal"))


def inode_of(path: Path) -> int | None:
    """Which file is at a path; None where there is none."""
    state = _state(path)
    return None if state is None else state[0]


def changed_at(path: Path) -> int | None:
    """When the file was changed, in ns since 1970; None where it is missing."""
    state = _state(path)
    return None if state is None else state[2]


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def require_own(*paths: Path) -> None:
    """Raise WarehouseError for a path that is a link, pipe or device: who writes there would write, or wait, elsewhere.

    For files that belong to a database and lie beside it: a folder that somebody else packed may bring those, too.
    """
    for path in paths:
        if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
            raise WarehouseError(
                f"{path} is no file, but a link, pipe or device, which writing to the database would change. Remove it"
            )


@contextlib.contextmanager
def spool_folder(database: Path) -> Iterator[Path]:
    """A new empty folder beside the database, removed at the end."""
    database = database.resolve()
    folder = Path(tempfile.mkdtemp(prefix=f"{_prefix(database)}{os.getpid()}-", dir=database.parent))
    try:
        yield folder / "trace"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_spools(database: Path) -> list[Path]:
    """Remove spool folders that ended processes of this host left beside the database; returns them."""
    database = database.resolve()
    prefix = _prefix(database)
    removed = []
    for folder in database.parent.glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed


def _prefix(database: Path) -> str:
    return f"{database.name}.spool-{socket.gethostname()}-"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes of memory that are free, or would be at need, as far as the system and the group of this process tell."""
    free = [UNKNOWN_MEMORY]
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")] or free
    with contextlib.suppress(OSError, ValueError):
        most, used = (int(Path("/sys/fs/cgroup", f"memory.{name}").read_text()) for name in ("max", "current"))
        free.append(max(most - used, 0))
    return min(free)
