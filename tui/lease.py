"""One lease kept over a burst of questions: to attach the file costs more than most questions do."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import contextlib

    import duckdb

    from kerneldb.warehouse import Warehouse

LINGER_S: Final = 0.3
"""How long the file stays attached after the last question; writers wait that much longer."""


JOIN_S: Final = 1.0


class Keeper:
    """Keeps a read lease until nothing was asked for a while. To be used from any thread.

    Leases of one process share the connection, so while one is kept, further ones cost next to nothing. The thread that
    ends a lease holds no part of it: connections that a sleeping thread holds when Python ends are leaks to the engine,
    which says so in the terminal.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: contextlib.AbstractContextManager[duckdb.DuckDBPyConnection] | None = None
        self._until = 0.0
        self._let_go = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def keep(self, warehouse: Warehouse) -> None:
        """Keep the file attached a while longer. Raises WarehouseError where it cannot be had."""
        with self._guard:
            self._until = time.monotonic() + LINGER_S
            if self._kept is None and not self._closed:
                lease = warehouse.lease()
                lease.__enter__()
                self._kept, self._let_go = lease, threading.Event()
                self._thread = threading.Thread(
                    target=self._wait, args=(self._let_go,), name="kerneldb-lease", daemon=True
                )
                self._thread.start()

    def release(self) -> None:
        """Let the file go now; questions that run have leases of their own."""
        with self._guard:
            self._end()

    def close(self) -> None:
        """Let the file go, and keep it no more."""
        self._closed = True
        self.release()
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def _end(self) -> None:
        kept, self._kept = self._kept, None
        self._let_go.set()
        if kept is not None:
            kept.__exit__(None, None, None)

    def _wait(self, let_go: threading.Event) -> None:
        while not let_go.wait(max(self._until - time.monotonic(), 0.0)):
            with self._guard:
                if not let_go.is_set() and time.monotonic() >= self._until:
                    self._end()
