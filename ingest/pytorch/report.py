"""The ingest report: every event that was stored, repaired, skipped or lost, with the reason and an example."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kerneldb.ingest import report
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.host import Host

SKIP_REASONS: Final = {
    "flow": "flow arrows: the same links come from correlation and sequence numbers",
}


class Report(report.Report):
    """The report of a PyTorch trace."""

    @classmethod
    def of(cls, collected: Collector, host: Host, statuses: Counter[str]) -> Report:
        """Take the figures of one converted trace."""
        found = cls()
        found.counts["read", "events"] = (collected.events, None)
        found.add("stored", "launches", statuses.total())
        stored = {"ops": host.ops, "api_calls": host.apis, "ranges": host.ranges}
        for table, frame in {**stored, "memory_events": host.memory}.items():
            found.add("stored", table, frame.height)
        found._events(collected)
        found.add("note", "no GPU activity", int(not statuses.total()))
        for status, n in sorted(statuses.items()):
            found.add("note", f"launch status {status}", n)
        return found

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


_MARKS: Final = {
    "M": "process and thread names",
    "C": "counter events",
    "i": "instant marks",
    "I": "instant marks",
}
