"""Recognises files of Nsight Compute, and by their names and first lines the pages of one report.

Pages of one report have equal names but for `raw` and `details`, lie in one folder, and have the same process in their
first record: two runs of ncu have different processes, whatever their files are called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kerneldb.ingest.readers import Head

MAGIC: Final = b"NVR\x00"
TEXTS: Final = re.compile(
    rb'^[^\w\n]*"?(?:ID"?,"?(?:Process ID|Kernel Name)"?,'
    rb'|Process ID"?,"?(?:Process Name|Host Name|Kernel Name)"?,|Domain"?,"?Range:)'
    rb"|^(?=[^\n]*\bKernel Name\b)(?=[^\n]*\bID\b)[^\n]*(?:\bMetric Value\b|\b[a-z]\w{,99}__\w{1,99}\.\w)"
    rb"|^[^\w\n]*==(?:PROF|ERROR|WARNING)== "
    rb"|^[^\S\n]+Section: [A-Z].*\n[^\S\n]+-{4,}"
    rb"|^[^\S\n]+Metric Name +Metric Unit +Metric Value\r?$",
    re.MULTILINE,
)
"""Header lines of tables, those that a program laid out anew as well; messages of ncu; what it prints on a console."""
PAGE: Final = re.compile(r"(?:^|[._\s()\[\]{}-]+)(?:raw|details?)(?:[._\s-]?page)?(?=[._\s()\[\]{}-]|$)", re.IGNORECASE)
EDGES: Final = "._-()[]{} "
ENDING: Final = re.compile(r"(?:\.(?:csv|log|txt|tsv|gz|ncu-repz?|nsight-cuprof-report))+$", re.IGNORECASE)
REPORTS: Final = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")
FIRST: Final = re.compile(rb'^"\d+","(\d+)","', re.MULTILINE)
SOURCE_PAGE: Final = re.compile(
    rb'^[^\w\n]*"(?:#","Address","Source|#","Source|Address","Source|Line No","Source)"', re.MULTILINE
)
"""Columns of a source page."""
COLUMNS: Final = re.compile(rb'^[^\w\n]*"ID","Process ID",', re.MULTILINE)


def fits(head: Head) -> bool:
    """Whether a file is an export or a log of ncu, or its report."""
    known = is_report(head.path) or head.data.startswith(MAGIC) or TEXTS.search(head.data) is not None
    return known or is_source_page(head.data)


def is_source_page(data: bytes) -> bool:
    """Whether a text begins with a table of the source page."""
    return SOURCE_PAGE.search(data) is not None and COLUMNS.search(data) is None


def is_report(path: Path) -> bool:
    """Whether the name is that of a report in ncu's own format."""
    return path.name.lower().endswith(REPORTS)


def trace_name(paths: Sequence[Path]) -> str:
    """The name of a trace: of a file alone its own, of several pages what they share, without endings."""
    stem = ENDING.sub("", paths[0].name)
    return stem if len(paths) == 1 else PAGE.sub("", stem).strip(EDGES) or stem


def capture(head: Head) -> str | None:
    """Equal for pages of one report. None for a report itself, and for a file without a record."""
    if is_report(head.path) or COLUMNS.search(head.data) is None:
        return None
    process = FIRST.search(head.data)
    if process is None:
        return None
    return f"{head.path.resolve().parent}/{trace_name([head.path, head.path])}/{process[1].decode()}"
