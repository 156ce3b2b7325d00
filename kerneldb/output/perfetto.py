"""Launches with their host side as Chrome trace events, which ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" (Google): complete events `X` with `ts` and `dur` in microseconds, names of processes and
threads as metadata events `M`, and arrows from a call to what it launched as flow events `s` and `f`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

HEAD: Final = b'{"displayTimeUnit":"ns","traceEvents":[\n'
TAIL: Final = b"\n]}\n"
ROWS: Final = 4_096


@dataclasses.dataclass(slots=True)
class _Numbers:
    """Numbers for the names of processes and tracks, in the order of their first event."""

    processes: dict[str, int] = dataclasses.field(default_factory=dict)
    tracks: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    several: bool = False

    def of(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The metadata events of names that were not seen before."""
        process, track = self.process(row), row["track"]
        if process not in self.processes:
            self.processes[process] = len(self.processes) + 1
            yield _named("process_name", self.processes[process], 0, process)
        if (process, track) not in self.tracks:
            self.tracks[process, track] = len(self.tracks) + 1
            yield _named("thread_name", self.processes[process], self.tracks[process, track], track)

    def process(self, row: dict[str, Any]) -> str:
        """The process of a row, with its trace."""
        return f"{row['trace']}: {row['process']}"

    def place(self, row: dict[str, Any]) -> dict[str, int]:
        """Process and thread of an event."""
        process = self.process(row)
        return {"pid": self.processes[process], "tid": self.tracks[process, row["track"]]}


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def write(sink: BinaryIO, reader: pa.RecordBatchReader) -> int:
    """Write the rows of the query `perfetto_events` as a JSON trace; returns the number of complete events."""
    import msgspec

    encoder, numbers, written = msgspec.json.Encoder(), _Numbers(), 0
    separator = b""
    sink.write(HEAD)
    for batch in reader:
        for start in range(0, batch.num_rows, ROWS):
            for row in batch.slice(start, ROWS).to_pylist():
                for event in (*numbers.of(row), *_events(row, numbers.place(row))):
                    sink.write(separator + encoder.encode(event))
                    separator = b",\n"
                written += 1
    sink.write(TAIL)
    return written


def _events(row: dict[str, Any], place: dict[str, int]) -> Iterator[dict[str, Any]]:
    import msgspec

    begins = _microseconds(row["start_ns"])
    event = {
        "ph": "X",
        "cat": row["category"],
        "name": row["name"],
        **place,
        "ts": begins,
        "dur": _microseconds(row["duration_ns"]),
    }
    if row["args"] is not None:
        event["args"] = msgspec.Raw(row["args"].encode())
    yield event
    if row["correlation_id"] is not None and row["what"] in {"api", "launch"}:
        flow = {
            "cat": "launch",
            "name": "launch",
            "id": f"{row['trace_number']}.{row['correlation_id']}",
            **place,
            "ts": begins,
        }
        yield {"ph": "s", **flow} if row["what"] == "api" else {"ph": "f", "bp": "e", **flow}


def _microseconds(ns: int) -> Any:
    """Exact: a float of microseconds since 1970 could not hold nanoseconds."""
    import msgspec

    return msgspec.Raw(f"{ns // 1000}.{ns % 1000:03d}".encode())
