"""What a file holds beyond what its reader takes: skipped for a known reason, or named as new to this version.

A reader has one ledger per kind of part (tables, columns, sections, categories of events, keys of arguments). Nothing
of a file may be left out without a line in `ingest_reports`, including what future versions of a profiler add.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kerneldb.ingest.output import Report

UNKNOWN: Final = "new to this version of kerneldb"


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """`part`: the kind of part, such as `table`. `read`: names that the reader takes. `skipped`: pattern → why not.

    Patterns are regular expressions that match a whole name; the first that matches counts. `outcome` is `skipped` for
    rows or events, `unread` for values of rows that are stored: those must not count as events that have none.
    """

    part: str
    read: Collection[str]
    skipped: Mapping[str, str]
    outcome: str = "skipped"

    def reason(self, name: str) -> str | None:
        """Why a part is skipped, None where it is read."""
        if name in self.read:
            return None
        return next((why for pattern, why in self.skipped.items() if re.fullmatch(pattern, name)), UNKNOWN)

    def account(self, found: Mapping[str, int], report: Report) -> None:
        """Count what is not read: `found` is the number of rows, events or values by name; empty parts say nothing."""
        for name, n in found.items():
            why = self.reason(name)
            if why is not None:
                report.add(self.outcome, f"{self.part} {name}: {why}", n)
