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
_BEGINNING: Final = re.compile(r"([\w: ]*)([?*{]?)")


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
        return next((why for pattern, why in self.skipped.items() if _is_like(pattern, name)), UNKNOWN)

    def account(self, found: Mapping[str, int], report: Report) -> None:
        """Count what is not read: `found` is the number of rows, events or values by name; empty parts say nothing."""
        for name, n in found.items():
            why = self.reason(name)
            if why is not None:
                report.add(self.outcome, f"{self.part} {name}: {why}", n)


def _is_like(pattern: str, name: str) -> bool:
    """Whether the pattern matches the whole name. To compile those that begin with other letters takes long, too."""
    if "|" not in pattern and (begun := _BEGINNING.match(pattern)) is not None:
        letters, may_lack = begun.groups()
        if not name.startswith(letters[:-1] if may_lack else letters):
            return False
    return re.fullmatch(pattern, name) is not None
