"""Nsight Systems: exports as SQLite or Parquet folder, and the reports of `nsys stats` as CSV, TSV or JSON."""

from __future__ import annotations

from typing import Final

from kerneldb.ingest.nsys import sniff
from kerneldb.ingest.readers import Later, Reader

READER: Final = Reader(
    "nsys",
    (".sqlite", ".sqlite.gz", ".csv", ".csv.gz", ".tsv"),
    sniff.fits,
    Later("nsys.convert"),
    Later("nsys.diagnostics"),
    whole_folder=sniff.is_parquet_export,
    unreadable=sniff.REPORT_ENDINGS,
    refusal=Later("nsys.refusal"),
)
