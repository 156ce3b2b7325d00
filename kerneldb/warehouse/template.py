"""A database without traces, made once and copied for every new one: its views and comments take a second or more."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import platformdirs

from kerneldb import codec
from kerneldb.errors import KerneldbError
from kerneldb.files import spool_folder
from kerneldb.schemas import loader
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import engine, migrate, strangers
from kerneldb.warehouse.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT: Final = 4
"""Templates of so many versions of kerneldb and DuckDB stay in the user's cache."""
MAKING: Final = "making-"
LEFT_S: Final = 3600.0
"""Nobody makes a template for so long."""
_TURN: Final = threading.Lock()


def prepare() -> None:
    """Begin to make the template where there is none, in a thread: that takes as long as to read a small trace."""

    def make() -> None:
        with contextlib.suppress(OSError, RuntimeError, duckdb.Error, KerneldbError):
            _template()

    with contextlib.suppress(OSError, RuntimeError):
        if not any(_made(platformdirs.user_cache_path("kerneldb", ensure_exists=True))):
            threading.Thread(target=make, name="kerneldb-template").start()


def _made(folder: Path) -> Iterator[Path]:
    """The template of this version, if there is one."""
    return folder.glob(f"{_name()}-*.duckdb")


def put(path: Path) -> bool:
    """Make the missing file `path` a database of this version, whole from the first moment; whether it was done.

    It is not where somebody else made one meanwhile, beside a write-ahead log (the engine would take it for the new
    file's), where the file system knows one name per file, and where the user's cache folder cannot be written.
    """
    if path.with_name(f"{path.name}.wal").exists():
        return False
    # RuntimeError: a user without a home folder.
    with contextlib.suppress(OSError, RuntimeError, duckdb.Error, KerneldbError), spool_folder(path) as new:
        with new.open("wb") as file:
            file.write(_template())
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(new)
        return True
    return False


def ours() -> strangers.Ours:
    """What a database of this version defines, as this DuckDB prints it; from the cache where it was asked before."""
    place = None
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        place = platformdirs.user_cache_path("kerneldb", ensure_exists=True) / f"{_name()}-objects.json"
        return codec.load(strangers.Ours, place.read_text(encoding="ascii"))
    with tempfile.TemporaryDirectory(prefix="kerneldb-") as own:
        made = Path(own, "empty.duckdb")
        if not put(made):
            _make(made)
        with contextlib.closing(engine.opened(made, "attach", 0.0)) as con:
            found = strangers.read(con)
    if place is not None:
        _keep(place, codec.dump(found))
    return found


def _keep(path: Path, text: str) -> None:
    """Write as a whole or not at all."""
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix=MAKING, dir=path.parent) as own:
        Path(own, path.name).write_text(text, encoding="ascii")
        Path(own, path.name).replace(path)


def _name() -> str:
    """The name of what is kept of this version; databases of versions with other tables, views or macros differ."""
    version = _digest(repr(([step.sql for step in loader.migrations()], loader.objects_hash())).encode())
    return f"empty-{version}-duckdb-{duckdb.__version__}"


def _make(path: Path) -> None:
    with contextlib.closing(engine.opened(path, "create", 0.0)) as con:
        con.execute(statement("session", "use"))
        migrate.upgrade(con, Place(path))


def _template() -> bytes:
    """The content of the template, which its name vouches for: a damaged one would break every new database."""
    folder = platformdirs.user_cache_path("kerneldb", ensure_exists=True)
    name = _name()
    with _TURN:
        for path in _made(folder):
            content = path.read_bytes()
            if path.stem == f"{name}-{_digest(content)}":
                return content
            path.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix=MAKING, dir=folder) as own:
            made = Path(own, "empty.duckdb")
            _make(made)
            content = made.read_bytes()
            made.replace(folder / f"{name}-{_digest(content)}.duckdb")
        _tidy(folder)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _tidy(folder: Path) -> None:
    """Remove templates of older versions, and what was left where the making of one was cut short."""
    for kind in ("duckdb", "json"):
        for old in sorted(folder.glob(f"empty-*.{kind}"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
    for left in folder.glob(f"{MAKING}*"):
        if time.time() - left.stat().st_mtime > LEFT_S:
            shutil.rmtree(left, ignore_errors=True)
