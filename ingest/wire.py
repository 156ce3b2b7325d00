"""The wire format of protobuf, without schemas: messages as numbered fields.

Source: https://protobuf.dev/programming-guides/encoding/. Readers name the fields of their formats. What stands in a
file is not trusted: every length is checked against the message around it, and numbers have 64 bits.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from typing import Final

Value = int | bytes
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
WIDTH: Final = {FIXED64: 8, FIXED32: 4}
MORE: Final = 0x80
LAST_SHIFT: Final = 63
WRAP: Final = 1 << 64
SIGN: Final = 1 << 63
TAG_TYPE: Final = 7
LONGEST_RUN: Final = 1 << 15
EMPTY: Final = bytes(range(LENGTH + TAG_TYPE + 1, MORE, TAG_TYPE + 1))
"""The tags of one byte of fields that have a length."""


class WireError(ValueError):
    """Bytes that are no protobuf message; the text says what is wrong and at which byte of the message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at` and the place behind it. Raises WireError where it is cut or has more than 64 bits."""
    value = shift = 0
    try:
        while (byte := data[at]) & MORE:
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > LAST_SHIFT:
                message = f"a number of more than 64 bits at byte {at}"
                raise WireError(message)
    except IndexError as error:
        message = f"a number is cut at byte {at}"
        raise WireError(message) from error
    return (value | byte << shift) % WRAP, at + 1


def fields(data: bytes, passed: Counter[int] | None = None) -> Iterator[tuple[int, Value]]:
    """Field numbers with their values in order: integers (fixed ones unsigned), or the bytes of what has a length.

    Of empty fields that follow each other, only the first is yielded where `passed` is given, which counts the others
    by their numbers: a file may consist of them, though no program writes one.
    Raises WireError at the first byte that is not understood; what precedes it has been yielded.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = (data[at], at + 1) if data[at] < MORE else varint(data, at)
        kind = tag & TAG_TYPE
        if tag <= TAG_TYPE:
            message = f"field number 0 at byte {at}"
            raise WireError(message)
        if kind == LENGTH:
            size, at = (data[at], at + 1) if at < end and data[at] < MORE else varint(data, at)
            if size > end - at:
                raise _too_long(size, at, end)
            yield tag >> 3, data[at : at + size]
            at += size
            if not size and passed is not None and tag < MORE:
                begin, at = at, _behind(data, at)
                passed.update(_numbers(data[begin:at:2]))
        elif kind == VARINT:
            value, at = (data[at], at + 1) if at < end and data[at] < MORE else varint(data, at)
            yield tag >> 3, value
        elif kind in WIDTH:
            size = WIDTH[kind]
            if size > end - at:
                raise _too_long(size, at, end)
            yield tag >> 3, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            message = f"wire type {kind} at byte {at}"
            raise WireError(message)


def _behind(data: bytes, at: int) -> int:
    """The place behind all empty fields that follow each other from `at` on: more and more are looked at at once."""
    many, is_growing = 1, True
    while many:
        part = data[at : at + 2 * many]
        if len(part) == 2 * many and not part[1::2].strip(b"\0") and not part[::2].translate(None, EMPTY):
            at += 2 * many
        else:
            is_growing = False
        if not is_growing:
            many //= 2
        elif many < LONGEST_RUN:
            many *= 2
    return at


def _numbers(tags: bytes) -> dict[int, int]:
    """How many fields of which number have these tags."""
    return {tag >> 3: tags.count(tag) for tag in set(tags)}


def _too_long(size: int, at: int, end: int) -> WireError:
    return WireError(f"a field of {size:,} bytes at byte {at:,}, where {end - at:,} are left")


def signed(value: int) -> int:
    """A 64-bit number as int64."""
    return value - WRAP if value >= SIGN else value


def text_of(value: Value) -> str:
    """Text, with replacements where it is no UTF-8; the digits of a number."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def double_of(value: Value) -> float:
    """The double in a fixed64; NaN for a field of another type."""
    if isinstance(value, bytes):
        return float("nan")
    return float(struct.unpack("<d", value.to_bytes(8, "little"))[0])


def numbers_of(value: Value) -> list[int]:
    """The numbers of a repeated field, packed or one of them. Raises WireError where they are damaged."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


class Message:
    """A decoded message. A field of another type than asked for counts as absent; of repeated ones the last counts."""

    __slots__ = ("_found",)

    def __init__(self, data: bytes) -> None:
        """Decode one level of `data`. Raises WireError."""
        self._found: dict[int, list[Value]] = defaultdict(list)
        for number, value in fields(data):
            self._found[number].append(value)

    def __contains__(self, field: int) -> bool:
        return field in self._found

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def beyond(self, known: Set[int]) -> Set[int]:
        """The fields that are not among `known` ones."""
        return self._found.keys() - known

    def values(self, field: int) -> list[Value]:
        """All values of a field."""
        return self._found.get(field, [])

    def number(self, field: int) -> int | None:
        """An unsigned number, None where it is absent."""
        return next((value for value in reversed(self.values(field)) if isinstance(value, int)), None)

    def signed(self, field: int) -> int | None:
        """An int64, None where it is absent."""
        value = self.number(field)
        return None if value is None else signed(value)

    def parts(self, field: int) -> list[bytes]:
        """Sub-messages, or texts, not yet decoded."""
        return [value for value in self.values(field) if isinstance(value, bytes)]

    def text(self, field: int) -> str | None:
        """A text, None where it is absent."""
        found = self.parts(field)
        return found[-1].decode(errors="replace") if found else None

    def message(self, field: int) -> Message | None:
        """A sub-message, None where it is absent. Raises WireError."""
        found = self.parts(field)
        return Message(found[-1]) if found else None

    def numbers(self, field: int) -> list[int]:
        """The numbers of a repeated field, packed or not. Raises WireError."""
        return [number for value in self.values(field) for number in numbers_of(value)]


def message_of(value: Value) -> Message:
    """The message in a field. Raises WireError where it is damaged, or a number."""
    if isinstance(value, int):
        raise WireError(f"the number {value} where a message is")
    return Message(value)
