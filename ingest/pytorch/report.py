"""The ingest report: every event that was stored, repaired, skipped or lost, with the reason and an example."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Final

import polars as pl

from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.host import Host

SKIP_REASONS: Final = {
    "flow": "flow arrows: the same links come from correlation and sequence numbers",
}


@dataclasses.dataclass(slots=True)
class Report:
    """Counts by (outcome, reason). Outcomes: read, stored, repaired, skipped, lost, truncated, note."""

    counts: dict[tuple[str, str], tuple[int, str | None]] = dataclasses.field(default_factory=dict)

    def add(self, outcome: str, reason: str, n: int, example: str | None = None) -> None:
        """Count `n` events; zero adds nothing."""
        if n:
            before, kept = self.counts.get((outcome, reason), (0, None))
            self.counts[outcome, reason] = (before + n, kept or example)

    @classmethod
    def of(cls, collected: Collector, host: Host, statuses: Counter[str]) -> Report:
        """Take the figures of one converted trace."""
        report = cls()
        report.counts["read", "events"] = (collected.events, None)
        report.add("stored", "launches", statuses.total())
        stored = {"ops": host.ops, "api_calls": host.apis, "ranges": host.ranges}
        for table, frame in {**stored, "memory_events": host.memory}.items():
            report.add("stored", table, frame.height)
        report._events(collected)
        report.add("note", "no GPU activity", int(not statuses.total()))
        for status, n in sorted(statuses.items()):
            report.add("note", f"launch status {status}", n)
        return report

    def _events(self, collected: Collector) -> None:
        example = collected.examples[0] if collected.examples else None
        self.add("repaired", "event that is not valid JSON", collected.repaired, example)
        self.add("lost", "event that cannot be read", collected.lost, example)
        for reason, n in sorted(collected.skipped.items()):
            self.add("skipped", SKIP_REASONS.get(reason, reason), n)
        for group, n in sorted(collected.untimed.items()):
            self.add("note", f"{group} event without a time", n)
        for phase, n in sorted(collected.marks.items()):
            self.add("stored" if phase == "C" else "skipped", _MARKS.get(phase, f"phase {phase}"), n)

    def rows(self) -> pl.DataFrame:
        """Rows of `ingest_reports` without trace_id."""
        return pl.DataFrame(
            [
                {"outcome": outcome, "reason": reason, "n": n, "example": example}
                for (outcome, reason), (n, example) in self.counts.items()
            ],
            schema={"outcome": pl.String, "reason": pl.String, "n": pl.Int64, "example": pl.String},
        )

    def summary(self) -> dict[str, dict[str, int]]:
        """Outcome → reason → count."""
        nested: dict[str, dict[str, int]] = {}
        for (outcome, reason), (n, _) in self.counts.items():
            nested.setdefault(outcome, {})[reason] = n
        return nested


_MARKS: Final = {
    "M": "process and thread names",
    "C": "counter events",
    "i": "instant marks",
    "I": "instant marks",
}
