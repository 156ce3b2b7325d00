"""Sessions: one engine per database file and process, which questions share.

DuckDB lets one process write a file, or many read it, and takes longer to attach a file than to answer most questions.
So the engine that reads a file stays for further questions, and is given up when none came for `LINGER_S`, or as soon
as the last one is answered where somebody wants to write: this process, or another one, which changes the time of the
file to say so. Who writes has an engine of its own, for one piece of work or, where nobody else asks, for a batch.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

from kerneldb.files import changed_at, inode_of, stamp_of
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import engine, strangers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerneldb.files import Stamp

    Connection = duckdb.DuckDBPyConnection

LINGER_S: Final = 0.5
"""How long a file stays attached after the last question."""
GLANCE_S: Final = 0.05
"""How often somebody looks whether a file that is kept open is wanted elsewhere."""
PATIENCE_S: Final = 5.0
"""How long new questions wait for those before them to end, from when somebody wants to write."""
TURN_S: Final = 1.0
"""How long a question leaves the file to writers that wait."""
END_S: Final = 30.0
"""How long the end of the process waits for a file that is just opened or closed."""
LOOK_S: Final = 1.2 * engine.LONGEST_PAUSE_S
"""Who waits changes the time of the file at least so often."""


class Session:
    """The readers and the writer of one file in this process. All methods may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._engine: Connection | None = None
        self._folders: tuple[Path, ...] | None = None
        self._stamp: Stamp = ()
        self._readers: collections.Counter[int] = collections.Counter()
        self._writing = False
        self._writers_waiting = 0
        self._written_at: int | None = None
        self._wanted_at: float | None = None
        self._inode: int | None = None
        self._known = False
        self._batches = 0
        self._yielded_at = -TURN_S
        self._asked_at = 0.0
        self._watched = False

    @contextlib.contextmanager
    def reading(self, timeout: float) -> Iterator[Connection]:
        """A read-only connection with the file attached as `warehouse` and in use; it can reach no other file.

        Waits up to `timeout` seconds for a writer, which holds the file for one commit.
        Python variables are out of reach too (DuckDB's replacement scans need external access): pass relations and
        frames by `con.register(name, object)`. Raises WarehouseMissingError, WarehouseLockedError,
        WarehouseVersionError.
        """
        thread, con = threading.get_ident(), None
        try:
            with self._turn(timeout) as left:
                con = self._ready(left).cursor()
                self._readers[thread] += 1
            con.execute(statement("session", "use"))
            yield con
        finally:
            if con is not None:
                con.close()
                self._asked(thread)

    def _asked(self, thread: int) -> None:
        """A question of the thread was answered."""
        with self._changed:
            self._readers[thread] -= 1
            self._readers += collections.Counter()  # forgets threads without questions
            self._asked_at = time.monotonic()
            if not self._readers and self._is_wanted():
                self._yield()
            self._changed.notify_all()

    @contextlib.contextmanager
    def _turn(self, timeout: float) -> Iterator[float]:
        """The lock of this session, which a thread keeps while it attaches the file; the seconds that are left then."""
        ends = time.monotonic() + timeout
        if not self._changed.acquire(timeout=max(timeout, GLANCE_S)):
            raise engine.held_here(self._path)
        try:
            yield max(ends - time.monotonic(), 0.0)
        finally:
            self._changed.release()

    @contextlib.contextmanager
    def writing(
        self,
        timeout: float,
        folders: Sequence[Path] = (),
        *,
        create: bool = False,
        prepare: Callable[[Connection], None] | None = None,
    ) -> Iterator[Connection]:
        """A connection that may write the file, and read files in `folders` but nowhere else.

        Waits up to `timeout` seconds for other processes and for readers of this one. With `create`, a missing file is
        made. `prepare` may attach more before the connection is confined.
        """
        con, kept = self._begin_writing(timeout, tuple(folders) if prepare is None else ()), False
        try:
            if con is None:
                attach = "create" if create and not self._path.exists() else "attach_for_writing"
                con = engine.opened(self._path, attach, timeout, folders, prepare)
                self._inode = inode_of(self._path)
                con.execute(statement("session", "use"))
            yield con
            is_the_same = inode_of(self._path) == self._inode
            kept = self._batches > 0 and bool(folders) and prepare is None and is_the_same
        finally:
            with self._changed:
                self._engine, self._folders = con, tuple(folders)
                try:
                    if kept:
                        self._watch()
                    else:
                        self._close()
                finally:
                    self._writing = False
                    self._stamp, self._written_at = stamp_of(self._path), changed_at(self._path)
                    self._changed.notify_all()

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Keep the engine from one write to the next, as far as these take the same folders and nobody else asks."""
        with self._changed:
            self._batches += 1
        try:
            yield
        finally:
            with self._changed:
                self._batches -= 1
                if self._batches == 0 and self._folders is not None and not self._writing:
                    self._close()

    def release(self, patience: float = GLANCE_S) -> None:
        """Let the file go now; questions that are being answered keep it until then.

        Where another thread is opening the file, which may take long, that is waited for `patience` seconds.
        """
        if self._changed.acquire(timeout=patience):
            try:
                if not self._readers:
                    self._close()
            finally:
                self._changed.release()

    def _ready(self, timeout: float) -> Connection:
        """The engine that reads the file as it is now."""
        ends = time.monotonic() + timeout
        if not self._changed.wait_for(lambda: not self._writing, timeout):
            raise engine.held_here(self._path)
        if not self._is_wanted():
            self._wanted_at = None
        while self._engine is not None and (self._folders is not None or self._is_wanted()):
            if self._folders is not None:
                self._close()
            elif not self._readers:
                self._yield()
            elif self._readers[threading.get_ident()] or not self._changed.wait(self._patience()):
                break
        if self._engine is None:  # let one come first that waits in this process
            self._changed.wait_for(
                lambda: self._engine is not None or self._writing or not self._writers_waiting, min(TURN_S, timeout)
            )
        if self._writing:
            return self._ready(max(ends - time.monotonic(), 0.0))
        if self._engine is None:
            self._give_way(min(TURN_S, timeout))
            self._engine = self._attached(ends)
            self._watch()
        return self._engine

    def _patience(self) -> float:
        """Seconds for which a question is still to wait for those before it."""
        if self._wanted_at is None:
            self._wanted_at = time.monotonic()
        return max(self._wanted_at + PATIENCE_S - time.monotonic(), 0.0)

    def _attached(self, ends: float) -> Connection:
        """A new engine that reads the file; another one where another file came in its place meanwhile."""
        while True:
            inode = inode_of(self._path)
            con = engine.opened(self._path, "attach", max(ends - time.monotonic(), 0.0))
            self._stamp = stamp_of(self._path)
            if inode_of(self._path) == inode:
                return con
            con.close()

    def _begin_writing(self, timeout: float, folders: tuple[Path, ...]) -> Connection | None:
        """Wait for a turn to write; the engine, if one is kept that may read these folders."""
        with self._turn(timeout) as left:
            self._writers_waiting += 1
            try:
                if not self._changed.wait_for(lambda: not self._writing and not self._readers, left):
                    raise engine.held_here(self._path)
            finally:
                self._writers_waiting -= 1
            kept = self._engine if folders and folders == self._folders and not self._is_wanted() else None
            if kept is None:
                self._close()
                self._known = not self._path.exists() or strangers.is_known(strangers.look(self._path))
            self._engine, self._folders = None, None
            self._writing = True
            return kept

    def _give_way(self, limit: float) -> None:
        """Leave the file to others as long as they ask for it, up to `limit` seconds."""
        seen, ends = changed_at(self._path), time.monotonic() + limit
        if seen is None or seen == self._written_at:
            return
        # A file that was changed a moment ago may be so again; clocks of other machines may be wrong.
        if abs(time.time() - seen / 1e9) > LOOK_S and time.monotonic() - self._yielded_at > LOOK_S:
            return
        while time.monotonic() + LOOK_S < ends:
            time.sleep(LOOK_S)
            before, seen = seen, changed_at(self._path)
            if seen == before:
                return

    def _is_wanted(self) -> bool:
        """Whether somebody waits to write, or the file is not the one that is attached."""
        return self._writers_waiting > 0 or self._stamp != stamp_of(self._path)

    def _yield(self) -> None:
        """Close the file for somebody else, who is to have it next."""
        self._yielded_at = time.monotonic()
        self._close()

    def _close(self) -> None:
        con, folders = self._engine, self._folders
        self._engine, self._folders, self._wanted_at = None, None, None
        if con is not None:
            con.close()
            if folders is not None:
                self._written_at = changed_at(self._path)
                if self._known:  # and written by us since
                    strangers.remember(strangers.look(self._path))

    def _watch(self) -> None:
        self._asked_at = time.monotonic()
        if not self._watched:
            self._watched = True
            threading.Thread(target=self._let_go_in_time, name="kerneldb-session", daemon=True).start()

    def _let_go_in_time(self) -> None:
        with self._changed:
            while self._engine is not None:
                is_idle, is_wanted = time.monotonic() - self._asked_at > LINGER_S, self._is_wanted()
                if not self._readers and (is_idle or is_wanted):
                    # What is committed is in the log, and whoever asks next gets the error.
                    with contextlib.suppress(duckdb.Error):
                        (self._yield if is_wanted else self._close)()
                self._changed.wait(GLANCE_S)
            self._watched = False


_SESSIONS: dict[Path, Session] = {}
_PARENTS: list[Session] = []
"""Sessions of the process that this one was forked from: their engines work there only, and must not be ended here."""


def session_of(path: Path) -> Session:
    """The session of a file in this process."""
    path = path.resolve()
    return _SESSIONS.get(path) or _SESSIONS.setdefault(path, Session(path))


def release_all(patience: float = GLANCE_S) -> None:
    """Let all files go, as `Session.release` does; what is asked next attaches its file anew."""
    for session in tuple(_SESSIONS.values()):
        session.release(patience)


# Python must not end while a thread is inside the engine.
atexit.register(release_all, END_S)


def _forget_parents() -> None:
    _PARENTS.extend(_SESSIONS.values())
    _SESSIONS.clear()


os.register_at_fork(before=release_all, after_in_child=_forget_parents)
