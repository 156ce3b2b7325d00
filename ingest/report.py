"""The ingest report: what of a file was read, stored, repaired, skipped or lost, with the reason and an example."""

from __future__ import annotations

import dataclasses

import polars as pl

from kerneldb.batch import Spool

SCHEMA = {"outcome": pl.String, "reason": pl.String, "n": pl.Int64, "example": pl.String}


@dataclasses.dataclass(slots=True)
class Report:
    """Counts by (outcome, reason). Outcomes: read, stored, repaired, refused, skipped, lost, truncated, note."""

    counts: dict[tuple[str, str], tuple[int, str | None]] = dataclasses.field(default_factory=dict)

    def add(self, outcome: str, reason: str, n: int, example: str | None = None) -> None:
        """Count `n` events; zero adds nothing."""
        if n:
            before, kept = self.counts.get((outcome, reason), (0, None))
            self.counts[outcome, reason] = (before + n, kept or example)

    def add_refused(self, spool: Spool) -> None:
        """Count the times that the spool refused: call it when all rows are written."""
        for reason, n, example in spool.refused():
            self.add("refused", reason, n, example)

    def rows(self) -> pl.DataFrame:
        """Rows of `ingest_reports` without trace_id and file_index."""
        return pl.DataFrame(
            [
                {"outcome": outcome, "reason": reason, "n": n, "example": example}
                for (outcome, reason), (n, example) in self.counts.items()
            ],
            schema=SCHEMA,
        )

    def summary(self) -> dict[str, dict[str, int]]:
        """Outcome → reason → count."""
        nested: dict[str, dict[str, int]] = {}
        for (outcome, reason), (n, _) in self.counts.items():
            nested.setdefault(outcome, {})[reason] = n
        return nested
