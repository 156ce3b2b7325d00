"""Turns the events of a piece of text into columns of numbers, where all texts are codes.

Arguments of operators and kernels repeat: their JSON as the writer spelled it is the key under which a code is found,
so that only distinct ones are read. A `Narrower` numbers codes by itself and hands over each meaning once; whoever
gathers the columns of several has to translate. Nothing here needs polars: workers start at once and stay small.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kerneldb.ingest.pytorch import census, fields
from kerneldb.ingest.pytorch.events import NOTHING, REFUSED, Event, Events, read, read_tail
from kerneldb.ingest.pytorch.repair import arguments_of
from kerneldb.ingest.pytorch.split import Boundary
from kerneldb.ingest.pytorch.values import (
    FLOAT_LIMIT_US,
    INT64,
    UINT64,
    is_real,
    nanoseconds,
    number,
    text_of,
    text_of_json,
    whole,
)

NUL: Final = b"\0"
"""Between the values of a key; no JSON text holds it."""
ABSENT: Final = msgspec.Raw(b"")
TYPES: Final = {"int": "q", "unsigned": "Q", "float": "d"}
WINDOW_END: Final = "Record Window End"
"""The mark that Kineto sets where the recording ends; merged traces have several."""
MOST_KEYS: Final = 1 << 17
UNCOMMON: Final = 8
"""Pieces that are read with all arguments after one in which operators have more than the common ones."""
META: Final = ("M", "C", "i", "I")
Row = tuple[Any, ...]
CounterEvent = tuple[str | None, str | None, int | None, str | None]
"""Name, process, ns and arguments (JSON) of a counter event."""


class ImpreciseError(Exception):
    """Times of these events need more digits than a float has: they have to be read as texts."""


@dataclasses.dataclass(slots=True)
class Column:
    """Values as an array's bytes, with the places of those that are NULL; in a column of floats NaN is NULL, too."""

    code: str
    data: bytes
    nulls: bytes = b""


Values = Column | list[str | None]


@dataclasses.dataclass(slots=True)
class Chunk:
    """The events of a piece of text by group, in columns, with what reading them took.

    Times are `ts` and `dur` in µs; `ts_ns` is there instead of `ts` where a float does not hold them.

    `meanings` are the rows behind codes that no chunk of this narrower had before. `marks` counts names, counters and
    marks by phase and name, `skipped` what has no table by phase and category, `unread` the events with an argument
    that is not read, or no number where one belongs. `behind` is the text after the array's closing bracket, once that
    was seen.
    """

    events: int
    repaired: int
    lost: int
    examples: list[str]
    behind: str | None
    groups: dict[str, dict[str, Values]] = dataclasses.field(default_factory=dict)
    meanings: dict[str, list[Row]] = dataclasses.field(default_factory=dict)
    skipped: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    unread: Counter[str] = dataclasses.field(default_factory=Counter)
    marks: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    counters: list[CounterEvent] = dataclasses.field(default_factory=list)
    window_end_ns: int | None = None
    old_categories: bool = False


class Codes(dict[Row, int]):
    """Key as written → code; `take` gives what codes stand for. Several codes may stand for the same.

    Memory is bounded: keys that come up once in a while are forgotten, and get another code.
    """

    def __init__(self, meaning: Callable[[Row], Row]) -> None:
        super().__init__()
        self._meaning = meaning
        self._given = 0
        self._fresh: list[Row] = []

    def __missing__(self, key: Row) -> int:
        if len(self) >= MOST_KEYS:
            self.clear()
        self._fresh.append(self._meaning(key))
        self[key] = code = self._given
        self._given += 1
        return code

    def take(self) -> list[Row]:
        """The rows of codes that were given since this was asked last, in order."""
        fresh, self._fresh = self._fresh, []
        return fresh


def _thread(key: Row) -> Row:
    return text_of(key[0]), text_of(key[1])


class Arguments:
    """Reads the arguments of one group as records: first what is interned, then the numbers, in the order of `names`.

    `spans` says where in a record the key of each column of codes is.
    """

    def __init__(self, group: str, only: Sequence[str] = ()) -> None:
        """`only`: events with other arguments than these and the numbers are refused."""
        self.spans, texts = _side_by_side(fields.INTERNED[group], only)
        numbers = dict(fields.NUMBERS[group])
        if "External id" in numbers and not only:
            numbers[fields.SPELLINGS["External id"]] = "int"
        ignored = tuple(name for name in only if name not in texts)
        self.names, self.numbers, self._ignored = (*texts, *numbers, *ignored), numbers, ignored
        raw, scalar = (msgspec.Raw, ABSENT), (str | int | float | None, None)
        record = msgspec.defstruct(
            "Record",
            [(f"f{place}", *(scalar if name in numbers else raw)) for place, name in enumerate(self.names)],
            rename={f"f{place}": name for place, name in enumerate(self.names)},
            gc=False,
            forbid_unknown_fields=bool(only),
        )
        self._decode: Callable[[msgspec.Raw], Any] = msgspec.json.Decoder(record).decode
        self._empty = record()

    def strictly(self, args: Sequence[msgspec.Raw]) -> list[Row]:
        """A record of each. Raises what `REFUSED` has where one is not as it should be."""
        decode, astuple = self._decode, msgspec.structs.astuple
        return [astuple(decode(one)) for one in args]

    def records(self, args: Sequence[msgspec.Raw]) -> list[Row]:
        """A record of each; values that are not as they should be are left out."""
        try:
            return self.strictly(args)
        except REFUSED:
            return [msgspec.structs.astuple(self._loose(one)) for one in args]

    def _loose(self, raw: msgspec.Raw) -> Any:
        """Of arguments that may have values of other types, be a text that is JSON, or no object."""
        try:
            return self._decode(raw)
        except REFUSED:
            given = arguments_of(text_of_json(bytes(raw)))
        kept = {name: value for name, value in given.items() if name in self.names and self._fits(name, value)}
        try:
            return self._decode(msgspec.Raw((text_of(kept) or "").encode()))
        except (*REFUSED, ValueError):
            return self._empty

    def _fits(self, name: str, value: object) -> bool:
        return name not in self.numbers or (isinstance(value, str | int | float) and not isinstance(value, bool))

    def of_wider(self, other: Arguments, record: Row) -> Row | None:
        """The record that one of `other` is here; None where that has more that is read."""
        given = dict(zip(other.names, record, strict=True))
        if any(value is not None and value is not ABSENT for name, value in given.items() if name not in self.names):
            return None
        return tuple(given.get(name, ABSENT) for name in self.names)

    def ignored(self, records: Sequence[Row]) -> dict[str, int]:
        """How many of these operators have each argument that is accepted and not read, as `census.unread` names it."""
        places = [place for place, name in enumerate(self.names) if name in self._ignored]
        counts = {place: sum(record[place] is not ABSENT for record in records) for place in places}
        return {f"cpu_op: {self.names[place]}": n for place, n in counts.items() if n}

    def parts(self, joined: bytes, column: str) -> dict[str, bytes]:
        """The values of a key by name, each as JSON."""
        start, end = self.spans[column]
        return dict(zip(self.names[start:end], joined.split(NUL), strict=True))


def _side_by_side(
    wanted: dict[str, tuple[str, ...]], only: Sequence[str]
) -> tuple[dict[str, tuple[int, int]], tuple[str, ...]]:
    """Column → span of its arguments in one list of all. What two columns share ends the one and begins the other."""
    texts: list[str] = []
    spans = {}
    for column, names in wanted.items():
        spelled = [one for name in names for one in (name, fields.SPELLINGS.get(name)) if one]
        taken = [one for one in spelled if one not in ("cat", "name") and (not only or one in only)]
        shared = [one for one in taken if one in texts]
        texts = [one for one in texts if one not in shared] + shared
        start = len(texts) - len(shared)
        texts += [one for one in taken if one not in shared]
        spans[column] = (start, len(texts))
    return spans, tuple(texts)


arguments = functools.cache(Arguments)
"""Each takes a millisecond to make, and none changes."""


class Narrower:
    """Reads pieces of one trace. Codes go on from piece to piece, so that each meaning is worked out once."""

    def __init__(self) -> None:
        self._exact = False
        self._uncommon = 0
        self._arguments = {group: arguments(group) for group in fields.INTERNED}
        self._common = arguments("op", fields.COMMON)
        self._codes = {"thread": Codes(_thread)}
        for group, columns in fields.INTERNED.items():
            self._codes |= {column: Codes(meaning(self._arguments[group], self._common, column)) for column in columns}

    def narrow(self, array: bytes, boundary: Boundary) -> Chunk:
        """The chunk of `array`, a run of events between brackets."""
        try:
            return self._chunk(read(array, boundary, self._exact))
        except ImpreciseError:
            self._exact = True
            return self._chunk(read(array, boundary, self._exact))

    def tail(self, text: bytes) -> Chunk:
        """The chunk of the last event and what follows it."""
        return self._chunk(read_tail(text))

    def _chunk(self, read: Events) -> Chunk:
        sorted_events = Sorted(read.events)
        chunk = Chunk(len(read.events), read.repaired, read.lost, read.examples, read.behind)
        chunk.skipped, chunk.old_categories = sorted_events.skipped(), sorted_events.old
        take_meta(chunk, sorted_events.meta)
        uncommon: dict[str, list[Event]] = {}
        for group, events in sorted_events.groups.items():
            if not events:
                continue
            layout, records, uncommon[group] = self._records(group, events)
            chunk.groups[group] = self._columns(
                group, events, self._of_arguments(group, events, layout, records, chunk)
            )
            if layout is self._common:
                chunk.unread.update(layout.ignored(records))
        chunk.unread.update(census.unread(uncommon))
        chunk.meanings = {column: rows for column, codes in self._codes.items() if (rows := codes.take())}
        return chunk

    def _columns(self, group: str, events: list[Event], of_arguments: Mapping[str, Column | None]) -> dict[str, Values]:
        columns: dict[str, Values | None] = {**_times([event.ts for event in events])}
        if group != "memory":
            durations = [event.dur for event in events]
            columns["dur"], _ = _floats(durations)  # without a time the event is counted as such
        places = zip([event.pid for event in events], [event.tid for event in events], strict=True)
        columns["thread"] = _codes(map(self._codes["thread"].__getitem__, places))
        columns |= of_arguments
        if group in ("range", "other"):
            columns["args"] = _texts(group, events)
        return {name: values for name, values in columns.items() if values is not None}

    def _of_arguments(
        self, group: str, events: list[Event], layout: Arguments, records: list[Row], chunk: Chunk
    ) -> dict[str, Column | None]:
        fields_of = list(zip(*records, strict=True)) or [()] * len(layout.names)
        columns = {
            column: self._coded(column, events, fields_of[start:end]) for column, (start, end) in layout.spans.items()
        }
        values = dict(zip(layout.names, fields_of, strict=False))
        for name, old in fields.SPELLINGS.items():
            if old in layout.numbers and values[old].count(None) < len(events):
                pairs = zip(values[name], values[old], strict=True)
                values[name] = tuple(older if new is None else new for new, older in pairs)
        for name, kind in fields.NUMBERS[group].items():
            read_as = _floats if kind == "float" else functools.partial(_integers, TYPES[kind])
            columns[name], refused = read_as(values[name])
            chunk.unread.update(census.no_number(group, events[place], name) for place in refused)
        return columns

    def _records(self, group: str, events: list[Event]) -> tuple[Arguments, list[Row], list[Event]]:
        """The records of the arguments, how they are laid out, and the events with arguments that have to be counted.

        Operators seldom have more than a few arguments; where they do, the next ones do so, too.
        """
        args = [event.args for event in events]
        if group == "op":
            self._uncommon -= self._uncommon > 0
            if not self._uncommon:
                try:
                    return self._common, self._common.strictly(args), []
                except REFUSED:
                    records, others = self._nearly_common(args)
                if others is not None:
                    return self._common, records, [events[place] for place in others]
                self._uncommon = UNCOMMON
        return self._arguments[group], self._arguments[group].records(args), events

    def _nearly_common(self, args: Sequence[msgspec.Raw]) -> tuple[list[Row], list[int] | None]:
        """Records of the common arguments, and which events have more; None where some of those are read."""
        records, others = [], []
        for place, one in enumerate(args):
            try:
                records += self._common.strictly((one,))
            except REFUSED:
                (wide,) = self._arguments["op"].records((one,))
                common = self._common.of_wider(self._arguments["op"], wide)
                if common is None:
                    return [], None
                records.append(common)
                others.append(place)
        return records, others

    def _coded(self, column: str, events: list[Event], parts: list[tuple[Any, ...]]) -> Column | None:
        """Codes of what the arguments `parts` say, in most columns with the name and category of the event."""
        code_of = self._codes[column].__getitem__
        keys: Iterable[bytes] = map(NUL.join, zip(*parts, strict=True)) if parts else itertools.repeat(b"")
        if column in fields.OPTIONAL:
            return _optional(code_of, list(keys) if parts else [])
        heads = [[event.name for event in events]]
        if column != "call":
            heads.insert(0, [event.cat for event in events])
        return _codes(map(code_of, zip(*heads, keys, strict=False)))


def meaning(whole_layout: Arguments, common: Arguments, column: str) -> Callable[[Row], Row]:
    """How a key of `column` is read: what its JSON says, in the order of the column's arguments."""
    wanted = next(names[column] for names in fields.INTERNED.values() if column in names)
    start, end = whole_layout.spans[column]
    long = end - start

    def read_key(key: Row) -> Row:
        *heads, joined = key
        layout = whole_layout if joined.count(NUL) == max(long - 1, 0) else common
        found = layout.parts(joined, column) if long else {}
        row: list[Any] = []
        for name in wanted:
            if name in ("cat", "name"):
                text = text_of(heads[-1] if name == "name" else heads[0])
                row.append(fields.OLD_NAMES.get(text or "", text) if name == "cat" else text)
                continue
            raw = found.get(name) or found.get(fields.SPELLINGS.get(name, ""), b"")
            row.append(_whole_of(raw) if name in fields.WHOLE and column != "note" else text_of_json(raw))
        return tuple(row)

    return read_key


def _whole_of(raw: bytes) -> int | None:
    try:
        return whole(msgspec.json.decode(raw)) if raw else None
    except msgspec.MsgspecError:  # beyond float64
        return None


class Sorted(dict[tuple[Any, Any], list[Event]]):
    """Events by phase and category; those of one group share a list, in the order of the text.

    `meta` are names, counters and marks. Nothing in it leads back to it: workers collect no garbage.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        super().__init__()
        self.groups: dict[str, list[Event]] = {group: [] for group in fields.INTERNED}
        self.meta: list[Event] = []
        for event in events:
            self[event.ph, event.cat].append(event)
        marks, self.meta = self.meta, []
        for event in marks:
            is_memory = event.ph == "i" and event.name == fields.MEMORY
            (self.groups["memory"] if is_memory else self.meta).append(event)
        self.old = any(category in fields.OLD_NAMES for _, category in self)

    def __missing__(self, key: tuple[Any, Any]) -> list[Event]:
        phase, category = key[0], text_of(key[1]) or ""
        if phase == "X":
            found = self.groups[fields.GROUP_OF.get(fields.OLD_NAMES.get(category, category), "other")]
        else:
            found = self.meta if phase in META else []
        self[key] = found
        return found

    def skipped(self) -> Counter[tuple[str, str]]:
        """Events without a group by phase and category."""
        return Counter({
            (text_of(phase) or "?", text_of(category) or "?"): len(events)
            for (phase, category), events in self.items()
            if phase != "X" and phase not in META
        })  # fmt: skip


def take_meta(chunk: Chunk, meta: Iterable[Event]) -> None:
    """Count names, counters and marks, and keep what is read of them."""
    ends = []
    for event in meta:
        name = text_of(event.name)
        chunk.marks[str(event.ph), "?" if name is None else name] += 1
        if name == WINDOW_END:
            ends.append(nanoseconds(event.ts))
        if event.ph == "C":
            chunk.counters.append((name, text_of(event.pid), nanoseconds(event.ts), text_of_args(event.args)))
    chunk.window_end_ns = max((end for end in ends if end is not None), default=None)


def text_of_args(args: msgspec.Raw) -> str | None:
    """The arguments of an event as text, None where it has none."""
    return None if args is NOTHING else text_of_json(bytes(args))


def _texts(group: str, events: list[Event]) -> Values | None:
    if group == "range" and not any(event.cat == fields.COUNTERS for event in events):
        return None
    texts = [text_of_args(event.args) if group == "other" or event.cat == fields.COUNTERS else None for event in events]
    return texts if any(text is not None for text in texts) else None


def _times(values: list[Any]) -> dict[str, Column | None]:
    """Times in µs, or in ns where one is beyond a float. Raises ImpreciseError where that was read as a float."""
    try:
        data = array("d", values)
    except (TypeError, OverflowError):
        data = array("d", [value if type(value) is float else number(value) for value in values])
    if all(-FLOAT_LIMIT_US < bound(data) < FLOAT_LIMIT_US for bound in (min, max)):
        return {"ts": Column("d", data.tobytes())}
    late = (value for value, rough in zip(values, data, strict=True) if abs(rough) >= FLOAT_LIMIT_US)
    if any(isinstance(value, float) for value in late):
        raise ImpreciseError
    return {"ts_ns": _with_nulls("q", [nanoseconds(value) for value in values])}


def _floats(values: Sequence[Any]) -> tuple[Column | None, Iterable[int]]:
    """The column, and the places of values that are no numbers."""
    try:
        return Column("d", array("d", values).tobytes()), ()
    except (TypeError, OverflowError):
        if values.count(None) == len(values):
            return None, ()
        return Column("d", array("d", map(number, values)).tobytes()), _refused(values, is_real)


def _integers(code: str, values: Sequence[Any]) -> tuple[Column | None, Iterable[int]]:
    """The column, and the places of values that are no numbers, or beyond 64 bits."""
    try:
        return Column(code, array(code, values).tobytes()), ()
    except (TypeError, OverflowError):
        if values.count(None) == len(values):
            return None, ()
    try:
        return _with_nulls(code, values), ()
    except (TypeError, OverflowError):
        limits = UINT64 if code == TYPES["unsigned"] else INT64
    kept = [whole(value, limits) for value in values]
    column = _with_nulls(code, kept) if kept.count(None) < len(kept) else None
    return column, _refused(values, lambda value: whole(value, limits) is not None)


def _refused(values: Sequence[Any], readable: Callable[[Any], bool]) -> Iterable[int]:
    return (place for place, value in enumerate(values) if value is not None and not readable(value))


def _with_nulls(code: str, values: Sequence[int | None]) -> Column:
    nulls = array("I", (place for place, value in enumerate(values) if value is None))
    return Column(code, array(code, [0 if value is None else value for value in values]).tobytes(), nulls.tobytes())


def _codes(codes: Iterable[int]) -> Column:
    return Column("I", array("I", codes).tobytes())


def _optional(code_of: Callable[[Row], int], keys: list[bytes]) -> Column | None:
    """Codes of keys; NULL for those that have no value at all."""
    if not any(key.strip(NUL) for key in set(keys)):
        return None
    return _with_nulls("I", [code_of((key,)) if key.strip(NUL) else None for key in keys])
