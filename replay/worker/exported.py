"""The events of a trace that `torch.profiler` exported, parsed only where they are asked for.

Most of what a session exports is of no interest: what brings inputs into their cache state between two marked calls,
and an arrow for every launch. Kineto prints each event on lines of its own, between `  {` and `  }` (libkineto,
`output_json.cpp`; seen with torch 2.11 and 2.13), so that an event is found, and told by its category, without parsing
it. A trace that is laid out in any other way is parsed as a whole.
"""

from __future__ import annotations

import gc
import json
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

Event = Mapping[str, Any]

FIRST: Final = re.compile(rb'"traceEvents":\s*\[\s*\{\n')
BETWEEN: Final = b"\n  },\n  {\n"
LAST: Final = re.compile(rb"\n  \}\s*\]")
COMPLETE: Final = re.compile(rb'"ph":\s*"X"')
HEAD: Final = re.compile(rb'\s*"ph":\s*"X",\s*"cat":\s*"(\w+)",')
CORRELATION: Final = re.compile(rb'"correlation":\s*(\d+)')


class Events:
    """Parsed complete events (`ph` X), by category."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._by_category: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.get("ph") == "X":
                self._by_category[event.get("cat", "")].append(event)

    def of(self, category: str, correlations: Container[int] | None = None) -> list[Event]:
        """Those of a category; with `correlations`, only those that have one of these."""
        found = self._by_category.get(category, [])
        if correlations is None:
            return found
        return [event for event in found if event.get("args", {}).get("correlation") in correlations]


class Text:
    """The same over the text of a trace. It and `of` raise ValueError where that is not laid out as Kineto's are."""

    def __init__(self, text: bytes) -> None:
        first = FIRST.search(text)
        ends = text.rstrip().endswith(b"}") and LAST.search(text, max(text.rfind(BETWEEN), 0))
        if first is None or not ends:
            msg = "no events on lines of their own, or no end of them"
            raise ValueError(msg)
        self._by_category: dict[bytes, list[bytes]] = defaultdict(list)
        for piece in text[first.end() :].split(BETWEEN):
            head = HEAD.match(piece)
            if head is not None:
                self._by_category[head[1]].append(piece)
            elif COMPLETE.search(piece):
                msg = "an event begins in another way"
                raise ValueError(msg)

    def of(self, category: str, correlations: Container[int] | None = None) -> list[Event]:
        """As `Events.of`."""
        pieces: Iterable[bytes] = self._by_category.get(category.encode(), [])
        if correlations is not None:
            pieces = _having(pieces, correlations)
        joined = b"},{".join(pieces).decode(errors="replace")
        events: list[Event] = json.loads(f"[{{{joined}}}]") if joined else []
        return events


def _having(pieces: Iterable[bytes], correlations: Container[int]) -> Iterator[bytes]:
    for piece in pieces:
        found = CORRELATION.findall(piece)  # the last one: a name may say anything, and stands before the arguments
        if found and int(found[-1]) in correlations:
            yield piece


def whole(path: Path) -> Events:
    """All events of the trace at `path`."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return Events(json.load(file)["traceEvents"])


@contextmanager
def no_collection() -> Iterator[None]:
    """Parsing makes millions of objects and no garbage: looking for some takes longer than the parsing."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
