"""SQLite files of nvprof (`nvprof -o`, `.nvvp`) in the table names of Nsight Systems, which came out of the same CUPTI.

Kernels stand in CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (KERNEL where they were serialised), names in StringTable, and
one file holds one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from kerneldb.ingest import sqlite
from kerneldb.ingest.nsys.store import Schema

PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
PROCESS: Final = "globalPid"
SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "StringIds": ("StringTable",),
    f"{PREFIX}KERNEL": (f"{PREFIX}CONCURRENT_KERNEL", f"{PREFIX}KERNEL"),
    f"{PREFIX}MEMCPY": (f"{PREFIX}MEMCPY",),
    f"{PREFIX}MEMSET": (f"{PREFIX}MEMSET",),
    "TARGET_INFO_GPU": (f"{PREFIX}DEVICE",),
}
RENAMED: Final[Mapping[str, str]] = {
    "id": "_id_",
    "demangledName": "name",
    "sharedMemoryExecuted": "sharedMemoryExecuted",
    "computeMajor": "computeCapabilityMajor",
    "computeMinor": "computeCapabilityMinor",
    "smCount": "numMultiprocessors",
    "totalMemory": "globalMemorySize",
    "threadsPerWarp": "numThreadsPerWarp",
    "maxWarpsPerSm": "maxWarpsPerMultiprocessor",
    "maxRegistersPerSm": "maxRegistersPerMultiprocessor",
    "maxShmemPerSm": "maxSharedMemoryPerMultiprocessor",
}
"""Column of Nsight Systems → column of nvprof."""
DEVICE_TABLE: Final = "TARGET_INFO_GPU"


class NvvpStore:
    """Tables of an nvprof file under the names that Nsight Systems gave them. Calls and ranges are left out."""

    def __init__(self, database: sqlite.Database) -> None:
        self._database = database
        self._tables = database.tables()

    def columns(self, table: str) -> frozenset[str]:
        """Columns of a table."""
        return frozenset(column for source in SOURCES.get(table, ()) for column in self._tables.get(source, ()))

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        """Batches of the tables that make up one of Nsight Systems."""
        for source in SOURCES.get(table, ()):
            if source in self._tables:
                yield from self._database.frames(self._select(table, source, schema), schema)

    def count(self, table: str) -> int:
        """Rows of a table."""
        return sum(part.height for part in self.frames(table, {"id": pl.String}))

    def _select(self, table: str, source: str, schema: Schema) -> str:
        present = self._tables[source]
        chosen = ", ".join(self._expression(table, name, present) for name in schema)
        return " ".join(("SELECT", chosen, "FROM", sqlite.quoted(source)))

    def _expression(self, table: str, name: str, present: tuple[str, ...]) -> str:
        if table == DEVICE_TABLE and name == "name":
            return "(SELECT value FROM StringTable WHERE _id_ = name)"
        if table == DEVICE_TABLE and name == "clockRate" and "coreClockRate" in present:
            return "coreClockRate * 1000"
        wanted = "id" if table == DEVICE_TABLE and name == "id" else RENAMED.get(name, name)
        return sqlite.quoted(wanted) if wanted in present else "NULL"
