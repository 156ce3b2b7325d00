"""rocpd: the SQLite databases of rocprofv3 (ROCm 7.0 and later) and of rocprof-sys."""

from __future__ import annotations

from typing import Final

from kerneldb.ingest import sqlite
from kerneldb.ingest.readers import Head, Later, Reader

OWN_TABLES: Final = ("rocpd_kernel_dispatch", "rocpd_info_")
"""RPD has tables that begin with `rocpd_` as well, but not with these."""


def _fits(head: Head) -> bool:
    return sqlite.is_database(head.data) and any(name.startswith(OWN_TABLES) for name in sqlite.table_names(head))


READER: Final = Reader("rocprofv3", (".db", ".db.gz"), _fits, Later("rocpd.convert"), Later("amd.diagnostics"))
