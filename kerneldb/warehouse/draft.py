"""A new database that is made on a thread, beside other work, and gets its name once it is whole."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import duckdb

from kerneldb.errors import KerneldbError
from kerneldb.warehouse import Warehouse

if TYPE_CHECKING:
    from types import TracebackType

POLL_S: Final = 0.05
"""How often a waiting main thread looks for signals."""


class Draft:
    """A database without traces, in the making at `path` from the start on. Leaving the context ends what is not done.

    Its many views take a second, in which the engine holds no lock of Python: as good as nothing while a trace is read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warehouse = Warehouse(path)
        self._is_whole = False
        # Python ends only after it: the engine does not bear that a thread within it is ended.
        self._thread = threading.Thread(target=self._make, name="kerneldb-draft")
        self._thread.start()

    def __enter__(self) -> Self:
        """The draft, which is being made already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the thread, which is cut short."""
        while self._thread.is_alive():
            self._warehouse.interrupt()
            self._thread.join(POLL_S)

    def _make(self) -> None:
        # What goes wrong here goes wrong again where the database is made in its place, and is told there.
        with contextlib.suppress(KerneldbError, OSError, duckdb.Error, KeyboardInterrupt):
            self._warehouse.make()
            self._is_whole = not self._path.with_name(f"{self._path.name}.wal").exists()

    def put(self, path: Path) -> bool:
        """Give the database the name `path`, where nothing has it yet; whether it was whole, and the name free.

        A name is not free beside a write-ahead log, be its file gone: the engine would read the log for this one.
        """
        while self._thread.is_alive():
            self._thread.join(POLL_S)
        if not self._is_whole or path.with_name(f"{path.name}.wal").exists():
            return False
        self._is_whole = False
        with contextlib.suppress(OSError):  # somebody else made one, or the file system knows one name per file
            path.hardlink_to(self._path)
            self._path.unlink()
            return True
        return False
