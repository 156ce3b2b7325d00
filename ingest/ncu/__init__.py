"""Nsight Compute: CSV pages raw, details and summary of 2020 to 2026, logs that hold them, and `.ncu-rep`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.ingest.ncu import stems
from kerneldb.ingest.readers import Head, Reader, Unit

if TYPE_CHECKING:
    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding
    from kerneldb.ingest.options import Options, Progress

MAGIC: Final = b"NVR\x00"
TABLE: Final = re.compile(
    rb'^\W*"?(?:ID"?,"?(?:Process ID|Kernel Name)"?,'
    rb'|Process ID"?,"?(?:Process Name|Host Name|Kernel Name)"?,|Domain"?,"?Range:)',
    re.MULTILINE,
)
LOG: Final = re.compile(rb"^\W*==(?:PROF|ERROR|WARNING)== ", re.MULTILINE)
CONSOLE: Final = re.compile(rb"^\s+Section: [A-Z].*\r?\n\s+-{4,}", re.MULTILINE)


def fits(head: Head) -> bool:
    """Whether a file is an export or a log of ncu, or its report."""
    if stems.is_report(head.path) or head.data.startswith(MAGIC):
        return True
    return any(mark.search(head.data) for mark in (TABLE, LOG, CONSOLE))


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.ncu.convert import convert

    return convert(unit, folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.ncu.findings import findings

    return findings(manifest)


READER: Final = Reader(
    name="ncu",
    endings=(".csv", ".csv.gz", "ncu.log", *stems.REPORTS),
    fits=fits,
    convert=_convert,
    capture=stems.capture,
    findings=_findings,
)
