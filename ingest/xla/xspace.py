"""`*.xplane.pb`, the protobuf XSpace. Source: openxla/xla, third_party/tsl/tsl/profiler/protobuf/xplane.proto.

XSpace: planes 1, errors 2, warnings 3, hostnames 4. XPlane: name 2, lines 3, event_metadata 4 and stat_metadata 5 (maps
of key 1, value 2), stats 6. XLine: name 2, timestamp_ns 3, events 4, display_name 11. XEvent: metadata_id 1,
offset_ps 2, duration_ps 3, stats 4, num_occurrences 5. XStat: metadata_id 1, double 2, uint64 3, int64 4, str 5,
bytes 6, ref 7 (to the name of a stat_metadata), a text packed with gzip 8. XEventMetadata: name 2, stats 5.
XStatMetadata: name 2.
"""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from kerneldb.ingest.ledger import UNKNOWN as UNKNOWN_PART
from kerneldb.ingest.output import Report
from kerneldb.ingest.wire import Message, Value, WireError, double_of, fields, message_of, signed, text_of
from kerneldb.ingest.xla.hlo import Module
from kerneldb.ingest.xla.recording import Event, Line, Plane, Recording, Stats

PICOSECONDS: Final = 1000
EPOCH_NS: Final = 10**18
"""Times of older versions count from 1970, those of newer ones from the start of the profile."""
LATEST_NS: Final = 1 << 62
"""The year 2116: what is later is damage, and would leave no room for times behind it."""
PLANES, ERRORS, WARNINGS, HOSTS = 1, 2, 3, 4
INTERNAL: Final = "/host:__"
"""Planes that XLA keeps for itself: their values have no names."""
METADATA: Final = "/host:metadata"
ENVIRONMENT: Final = "Task Environment"
UNKNOWN: Final = "unknown event"
NO_NAME: Final = "event that names nothing: its metadata is not in the file"
BAD_STAT: Final = "value of an event that names nothing, or a text that is not in the file"
AGGREGATED: Final = "event without a time of its own (an aggregate)"
MOST_KNOWN: Final = 1 << 16
MOST_PLANES: Final = 20_000
"""Planes that are read: a host has one for each device and core, and some for itself."""
KNOWN: Final = {
    "plane": frozenset(range(1, 7)),
    "line": frozenset((1, 2, 3, 4, 9, 10, 11)),
    "event": frozenset(range(1, 6)),
}
"""Fields of each message that are known."""
LONGEST_TEXT: Final = 1 << 20
GZIP: Final = 16 + zlib.MAX_WBITS
Names = dict[int, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Metadata:
    """What the events of a plane refer to: names of values, and names of events with values of their own."""

    stats: Names
    events: Mapping[int, tuple[str, Stats]]
    known: dict[bytes, tuple[str, Any] | None] = dataclasses.field(default_factory=dict)

    def of(self, parts: list[bytes], report: Report) -> Iterator[tuple[str, Any]]:
        """The values of an event: most events of a kernel have the same ones, which are decoded once."""
        for part in parts:
            if part not in self.known:
                if len(self.known) >= MOST_KNOWN:
                    self.known.clear()
                self.known[part] = _stat(part, self.stats)
            found = self.known[part]
            if found is None:
                report.add("lost", BAD_STAT, 1)
            else:
                yield found


def read(data: bytes) -> Recording:
    """Decode a whole profile. A damaged plane, line or event is counted in the report, and nothing of it is taken."""
    recording = Recording([], "xplane")
    kept: dict[int, list[Value]] = {PLANES: [], ERRORS: [], WARNINGS: [], HOSTS: []}
    empty = Counter[int]()
    with _Counted(recording.report, "end of the file"):
        for number, value in fields(data, empty):
            if value == b"":
                empty[number] += 1
            elif number in kept:
                kept[number].append(value)
            else:
                _add_new("profile", {number}, recording.report)
    _add_new("profile", empty.keys() - kept.keys(), recording.report)
    recording.report.add("skipped", "empty field of a profile", empty.total())
    given = [value for value in kept[PLANES] if isinstance(value, bytes)]
    recording.report.add(
        "lost", f"plane after the first {MOST_PLANES:,} of a profile", max(len(given) - MOST_PLANES, 0)
    )
    found = [_plane(value, recording.report) for value in given[:MOST_PLANES]]
    planes = [one for one in found if one is not None]
    recording.planes = [plane for plane, _ in planes]
    _add_facts(recording, kept)
    _add_modules(recording, planes)
    return recording


def _add_new(what: str, numbers: Iterable[int], report: Report) -> None:
    for number in numbers:
        report.add("skipped", f"field {number} of a {what}: {UNKNOWN_PART}", 1)


class _Counted:
    """Count damage inside the block, by what was damaged."""

    def __init__(self, report: Report, what: str) -> None:
        self._report, self._what = report, what

    def __enter__(self) -> None:
        """Enter."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, WireError):
            self._report.add("lost", f"{self._what}: damaged", 1, str(error))
        return isinstance(error, WireError)


def _plane(data: bytes, report: Report) -> tuple[Plane, Message] | None:
    name = "a plane"
    try:
        message = Message(data)
        _add_new("plane", message.beyond(KNOWN["plane"]), report)
        name = message.text(2) or ""
        metadata = _metadata(message, report)
        own = Report() if name.startswith(INTERNAL) else report
        stats = dict(_stats(message.parts(6), metadata.stats, own))
        lines = [_line(part, metadata, report) for part in message.parts(3) if part]
    except WireError as error:
        report.add("lost", "plane: damaged", 1, f"{name}: {error}")
        return None
    return Plane(name, [line for line in lines if line is not None], stats), message


def _map(message: Message, field: int) -> Iterator[tuple[int, Message]]:
    for part in message.parts(field):
        entry = Message(part)
        value = entry.message(2)
        if value is not None:
            yield entry.number(1) or 0, value


def _metadata(message: Message, report: Report) -> Metadata:
    names = {key: value.text(2) or "" for key, value in _map(message, 5)}
    events = {
        key: (value.text(2) or value.text(4) or "", dict(_stats(value.parts(5), names, report)))
        for key, value in _map(message, 4)
    }
    return Metadata(names, events)


def _line(data: bytes, metadata: Metadata, report: Report) -> Line | None:
    """A line whose frame is whole; its events are decoded as they are asked for, and damage is counted once."""
    name, begin = "", 0
    try:
        for number, value in fields(data):
            if number in (2, 11) and (number == 2 or not name):  # noqa: PLR2004
                name = text_of(value)
            elif number == 3 and isinstance(value, int):  # noqa: PLR2004
                begin = signed(value)
            elif number not in KNOWN["line"]:
                _add_new("line", {number}, report)
    except WireError as error:
        report.add("lost", "line of a plane: damaged", 1, f"{name}: {error}")
        return None
    return Line(name, _Events(data, begin, metadata, report))


class _Events:
    """The events of a line, decoded at each pass; damage is counted in the first one."""

    def __init__(self, data: bytes, begin_ns: int, metadata: Metadata, report: Report) -> None:
        self._data, self._begin_ns, self._metadata = data, begin_ns, metadata
        self._report = report

    def __iter__(self) -> Iterator[Event]:
        report, self._report = self._report, Report()
        for number, value in fields(self._data):
            if number != 4:  # noqa: PLR2004
                continue
            try:
                event = self._event(message_of(value), report)
            except WireError as error:
                report.add("lost", "event: damaged", 1, str(error))
                continue
            if event is not None:
                yield event

    def __len__(self) -> int:
        return sum(number == 4 for number, _ in fields(self._data))  # noqa: PLR2004

    def _event(self, message: Message, report: Report) -> Event | None:
        if 5 in message and 2 not in message:  # noqa: PLR2004
            report.add("skipped", AGGREGATED, 1)
            return None
        _add_new("event", message.beyond(KNOWN["event"]), report)
        named = self._metadata.events.get(message.number(1) or 0)
        if named is None:
            report.add("lost", NO_NAME, 1)
        name, common = named or (UNKNOWN, {})
        own = dict(self._metadata.of(message.parts(4), report))
        if named is None and not own and not message.number(3):  # nothing of it is known
            return None
        start_ns = self._begin_ns + _nanoseconds(message.signed(2) or 0)
        return Event(name, start_ns, _nanoseconds(message.signed(3) or 0), {**common, **own} if common else own)


def _nanoseconds(picoseconds: int) -> int:
    return (picoseconds + PICOSECONDS // 2) // PICOSECONDS


def _stats(parts: list[bytes], names: Names, report: Report) -> Iterator[tuple[str, Any]]:
    for part in parts:
        found = _stat(part, names)
        if found is None:
            report.add("lost", BAD_STAT, 1)
        else:
            yield found


def _stat(part: bytes, names: Names) -> tuple[str, Any] | None:
    """A value with its name; None where its metadata or text is not in the file."""
    key, value = None, None
    for number, raw in fields(part):
        if number == 1 and isinstance(raw, int):
            key = names.get(raw)
        else:
            value = _value(number, raw, names)
    return None if key is None or value is None else (key, value)


def _value(number: int, raw: Value, names: Names) -> Any:
    """The value of a stat; None where it refers to a text that is not there, or is of a type that is not known."""
    decode: Callable[[Value], Any] | None = DECODED.get(number)
    if decode is not None:
        return decode(raw)
    return names.get(raw) if number == 7 and isinstance(raw, int) else None  # noqa: PLR2004


DECODED: Final[dict[int, Callable[[Value], Any]]] = {
    2: double_of,
    3: lambda raw: raw if isinstance(raw, int) else None,
    4: lambda raw: signed(raw) if isinstance(raw, int) else None,
    5: text_of,
    6: lambda raw: raw if isinstance(raw, bytes) else None,
    8: lambda raw: _unpacked(raw) if isinstance(raw, bytes) else None,
}


def _unpacked(data: bytes) -> str | None:
    """A text that was packed with gzip, cut where it is longer than any; None where it is damaged."""
    try:
        return text_of(zlib.decompressobj(GZIP).decompress(data, LONGEST_TEXT))
    except zlib.error:
        return None


def _add_facts(recording: Recording, kept: dict[int, list[Value]]) -> None:
    named = {plane.name: plane.stats for plane in recording.planes}
    environment = named.get(ENVIRONMENT, {})
    start = environment.get("profile_start_time")
    recording.base_ns = start if isinstance(start, int) and EPOCH_NS < start < LATEST_NS else None
    plain = {
        key: value
        for stats in (named.get(METADATA, {}), environment)
        for key, value in stats.items()
        if isinstance(value, int | float | str)
    }
    hosts, errors, warnings = (list(map(text_of, kept[number])) for number in (HOSTS, ERRORS, WARNINGS))
    notes = {"errors": errors, "warnings": warnings}
    recording.facts = {**plain, "hostnames": hosts, **{key: value for key, value in notes.items() if value}}


def _add_modules(recording: Recording, planes: list[tuple[Plane, Message]]) -> None:
    """The modules of the metadata plane: each is decoded when a kernel of it is met."""
    found: dict[str, bytes] = {}
    for plane, message in planes:
        if plane.name == METADATA:
            metadata = _metadata(message, Report())
            for number, (name, stats) in metadata.events.items():
                proto = next((value for value in stats.values() if isinstance(value, bytes)), None)
                if proto is not None:
                    program = stats.get("program_id", number)
                    found[str(program)] = found[name.partition("(")[0]] = proto
                    recording.modules += 1

    @functools.cache
    def decoded(key: str) -> Module | None:
        with _Counted(recording.report, f"HLO module {key}"):
            return Module(found[key])
        return None

    def module(number: int | None, name: str | None) -> Module | None:
        key = next((key for key in (str(number), name) if key in found), None)
        return None if key is None else decoded(key)

    recording.module = module
