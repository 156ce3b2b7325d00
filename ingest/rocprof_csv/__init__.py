"""CSV files of rocprofv3 (every kind and era, and what `rocpd convert -f csv` writes), rocprofv2 and rocprof."""

from __future__ import annotations

from typing import Final

from kerneldb.ingest.amd.capture import prefix_of
from kerneldb.ingest.readers import Head, Later, Reader


def _fits(head: Head) -> bool:
    from kerneldb.ingest.rocprof_csv.table import kind_of

    return kind_of(head.data) is not None


def _capture(head: Head) -> str:
    """`<folder>/<prefix>`: `7_kernel_trace.csv` and `7_hip_api_trace.csv` are one trace."""
    return f"{head.path.resolve().parent}/{prefix_of(head.path)}"


READER: Final = Reader(
    "rocprofv3", (".csv", ".csv.gz"), _fits, Later("rocprof_csv.convert"), Later("amd.diagnostics"), capture=_capture
)
