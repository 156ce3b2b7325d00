"""The warehouse as ingest sees it: opened when first needed, made when the first trace is committed."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneldb.api.ingestion import read_part
from kerneldb.api.queries import ask
from kerneldb.errors import WarehouseMissingError
from kerneldb.files import inode_of, remove_stale_spools, stamp_of
from kerneldb.shell import kerneldb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kerneldb.batch import Manifest
    from kerneldb.ingest import Unit
    from kerneldb.warehouse import Warehouse
    from kerneldb.warehouse.commit import Added
    from kerneldb.warehouse.place import Place


def place_of(given: str | Path) -> Place:
    """The file or lake that a user named. Raises UsageError for a lake of another kind."""
    from kerneldb.warehouse.place import Place

    return Place.of(given)


@dataclasses.dataclass(slots=True)
class Files:
    """What was read into the database: names by trace id, and sizes of files. Right while the database has `stamp`."""

    names: dict[str, str] = dataclasses.field(default_factory=dict)
    sizes: set[int | None] = dataclasses.field(default_factory=set)
    stamp: object = None

    def add(self, trace_id: str, name: str, files: Sequence[Mapping[str, Any]]) -> None:
        """Note a trace with its files."""
        self.names[trace_id] = name
        self.sizes.update(row["compressed_bytes"] for row in files)


class WarehouseStore:
    """A database file that need not exist yet, or a lake."""

    def __init__(self, place: Place, lock_timeout: float) -> None:
        self.place = place
        self.path = place.path
        self._lock_timeout = lock_timeout
        self._opened: Warehouse | None = None
        self._files = Files()
        self._inode: int | None = None

    def existing(self) -> Warehouse:
        """The warehouse of an existing database. Raises WarehouseMissingError."""
        if not self.place.is_lake and not self.path.exists():
            remedy = kerneldb("ingest", "TRACE", database=self.path)
            raise WarehouseMissingError(f"{self.path}: no such database; create it with: {remedy}")
        from kerneldb.warehouse import Warehouse

        return self._current(Warehouse.open)

    def is_begun(self) -> bool:
        """Whether the place holds a database: not a missing file, nor one whose making was cut short."""
        if self.place.is_lake or not self.place.exists():
            return self.place.is_lake
        from kerneldb.warehouse import engine

        return not self.place.path.is_file() or not engine.is_cut(self.place.path)

    def made(self) -> Warehouse:
        """The warehouse, made where the file is missing; what killed programs left in the making beside it goes."""
        from kerneldb.warehouse import Warehouse

        if not self.place.is_lake:
            remove_stale_spools(self.path)
        return self._current(Warehouse.create_or_open)

    def _current(self, opened: Callable[[Place, float], Warehouse]) -> Warehouse:
        """The warehouse, opened anew where the file is gone or another one, maybe of another schema, took its place."""
        if self._opened is None or (not self.place.is_lake and inode_of(self.path) != self._inode):
            self._opened = opened(self.place, self._lock_timeout)
            self._inode = inode_of(self.path)
        return self._opened

    def close(self) -> None:
        """Let the file go, if it is open."""
        if self._opened is not None:
            self._opened.release()

    @property
    def spools(self) -> Path:
        """The path beside which conversions lie until they are committed: for a lake, in the node's own folder."""
        return Path(tempfile.gettempdir(), self.path.name) if self.place.is_lake else self.path

    def batch(self) -> contextlib.AbstractContextManager[None]:
        """A context for the commits of one call; what a missing file is made of is begun meanwhile."""
        from kerneldb.warehouse import Warehouse, template

        if not self.place.is_lake and not self.path.exists():
            template.prepare()
        return Warehouse(self.place, self._lock_timeout).batch()

    def held(self, unit: Unit) -> list[tuple[str, str]]:
        """(trace id, name) of each trace in `unit` where all of them are there already, by content; else nothing.

        The files are hashed only where files of the same stored size are there.
        """
        if not self.place.exists():
            return []
        from kerneldb import ingest
        from kerneldb.ingest.source import stored_sizes

        stamp = stamp_of(self.path)  # before the rows: what is written meanwhile makes it old
        if self.place.is_lake or self._files.stamp != stamp:
            self._files = Files(stamp=stamp)
            for row in ask(self.made(), "trace_files"):
                self._files.add(row["trace_id"], row["name"], [row])
        known = self._files
        if any(size not in known.sizes for file in unit.files for size in stored_sizes(file, unit.member)):
            return []
        keys = ingest.trace_keys(unit)
        return [(key, known.names[key]) for key in keys] if known.names.keys() >= set(keys) else []

    def commit(self, manifest: Manifest, *, replace: bool, tags: Mapping[str, str]) -> Added:
        """Add the trace, and say what became of it."""
        added = self.made().commit(manifest, replace=replace, tags=tags)
        if added.written:
            files = read_part(manifest, "trace_files", ["compressed_bytes"])
            self._files.add(manifest.trace_id, added.name, files)
            self._files.stamp = stamp_of(self.path)
        return added
