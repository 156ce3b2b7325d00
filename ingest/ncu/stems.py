"""File names of ncu exports: which files belong to one report, and what the trace is called.

Pages of one report are told by equal names but for `raw` and `details`, in one folder, with the same process in their
first record: two runs of ncu have different processes, whatever their files are called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kerneldb.ingest.readers import Head

PAGE: Final = re.compile(r"(?:^|[._\s()\[\]{}-]+)(?:raw|details?)(?:[._\s-]?page)?(?=[._\s()\[\]{}-]|$)", re.IGNORECASE)
EDGES: Final = "._-()[]{} "
ENDING: Final = re.compile(r"(?:\.(?:csv|log|txt|tsv|gz|ncu-repz?|nsight-cuprof-report))+$", re.IGNORECASE)
REPORTS: Final = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")
FIRST: Final = re.compile(rb'^"\d+","(\d+)","', re.MULTILINE)
COLUMNS: Final = re.compile(rb'^\W*"ID","Process ID",', re.MULTILINE)


def is_report(path: Path) -> bool:
    """Whether the name is that of a report in ncu's own format."""
    return path.name.lower().endswith(REPORTS)


def plain(path: Path) -> str:
    """The name of a file without its endings and without the page."""
    stem = ENDING.sub("", path.name)
    return PAGE.sub("", stem).strip(EDGES) or stem


def common(paths: Sequence[Path]) -> str:
    """The name of a trace: of a file alone its own, of several pages what they share."""
    return ENDING.sub("", paths[0].name) if len(paths) == 1 else plain(paths[0])


def capture(head: Head) -> str | None:
    """Equal for pages of one report. None for a report itself, and for a file without a record."""
    if is_report(head.path) or COLUMNS.search(head.data) is None:
        return None
    process = FIRST.search(head.data)
    if process is None:
        return None
    return f"{head.path.resolve().parent}/{plain(head.path)}/{process[1].decode()}"
