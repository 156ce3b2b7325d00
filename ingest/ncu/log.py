"""What ncu and the application wrote beside the table: errors, warnings, passes per kernel, and plain lines."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from kerneldb.ingest.report import Report

MESSAGE: Final = re.compile(r"==(ERROR|WARNING|PROF)==\s*(.*)")
PROFILED: Final = re.compile(r'Profiling ".*?"(?: - (?P<index>\d+)(?: \(\d+/\d+\))?)?:.*?(?P<passes>\d+) pass')
SECTION: Final = re.compile(r"\s+Section: \w|\s*Metric Name\s+Metric Unit\s+(?:Metric Value|Minimum)")
PATH: Final = re.compile(r"(?:[A-Za-z]:)?[\\/][^\s'\")]*[\\/][^\s'\")]+")
KEPT: Final = 20
REMEDIES: Final = {
    "ERR_NVGPUCTRPERM": "Profile as root, or allow counters: https://developer.nvidia.com/ERR_NVGPUCTRPERM.",
    "No kernels were profiled": "Check the kernel and NVTX filters, and profile child processes "
    "(`--target-processes all`).",
    "application returned an error code": "Run the program without ncu until it ends well, then profile again.",
}


@dataclasses.dataclass(slots=True)
class Log:
    """Messages by kind, number of passes by launch id, and counts of other lines."""

    messages: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    passes: dict[str, int | None] = dataclasses.field(default_factory=dict)
    lines: int = 0
    console: bool = False

    def see(self, line: str) -> None:
        """Take a line outside of tables into account."""
        found = MESSAGE.search(line)
        if found is not None:
            self._message(found[1], found[2].strip())
        elif line.strip():
            self.lines += 1
            self.console = self.console or SECTION.match(line) is not None

    def _message(self, kind: str, text: str) -> None:
        profiled = PROFILED.match(text) if kind == "PROF" else None
        if profiled is not None and profiled["index"] is not None:
            self._passes(profiled["index"], int(profiled["passes"]))
        kept = self.messages.setdefault(kind, [])
        if kind != "PROF" and len(kept) < KEPT:
            kept.append(PATH.sub("…", text))

    def _passes(self, index: str, passes: int) -> None:
        """Two sessions in one log number their launches alike: then nothing is known."""
        known = self.passes.setdefault(index, passes)
        if known != passes:
            self.passes[index] = None

    @property
    def complaint(self) -> str:
        """Errors and warnings in one line, with what to do about the first known one; '' where there are none."""
        said = [f"==ERROR== {text}" for text in self.messages.get("ERROR", [])]
        said += [f"==WARNING== {text}" for text in self.messages.get("WARNING", [])]
        remedy = next((hint for mark, hint in REMEDIES.items() if any(mark in text for text in said)), "")
        return " ".join([*said[:3], remedy]).strip()

    def tell(self, report: Report) -> None:
        """Add what was seen to the ingest report."""
        report.add("skipped", "lines of the application", self.lines)
        for text in self.messages.get("ERROR", []):
            report.add("note", "==ERROR==", 1, text)
        for text in self.messages.get("WARNING", []):
            report.add("note", "==WARNING==", 1, text)
