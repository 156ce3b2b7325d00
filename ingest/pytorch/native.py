"""Narrows pieces of a trace with `_scan`, where that is built: the columns of `narrow`, in one pass over the text.

The scan takes what is usual and stops at an event that is not. `events` reads that one, and it is handed back in the
usual form, so that it stands where it belongs; a piece in which even this fails is left to a `Narrower`. The rows are
the same either way. The interpreter's lock is released while the text is read, so threads share the pieces of a file.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from kerneldb.ingest.columns import stream
from kerneldb.ingest.pytorch import census, fields, narrow
from kerneldb.ingest.pytorch.events import NOTHING, REFUSED, Event, Events, TolerantReader, exactly
from kerneldb.ingest.pytorch.narrow import NUL, Chunk, Column, Narrower, Row, Values
from kerneldb.ingest.pytorch.split import Piece
from kerneldb.ingest.pytorch.values import (
    INT64,
    SATURATED_US,
    UINT64,
    is_real,
    nanoseconds,
    number,
    plain,
    text_of,
    text_of_json,
    whole,
)

PURE: Final = "KERNELDB_PURE_PYTHON"
KINDS: Final = {"text": 0, "int": 1, "unsigned": 2, "float": 3}
CATEGORY, NAME = 1, 2
GROUPS: Final = tuple(fields.INTERNED)
TABLES: Final = ("thread", *dict.fromkeys(column for columns in fields.INTERNED.values() for column in columns))
KNOWN: Final = (*fields.GROUP_OF, *fields.OLD_NAMES)
COUNTED: Final = (*(fields.OLD_NAMES.get(name, name) for name in KNOWN), "", fields.MEMORY)
"""What each category of the layout is called where its arguments are counted."""
BEYOND: Final = b"Infinity"
"""No number of JSON: the scan refuses it."""
TEXTS: Final = ("ph", "cat", "name", "pid", "tid")
DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?")


SPAN: Final = {"thread": pl.UInt32, "ts": pl.Int64, "end": pl.Int64, "kind": pl.Int8, "index": pl.UInt32}
FORMATS: Final = {"q": "l", "Q": "L", "d": "g", "I": "I"}
"""Type of `array` → format of Arrow."""
ENCLOSED: Final = ("op", "annotation", "module", "python", "depth")

Packed = tuple[bytes, bytes] | None
"""A column: its values, and the places of those that are NULL; None where all are."""


class Group(NamedTuple):
    """The events of a group, as the scan gives them: columns of numbers and codes in the order of the layout."""

    rows: int
    ts: tuple[bytes, bytes]
    dur: Packed
    thread: tuple[bytes, bytes]
    numbers: list[Packed]
    codes: list[Packed]
    args: list[tuple[int, bytes]]


class Taken(NamedTuple):
    """What the scan read: `fresh` keys by table, others with their counts, and `meta`, the text of marks and names."""

    events: int
    old: bool
    groups: list[tuple[Any, ...]]
    fresh: list[list[bytes]]
    skipped: list[tuple[bytes, int]]
    unread: list[tuple[int, bytes, int]]
    meta: bytes


def _extension() -> Any:
    try:
        return importlib.import_module("kerneldb.ingest.pytorch._scan")
    except ImportError:  # there was no compiler
        return None


_scan: Final = _extension()


class UnusualError(Exception):
    """The scan cannot take a piece, not even with its unusual events in another form."""


def is_there() -> bool:
    """Whether the part in C was compiled."""
    return _scan is not None


def built() -> bool:
    """Whether the part in C is there, and wanted."""
    return is_there() and not os.environ.get(PURE)


def _arguments(group: str) -> tuple[tuple[bytes, int, int], ...]:
    """Name, kind and column of the arguments of a group; of two spellings the first one counts."""
    layout, numbers = narrow.arguments(group), tuple(fields.NUMBERS[group])
    column = {name: place for place, name in enumerate(numbers)}
    column |= {old: column[name] for name, old in fields.SPELLINGS.items() if name in column}
    return tuple(
        (name.encode(), KINDS[layout.numbers.get(name, "text")], column.get(name, -1)) for name in layout.names
    )


def _heads(column: str) -> int:
    if column in fields.OPTIONAL:
        return 0
    return NAME if column == "call" else CATEGORY | NAME


def _codes(group: str) -> tuple[tuple[int, int, bool, tuple[int, ...]], ...]:
    """Table, parts of the event, whether there may be none, and arguments of each column of codes of a group."""
    return tuple(
        (TABLES.index(column), _heads(column), column in fields.OPTIONAL, tuple(range(start, end)))
        for column, (start, end) in narrow.arguments(group).spans.items()
    )


def _categories() -> Generator[tuple[Any, ...], None, None]:
    """Text, group, whether it is an old name, counted, or kept with all arguments, and the arguments that are read."""
    for name in KNOWN:
        group, kept = fields.GROUP_OF[fields.OLD_NAMES.get(name, name)], name == fields.COUNTERS
        text, old = msgspec.json.encode(name), name in fields.OLD_NAMES
        yield text, GROUPS.index(group), old, not kept, kept, _arguments(group)
    yield b"", GROUPS.index("other"), False, False, True, _arguments("other")
    yield b"", GROUPS.index("memory"), False, True, False, _arguments("memory")


def _layout() -> tuple[Any, ...]:
    groups = tuple(
        (tuple(KINDS[kind] for kind in fields.NUMBERS[group].values()), _codes(group), group != "memory")
        for group in GROUPS
    )
    return groups, tuple(_categories()), len(TABLES), len(KNOWN), len(KNOWN) + 1


def _meanings() -> dict[str, tuple[int, Callable[[Row], Row]]]:
    """Table → how many parts of the event are in a key of it, and how it is read."""
    found: dict[str, tuple[int, Callable[[Row], Row]]] = {"thread": (2, lambda key: key[:2])}
    for group, columns in fields.INTERNED.items():
        layout = narrow.arguments(group)
        for column in columns:
            found[column] = _heads(column).bit_count(), narrow.meaning(layout, layout, column)
    return found


class Scan:
    """Reads pieces of one trace, as `Narrower` does. Codes go on from piece to piece."""

    def __init__(self) -> None:
        self._scanner: Any = _scan.Scanner(*_layout(), narrow.MOST_KEYS, secrets.randbits(64))
        self._meanings = _meanings()
        self._fresh: dict[str, list[Row]] = {}

    def narrow(self, piece: Piece) -> Chunk:
        """The chunk of a piece. Raises UnusualError where only a `Narrower` can read it."""
        chunk, reader = Chunk(0, 0, 0, [], None), TolerantReader()
        try:
            self._read(piece, reader, chunk)
        except UnusualError:
            self._keep(Taken._make(self._scanner.take()).fresh)
            raise
        self._fill(chunk, Taken._make(self._scanner.take()))
        found = reader.found
        chunk.repaired, chunk.lost = found.repaired, found.lost
        chunk.examples, chunk.behind = found.examples, found.behind
        return chunk

    def _read(self, piece: Piece, reader: TolerantReader, chunk: Chunk) -> None:
        start, found, scan = self._scanner.scan(piece.text, 0, piece.end), reader.found, self._scanner.scan
        while not reader.is_over and start < piece.end:
            text, start = piece.boundary.first(piece.text, start, piece.end)
            reader.read(text, exactly)
            self._give_back(found, chunk)
            if not reader.is_over:
                start = scan(piece.text, start, piece.end, False, True)  # to wait for the lock after each takes minutes
        if reader.is_over:
            for text in piece.boundary.split(piece.text[start : piece.end]):
                reader.feed(text)
        reader.flush()
        self._give_back(found, chunk)

    def _give_back(self, found: Events, chunk: Chunk) -> None:
        """Hand what was found to the scan, in the usual form."""
        events, found.events = found.events, []
        for event in events:
            written = _written(event)
            if written and self._scanner.scan(written, 0, len(written), True, True) == len(written):
                continue
            sorted_events = narrow.Sorted([event])
            chunk.old_categories |= sorted_events.old
            if skipped := sorted_events.skipped():
                chunk.skipped.update(skipped)
                chunk.events += 1
                continue
            group = next((group for group, given in sorted_events.groups.items() if given), None)
            if group is not None:
                chunk.unread.update(census.unread({group: [event]}))
            text = _usual(event, group, chunk.unread)
            if self._scanner.scan(text, 0, len(text), True, True) < len(text):
                raise UnusualError

    def _keep(self, fresh: list[list[bytes]]) -> None:
        for table, keys in zip(TABLES, fresh, strict=True):
            if keys:
                heads, meaning = self._meanings[table]
                self._fresh.setdefault(table, []).extend(meaning(_row(key, heads)) for key in keys)

    def _fill(self, chunk: Chunk, taken: Taken) -> None:
        self._keep(taken.fresh)
        chunk.events += taken.events
        chunk.old_categories |= taken.old
        groups = zip(GROUPS, map(Group._make, taken.groups), strict=True)
        chunk.groups = {name: _columns(name, group) for name, group in groups if group.rows}
        for key, n in taken.skipped:
            phase, category = map(text_of_json, key.split(NUL))
            chunk.skipped[phase or "?", category or "?"] += n
        for place, name, n in taken.unread:
            chunk.unread[f"{COUNTED[place]}: {name.decode()[: census.NAME_CHARS]}"] += n
        try:
            narrow.take_meta(chunk, exactly(b"[%b]" % taken.meta))
        except REFUSED as error:
            raise UnusualError from error
        chunk.meanings, self._fresh = self._fresh, {}


def _row(key: bytes, heads: int) -> Row:
    """A key of the scan as `narrow.meaning` takes it: texts of the event, then the arguments as one."""
    parts = key.split(NUL, heads)
    return (*map(text_of_json, parts[:heads]), b"".join(parts[heads:]))


def _columns(name: str, group: Group) -> dict[str, Values]:
    kinds = [(column, narrow.TYPES[kind]) for column, kind in fields.NUMBERS[name].items()]
    kinds += [(column, "I") for column in narrow.arguments(name).spans]
    found: dict[str, Values] = {"ts_ns": Column("q", *group.ts), "thread": Column("I", *group.thread)}
    if group.dur is not None:
        found["dur"] = Column("d", *group.dur)
    for (column, kind), packed in zip(kinds, (*group.numbers, *group.codes), strict=True):
        if packed is not None:
            found[column] = Column(kind, *packed)
    texts: list[str | None] = [None] * group.rows if group.args else []
    for row, text in group.args:
        texts[row] = text_of_json(text)
    return found | ({"args": texts} if any(text is not None for text in texts) else {})


def _written(event: Event) -> bytes:
    """An event as it was read, its parts in the usual order; nothing where one is of an unusual type."""
    members = []
    for name in TEXTS:
        value = getattr(event, name)
        if type(value) is str or type(value) is int:
            members.append(b'"%b":%b' % (name.encode(), msgspec.json.encode(value)))
        elif value is not None:
            return b""
    for name, time in (("ts", event.ts), ("dur", event.dur)):
        if time is None:
            continue
        text = time if type(time) is str else repr(time)
        if DECIMAL.fullmatch(text) is None:
            return b""
        members.append(b'"%b":%b' % (name.encode(), text.encode()))
    if event.args is not NOTHING:
        members.append(b'"args":%b' % bytes(event.args))
    return b"{%b}" % b",".join(members)


def _usual(event: Event, group: str | None, unread: Counter[str]) -> bytes:
    """An event with what is read of it, in a form that the scan takes unless a value is beyond all limits."""
    members = {name: msgspec.json.encode(text_of(getattr(event, name))) for name in TEXTS}
    if (ns := nanoseconds(event.ts)) is not None:
        micros, rest = divmod(abs(ns), 1000)
        members["ts"] = b"%b%d.%03d" % (b"-" if ns < 0 else b"", micros, rest)
    duration = number(event.dur)
    if not math.isnan(duration):
        members["dur"] = plain(max(-SATURATED_US, min(duration, SATURATED_US))).encode()
    if event.args is not NOTHING:
        keeps = group in (None, "other") or event.cat == fields.COUNTERS
        members["args"] = bytes(event.args) if keeps else _object(_read_arguments(str(group), event, unread))
    return _object({name: text for name, text in members.items() if text != b"null"})


def _object(members: dict[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (msgspec.json.encode(name), text) for name, text in members.items())


def _read_arguments(group: str, event: Event, unread: Counter[str]) -> dict[str, bytes]:
    layout = narrow.arguments(group)
    (record,) = layout.records([event.args])
    kinds = fields.NUMBERS[group]
    found = {}
    for name, value in zip(layout.names, record, strict=True):
        if value is None:
            continue
        if name not in layout.numbers:
            text = bytes(value)
        elif kinds.get(name) == "float":
            real, refused = number(value), not is_real(value)
            text = b"" if math.isnan(real) else plain(real).encode() if math.isfinite(real) else BEYOND
        else:
            kept = whole(value, UINT64 if kinds.get(name) == "unsigned" else INT64)
            text, refused = b"" if kept is None else b"%d" % kept, kept is None
        if name in layout.numbers and refused:
            unread[census.no_number(group, event, name)] += 1
        if text:
            found[name] = text
    return found


class _Readers(threading.local):
    """The scan of each thread, the reader of what it cannot take, and the numbers under which they give codes."""

    numbers: Final = 2

    def __init__(self, given: Iterable[int]) -> None:
        self.scan, self.narrower = Scan(), Narrower()
        self.first = next(iter(given))

    def read(self, piece: Piece) -> tuple[Chunk, int]:
        """The chunk of a piece and the number of its reader."""
        try:
            return self.scan.narrow(piece), self.first
        except UnusualError:
            return self.narrower.narrow(piece.array, piece.boundary), self.first + 1


def numbers(code: str, data: bytes) -> pl.Series:
    """The numbers in `data`, of a type of `array`; polars itself would take one after the other."""
    return stream(_scan.numbers(FORMATS[code], data))


def enclosing(spans: pl.DataFrame) -> pl.DataFrame:
    """What `nesting.enclosing_of` finds for each of `spans` (thread, ts, end, kind, index; none of them NULL)."""
    found = _scan.nested(spans.cast(SPAN).rechunk().__arrow_c_stream__())  # type: ignore[arg-type]
    return pl.DataFrame([stream(column).alias(name) for name, column in zip(ENCLOSED, found, strict=True)])


def narrowed(pieces: Iterable[Piece], threads: int) -> Generator[tuple[Chunk, int], None, None]:
    """The chunk of each piece, in order, and the number of its reader, from 1."""
    given = iter(range(1, 1 << 30, _Readers.numbers))
    readers = _Readers(given)
    if not threads:
        yield from map(readers.read, pieces)
        return
    pending: deque[Future[tuple[Chunk, int]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="kerneldb-scan")
    try:
        for piece in pieces:
            if len(pending) == 2 * threads:
                yield pending.popleft().result()
            pending.append(pool.submit(readers.read, piece))
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
