r"""Cuts the text of a PyTorch trace into what precedes the events, pieces of whole events, and its tail.

Profilers write hundreds of megabytes as one JSON object. The cut never parses: it learns from the first two events
how this writer separates events (`\n  },\n  {` by Kineto, `}, {"` by tools that write the file again) and uses that
text as the boundary. JSON forbids raw newlines inside strings, so a boundary that holds one is exact; for one-line
files the next key must be an event key. A boundary found in a wrong place gives text that does not parse, which the
tolerant reader joins again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from kerneldb import limits

CHUNK_BYTES: Final = 8 << 20
KEY_BYTES: Final = 256
"""More than `"traceEvents": [` takes, blanks included: so much is searched again with the next block."""
RELEARN: Final = 2
"""So many chunks without a boundary, and another one is looked for."""
HEAD_LIMIT: Final = 256 << 20
BEFORE_BLANKS: Final = (b",", b"{", b"}", b"[", b"]", b":")
"""What a blank block may follow and be left out, where that is in no string."""
EVENTS_KEY: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
IN_STRING: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
BRACKET: Final = re.compile(rb"[\[\]{}]")
CLOSING: Final = {b"{": b"}", b"[": b"]"}
AROUND: Final = {b"}": b'{"":', b"]": b"["}
ARRAY_START: Final = re.compile(rb"\s*\[")
EVENT_KEYS: Final = rb'"(?:ph|name|cat|pid|tid|ts|args|dur)"\s*:'
KEY_BEHIND: Final = re.compile(rb"\s*" + EVENT_KEYS)
NESTED: Final = re.compile(rb"\s*\[.*?\]\s*,\s*(?=\{)", re.DOTALL)
"""A list where the first event should be: what separates its members separates no events."""
FIRST_GAP: Final = re.compile(rb"\}(\s*,\s*)\{(?=\s*" + EVENT_KEYS + rb")")


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """The text between two events.

    `literal` starts with what precedes the closing brace and ends with the opening one.
    """

    literal: bytes
    exact: bool

    @classmethod
    def learn(cls, text: bytes) -> Boundary | None:
        """The boundary of this writer, from the first gap between two events, or None where there is no gap."""
        nested = NESTED.match(text)
        match = FIRST_GAP.search(text, nested.end() if nested else 0)
        if match is None:
            return None
        newline = text.rfind(b"\n", 0, match.start())
        before = text[newline : match.start()] if newline >= 0 else b""
        exact = bool(before) and not before.strip(b"\n\t ")
        return cls((before if exact else b"") + b"}" + match[1] + b"{", exact)

    def last(self, text: bytes) -> int:
        """Offset just behind the closing brace at the last boundary in `text`, or -1."""
        end = len(text)
        while (found := text.rfind(self.literal, 0, end)) >= 0:
            behind = found + len(self.literal)
            if self.exact or re.match(rb"\s*" + EVENT_KEYS, text[behind : behind + 64]):
                return found + self.literal.index(b"}") + 1
            end = found + len(self.literal) - 1
        return -1

    def first(self, text: bytes, start: int, end: int) -> tuple[bytes, int]:
        """The text of the event that begins at `start`, as `split` gives it, and where the next one begins."""
        found = start
        while (found := text.find(self.literal, found, end)) >= 0:
            behind = found + len(self.literal)
            if self.exact or KEY_BEHIND.match(text, behind, end):
                return text[start:found] + b"}", behind - 1
            found += 1
        return text[start:end], end

    def split(self, text: bytes) -> list[bytes]:
        """The text of each event in `text`."""
        if self.exact:
            first, *others = text.split(self.literal)
        else:
            first, *others = re.split(re.escape(self.literal) + rb"(?=\s*" + EVENT_KEYS + rb")", text)
        if not others:
            return [first]
        return [first + b"}", *(b"{%b}" % inner for inner in others[:-1]), b"{" + others[-1]]


ONE_EVENT: Final = Boundary(b"},{", exact=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Whole events: `text` up to `end`, and what is between two of them."""

    text: bytes
    end: int
    boundary: Boundary

    @property
    def array(self) -> bytes:
        """The events as an array of JSON."""
        return b"".join((b"[", memoryview(self.text)[: self.end], b"]"))


class Splitter:
    """Iterate it for pieces of whole events; `head` is complete before the first chunk, `tail` after the last.

    `head` is the text before the events (without `"traceEvents": [`), or None where the text holds no events array.
    `tail` begins with the last event, which is where a cut file breaks off.
    """

    def __init__(self, blocks: Iterator[bytes], chunk_bytes: int = CHUNK_BYTES) -> None:
        self._blocks = blocks
        self._chunk_bytes = chunk_bytes
        self.tail = b""
        self.head, self._rest = self._read_head()

    def _read_head(self) -> tuple[bytes | None, bytes]:
        head = _Head()
        for block in self._blocks:
            if (found := head.events_in(block)) is not None:
                return bytes(head.text[: found[0]]), bytes(head.text[found[1] :])
            if len(head.text) > HEAD_LIMIT:
                break
        return None, bytes(head.text)

    def __iter__(self) -> Iterator[Piece]:
        if self.head is None:
            return
        parts, size, boundary = [self._rest], len(self._rest), Boundary.learn(self._rest)
        self._rest, wanted, is_left_out, quotes = b"", self._chunk_bytes, False, _Quotes()
        for block in self._blocks:
            is_left_out = block.isspace() and (is_left_out or _is_between_values(parts, size, quotes))
            if is_left_out:
                size -= len(parts[-1])
                parts[-1] = parts[-1].rstrip()
                size += len(parts[-1])
                quotes.seen = size
                continue
            parts.append(block)
            size += len(block)
            if size < wanted:
                continue
            text = b"".join(parts)
            boundary = boundary or Boundary.learn(text)
            cut = boundary.last(text) if boundary else -1
            if cut < 0 and size >= RELEARN * self._chunk_bytes:  # the first gap is like no other
                boundary = Boundary.learn(text[len(text) // 2 :])
                cut = boundary.last(text) if boundary else -1
            if boundary and cut > 0:
                yield Piece(text, cut, boundary)
                text, quotes = _behind_comma(text, cut), _Quotes()
            parts, size = [text], len(text)
            limits.EVENT.check(size, "no event ends within {} bytes")
            # One long event: looked at whenever it has doubled, so that each byte of it is looked at few times.
            wanted = max(self._chunk_bytes, min(2 * size, limits.EVENT.value() or 2 * size) if cut <= 0 else 0)
        yield from self._finish(b"".join(parts), boundary)

    def _finish(self, text: bytes, boundary: Boundary | None) -> Iterator[Piece]:
        boundary = boundary or Boundary.learn(text) or ONE_EVENT
        cut = boundary.last(text)
        if cut > 0:
            yield Piece(text, cut, boundary)
            text = _behind_comma(text, cut)
        self.tail = text


def _is_between_values(parts: list[bytes], size: int, quotes: _Quotes) -> bool:
    """Whether blanks behind `parts` stand between values, and not in a string. The first part begins between values."""
    before = parts[-1].rstrip()
    if not before:
        return len(parts) == 1
    return before.endswith(BEFORE_BLANKS) and not quotes.open_behind(parts, size)


class _Quotes:
    """Whether a text that grows ends within a string. Each byte of it is looked at once; `seen` were."""

    def __init__(self) -> None:
        self.seen = 0
        self._open = b""

    def open_behind(self, parts: list[bytes], size: int) -> bool:
        """Whether `parts`, of `size` bytes that begin with what was seen, end within a string."""
        new, left = [], size - self.seen
        for part in reversed(parts):
            if left <= 0:
                break
            new.append(part[-left:])
            left -= len(part)
        self.seen = size
        rest = STRING.sub(b"", b"".join([self._open, *reversed(new)]))
        begun = rest.find(b'"')
        within = IN_STRING.match(rest, begun + 1) if begun >= 0 else None
        # Of an open string only its quote is kept, and a backslash at its end, which escapes what comes.
        self._open = b"" if within is None else b'"' + rest[within.end() :]
        return within is not None


def _behind_comma(text: bytes, cut: int) -> bytes:
    return text[text.index(b",", cut) + 1 :]


class _Head:
    """Finds where the events begin in a text that comes in blocks: at the key `traceEvents` that no entry holds.

    What is before a key in an entry of the metadata is proven once, so that many of them take no longer than few.
    """

    def __init__(self) -> None:
        self.text = bytearray()
        self._searched = 0
        self._proven = 0
        self._opened: list[bytes] = []

    def events_in(self, block: bytes) -> tuple[int, int] | None:
        """(end of head, start of the first event), or None while the array has not begun."""
        self.text += block
        if (match := ARRAY_START.match(self.text)) is not None:
            return 0, match.end()
        for match in EVENTS_KEY.finditer(self.text, self._searched):
            if not self._is_nested(match.start()):
                return match.start(), match.end()
            self._searched = match.end()
        self._searched = max(self._searched, len(self.text) - KEY_BYTES)
        return None

    def _is_nested(self, end: int) -> bool:
        """Whether what begins at `end` is provably inside an entry of the metadata. Damaged text proves nothing."""
        part, opened = bytes(self.text[self._proven : end]), self._opened.copy()
        for bracket in BRACKET.findall(STRING.sub(b"", part)):
            if bracket in CLOSING:
                opened.append(CLOSING[bracket])
            elif not opened or opened.pop() != bracket:
                return False
        if len(opened) <= 1:
            return False
        before = b"".join(AROUND[closing] for closing in self._opened).removesuffix(b'"":')
        try:
            msgspec.json.decode(before + part + b'"":0' + b"".join(reversed(opened)), type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        self._proven, self._opened = end, opened
        return True
