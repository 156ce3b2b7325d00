"""Perfetto traces (`*.pftrace`, `*.perfetto-trace`) of GPU work, such as those of rocprofv3."""

from __future__ import annotations

from typing import Final

from kerneldb.ingest.readers import Head, Later, Reader
from kerneldb.ingest.wire import WireError, fields, varint

ENDINGS: Final = (
    *(".pftrace", ".pftrace.gz", ".perfetto-trace", ".perfetto-trace.gz"),
    *(".perfetto_trace", ".perfetto_trace.gz", ".pf-trace", ".proto.perfetto"),
)
PACKET: Final = b"\x0a"
KNOWN: Final = frozenset((6, 8, 10, 11, 12, 33, 36, 41, 43, 44, 45, 50, 53, 59, 60, 79, 87, 89))
"""Fields of which the first packet of a trace has one: times, sequence, descriptors, configuration, …"""


def _fits(head: Head) -> bool:
    return _is_trace(head.data) or (head.path.name.endswith(ENDINGS) and bool(head.data))


def _is_trace(data: bytes) -> bool:
    """Whether the bytes begin with a packet: field 1, in which all fields are those of a TracePacket."""
    if data[:1] != PACKET:
        return False
    try:
        size, at = varint(data, 1)
        found = {number for number, _ in fields(data[at : at + size])}
    except WireError:
        return False
    return 0 < size <= len(data) - at and bool(found & KNOWN) and max(found) < 1000  # noqa: PLR2004


READER: Final = Reader("perfetto", ENDINGS, _fits, Later("perfetto.convert"), Later("perfetto.diagnostics"))
