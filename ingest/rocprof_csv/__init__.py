"""CSV files of rocprofv3 (every kind and era, and what `rocpd convert -f csv` writes), rocprofv2 and rocprof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Head, Reader, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding


def _fits(head: Head) -> bool:
    from kerneldb.ingest.rocprof_csv.headers import kind_of

    return kind_of(head.data) is not None


def _capture(head: Head) -> str | None:
    """`<folder>/<prefix>`: `7_kernel_trace.csv` and `7_hip_api_trace.csv` are one trace."""
    from kerneldb.ingest.amd.capture import prefix_of

    return f"{head.path.resolve().parent}/{prefix_of(head.path)}"


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.rocprof_csv.convert import convert

    return convert(unit, folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.amd.findings import findings

    return findings(manifest)


READER = Reader("rocprofv3", (".csv", ".csv.gz"), _fits, _convert, capture=_capture, findings=_findings)
