"""rocprof (v1): `results.db` and `results.json`. Its `results.csv` is read with the other CSV files."""

from __future__ import annotations

import re
from typing import Final

from kerneldb.ingest import readers, sqlite
from kerneldb.ingest.readers import Head, Later, Reader

TABLES: Final = frozenset({"OPS", "KERN"})
ARGUMENTS: Final = re.compile(rb'"args"\s*:\s*\{[^{}]*"BeginNs"\s*:')


def _fits(head: Head) -> bool:
    if sqlite.is_database(head.data):
        return sqlite.table_names(head) >= TABLES
    return readers.TRACE_MARK.search(head.data) is not None and ARGUMENTS.search(head.data) is not None


READER: Final = Reader(
    "rocprof",
    (".db", ".db.gz", ".json", ".json.gz"),
    _fits,
    Later("rocprof_v1.convert"),
    Later("amd.diagnostics"),
)
