"""Writes protobuf messages for tests: `message((1, "text"), (2, 7), (3, [inner, inner]))`."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Value = int | float | str | bytes
Field = tuple[int, Value | Sequence[Value]]


def varint(value: int) -> bytes:
    """A number, negative ones as 64 bits of two's complement."""
    value %= 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: Value) -> bytes:
    """One field: integers as varint, floats as fixed64, texts and messages with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: Field) -> bytes:
    """A message; a list is a repeated field."""
    return b"".join(
        field(number, one)
        for number, value in fields
        for one in (value if isinstance(value, list | tuple) else [value])
    )


def fixed64(number: int, value: int) -> bytes:
    """A field of the type fixed64."""
    return varint(number << 3 | 1) + value.to_bytes(8, "little")
