"""Reads the events of a piece of text: at once where all of it is valid JSON, else a few at a time, or one by one.

An event that is not valid JSON costs itself: its text alone goes through the tolerant reader, and its repair is
counted. Values of a type that nobody expects are no error here; `narrow` decides what a column takes of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from kerneldb.ingest import nested
from kerneldb.ingest.pytorch import repair
from kerneldb.ingest.pytorch.split import EVENT_KEYS, Boundary
from kerneldb.ingest.pytorch.values import ExactFloat, text_of

NOTHING: Final = msgspec.Raw(b"{}")
"""Arguments of an event that has none."""
EXAMPLES: Final = 3
EXAMPLE_CHARS: Final = 60
Scalar = str | int | float | None


class Event(msgspec.Struct, gc=False):
    """An event as it is written: times in µs, arguments as JSON."""

    ph: Scalar = None
    cat: Scalar = None
    name: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    ts: Scalar = None
    dur: Scalar = None
    args: msgspec.Raw = NOTHING


class DecimalEvent(Event, gc=False):
    """An event whose times stay text, for those that a float does not hold to the nanosecond."""

    ts: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]


GAP: Final = re.compile(r"\}\s*,\s*\{(?=\s*" + EVENT_KEYS.decode() + ")")
"""Between two events, whoever wrote them; also between objects in arguments that have such keys."""
TOGETHER: Final = 16
"""Events that are tried at once where not all of a piece are valid JSON."""
REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
TIMES: Final = ("ts", "dur")
FIELDS: Final = tuple(field for field in Event.__struct_fields__ if field != "args")
_decode_all: Final = msgspec.json.Decoder(list[Event]).decode
_decode_exactly: Final = msgspec.json.Decoder(list[DecimalEvent]).decode


@dataclasses.dataclass(slots=True)
class Events:
    """Events in the order of the text, with what reading them took.

    `behind` is the text after the array's closing bracket, once that was seen.
    """

    events: list[Event] = dataclasses.field(default_factory=list)
    repaired: int = 0
    lost: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)
    behind: str | None = None


def read(array: bytes, boundary: Boundary, exact: bool = False) -> Events:
    """The events of `array`, a run of events between brackets; with `exact` their times are texts."""
    decode = exactly if exact else _decode_all
    try:
        if _is_utf8(array):
            return Events(decode(array))
    except REFUSED:
        pass
    return _read_apart(boundary.split(array[1:-1]), decode)


def exactly(array: bytes) -> list[Event]:
    """The events of an array, their times as texts. Raises what `REFUSED` has."""
    events: list[Event] = _decode_exactly(array)  # type: ignore[assignment]
    for event in events:
        event.ts = bytes(event.ts).decode().strip('"')  # type: ignore[arg-type]
    return events


def _is_utf8(text: bytes) -> bool:
    """Msgspec does not look into the strings of values that it only skips."""
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _read_apart(texts: list[bytes], decode: Callable[[bytes], list[Event]]) -> Events:
    """The events of `texts`, one or some in each: a few at a time, then one by one.

    Neighbouring texts that do not parse alone are joined once: a boundary may be wrongly placed.
    """
    reader = TolerantReader()
    for start in range(0, len(texts), TOGETHER):
        few = texts[start : start + TOGETHER]
        if not reader.try_all(few, decode):
            for one in few:
                reader.read(one, decode)
    reader.flush()
    return reader.found


def read_tail(tail: bytes) -> Events:
    """The last event and what follows it; `behind` is None where the text is cut. Raises what `feed` does."""
    text, damaged = _decoded(tail)
    text = text.lstrip("\ufeff")
    reader = TolerantReader()
    try:
        events, repaired, lost, behind = repair.split_events(text)
        reader.take(events, repaired or int(damaged and bool(events)), behind, text)
    except RecursionError as error:
        raise nested.error(tail) from error
    reader.found.lost += lost
    reader.flush()
    return reader.found


def _decoded(line: bytes) -> tuple[str, bool]:
    """The text of a line, and whether bytes of it had to be replaced."""
    try:
        return line.decode(), False
    except UnicodeDecodeError:
        return line.decode("utf-8", errors="replace"), True


def _example(line: str) -> str:
    """The event from its name on, short: arguments behind it may be private."""
    start = max(line.find('"name"'), 0)
    return line[start : start + EXAMPLE_CHARS]


class TolerantReader:
    """Reads events text by text, and gathers what was found."""

    def __init__(self) -> None:
        self.found = Events()
        self._pending: str | None = None
        self._behind: list[str] = []

    @property
    def is_over(self) -> bool:
        """Whether the array's closing bracket was seen: all that comes is behind the events."""
        return bool(self._behind)

    def try_all(self, texts: list[bytes], decode: Callable[[bytes], list[Event]]) -> bool:
        """Take the events of `texts` where all of them are valid JSON."""
        if self.is_over:
            return False
        text = b"[%b]" % b",".join(texts)
        try:
            if _is_utf8(text):
                self.found.events += decode(text)
                return True
        except REFUSED:
            pass
        return False

    def read(self, text: bytes, decode: Callable[[bytes], list[Event]]) -> None:
        """Take the event of `text`, or several."""
        if not self.try_all([text], decode):
            self.feed(text)

    def feed(self, line: bytes) -> None:
        """Take one event; a text that fails is kept to be tried together with the next one that fails.

        Raises ExceededError for one that nests more deeply than the parser follows.
        """
        try:
            self._feed(line)
        except RecursionError as error:
            raise nested.error(line) from error

    def _feed(self, line: bytes) -> None:
        text, damaged = _decoded(line.replace(b"\n", b"\r"))
        if self.is_over:
            self._behind.append(text)
            return
        try:
            event = repair.STRICT.decode(text)
        except ValueError:
            self._retry(text, damaged)
        else:
            self.take([event], int(damaged), None, text)

    def _retry(self, line: str, damaged: bool) -> None:
        if (values := repair.parse_run(line)) is not None:
            self.take(values, int(damaged), None, line)
            return
        parsed = repair.parse_event(line)
        if parsed is not None:
            self.take([parsed[0]], int(parsed[1] or damaged), None, line)
            return
        whole, rest = ([], line) if damaged else repair.leading(line)
        if whole:  # what follows them does not begin as an event does
            self.take(whole, 0, None, line)
            self.feed(rest.encode())
            return
        events, repaired, lost, behind = repair.split_events(line)
        if lost and (parts := GAP.sub("}\n{", line).split("\n"))[1:]:
            for part in parts:
                self.feed(part.encode())
        elif not lost:
            self.take(events, repaired or int(damaged), behind, line)
        elif self._pending is None:
            self._pending = line
        else:
            events, repaired, lost, behind = repair.split_events(self._pending + "," + line)
            self._pending = line if lost else None
            self.found.lost += lost
            self.take(events, repaired, behind, line)

    def take(self, events: Sequence[object], repaired: int, behind: str | None, line: str) -> None:
        """Keep what is an event, count what is not."""
        kept = [event for event in events if isinstance(event, dict)]
        made = [_event(event) for event in kept]
        self.found.events += (event for event, _ in made)
        self.found.lost += len(events) - len(kept)
        self.found.repaired += max(repaired, sum(halves for _, halves in made))
        if behind is not None:
            self._behind.append(behind)
        if repaired and len(self.found.examples) < EXAMPLES:
            self.found.examples.append(_example(line))

    def flush(self) -> None:
        """Give up a line that is still pending, and join what is behind the events."""
        if self._behind:
            self.found.behind = ",".join(self._behind)
        if self._pending is not None:
            self.found.lost += 1
            self.found.examples.append(_example(self._pending))
            self._pending = None


def _event(event: dict[str, Any]) -> tuple[Event, bool]:
    """An event from a parsed object, and whether lone surrogates of it had to be replaced."""
    values = [_scalar(event.get(name), name in TIMES) for name in FIELDS]
    texts = [value for value in values if isinstance(value, str) and not value.isascii()]
    halves = any(map(repair.LONE_SURROGATE.search, texts))
    if halves:
        values = [repair.without_surrogates(value) if isinstance(value, str) else value for value in values]
    text, replaced = _text_of_arguments(event.get("args"))
    made = Event(args=msgspec.Raw(text.encode()) if text else NOTHING)
    for name, value in zip(FIELDS, values, strict=True):
        setattr(made, name, value)
    return made, halves or replaced


def _text_of_arguments(args: object) -> tuple[str, bool]:
    """Arguments as JSON, and whether lone surrogates of them had to be replaced."""
    try:
        return ("" if args is None else msgspec.json.encode(args, enc_hook=float).decode()), False
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        pass  # a lone surrogate, or a number of more than 64 bits
    try:
        text = text_of([args]) or ""
    except ValueError:  # a number of more digits than Python prints
        return "", False
    kept = repair.without_surrogates(text)
    return kept[1:-1], kept != text


def _scalar(value: object, is_time: bool) -> Scalar:
    if value is None or type(value) is str or type(value) is int:
        return value
    if isinstance(value, float) and is_time:
        return value.text if isinstance(value, ExactFloat) else str(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        return text_of(value)
    return value
