"""Where a reader writes: the rows of one trace, the report of what was done, and the end of a conversion."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest, Spool
from kerneldb.files import printed
from kerneldb.ingest.readers import Options
from kerneldb.ingest.source import Source, trace_id_of

SLICE_ROWS: Final = 1 << 17


@dataclasses.dataclass(slots=True)
class Report:
    """What of a file was read, stored, repaired, skipped or lost: counts by (outcome, reason), each with an example.

    Outcomes: read, stored, repaired, refused, skipped, lost, truncated, note.
    """

    counts: dict[tuple[str, str], tuple[int, str | None]] = dataclasses.field(default_factory=dict)

    def add(self, outcome: str, reason: str, n: int, example: str | None = None) -> None:
        """Count `n` events; zero adds nothing."""
        if n:
            before, kept = self.counts.get((outcome, reason), (0, None))
            self.counts[outcome, reason] = (before + n, kept or example)

    def rows(self) -> pl.DataFrame:
        """Rows of `ingest_reports` without trace_id and file_index."""
        schema = {"outcome": pl.String, "reason": pl.String, "n": pl.Int64, "example": pl.String}
        return pl.DataFrame([(*key, *count) for key, count in self.counts.items()], schema=schema, orient="row")

    def summary(self) -> dict[str, dict[str, int]]:
        """Outcome → reason → count."""
        nested: dict[str, dict[str, int]] = {}
        for (outcome, reason), (n, _) in self.counts.items():
            nested.setdefault(outcome, {})[reason] = n
        return nested


class File(NamedTuple):
    """A file of a trace: `events` counts its rows or records, `report` says what became of them."""

    source: Source
    role: str
    events: int | None
    report: Report


class Output:
    """Writes the rows of one trace, counted by table in `written`; `finish` closes it.

    `window` is the first start and the last end of everything with a time, in ns; `launches` counts GPU activities.
    """

    def __init__(self, folder: Path, read: Sequence[Source] = ()) -> None:
        """Write into the new folder. `read` are the files of the trace, where they have been read to their ends."""
        self.spool = Spool(folder)
        self.trace_id = trace_id_of(read) if read else None
        self.report = Report()
        self.window: times.Window = (None, None)
        self.launches = 0
        self.written: Counter[str] = Counter()
        self._untimed = 0

    def write(self, table: str, frame: pl.DataFrame) -> None:
        """Append rows to `table`, with the id of the trace (which `finish` adds where it is not known before)."""
        if frame.height:
            self.written[table] += frame.height
            if table == "launches":
                known = frame.height - frame["duration_ns"].null_count() if "duration_ns" in frame.columns else 0
                self._untimed += frame.height - known
            self.spool.write(table, frame.with_columns(trace_id=pl.lit(self.trace_id, dtype=pl.String)))

    def ends_at(self, ends: Sequence[int | None]) -> None:
        """Take the ends of the processes, as the trace states them: 0 and NULL mean that it does not."""
        known = [end for end in ends if isinstance(end, int) and end > 0]
        if known and len(known) == len(ends):
            self.spool.guard.until(max(known))

    def saw(self, frame: pl.DataFrame) -> None:
        """Widen the window by the columns start_ns and end_ns, without what the spool refuses."""
        until = self.spool.guard.window_end_ns
        self.window = times.widened(self.window, times.span(frame, "start_ns", times.between(), until))

    def finish(self, options: Options, name: str, files: Sequence[File], **facts: Any) -> Manifest:
        """Write `traces`, `trace_files` and `ingest_reports`, and close the spool. All files must have been read.

        `name` is the name of the trace where the user gave none, `facts` are columns of `traces`. Times that were
        refused, and launches that have no duration, are counted in the report of the first file.
        """
        if self.trace_id is None:
            self._identify(trace_id_of([file.source for file in files]))
        row = {
            "window_start_ns": self.window[0],
            "window_end_ns": self.window[1],
            "has_shapes": False,
            "has_stacks": False,
            "launches": self.launches,
            "trace_id": self.trace_id,
            "name": printed(options.name or name),
            "label": options.label,
            "default_phase": options.phase,
            "stated_run": options.run,
            **facts,
        }
        for reason, n, example in self.spool.refused():
            files[0].report.add("refused", reason, n, example)
        files[0].report.add("note", "launch without a duration", self._untimed)
        for index, file in enumerate(files):
            self._write_file(index, file)
        self.spool.write("traces", pl.DataFrame([row], infer_schema_length=None))
        return self.spool.finish(row)

    def _identify(self, trace_id: str) -> None:
        """Add the id of the trace to the rows written so far."""
        self.trace_id = trace_id
        for table in self.written:
            for path in self.spool.paths(table):
                pl.read_parquet(path).with_columns(trace_id=pl.lit(trace_id)).write_parquet(path, compression="lz4")

    def _write_file(self, index: int, file: File) -> None:
        for reason, (n, example) in sorted(file.source.odd.items()):
            file.report.add("unread", reason, n, example)
        place = {"trace_id": self.trace_id, "file_index": index}
        row = {
            **place,
            "path": printed(file.source.label),
            "role": printed(file.role),
            "sha256": file.source.sha256,
            "bytes": file.source.decompressed_bytes,
            "compressed_bytes": file.source.stored_bytes,
            "events": file.events,
            "report": json.dumps(file.report.summary()),
        }
        self.spool.write("trace_files", pl.DataFrame([row]))
        columns = [pl.lit(value).alias(name) for name, value in place.items()]
        self.spool.write("ingest_reports", file.report.rows().with_columns(columns))


def nullable(frame: pl.DataFrame, wanted: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """`frame` with every column of `wanted`, missing ones NULL, all of the wanted type (what does not fit is NULL)."""
    absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in wanted.items() if name not in frame.columns]
    wrong = [
        pl.col(name).cast(kind, strict=False)
        for name, kind in wanted.items()
        if name in frame.columns and frame.schema[name] != kind
    ]
    return frame.with_columns(*absent, *wrong)
