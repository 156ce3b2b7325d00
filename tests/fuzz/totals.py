"""What a campaign has done so far, in a file that is whole at any time: what cuts the campaign short takes no count."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import time
from pathlib import Path


@dataclasses.dataclass(slots=True)
class Totals:
    """Counts by seed or scene, and what was found; each `add` replaces the file, if there is one."""

    file: Path | None
    runs: dict[int, collections.Counter[str]] = dataclasses.field(default_factory=dict)
    """By number of seed or scene, how often what was done."""
    findings: list[str] = dataclasses.field(default_factory=list)
    is_finished: bool = False
    _began: float = dataclasses.field(default_factory=time.monotonic)

    def add(self, number: int, what: str, finding: str | None) -> None:
        """Count one that was done in seed or scene `number`."""
        self.runs.setdefault(number, collections.Counter())[what] += 1
        if finding is not None:
            self.findings.append(finding)
        self.write()

    def finish(self) -> None:
        """Say that nothing is missing."""
        self.is_finished = True
        self.write()

    def done(self) -> collections.Counter[str]:
        """How often what was done, in all seeds or scenes."""
        return sum(self.runs.values(), collections.Counter())

    def seconds(self) -> float:
        """Since the first of it began."""
        return time.monotonic() - self._began

    def write(self) -> None:
        """Replace the file by one with the counts of now."""
        if self.file is None:
            return
        new = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        new.write_text(json.dumps(self._said(), indent=1) + "\n", encoding="utf-8")
        new.replace(self.file)

    def _said(self) -> dict[str, object]:
        done = self.done()
        return {
            "finished": self.is_finished,
            "seconds": round(self.seconds(), 1),
            "total": done.total(),
            "done": done,
            "found": len(self.findings),
            "findings": self.findings,
            "by_number": self.runs,
        }
