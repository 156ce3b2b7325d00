"""Conversions of several traces at once, each in a process of its own, ahead of commits that follow one after another.

Processes and not threads: readers spend half of their time in Python. The processes are our own interpreter with this
module, so that a program that calls the library needs no guard around its main part. They end when the pipe to them
does, whatever this process dies of.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import shutil
import subprocess
import sys
import threading
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWorking
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb import files
from kerneldb.api.ingestion import Conversions, IngestOptions, whole
from kerneldb.errors import KerneldbError, TraceError, UnreadableTraceError
from kerneldb.replay import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerneldb.api.ingestion import Converted
    from kerneldb.batch import Manifest
    from kerneldb.ingest import Unit

GLANCE_S: Final = 0.1
AHEAD: Final = 4
"""So many traces for each process are read, or have been, before they are stored."""


@dataclasses.dataclass(slots=True)
class _Job:
    """A unit in the making. `commits`: so many came before it was looked at. `read`: how many bytes, of how many."""

    unit: Unit
    commits: int
    folder: Path = Path()
    read: tuple[int, int] | None = None
    found: Future[list[Converted]] | None = None
    held: list[tuple[str, str]] = dataclasses.field(default_factory=list)


class Ahead(Conversions):
    """Converts the next units while one is committed. Those that are there already are not converted."""

    def __init__(self, plain: Conversions, units: Sequence[Unit], workers: int) -> None:
        super().__init__(plain.store, plain.options, plain.spool)
        self._workers = [_Worker(max(files.cores() // workers, 1)) for _ in range(workers)]
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="kerneldb-ahead")
        self._coming = iter(enumerate(units))
        self._jobs: dict[int, _Job] = {}
        self._commits = 0

    def close(self) -> None:
        """End all processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.end()
        self._threads.shutdown()
        for worker in self._workers:
            worker.leave()

    def held(self, unit: Unit) -> list[tuple[str, str]]:
        """As there; asked anew only where others were stored since."""
        self._begin()
        job = self._jobs[id(unit)]
        if not job.held and job.commits != self._commits:
            job.held = super().held(unit)
        if job.held:
            self._drop(job)
        return job.held

    def of(self, unit: Unit, follow: Callable[[int, int], None] | None) -> Iterator[Converted]:
        """As there. Raises what the reader of the unit raised in its process."""
        job = self._jobs[id(unit)]
        assert job.found is not None  # noqa: S101 (what is not held has begun)
        try:
            converted = _awaited(job, job.found, follow)
            shutil.rmtree(self.spool(), ignore_errors=True)
            job.folder.rename(self.spool())  # the engine that is kept may read this folder only
            for manifest, seconds in converted:
                self._commits += 1
                yield _moved(manifest, job.folder, self.spool()), seconds
        finally:
            self._drop(job)

    def _drop(self, job: _Job) -> None:
        del self._jobs[id(job.unit)]
        if job.found is not None:
            job.found.cancel()
            job.found.add_done_callback(lambda _: shutil.rmtree(job.folder, ignore_errors=True))

    def _begin(self) -> None:
        """Let as many units be converted as may be ahead."""
        while len(self._jobs) < AHEAD * len(self._workers) and (following := next(self._coming, None)):
            number, unit = following
            job = self._jobs[id(unit)] = _Job(unit, self._commits)
            with contextlib.suppress(TraceError, OSError):  # its reader says the same
                job.held = super().held(unit)
            if not job.held:
                job.folder = self.spool().with_name(f"ahead-{number}")
                job.found = self._threads.submit(self._convert, job)

    def _convert(self, job: _Job) -> list[Converted]:
        worker = self._idle.get()
        try:
            return worker.convert(job, self.options)
        finally:
            self._idle.put(worker)


def _awaited(job: _Job, found: Future[list[Converted]], follow: Callable[[int, int], None] | None) -> list[Converted]:
    """What becomes of a job; how far it is is told in this thread meanwhile."""
    told = None
    while True:
        try:
            return found.result(GLANCE_S)
        except StillWorking:
            if found.done():
                raise
            if follow is not None and job.read is not None and job.read != told:
                told = job.read
                follow(*told)


def _moved(manifest: Manifest, old: Path, new: Path) -> Manifest:
    """The manifest of a conversion whose folder got another name."""

    def place(path: Path) -> Path:
        return new / path.relative_to(old)

    parts = {table: list(map(place, paths)) for table, paths in manifest.parts.items()}
    return dataclasses.replace(manifest, folder=place(manifest.folder), parts=parts)


class _Worker:
    """A process that converts one unit after another. Started when it is needed first, and anew where it died."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._lock = threading.Lock()
        self._ended = False

    def convert(self, job: _Job, options: IngestOptions) -> list[Converted]:
        """Convert a unit in the process. Raises what its reader raises."""
        try:
            pipe = self._started()
            pipe.send((job.unit.files, _place(job.unit), job.unit.member, job.folder, options))
            while isinstance(said := pipe.recv(), tuple):
                job.read = said
        except (EOFError, OSError) as error:
            code = self.leave()
            message = (
                f"{job.unit.label}: the process that read it ended ({'exit code' if code >= 0 else 'signal'} "
                f"{abs(code)}), perhaps for lack of memory. Read it alone: kerneldb ingest FILE"
            )
            raise UnreadableTraceError(message) from error
        if isinstance(said, BaseException):
            raise said
        converted: list[Converted] = said
        return converted

    def end(self) -> None:
        """Kill the process, in whatever it is doing."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                self._process.kill()

    def _started(self) -> Connection:
        with self._lock:
            if self._ended:
                raise EOFError
            if self._pipe is None:
                self._pipe, other = Pipe()
                with other:
                    self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                        processes.command(__name__, str(other.fileno())),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,  # what it fails at comes through the pipe
                        pass_fds=[other.fileno()],
                        env={"POLARS_MAX_THREADS": str(self._threads), **processes.environment()},
                        process_group=0,  # Ctrl-C is for the one who started it
                    )
            return self._pipe

    def leave(self) -> int:
        """Take leave of a process that is dead, or is to be; its exit code."""
        with self._lock:
            process, pipe = self._process, self._pipe
            self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is None:
            return 0
        process.kill()
        return process.wait()


def serve(pipe: Connection) -> None:
    """Convert what comes through the pipe until it is closed: the main part of a process."""
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, tasks), daemon=True).start()
    while True:
        paths, place, member, folder, options = tasks.get()
        try:
            said: object = list(whole(_unit(paths, place, member), folder, options, lambda *read: pipe.send(read)))
        except BaseException as error:  # noqa: BLE001 (the other process decides)
            if not isinstance(error, KerneldbError | OSError):
                error.add_note(traceback.format_exc())
            said = error
        pipe.send(said)


def _receive(pipe: Connection, tasks: queue.SimpleQueue[Any]) -> None:
    """Pass tasks on; end the process, in whatever it is doing, when nobody waits for it any more."""
    try:
        while True:
            tasks.put(pipe.recv())
    except (EOFError, OSError):
        os._exit(1)


def _place(unit: Unit) -> int | None:
    """Which reader it is: its name may be that of several, which read other forms of one tool."""
    from kerneldb.ingest import readers

    return None if unit.reader is None else readers.readers().index(unit.reader)


def _unit(paths: tuple[Path, ...], place: int | None, member: str | None) -> Unit:
    from kerneldb.ingest import Unit, readers

    return Unit(paths, None if place is None else readers.readers()[place], member=member)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
