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
from typing import TYPE_CHECKING, BinaryIO, Final

from kerneldb.errors import WarehouseError

UNKNOWN_MEMORY = 4 << 30
GROUPS: Final = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Where the limits of a container are, by the version of control groups: limit, what is used, and of it for files."""
PROBE_BYTES: Final = 1 << 20

if TYPE_CHECKING:
    from collections.abc import Iterator

    Stamp = tuple[tuple[int, int, int] | None, ...]


OF_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Errors of writing; nothing of kerneldb writes where traces are."""
ESCAPED: Final = re.compile(r"\\u(dc[89a-f][0-9a-f])")
OF_POLARS: Final = re.compile(r"\(os error (\d+)\)")
OF_DUCKDB: Final = re.compile(rf'"([^"]*)"[^"]*: ({"|".join(map(os.strerror, OF_DISK))})')
"""How DuckDB says, in errors of several classes, which file it could not write and why."""
OF_WRITING: Final = frozenset({"IOException", "TransactionException", "FatalException", "OutOfMemoryException"})
"""What DuckDB raises where it could not write. Others may hold any text of a row or statement, such as these words."""
SPILLED: Final = "max_temp_directory_size"
"""What DuckDB names where temporary files would take more than the disk has; it asks the disk before it writes."""
TEMPORARY: Final = "kerneldb-"
"""How the names of temporary folders begin, but for those beside a database."""
AGAIN: Final = "make room there, and give the command again"
RIGHTS: Final = (errno.EACCES, errno.EPERM)


def of_disk(error: BaseException | None, folder: Path) -> WarehouseError | None:
    """What it means that `folder` cannot be written, where `error` or a cause of it says so; None where none does.

    Where the error names the file, its folder is meant.
    """
    met = set[int]()
    while error is not None and id(error) not in met:  # an error may be a cause of itself
        met.add(id(error))
        number = error.errno if isinstance(error, OSError) else None
        if type(error).__module__.startswith("polars") and (found := OF_POLARS.search(str(error))):
            number = int(found[1])
        if type(error).__module__.lstrip("_") == "duckdb":
            number, folder = _of_duckdb(error, folder)
        if number in OF_DISK:
            return WarehouseError(_lacking(folder, number))
        error = error.__cause__
    return None


def _of_duckdb(error: BaseException, folder: Path) -> tuple[int | None, Path]:
    """The error of the system that one of the engine is about, and the folder that it concerns."""
    if type(error).__name__ not in OF_WRITING:
        return None, folder
    if SPILLED in str(error):
        return errno.ENOSPC, folder
    if found := OF_DUCKDB.search(str(error)):
        return next(one for one in OF_DISK if os.strerror(one) == found[2]), Path(found[1]).parent
    return None, folder


def _lacking(folder: Path, number: int) -> str:
    """What is wrong with a folder that a file could not be written in, and what to do."""
    why, again = f"{os.strerror(number)}. Nothing was lost", _again(number)
    temporary = Path(tempfile.gettempdir())
    if any(one.parent == temporary and one.name.startswith(TEMPORARY) for one in (folder, *folder.parents)):
        return f"{temporary}: {why}; {again}, or choose another folder for temporary files with TMPDIR"
    return f"{folder}: {why}; {again}."


def _again(number: int) -> str:
    return "make it writable, and give the command again" if number == errno.EROFS else AGAIN


def told(error: OSError) -> str:
    """What the system says of a file, by its name if it has one; what to do where disk or rights lack."""
    text = f"{error.filename or 'output'}: {error.strerror or error}"
    if error.filename and error.errno in RIGHTS:
        return f"{text}; change the rights of it or of its folder, or give another path"
    return f"{text}; {_again(error.errno)}" if error.filename and error.errno in OF_DISK else text


def of_rights(text: str) -> str:
    """What to do where `text` says that a database, or what lies beside it, may not be opened; else nothing."""
    denied = any(os.strerror(one) in text for one in RIGHTS)
    return "; change the rights of file and folder, or copy it to a folder where you may write" if denied else ""


@contextlib.contextmanager
def naming(path: Path, *others: Path) -> Iterator[None]:
    """Name the file in errors of writing it: the system names none there, or one of `others`, made in its place."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in {None, *map(str, others)}:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextlib.contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A stream for the content of `path`. Raises OSError, which names it.

    A regular file is written under a temporary name in the same folder and renamed at the end, so readers never see
    half of it and a failure leaves an older file untouched. Devices and pipes are written directly.
    """
    if path.exists() and not path.is_file():
        with naming(path), path.open("wb") as stream:
            yield stream
        return
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with naming(path, temporary, target):
            with temporary.open("wb") as stream:
                yield stream
            temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing is there; and that is said already
            temporary.unlink()


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


def printed(path: Path | str) -> str:
    r"""A path as text that can be stored and sent: what is not UTF-8 in a name becomes escapes (`\udcff`)."""
    return str(path).encode(errors="backslashreplace").decode()


def printed_path(text: str) -> Path:
    """The path that `printed` made a text of."""
    path = Path(text)
    return path if path.exists() else Path(ESCAPED.sub(lambda found: chr(int(found[1], 16)), text))


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
    free += (one for one in map(_free_in_group, GROUPS) if one is not None)
    return min(free)


def _free_in_group(names: tuple[str, str, str, str]) -> int | None:
    """Bytes that the group of this process leaves it; what it only keeps of files counts as free, as elsewhere."""
    folder, limit, usage, kept = names
    with contextlib.suppress(OSError, ValueError, IndexError):
        most, used = (int(Path(folder, name).read_text(encoding="ascii")) for name in (limit, usage))
        lines = Path(folder, "memory.stat").read_text(encoding="ascii").splitlines()
        cached = [int(line.split()[1]) for line in lines if line.split()[0] == kept]
        return max(most - used + sum(cached), 0)
    return None
