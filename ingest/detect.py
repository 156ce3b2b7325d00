"""Says what a file is from its first bytes, and, where it is no trace, what it is instead and what to do."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable
from typing import Final

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import sqlite
from kerneldb.ingest.source import Source

HEAD_BYTES: Final = 1 << 18
TABLES_SHOWN: Final = 4
TRACE_MARK: Final = re.compile(rb'"traceEvents"\s*:')
EVENT_ARRAY: Final = re.compile(rb'\s*\[\s*(?:\]|\{[^{}]*"ph"\s*:)')
CONTROLS: Final = frozenset(range(0x20)) - {9, 10, 12, 13, 27}


@dataclasses.dataclass(frozen=True, slots=True)
class Impostor:
    """A kind of file that users give by mistake: how to recognise it, what to call it, and the remedy."""

    fits: Callable[[bytes], bool]
    what: str
    remedy: str


def _starts(*magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.lstrip().startswith(magic)


def _matches(pattern: bytes) -> Callable[[bytes], bool]:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda head: compiled.match(head) is not None


EXPORT: Final = "Export one with `prof.export_chrome_trace(path)` or `tensorboard_trace_handler`."
PICKLES: Final = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
MARKUP: Final = (b"<!doctype", b"<!DOCTYPE", b"<html", b"<HTML", b"<?xml")
EXECUTION_TRACE: Final = rb'\s*\{[^\[]{0,400}"schema"\s*:\s*"\d[\w.\- ]*"'
MEMORY_TIMELINE: Final = rb"\s*\[\s*\[\s*[-\d\[]"
PARQUET: Final = (
    "Give the whole folder of `nsys export --type parquetdir`; query other Parquet files with DuckDB directly."
)
RECORD_AGAIN: Final = "The profiler did not finish writing it; record again."
KNOWN: Final = (
    "Known are traces of the PyTorch profiler, exports and printed reports (with their header lines) of nsys, ncu, "
    "nvprof and rocprof, and logs of nvidia-smi."
)
PROFILER_EXPORT: Final = (
    "Give one that `nsys export --type sqlite`, `rocprofv3 --output-format rocpd`, `rpd` or `nvprof -o` wrote."
)
SAVED_PAGE: Final = "Perhaps a login page was saved instead of the download."
IMPOSTORS: Final = (
    Impostor(lambda head: not head.strip(), "an empty file", RECORD_AGAIN),
    Impostor(sqlite.is_database, "an SQLite database that is no export of a profiler", PROFILER_EXPORT),
    Impostor(_starts(*MARKUP), "an HTML or XML page", SAVED_PAGE),
    Impostor(_starts(b"\x28\xb5\x2f\xfd"), "a zstd archive", "Unpack it first: `unzstd FILE`."),
    Impostor(_starts(b"BZh", b"\xfd7zXZ"), "a bz2 or xz archive", "Unpack it first."),
    Impostor(_starts(b"PAR1"), "a Parquet file", PARQUET),
    Impostor(_starts(*PICKLES), "a Python pickle (perhaps a memory snapshot)", EXPORT),
    Impostor(_starts(b"\x7fELF"), "an ELF binary", EXPORT),
    Impostor(_matches(EXECUTION_TRACE), "a PyTorch execution trace (ET)", f"It holds no times. {EXPORT}"),
    Impostor(_matches(MEMORY_TIMELINE), "a memory timeline", f"It holds no kernels. {EXPORT}"),
)


def head_of(source: Source) -> bytes:
    """The first bytes of a source, decompressed."""
    parts: list[bytes] = []
    with contextlib.closing(source.blocks()) as blocks:
        for block in blocks:
            parts.append(block)
            if sum(map(len, parts)) >= HEAD_BYTES:
                break
    return b"".join(parts)[:HEAD_BYTES]


def check(source: Source) -> None:
    """Raise NotATraceError where the first bytes show that `source` is something else."""
    head = head_of(source)
    if not head and source.damage:
        message = f"{source.label}: nothing can be read, {source.damage}. Copy or record the trace again."
        raise UnreadableTraceError(message)
    if TRACE_MARK.search(head) or EVENT_ARRAY.match(head):
        return
    sqlite.refuse_damaged(source.path, head)
    for impostor in IMPOSTORS:
        if impostor.fits(head):
            names = sorted(sqlite.names_in(source.path, head))
            shown = ", ".join(names[:TABLES_SHOWN]) + (", …" if len(names) > TABLES_SHOWN else "")
            what = impostor.what + (f" (tables {shown})" if names else "")
            message = f"{source.label}: this is {what}, not a trace. {impostor.remedy}"
            raise NotATraceError(message)
    first = head.lstrip()[:1]
    if first == b"{" and len(head) >= HEAD_BYTES:
        return
    what = "binary data of an unknown kind" if CONTROLS.intersection(head[:4096]) else "text"
    remedy = KNOWN
    if first in (b"{", b"["):
        what, remedy = "JSON without a `traceEvents` array", EXPORT
    message = f"{source.label}: this is {what}, not a trace. {remedy}"
    raise NotATraceError(message)
