"""The database as the screens see it: questions that are awaited, each in a thread and on a connection of its own.

A question whose waiting task is cancelled (the user moved on) is interrupted in the engine. While another process
holds the file, questions wait and say so; nothing of the screens is lost.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import functools
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, TypeVar

from kerneldb.errors import WarehouseError, WarehouseLockedError, WarehouseMissingError
from kerneldb.files import stamp_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kerneldb.api import Database
    from kerneldb.api.browsing import Reading
    from kerneldb.api.completion import Words
    from kerneldb.api.queries import Connection
    from kerneldb.selection import Selection
    from kerneldb.tui.model import Choice


T = TypeVar("T")
P = ParamSpec("P")

THREADS: Final = 4
LOCK_WAIT_S: Final = 0.2
"""How long one attempt waits for a writer; attempts go on until the file is free or the question is cancelled."""
PAUSE_S: Final = 0.3
AGAIN_S: Final = 0.05
WRITE_WAIT_S: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """How the file is: `ready`, `locked` by another process, `missing`, or `failed`; `sentence` says it in words."""

    kind: Literal["ready", "locked", "missing", "failed"] = "ready"
    sentence: str = ""


READY: Final = Condition()


class Store:
    """Questions to one database: a file, or the text that names a lake.

    `path` is the file; of a lake it is what its own files stand beside (`kerneldb.warehouse.place.Place`). `title` is
    what may be shown of `source`: no passwords. `notify` is called, on the event loop, when the condition of the file
    changes.
    """

    def __init__(self, source: str | Path, notify: Callable[[Condition], None] = lambda _: None) -> None:
        self.source = source
        self.is_lake = str(source).startswith("ducklake:")
        self.path, self.title = Path(source), str(source)
        if self.is_lake:
            from kerneldb.warehouse.place import Place

            place = Place.of(source)
            self.path, self.title = place.path, str(place)
        self.condition = READY
        self.waiting = 0
        self._read_once = False
        self._notify = notify
        self._database: Database | None = None
        self._opening = threading.Lock()
        self._threads = concurrent.futures.ThreadPoolExecutor(THREADS, "kerneldb-read")
        self._stamp = stamp_of(self.path)
        self._prefetching: set[asyncio.Task[Any]] = set()
        self._words: list[Words] = []
        self._learning = asyncio.Lock()

    async def rows(
        self, statement: str, params: Mapping[str, Any] | None = None, selection: Selection | None = None
    ) -> list[dict[str, Any]]:
        """The rows of `schemas/queries/<statement>.sql`; it reads the launches of a given `selection` by that name.

        Raises KerneldbError; waits while the file is locked.
        """
        from kerneldb.api import queries

        return await self.read(queries.rows, statement, params, selection)

    async def summed(self, choice: Choice) -> int:
        """How many launches of `choice` are known by their sums alone: a tool reported them together.

        A WHERE text is asked of single launches, so it meets none of them.
        """
        if choice.where.strip():
            return 0
        from kerneldb.api.queries import rollups, statement

        def ask(con: Connection) -> int:
            con.register("whole", rollups(con, choice.traces))
            ((found,),) = con.execute(statement("tui_summed")).fetchall()
            return int(found)

        return await self.read(ask)

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of `work(connection, *args, **kwargs)` in a thread. It is interrupted when cancelled here."""
        for task in self._prefetching - {asyncio.current_task()}:
            task.cancel()
        return await self._retried(lambda: self._read(lambda con: work(con, *args, **kwargs)))

    async def words(self) -> Words:
        """What completion offers: read once until `forget`, for whoever asks."""
        from kerneldb.api import completion

        async with self._learning:
            kept = self._words
            if not kept:
                kept.append(await self.read(completion.words))
            return kept[0]

    def prefetch(self, work: Callable[[Connection], T]) -> asyncio.Task[T]:
        """As `read`, for what is not needed yet: it is given up as soon as anything else is asked.

        Hand the task to `want` before it is awaited. The thread begins now, not when the loop comes to the task: it may
        have widgets to make.
        """
        for task in self._prefetching:
            task.cancel()
        begun = [self._begun(work)]

        def give_up(_: object) -> None:
            """End what began for a task that was cancelled before its first step."""
            for reading, answer in begun:
                answer.cancel()
                _cancel(reading, answer.get_loop())

        task = asyncio.create_task(self._retried(lambda: self._read(work, begun.pop() if begun else None)))
        self._prefetching.add(task)
        task.add_done_callback(self._prefetching.discard)
        task.add_done_callback(give_up)
        return task

    def want(self, task: asyncio.Task[Any]) -> None:
        """Somebody waits for what was prefetched."""
        self._prefetching.discard(task)

    async def check(self, selection: Selection) -> None:
        """Raise SelectionError or UsageError where `selection` does not work, before any screen shows it."""
        from kerneldb.api import browsing

        await self.read(browsing.check, selection)

    async def call(self, work: Callable[[Database], T]) -> T:
        """The result of `work` on the Python API, in a thread: what the commands do. It cannot be interrupted."""
        loop = asyncio.get_running_loop()
        return await self._retried(lambda: loop.run_in_executor(self._threads, lambda: work(self._opened())))

    @property
    def address(self) -> str:
        """What another process opens, wherever it runs."""
        return str(self.source if self.is_lake else self.path.absolute())

    def writing(self) -> Database:
        """The Python API on the file, patient enough for commits."""
        from kerneldb import api

        return api.open(self.source, create=False, lock_timeout=WRITE_WAIT_S)

    def changed(self) -> bool:
        """Whether the file is another one, or has other contents, than when this was last asked."""
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self.forget()
        return True

    def version(self) -> object | None:
        """What is equal as long as the file has the same contents; None where that is not known.

        So it is of a lake, and of a file that was replaced but not yet asked `changed` of: the old one may be attached.
        """
        stamp = stamp_of(self.path)
        return None if self.is_lake or stamp != self._stamp else stamp

    def forget(self) -> None:
        """Check the file again with the next question: it may be another one by now."""
        self._release()
        self._database, self._words = None, []

    def let_go(self) -> None:
        """Hold the file no longer, but for questions that somebody waits for (`waiting`)."""
        for task in self._prefetching:
            task.cancel()
        self._release()

    def close(self) -> None:
        """Take no more questions."""
        self._release()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        self.waiting += 1
        try:
            while True:
                try:
                    found = await attempt()
                except WarehouseLockedError as error:
                    if error.pid != os.getpid():  # what this process does itself, its screens say
                        self._become(Condition("locked", locked_sentence(self.path, error.pid)))
                except WarehouseMissingError:
                    gone = f"{self.path} is gone; what is shown was read before"
                    self._become(Condition("missing", gone if self._read_once else f"no file {self.path}"))
                    raise
                except WarehouseError as error:
                    self._become(Condition("failed", str(error)))
                    raise
                else:
                    self._read_once = True
                    self._become(READY)
                    return found
                await asyncio.sleep(PAUSE_S)
        finally:
            self.waiting -= 1

    def _begun(self, work: Callable[[Connection], T]) -> tuple[Reading[T], asyncio.Future[T]]:
        from kerneldb.api.browsing import Reading

        reading = Reading(lambda: self._opened().warehouse, work)
        return reading, asyncio.get_running_loop().run_in_executor(self._threads, reading.run)

    async def _read(
        self, work: Callable[[Connection], T], begun: tuple[Reading[T], asyncio.Future[T]] | None = None
    ) -> T:
        reading, answer = begun or self._begun(work)
        try:
            return await answer
        except asyncio.CancelledError:
            _cancel(reading, asyncio.get_running_loop())
            raise

    def _opened(self) -> Database:
        from kerneldb import api

        # Threads that open an older file at once would wait for each other to bring it up to date.
        with self._opening:
            if self._database is None:
                self._database = api.open(self.source, create=False, lock_timeout=LOCK_WAIT_S)
            return self._database

    def _release(self) -> None:
        if self._database is not None:
            self._database.close()

    def _become(self, condition: Condition) -> None:
        if condition != self.condition:
            self.condition = condition
            self._notify(condition)


def _cancel(reading: Reading[Any], loop: asyncio.AbstractEventLoop, tries: int = 40) -> None:
    """Cancel until the work ends: an interrupt that falls between two statements is forgotten."""
    reading.cancel()
    if tries and not reading.done and not loop.is_closed():
        loop.call_later(AGAIN_S, functools.partial(_cancel, reading, loop, tries - 1))


def locked_sentence(path: Path, pid: int | None) -> str:
    """Who holds the file, as far as the operating system tells."""
    if pid is None:
        return f"{path.name} is in use by another process; waiting for it"
    try:
        parts = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        parts = []
    program, *arguments = [part.decode(errors="replace") for part in parts if part] or [""]
    command = " ".join([program.rpartition("/")[2], *arguments])[:60]
    return f"{path.name} is in use by process {pid}{f' ({command})' if command else ''}; waiting for it"
