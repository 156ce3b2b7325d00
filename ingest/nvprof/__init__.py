"""nvprof, the profiler before Nsight: `--print-gpu-trace --csv`, the summary as CSV, and its SQLite files (`.nvvp`)."""

from __future__ import annotations

import re
from typing import Final

from kerneldb.ingest import sqlite
from kerneldb.ingest.readers import Head, Later, Reader

TEXTS: Final = re.compile(
    rb'^"?(?:Start"?,"?Duration"?,"?(?:Grid X|Name)|(?:Type"?,"?)?Time\(%\)"?,"?Time"?,"?Calls)'
    rb"|^[^\S\n]*(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg"
    rb"|^[^\S\n]*Start\s+Duration\s+Grid Size\s+Block Size"
    rb"|^==\d+== (?:NVPROF is profiling|Profiling (?:application|result)):?",
    re.MULTILINE,
)
"""Header lines of CSV and of tables for people; remarks of nvprof, which are there where nothing was recorded too.

What a line begins with stays in it, here and in the other readers: of blanks alone, each line would be read to the end.
"""


def _fits(head: Head) -> bool:
    if sqlite.is_database(head.data):
        tables = sqlite.table_names(head)
        return "StringTable" in tables and any(name.startswith("CUPTI_ACTIVITY_KIND_") for name in tables)
    return TEXTS.search(head.data) is not None


READER: Final = Reader(
    "nvprof",
    (".csv", ".csv.gz", ".nvvp", ".nvprof", ".log"),
    _fits,
    Later("nvprof.convert"),
    Later("nvprof.diagnostics"),
)
