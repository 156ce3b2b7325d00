"""RPD: the SQLite databases of rocmProfileData (`runTracer.sh`, `loadTracer.sh`), schema 2 and 3."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Head, Reader, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding

TABLES: Final = frozenset({"rocpd_op", "rocpd_api", "rocpd_string"})


def _fits(head: Head) -> bool:
    """It shares the prefix `rocpd_` with rocprofv3's rocpd, but not these tables."""
    from kerneldb.ingest import sqlite

    return sqlite.is_database(head.data) and sqlite.table_names(head) >= TABLES


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.rpd.convert import convert

    return convert(unit, folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.amd.findings import findings

    return findings(manifest)


READER = Reader("rpd", (".rpd", ".rpd.gz", ".db", ".db.gz"), _fits, _convert, findings=_findings)
