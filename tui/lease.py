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


class Keeper:
    """Keeps a read lease until nothing was asked for a while. To be used from any thread.

    Leases of one process share the connection, so while one is kept, further ones cost next to nothing.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: contextlib.AbstractContextManager[duckdb.DuckDBPyConnection] | None = None
        self._until = 0.0

    def keep(self, warehouse: Warehouse) -> None:
        """Keep the file attached a while longer. Raises WarehouseError where it cannot be had."""
        with self._guard:
            self._until = time.monotonic() + LINGER_S
            if self._kept is None:
                lease = warehouse.lease()
                lease.__enter__()
                self._kept = lease
                threading.Thread(target=self._wait, args=(lease,), name="kerneldb-lease", daemon=True).start()

    def release(self) -> None:
        """Let the file go now; questions that run have leases of their own."""
        with self._guard:
            self._end()

    def _end(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.__exit__(None, None, None)

    def _wait(self, lease: contextlib.AbstractContextManager[duckdb.DuckDBPyConnection]) -> None:
        while True:
            time.sleep(max(self._until - time.monotonic(), 0.0))
            with self._guard:
                if self._kept is not lease:
                    return
                if time.monotonic() >= self._until:
                    self._end()
                    return
