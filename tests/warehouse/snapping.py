"""Runs a command, and keeps what a kill would leave: the folder of the database around each call to the engine.

`python snapping.py DATABASE STATES COMMAND...`. A process that is killed leaves its files as they are, so a copy of
them, made while it runs, is what a kill at that moment leaves. States that are the same are kept once, in folders named
by number under STATES.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

_CONNECT = duckdb.connect
Stamp = frozenset[tuple[str, int, int, int]]


class Keeper:
    """Copies the folder where it changed since the last look."""

    def __init__(self, folder: Path, states: Path) -> None:
        self._folder, self._states = folder, states
        self._seen: set[Stamp] = set()
        self._lock = threading.Lock()

    def look(self) -> None:
        with self._lock:
            found = [(path, path.stat()) for path in self._folder.rglob("*") if not path.name.endswith(".parquet")]
            stamp = frozenset((str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in found)
            if stamp not in self._seen:
                self._seen.add(stamp)
                shutil.copytree(self._folder, self._states / f"{len(self._seen):03}")


class Watched:
    """A connection around each of whose calls `look` is called."""

    def __init__(self, con: duckdb.DuckDBPyConnection, look: Callable[[], None]) -> None:
        self._con, self._look = con, look

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._con, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **options: Any) -> Any:
            self._look()
            result = found(*arguments, **options)
            self._look()
            return Watched(result, self._look) if isinstance(result, duckdb.DuckDBPyConnection) else result

        return called


def main(database: str, states: str, *command: str) -> None:
    from kerneldb.cli import cli

    keeper = Keeper(Path(database).parent, Path(states))
    duckdb.connect = lambda *arguments, **options: Watched(_CONNECT(*arguments, **options), keeper.look)
    keeper.look()
    cli(["--db", database, *command], standalone_mode=False)
    keeper.look()


if __name__ == "__main__":
    main(*sys.argv[1:])
