"""Keeps a database file open from one question to the next, as `kerneldb.warehouse.attach` does not.

A lease begins with an engine of its own, which takes DuckDB as long as to answer twenty small questions, and most tests
ask many questions of one file. Here leases share an engine, and the file stays attached to it for reading and writing.
Before anybody else may want the file (a process, a copy, a connection that a test makes), it is closed. What leases
keep apart (locks, files out of reach, what only reads) is tested in `tests/warehouse`, without this.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pytest

import kerneldb.warehouse
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import attach

_CONNECT = duckdb.connect
SPARE = 2
"""Engines without a file that wait for the next one."""


@dataclasses.dataclass
class _Kept:
    """A file that is open, and what tells it from another one that has taken its place."""

    engine: duckdb.DuckDBPyConnection
    inode: int


def _log_bytes(path: Path) -> int:
    """The size of the write-ahead log, where all that is written goes first."""
    with contextlib.suppress(FileNotFoundError):
        return path.with_name(f"{path.name}.wal").stat().st_size
    return 0


def _engine() -> duckdb.DuckDBPyConnection:
    """As `attach._configured` makes it, but open to more files; Python variables stay out of reach."""
    con = _CONNECT()
    con.execute(statement("session", "no_extensions"))
    con.execute(statement("session", "time_zone"))
    con.execute("SET GLOBAL python_enable_replacements = false")
    if not duckdb.__version__.startswith("1."):
        con.execute(statement("session", "no_aggregate_pushdown"))
    return con


class Keeper:
    """The files that stay open. While `keeping` is false there are none, as in a user's process."""

    current: ClassVar[Keeper | None] = None

    def __init__(self) -> None:
        self.keeping = False
        self._kept: dict[Path, _Kept] = {}
        self._spare: list[duckdb.DuckDBPyConnection] = []
        self._lock = threading.RLock()
        self._own = threading.local()
        self._configured, self._read, self._write = attach._configured, attach.read_lease, attach.write_lease

    @contextlib.contextmanager
    def read_lease(self, path: Path, timeout: float) -> Iterator[duckdb.DuckDBPyConnection]:
        """In place of `attach.read_lease` where a warehouse asks for it. The engine would let readers write."""
        with contextlib.ExitStack() as leases:
            with self._asking():
                con = leases.enter_context(self._read(path, timeout))
            before = _log_bytes(path)
            yield con
            assert not self.keeping or _log_bytes(path) == before, f"{path} was written on a lease that only reads"

    @contextlib.contextmanager
    def write_lease(
        self, path: Path, timeout: float, folders: Sequence[Path] = (), **options: Any
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """In place of `attach.write_lease` where a warehouse asks for it."""
        with contextlib.ExitStack() as leases:
            with self._asking():
                con = leases.enter_context(self._write(path, timeout, folders, **options))
            yield con

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        self._own.asks = self.keeping and threading.current_thread().name != "kerneldb-draft"  # gets another name
        try:
            yield
        finally:
            self._own.asks = False

    def configured(
        self, path: Path, way: str, folders: Sequence[Path], prepare: Callable[[Any], None] | None
    ) -> duckdb.DuckDBPyConnection:
        """In place of `attach._configured`, which leases ask where they do not share a connection."""
        with self._lock:
            if self._own.__dict__.get("asks") and way != "create" and prepare is None:
                return self._shared(path.resolve(), ordered=not folders)
            self.close(*(() if prepare else (path.resolve(),)))
        self._own.leases = True
        try:
            return self._configured(path, way, folders, prepare)
        finally:
            self._own.leases = False

    def _shared(self, path: Path, *, ordered: bool) -> duckdb.DuckDBPyConnection:
        if path in self._kept and self._kept[path].inode != path.stat().st_ino:
            self.close(path)
        if path not in self._kept:
            self._open(path)
        engine = self._kept[path].engine
        engine.execute(f"SET GLOBAL preserve_insertion_order = {ordered}")
        return engine.cursor()

    def _open(self, path: Path) -> None:
        engine = self._spare.pop() if self._spare else _engine()
        try:
            engine.execute(statement("session", "attach_for_writing").format(path=attach.literal(path)))
        except duckdb.Error:
            self._spare.append(engine)
            raise
        self._kept[path] = _Kept(engine, path.stat().st_ino)

    def close(self, *paths: Path) -> None:
        """Close these files, or all, where nobody has a lease."""
        with self._lock:
            for path in paths or tuple(self._kept):
                door = attach._DOORS[path]
                if path in self._kept and not door.readers and (path in paths or not door.writing):
                    self._detach(self._kept.pop(path).engine)
            while len(self._spare) > SPARE:
                self._spare.pop().close()

    def _detach(self, engine: duckdb.DuckDBPyConnection) -> None:
        try:
            engine.execute("DETACH warehouse")
        except duckdb.Error:
            engine.close()
        else:
            self._spare.append(engine)

    def connect(self, *arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        """In place of `duckdb.connect`: a test that opens a file by itself finds it closed."""
        if not self._own.__dict__.get("leases"):
            self.close()
        return _CONNECT(*arguments, **options)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, which is to find all files closed."""

        @functools.wraps(function)
        def closing(*arguments: Any, **options: Any) -> Any:
            self.close()
            return function(*arguments, **options)

        return closing


@contextlib.contextmanager
def kept() -> Iterator[Keeper]:
    """A keeper that takes part in all leases of this process."""
    keeper = Keeper()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attach, "_configured", keeper.configured)
        patch.setattr(kerneldb.warehouse, "read_lease", keeper.read_lease)
        patch.setattr(kerneldb.warehouse, "write_lease", keeper.write_lease)
        patch.setattr(duckdb, "connect", keeper.connect)
        patch.setattr(shutil, "copyfile", keeper.before(shutil.copyfile))
        patch.setattr(subprocess.Popen, "__init__", keeper.before(subprocess.Popen.__init__))
        patch.setattr(os, "fork", keeper.before(os.fork))
        patch.setattr(Keeper, "current", keeper)
        try:
            yield keeper
        finally:
            keeper.close()


@contextlib.contextmanager
def open_meanwhile() -> Iterator[None]:
    """Whatever is made meanwhile stays open: an ingest opens a file five times for each trace. Then all is closed."""
    keeper = Keeper.current or Keeper()
    before, keeper.keeping = keeper.keeping, True
    try:
        yield
    finally:
        keeper.keeping = before
        keeper.close()
