"""Reads the text of a trace as far as columns, all at once or event by event."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import polars as pl
import pytest

from kerneldb.ingest.pytorch import events, fields, native
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.narrow import Narrower
from kerneldb.ingest.pytorch.split import CHUNK_BYTES, Splitter


def collected(text: bytes, size: int = CHUNK_BYTES) -> Collector:
    """All events of `text`, cut into pieces of about `size` bytes."""
    blocks = (text[start : start + size] for start in range(0, len(text), size))
    splitter, narrower, found = Splitter(blocks, chunk_bytes=size), Narrower(), Collector()
    for piece in splitter:
        found.add(narrower.narrow(piece.array, piece.boundary))
    found.add(narrower.tail(splitter.tail))
    found.settle()
    return found


def frame_of(found: Collector, group: str) -> pl.DataFrame | None:
    """The events of a group in the order of the text, or None where there is none."""
    rows = found.rows[group]
    return rows.between((None, None)).sort("id") if rows.height else None


def operators(found: Collector) -> pl.DataFrame:
    """The operators in the order of the text, with what their codes mean."""
    frame = frame_of(found, "op")
    assert frame is not None
    calls = found.calls.table("call", *fields.CALL)
    threads = found.threads.table("thread", *fields.THREAD)
    wide = frame.join(calls, on="call", how="left", maintain_order="left")
    return wide.join(threads, on="thread", how="left", maintain_order="left")


def scanned(text: bytes, size: int = CHUNK_BYTES, threads: int = 0) -> Collector:
    """What `collected` gives, by the compiled reader."""
    blocks = (text[start : start + size] for start in range(0, len(text), size))
    splitter, found = Splitter(blocks, chunk_bytes=size), Collector()
    for chunk, reader in native.narrowed(splitter, threads):
        found.add(chunk, reader)
    found.add(Narrower().tail(splitter.tail))
    found.settle()
    return found


@contextmanager
def event_by_event() -> Iterator[None]:
    """Sends every event through the tolerant reader, as if msgspec refused it."""

    def refuse(_: bytes) -> list[events.Event]:
        raise msgspec.DecodeError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_decode_all", refuse)
        patch.setattr(events, "_decode_exactly", refuse)
        yield
