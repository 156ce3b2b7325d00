"""RPD: the SQLite databases of rocmProfileData (`runTracer.sh`, `loadTracer.sh`), schema 2 and 3."""

from __future__ import annotations

from typing import Final

from kerneldb.ingest import sqlite
from kerneldb.ingest.readers import Head, Later, Reader

TABLES: Final = frozenset({"rocpd_op", "rocpd_api", "rocpd_string"})
"""rocprofv3's rocpd has tables that begin with `rocpd_` as well, but not these."""


def _fits(head: Head) -> bool:
    return sqlite.is_database(head.data) and sqlite.table_names(head) >= TABLES


READER: Final = Reader(
    "rpd", (".rpd", ".rpd.gz", ".db", ".db.gz"), _fits, Later("rpd.convert"), Later("amd.diagnostics")
)
