"""Worker processes give what one process gives, whatever becomes of them, and end with the reading."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerneldb.ingest.pytorch import workers
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.narrow import Narrower
from kerneldb.ingest.pytorch.split import Splitter
from tests.ingest.reading import collected
from tests.ingest.test_mutations import content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.ingest.pytorch.split import Piece

TRACE = Path(__file__).resolve().parents[1] / "fixtures" / "train-step-h200.json.gz"
PIECE_BYTES = 1 << 16


@pytest.fixture(scope="module")
def text() -> bytes:
    return gzip.decompress(TRACE.read_bytes())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[workers.Worker]:
    """The workers that a test starts."""
    found: list[workers.Worker] = []

    class Kept(workers.Worker):
        def __init__(self) -> None:
            super().__init__()
            found.append(self)

    monkeypatch.setattr(workers, "Worker", Kept)
    return found


def pieces_of(text: bytes) -> tuple[Splitter, Iterator[Piece]]:
    blocks = (text[start : start + PIECE_BYTES] for start in range(0, len(text), PIECE_BYTES))
    splitter = Splitter(blocks, chunk_bytes=PIECE_BYTES)
    return splitter, iter(splitter)


def by_workers(text: bytes, started: list[workers.Worker], dies_after: int | None = None) -> Collector:
    splitter, pieces = pieces_of(text)
    here, found = Narrower(), Collector()
    for number, (chunk, reader) in enumerate(workers.narrowed(pieces, here, 2)):
        found.add(chunk, reader)
        if number == dies_after:
            started[0]._process.kill()
    found.add(here.tail(splitter.tail))
    found.settle()
    return found


@pytest.mark.parametrize("dies_after", [None, 0, 2])
def test_workers_read_what_one_process_reads(
    text: bytes, started: list[workers.Worker], dies_after: int | None
) -> None:
    assert content(by_workers(text, started, dies_after)) == content(collected(text, PIECE_BYTES))
    assert len(started) == 2
    assert [worker._process.poll() is not None for worker in started] == [True, True]


def test_pieces_larger_than_a_slot(text: bytes, started: list[workers.Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SLOT_BYTES", PIECE_BYTES + (PIECE_BYTES >> 3))
    monkeypatch.setattr(
        workers,
        "START",
        workers.START.replace("workers.main()", f"workers.SLOT_BYTES = {workers.SLOT_BYTES}; workers.main()"),
    )
    assert content(by_workers(text, started)) == content(collected(text, PIECE_BYTES))


def test_where_no_worker_starts_the_trace_is_read_here(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> workers.Worker:
        raise OSError

    monkeypatch.setattr(workers, "Worker", refuse)
    assert content(by_workers(text, [])) == content(collected(text, PIECE_BYTES))


def test_workers_end_where_reading_is_left(text: bytes, started: list[workers.Worker]) -> None:
    chunks = workers.narrowed(pieces_of(text)[1], Narrower(), 2)
    next(chunks)
    chunks.close()
    assert [worker._process.poll() is not None for worker in started] == [True, True]


def test_only_large_files_are_worth_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: set(range(4)))
    assert [workers.useful(size, compressed=False) for size in (1 << 20, 1 << 30)] == [0, 4]
    assert workers.useful(4 << 20, compressed=True) == 4
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: {0})
    assert workers.useful(1 << 30, compressed=False) == 0
