"""Grows a real PyTorch trace to a wanted size: the same events again and again, later and with ids of their own.

    python benchmarks/grow_trace.py TRACE.json.gz OUT.json --megabytes 500

Every copy keeps the text layout of the profiler, so parsers meet what they would meet in a long recording; times,
correlation ids, external ids and flow ids move on, so links within a copy stay exact and none joins two copies.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path

EVENTS = b'"traceEvents": ['
END = b"\n  ],"
TIME = re.compile(rb'("ts": )(\d+)(?=[.,])')
IDS = re.compile(rb'("(?:External id|Ev Idx|Record function id|correlation|id)": )([1-9]\d*)')
GAP_US = 1_000


def read(path: Path) -> tuple[bytes, bytes, bytes]:
    """Head, events and tail of the text of a trace in Kineto's layout."""
    opener: Callable[..., gzip.GzipFile] = gzip.open if path.suffix == ".gz" else open  # type: ignore[assignment]
    with opener(path, "rb") as file:
        text = file.read()
    start = text.index(EVENTS) + len(EVENTS)
    end = text.rindex(END)
    return text[:start], text[start:end], text[end:]


def span(events: bytes) -> int:
    """µs between the first and the last time stamp."""
    times = [int(match.group(2)) for match in TIME.finditer(events)]
    return max(times) - min(times)


def copies(events: bytes) -> Iterator[bytes]:
    """The events as they are, then again and again, each time moved in time and ids."""
    step_us = span(events) + GAP_US
    step_id = max(int(match.group(2)) for match in IDS.finditer(events)) + 1
    number = 0
    while True:
        ids, time = step_id * number, step_us * number
        moved = IDS.sub(lambda m, by=ids: m.group(1) + b"%d" % (int(m.group(2)) + by), events)
        yield TIME.sub(lambda m, by=time: m.group(1) + b"%d" % (int(m.group(2)) + by), moved)
        number += 1


def grow(source: Path, target: Path, megabytes: int) -> int:
    """Write the grown trace and return its size in bytes."""
    head, events, tail = read(source)
    size = 0
    with target.open("wb") as file:
        size += file.write(head)
        for number, part in enumerate(copies(events)):
            size += file.write(b"," + part if number else part)
            if size >= megabytes * 1_000_000:
                break
        size += file.write(tail)
    return size


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--megabytes", type=int, default=500)
    chosen = parser.parse_args()
    grow(chosen.source, chosen.target, chosen.megabytes)


if __name__ == "__main__":
    main()
