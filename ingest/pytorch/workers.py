"""Narrows the pieces of a trace in processes of their own, since one Python process uses one core.

Text goes to a worker in a segment of memory that both have mapped, its columns come back in the same place; pipes only
say how long they are. A worker that dies, or cannot be started, costs nothing: its pieces are read here. Workers end
with the pipe to this process, so nothing is left of them whatever ends it.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import pickle
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import IO, Final, cast

from kerneldb.ingest.pytorch.narrow import Chunk, Narrower
from kerneldb.ingest.pytorch.split import Boundary, Piece

MOST: Final = 12
"""Workers: with more of them the process that gathers their columns is what limits."""
SLOTS: Final = 2
"""Pieces in a worker's hands: one that it reads, one that waits."""
SLOT_BYTES: Final = 12 << 20
"""More than a piece has, but for one with an event of megabytes, which is read here."""
REQUEST: Final = struct.Struct("<BQ?H")
"""Slot, length of the array, whether the boundary is exact, and the length of its text, which follows."""
ANSWER: Final = struct.Struct("<?Q")
"""Whether the columns are in the slot (or behind this in the pipe), and their length."""
START: Final = "import sys; sys.path[:] = sys.argv[2:]; from kerneldb.ingest.pytorch import workers; workers.main()"
KEEP_MEMORY: Final = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""A worker needs the same memory for each piece: glibc should not give it back in between (man mallopt)."""
SMALL_BYTES: Final = 24 << 20
"""Files below that are read before the workers have started."""


def useful(stored_bytes: int, compressed: bool) -> int:
    """How many workers a file is worth: one a core, none for a small file or where there is one core."""
    cores = len(os.sched_getaffinity(0))
    size = stored_bytes * (8 if compressed else 1)
    return 0 if cores == 1 or size < SMALL_BYTES else min(cores, MOST)


class Worker:
    """A process with a narrower. Raises OSError where it cannot be started, or is gone."""

    def __init__(self) -> None:
        memory = os.memfd_create("kerneldb-ingest")
        try:
            os.ftruncate(memory, SLOTS * SLOT_BYTES)
            self._slots = mmap.mmap(memory, SLOTS * SLOT_BYTES)
            home = str(Path(__file__).parents[3])
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with this package
                [sys.executable, "-S", "-c", START, str(memory), home, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what it fails at is tried here again
                pass_fds=(memory,),
                env=os.environ | KEEP_MEMORY,
                process_group=0,  # Ctrl-C is for the process that started it
            )
        finally:
            os.close(memory)

    def send(self, slot: int, piece: Piece) -> None:
        """Hand over a piece, which has to fit into a slot."""
        start, size = slot * SLOT_BYTES, piece.end + 2
        self._slots[start : start + 1] = b"["
        self._slots[start + 1 : start + size - 1] = memoryview(piece.text)[: piece.end]
        self._slots[start + size - 1 : start + size] = b"]"
        literal = piece.boundary.literal
        request = cast("IO[bytes]", self._process.stdin)
        request.write(REQUEST.pack(slot, size, piece.boundary.exact, len(literal)) + literal)
        request.flush()

    def receive(self, slot: int) -> Chunk:
        """The chunk of the piece in `slot`, once it is read. Raises EOFError where the worker is gone."""
        answer = cast("IO[bytes]", self._process.stdout)
        in_slot, size = ANSWER.unpack(_exactly(answer, ANSWER.size))
        start = slot * SLOT_BYTES
        data = memoryview(self._slots)[start : start + size] if in_slot else _exactly(answer, size)
        chunk: Chunk = pickle.loads(data)  # noqa: S301 - written by our own worker
        return chunk

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        with contextlib.suppress(BufferError):
            self._slots.close()


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def narrowed(pieces: Iterable[Piece], here: Narrower, workers: int) -> Generator[tuple[Chunk, int], None, None]:
    """The chunk of each piece, in order, and the number of its reader: 0 is `here`, workers count from 1."""
    if not workers:
        yield from ((here.narrow(piece.array, piece.boundary), 0) for piece in pieces)
        return
    with contextlib.ExitStack() as stack:
        yield from _Shared(stack, here, workers).narrowed(pieces)


class _Shared:
    def __init__(self, stack: contextlib.ExitStack, here: Narrower, workers: int) -> None:
        self._here = here
        self._workers: list[Worker | None] = []
        for _ in range(workers):
            with contextlib.suppress(OSError):
                self._workers.append(worker := Worker())
                stack.callback(worker.close)

    def narrowed(self, pieces: Iterable[Piece]) -> Generator[tuple[Chunk, int], None, None]:
        pending: deque[tuple[Piece, int, int]] = deque()
        most = SLOTS * max(len(self._workers), 1)
        for number, piece in enumerate(pieces):
            if len(pending) == most:
                yield self._finished(*pending.popleft())
            worker, slot = number % max(len(self._workers), 1), number // max(len(self._workers), 1) % SLOTS
            pending.append((piece, worker, slot))
            self._send(piece, worker, slot)
        while pending:
            yield self._finished(*pending.popleft())

    def _send(self, piece: Piece, number: int, slot: int) -> None:
        worker = self._workers[number] if self._workers else None
        if worker is not None and piece.end + 2 <= SLOT_BYTES:
            try:
                worker.send(slot, piece)
            except OSError:
                self._workers[number] = None

    def _finished(self, piece: Piece, number: int, slot: int) -> tuple[Chunk, int]:
        worker = self._workers[number] if self._workers else None
        if worker is not None and piece.end + 2 <= SLOT_BYTES:
            try:
                return worker.receive(slot), number + 1
            except (OSError, EOFError):
                self._workers[number] = None
        return self._here.narrow(piece.array, piece.boundary), 0


def main() -> None:
    """What a worker does: answer requests until there are no more."""
    gc.disable()  # nothing that is made here refers to itself
    memory = mmap.mmap(int(sys.argv[1]), SLOTS * SLOT_BYTES)
    requests, answers, narrower = sys.stdin.buffer, sys.stdout.buffer, Narrower()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            slot, size, exact, length = REQUEST.unpack(_exactly(requests, REQUEST.size))
            boundary = Boundary(_exactly(requests, length), exact)
            start = slot * SLOT_BYTES
            data = pickle.dumps(narrower.narrow(memory[start : start + size], boundary), pickle.HIGHEST_PROTOCOL)
            fits = len(data) <= SLOT_BYTES
            if fits:
                memory[start : start + len(data)] = data
            answers.write(ANSWER.pack(fits, len(data)) + (b"" if fits else data))
            answers.flush()
