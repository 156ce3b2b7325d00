"""rocpd: the SQLite databases of rocprofv3 (ROCm 7.0 and later) and of rocprof-sys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Head, Reader, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding

OWN_TABLES: Final = ("rocpd_kernel_dispatch", "rocpd_info_")
"""RPD has tables that begin with `rocpd_` as well, but not with these."""


def _fits(head: Head) -> bool:
    from kerneldb.ingest import sqlite

    return sqlite.is_database(head.data) and any(name.startswith(OWN_TABLES) for name in sqlite.table_names(head))


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.rocpd.convert import convert

    return convert(unit, folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.amd.findings import findings

    return findings(manifest)


READER = Reader("rocprofv3", (".db", ".db.gz"), _fits, _convert, findings=_findings)
