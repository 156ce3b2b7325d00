"""Nsight Compute: CSV pages raw, details and summary of 2020 to 2026, logs that hold them, and `.ncu-rep`."""

from __future__ import annotations

from typing import Final

from kerneldb.ingest.ncu import sniff
from kerneldb.ingest.readers import Later, Reader

READER: Final = Reader(
    "ncu",
    (".csv", ".csv.gz", "ncu.log", *sniff.REPORTS),
    sniff.fits,
    Later("ncu.convert"),
    Later("ncu.diagnostics"),
    capture=sniff.capture,
)
