"""The warehouse as ingest sees it: opened when first needed, made when the first trace is committed."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kerneldb.api.ingestion import Linked
from kerneldb.api.queries import rows
from kerneldb.errors import WarehouseMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerneldb.batch import Manifest
    from kerneldb.ingest import Unit
    from kerneldb.warehouse import Warehouse
    from kerneldb.warehouse.draft import Draft
    from kerneldb.warehouse.place import Place


def place_of(given: str | Path) -> Place:
    """The file or lake that a user named. Raises UsageError for a lake of another kind."""
    from kerneldb.warehouse.place import Place

    return Place.of(given)


class WarehouseStore:
    """A database file that need not exist yet, or a lake."""

    def __init__(self, place: Place, lock_timeout: float) -> None:
        self.place = place
        self.path = place.path
        self._lock_timeout = lock_timeout
        self._opened: Warehouse | None = None
        self._draft: Draft | None = None
        self._drafting = contextlib.ExitStack()

    def existing(self) -> Warehouse:
        """The warehouse of an existing database. Raises WarehouseMissingError."""
        if not self.place.is_lake and not self.path.exists():
            message = f"{self.path}: no such database; create it with: kerneldb --db {self.path} ingest TRACE"
            raise WarehouseMissingError(message)
        if self._opened is None:
            from kerneldb.warehouse import Warehouse

            self._opened = Warehouse.open(self.place, self._lock_timeout)
        return self._opened

    def made(self) -> Warehouse:
        """The warehouse, made where the file is missing."""
        if self._opened is None or not self.place.exists():
            from kerneldb.warehouse import Warehouse

            if self._draft is not None:
                self._draft.put(self.path)
            self._opened = Warehouse.create_or_open(self.place, self._lock_timeout)
        return self._opened

    def begin(self) -> None:
        """Have a missing file made while the first trace is read. `close` ends what no trace came to need."""
        if self._draft is None and not self.place.is_lake and not self.place.exists():
            from kerneldb.api.ingestion import spool_folder
            from kerneldb.warehouse.draft import Draft

            self._draft = self._drafting.enter_context(Draft(self._drafting.enter_context(spool_folder(self.path))))

    def close(self) -> None:
        """End what is at work beside an ingest."""
        self._draft = None
        self._drafting.close()

    @property
    def spools(self) -> Path:
        """The path beside which conversions lie until they are committed: for a lake, in the node's own folder."""
        return Path(tempfile.gettempdir(), self.path.name) if self.place.is_lake else self.path

    def held(self, unit: Unit) -> list[tuple[str, str]]:
        """(trace id, name) of each trace in `unit` where all of them are there already, by content; else nothing.

        The files are hashed only where files of the same stored size are there.
        """
        if not self.place.exists():
            return []
        from kerneldb import ingest
        from kerneldb.ingest.source import stored_sizes

        known = rows(self.made(), "trace_files")
        sizes = {row["compressed_bytes"] for row in known}
        if any(size not in sizes for file in unit.files for size in stored_sizes(file)):
            return []
        names = {row["trace_id"]: row["name"] for row in known}
        keys = ingest.trace_keys(unit)
        return [(key, names[key]) for key in keys] if all(key in names for key in keys) else []

    def commit(self, manifest: Manifest, *, replace: bool, tags: Mapping[str, str]) -> tuple[bool, bool, str]:
        """Add the trace: whether it was there before, whether rows were written, and its name in the database."""
        warehouse = self.made()
        before = warehouse.trace_name(manifest.trace_id)
        written = warehouse.commit(manifest, replace=replace, tags=tags)
        return before is not None, written, before or warehouse.trace_name(manifest.trace_id) or manifest.name

    def linked(self, trace_id: str) -> tuple[Linked, ...]:
        """The traces that a trace was linked with, and why."""
        return tuple(Linked(**row) for row in rows(self.made(), "linked", trace_id=trace_id))
