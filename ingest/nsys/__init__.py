"""Nsight Systems: exports as SQLite or Parquet folder, and the reports of `nsys stats` as CSV, TSV or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kerneldb.ingest.nsys import heads
from kerneldb.ingest.readers import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding
    from kerneldb.ingest.options import Options, Progress
    from kerneldb.ingest.readers import Unit


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.nsys import convert

    return convert.convert(unit, folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.nsys import findings

    return findings.findings(manifest)


READER: Final = Reader(
    "nsys",
    (".sqlite", ".sqlite.gz", ".csv", ".csv.gz", ".tsv"),
    heads.fits,
    _convert,
    whole_folder=heads.is_parquet_export,
    findings=_findings,
)
