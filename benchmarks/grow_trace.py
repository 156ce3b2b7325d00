"""Grows a real PyTorch trace to a wanted size: the same events again and again, later and with ids of their own.

    python benchmarks/grow_trace.py TRACE.json.gz OUT.json --megabytes 500 [--odd 100]

Every copy keeps the text layout of its writer, so parsers meet what they would meet in a long recording; times,
correlation ids, external ids and flow ids move on, so links within a copy stay exact and none joins two copies. With
`--odd N` every Nth event is changed in one of ten ways that writers have been seen to use, most of which are no JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

EVENTS = re.compile(r'"traceEvents"\s*:\s*(?=\[)')
NUMBERS = re.compile(
    rb'"(ts|External id|external id|Ev Idx|Record function id|correlation|id|Python id|Python parent id)"\s*:\s*"?'
    rb"([1-9]\d*)"
)
GAP = re.compile(rb'(\}\s*,\s*)(?=\{\s*"(?:ph|name|cat|pid|tid|ts|args|dur)"\s*:)')
GAP_US = 1_000


def read(path: Path) -> tuple[bytes, bytes, bytes]:
    """Head, events and tail of the text of a trace: an object with `traceEvents`, or a bare array."""
    opener: Callable[..., gzip.GzipFile] = gzip.open if path.suffix == ".gz" else open  # type: ignore[assignment]
    with opener(path, "rb") as file:
        text = file.read()
    letters = text.decode("latin-1")  # a byte each, so that places are those of the bytes
    match = EVENTS.search(letters)
    start = match.end() if match else letters.index("[")
    end = json.JSONDecoder(strict=False).raw_decode(letters, start)[1]
    return text[: start + 1], text[start + 1 : end - 1].rstrip(), text[end - 1 :]


def copies(events: bytes) -> Iterator[bytes]:
    """The events as they are, then again and again, each time moved in time and ids."""
    parts = NUMBERS.split(events)  # text, key, number, text, key, number, …, text
    texts, keys, numbers = parts[::3], parts[1::3], [int(number) for number in parts[2::3]]
    pieces = [text + before for text, before in zip(texts, _befores(events), strict=False)]
    are_times = [key == b"ts" for key in keys]
    times = [number for number, is_time in zip(numbers, are_times, strict=True) if is_time]
    ids = [number for number, is_time in zip(numbers, are_times, strict=True) if not is_time]
    steps = (max(ids, default=0) + 1, max(times) - min(times) + GAP_US)
    by = [steps[is_time] for is_time in are_times]
    copy = 0
    while True:
        moved = (b"%b%d" % (piece, n + copy * step) for piece, n, step in zip(pieces, numbers, by, strict=True))
        yield b"".join(moved) + texts[-1]
        copy += 1


def _befores(events: bytes) -> Iterator[bytes]:
    """The text of each match in front of its number."""
    for match in NUMBERS.finditer(events):
        yield match.group()[: match.start(2) - match.start()]


def _into_arguments(text: bytes) -> Callable[[bytes], bytes]:
    return lambda event: re.sub(rb'("args"\s*:\s*\{)', lambda match: match.group(1) + text, event, count=1)


def _pretty(event: bytes) -> bytes:
    """Keys in another order, one a line."""
    return json.dumps(dict(reversed(json.loads(event).items())), indent=7).encode()


ODD: tuple[Callable[[bytes], bytes], ...] = (
    _into_arguments(b'"odd": NaN, '),
    _into_arguments(b'"odd": -Infinity, '),
    _into_arguments(b'"odd": "\\ud800", '),
    _into_arguments(b'"odd": "C:\\windows", '),
    _into_arguments(b'"odd": "a\x01b", '),
    _into_arguments(b'"odd": "\xff", '),
    _into_arguments(b'"odd": 123456789012345678901234567890, '),
    lambda event: re.sub(rb'("name"\s*:\s*")', rb'\1say "hi" to ', event, count=1),
    lambda event: re.sub(rb'("(?:dur|pid)"\s*:\s*)([\d.]+)', rb'\1"\2"', event),
    _pretty,
)


def with_odd(events: bytes, every: int) -> bytes:
    """`events` with one in `every` changed, in ten ways by turns."""
    parts = GAP.split(events)  # an event without its brace, what follows it, …
    for number, place in enumerate(range(2 * every, len(parts) - 1, 2 * every)):
        parts[place] = ODD[number % len(ODD)](parts[place] + b"}")[:-1]
    return b"".join(parts)


def grow(source: Path, target: Path, megabytes: int, odd: int = 0) -> int:
    """Write the grown trace and return its size in bytes."""
    head, events, tail = read(source)
    events = with_odd(events, odd) if odd else events
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
    parser.add_argument("--odd", type=int, default=0, metavar="N", help="change every Nth event")
    chosen = parser.parse_args()
    grow(chosen.source, chosen.target, chosen.megabytes, chosen.odd)


if __name__ == "__main__":
    main()
