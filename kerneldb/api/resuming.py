"""The files of a replay until all of it is in the database: what `--resume` goes on with."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kerneldb.errors import UsageError
from kerneldb.files import require_own
from kerneldb.replay.host import fleet
from kerneldb.replay.wire import plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.replay.wire.plan import Plan


@dataclasses.dataclass(frozen=True, slots=True)
class Files:
    """Where a run keeps its plan and journal until both are in the database."""

    plan: Path
    journal: Path

    @classmethod
    def beside(cls, database: Path) -> Files:
        """The files of the database at `database`."""
        return cls(database.with_name(f"{database.name}.replay-plan"), database.with_name(f"{database.name}.replay"))

    def journals(self) -> list[Path]:
        """The journals that are there: one, or one per device and group of devices."""
        return fleet.journals(self.journal)

    def counters(self) -> list[Path]:
        """What counter profilers wrote for the run."""
        return sorted(self.journal.parent.glob(f"{self.journal.name}.counters-*"))

    @property
    def aside(self) -> Path:
        """The folder of a stopped run while another one that is to replace it has no device yet."""
        return self.plan.with_name(f"{self.plan.name}.stopped")

    @property
    def stopped(self) -> bool:
        """Whether a stopped run is put aside."""
        return (self.aside / self.plan.name).exists()

    @property
    def resumable(self) -> bool:
        """Whether there is a run to go on with."""
        return self.plan.exists() or self.stopped

    def stopped_plan(self) -> Plan:
        """The plan of the run to go on with. Raises UsageError where there is none, PlanError."""
        if not self.plan.exists() and self.stopped:
            return plan.read(self.aside / self.plan.name)
        self.require_plan()
        return plan.read(self.plan)

    def require_plan(self) -> None:
        """Raise UsageError where there is no run to go on with."""
        if not self.plan.exists():
            raise UsageError(f"{self.plan}: no replay to resume; start one without --resume")

    def begin(self, planned: Plan) -> None:
        """Write the plan, whole or not at all: one that is there can be gone on with."""
        plan.write(planned, self._making)
        self._making.replace(self.plan)

    @property
    def _making(self) -> Path:
        return self.plan.with_name(f"{self.plan.name}.new")

    def remove(self) -> None:
        """Remove all, where they are."""
        for path in (self.plan, self._making, self.journal, *self.journals(), *self.counters()):
            path.unlink(missing_ok=True)

    def put_aside(self) -> None:
        """Move the files of a stopped run out of the way."""
        there = [path for path in (self.plan, *self.journals(), *self.counters()) if path.exists()]
        if there:
            self.aside.mkdir(exist_ok=True)
        for path in reversed(there):  # the plan last: without one, nothing is taken back
            path.replace(self.aside / path.name)
        self.remove()

    def take_back(self) -> None:
        """Put the stopped run that was put aside, if any, in the place of what is there.

        The plan goes first and came last: where a process was killed between its files, those that lie aside belong to
        the plan that is there.
        """
        if self.stopped:
            self.remove()
        if self.aside.is_dir():
            for path in sorted(self.aside.iterdir(), key=lambda path: path.name != self.plan.name):
                path.replace(self.plan.with_name(path.name))
        self.forget()

    def forget(self) -> None:
        """Remove what was put aside, in one step."""
        if self.aside.is_dir():
            gone = Path(tempfile.mkdtemp(prefix=f"{self.aside.name}-", dir=self.aside.parent))
            self.aside.replace(gone)
            shutil.rmtree(gone, ignore_errors=True)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Be the only process that replays into the database. Raises UsageError where another one does.

        Raises WarehouseError where one of the files is a link.
        """
        beside = self.plan.parent.glob(f"{glob.escape(self.journal.name)}*")
        require_own(*beside, *(self.aside.iterdir() if self.aside.is_dir() else ()))
        path = self.plan.with_name(f"{self.plan.name}.lock")
        file = _locked(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            file.close()


def _locked(path: Path) -> IO[str]:
    """The lock file at `path`, locked, with the number of this process in it. Raises UsageError."""
    while True:
        file = path.open("a+", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            message = f"{path}: process {file.read().strip() or '?'} replays into this database; wait for it or end it"
            file.close()
            raise UsageError(message) from None
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                file.truncate(0)
                file.write(f"{os.getpid()}\n")
                file.flush()
                return file
        file.close()  # the process that had it was done, and removed it, between the two
