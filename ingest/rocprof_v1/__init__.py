"""rocprof (v1): `results.db` and `results.json`. Its `results.csv` is read with the other CSV files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Head, Reader, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding

TABLES: Final = frozenset({"OPS", "KERN"})
EVENTS: Final = re.compile(rb'"traceEvents"\s*:')
MARK: Final = re.compile(rb'"args"\s*:\s*\{[^{}]*"BeginNs"\s*:')


def _fits(head: Head) -> bool:
    from kerneldb.ingest import sqlite

    if sqlite.is_database(head.data):
        return sqlite.table_names(head) >= TABLES
    return EVENTS.search(head.data) is not None and MARK.search(head.data) is not None


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.rocprof_v1.convert import convert

    return convert(unit, folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.amd.findings import findings

    return findings(manifest)


READER = Reader("rocprof", (".db", ".db.gz", ".json", ".json.gz"), _fits, _convert, findings=_findings, events=True)
