"""nvprof, the profiler before Nsight: `--print-gpu-trace --csv`, the summary as CSV, and its SQLite files (`.nvvp`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kerneldb.ingest import sqlite
from kerneldb.ingest.readers import Head, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding
    from kerneldb.ingest.options import Options, Progress
    from kerneldb.ingest.readers import Unit

HEADER: Final = re.compile(
    rb'^"?(?:Start"?,"?Duration"?,"?(?:Grid X|Name)|(?:Type"?,"?)?Time\(%\)"?,"?Time"?,"?Calls)', re.MULTILINE
)
CONSOLE: Final = re.compile(rb"^\s*(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg", re.MULTILINE)
CONSOLE_TRACE: Final = re.compile(rb"^\s*Start\s+Duration\s+Grid Size\s+Block Size", re.MULTILINE)
REMARK: Final = re.compile(rb"^==\d+== (?:NVPROF is profiling|Profiling (?:application|result)):?", re.MULTILINE)
"""Stands in files of nvprof without a table too: nothing was recorded."""


def _fits(head: Head) -> bool:
    if sqlite.is_database(head.data):
        tables = sqlite.table_names(head)
        return "StringTable" in tables and any(name.startswith("CUPTI_ACTIVITY_KIND_") for name in tables)
    return any(pattern.search(head.data) for pattern in (HEADER, CONSOLE, CONSOLE_TRACE, REMARK))


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.nvprof import convert

    return convert.convert(unit.files[0], folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.nvprof import findings

    return findings.findings(manifest)


READER: Final = Reader("nvprof", (".csv", ".csv.gz", ".nvvp", ".nvprof", ".log"), _fits, _convert, findings=_findings)
