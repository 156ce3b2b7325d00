"""Kill commands that write, at each call that changes a file, and look what is left: `python -m tests.fuzz.killing`.

What was killed is given again, and must end as if nothing had been. The same with a disk that is full, or cannot be
written, from such a call on. Where there is no C compiler to build what counts the calls, kills come when the process
has used so much processor time, so that a busy machine kills at the same moments.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import functools
import itertools
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kerneldb.errors import WarehouseError
from tests.fuzz import calls, scenes
from tests.fuzz.calls import Trap
from tests.fuzz.scenes import COMMANDS, LAKE, NAME, Command, Contents, Files, Scene
from tests.fuzz.totals import Totals

EARLIEST_S: Final = 0.004
ROOM: Final = 2 << 20
"""Bytes that any of the commands makes a file grow by."""
FULL: Final = ("space", "File too large", "read-only", "Read-only", "denied", "disk is full", "readonly")
"""What a message about a disk says."""
WHOLE: Final = (0, 1)
Share = tuple[int, int]
"""Which of so many parts."""
KEPT_BY_LAKES: Final = (LAKE, f"{LAKE}.commit", "data", "data/")
"""A lake may hold files that no snapshot knows, until `compact` removes them a day later."""
NO_COMPILER: Final = "There is no C compiler (cc) to build what counts calls: commands are killed by time only.\n"
NO_LAKE: Final = "There are no DuckDB extensions for lakes here: their commands are left out.\n"


@dataclasses.dataclass(slots=True)
class Trial:
    """A command, what it begins with, and what it leaves."""

    scene: Scene
    name: str
    command: Command
    begin: Files
    before: Contents
    after: Contents
    cpu_s: float
    calls: int

    @classmethod
    def of(cls, scene: Scene, name: str) -> Trial:
        """Run the command once, as nothing happens to it."""
        command = COMMANDS[name]
        begin = scene.begin(command.begins)
        if "FILLED" in command.words:
            scene.begin("filled")
        scene.fresh(begin)
        before = scene.contents(lake=command.lake)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        counts = 0
        if calls.is_loaded():
            status, counts = scene.counted(Trap(0, calls.COUNTS), *command.words, database=command.database)
        else:
            status = scene.run(*command.words, database=command.database)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        after = scene.contents(lake=command.lake)
        if status or isinstance(before, str) or isinstance(after, str):
            raise RuntimeError(f"{name}: {scene.said.read_text()}")
        cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        return cls(scene, name, command, begin, before, after, cpu_s, counts)

    def killed_in_time(self, part: float) -> str | None:
        """What is wrong after a kill at this part of the time; None where all is well."""
        scene = self.scene
        scene.fresh(self.begin)
        cpu_s = max(EARLIEST_S, part * self.cpu_s)
        status = scene.run(*self.command.words, database=self.command.database, cpu_s=cpu_s)
        if status not in (0, -signal.SIGPROF):
            return f"not killed but {status}: {scene.said.read_text()}"
        return self._completed()

    def killed(self, number: int, way: int) -> str | None:
        """What is wrong after a kill at the call `number`, before it or in the middle of it."""
        status = self._trapped(Trap(number, way))
        if status not in (0, -signal.SIGKILL):  # the order of calls of threads differs
            return f"not killed but {status}: {self.scene.said.read_text()}"
        return self._completed()

    def failed(self, number: int, error: int) -> str | None:
        """What is wrong with how it ends where the call `number` and all after it fail."""
        return self._refused(self._trapped(Trap(number, calls.FAILS, error)))

    def _trapped(self, trap: Trap) -> int:
        self.scene.fresh(self.begin)
        return self.scene.counted(trap, *self.command.words, database=self.command.database)[0]

    def _completed(self) -> str | None:
        """Whether the database is whole, and the same command completes what was begun."""
        scene, command = self.scene, self.command
        touched = not scene.untouched(self.begin)
        now = scene.contents(lake=command.lake) if touched else self.before
        if isinstance(now, str) and (LAKE if command.lake else NAME) not in self.begin:
            now = {}  # cut short in the making: the command below makes it anew
        if isinstance(now, str):
            return f"cannot be read: {now}"
        if (
            touched
            and command.begins in ("filled", "planned", "lake")
            and scene.run("traces", database=command.database)
        ):
            return f"cannot be asked: {scene.said.read_text()}"
        is_done = self._same(now, self.after)
        if command.once and not (is_done or self._same(now, self.before) or _is_empty(now)):
            return f"neither before nor after: {_differing(now, self.after)}"
        if is_done and ("--remove" in command.words or command.resumes):
            return None
        if problem := self._again():
            return problem
        now = scene.contents(lake=command.lake)
        if isinstance(now, str) or not self._same(now, self.after):
            return f"lost or doubled: {now if isinstance(now, str) else _differing(now, self.after)}"
        left = {one for one in scene.left() - {NAME} if not (command.needs_lakes and one.startswith(KEPT_BY_LAKES))}
        left -= {f"{NAME}.wal"} if is_done else set()
        return f"left behind: {left}" if left else None

    def _again(self) -> str | None:
        """Give the command again; what is wrong with that."""
        scene, command = self.scene, self.command
        words = [command.words]
        if command.resumes and any(file.endswith((".replay-plan", ".stopped")) for file in scene.left()):
            words = [(*command.words[:4], "--resume")]
        for one in words:
            if scene.run(*one, database=command.database):
                return f"does not complete: {scene.said.read_text()}"
        return None

    def _same(self, one: Contents, other: Contents) -> bool:
        if self.command.same:
            return one == other
        return {table: len(rows) for table, rows in one.items()} == {table: len(rows) for table, rows in other.items()}

    def full(self, part: float) -> str | None:
        """What is wrong with how it ends where no file can grow by more than a part of what it writes.

        What a file has already it can always write: a disk that is full does not take it away.
        """
        scene = self.scene
        scene.fresh(self.begin)
        most = max(map(len, self.begin.values()), default=0) + max(1, int(part * ROOM))
        prepare = functools.partial(scenes.limit_size, most)
        return self._refused(scene.run(*self.command.words, database=self.command.database, prepare=prepare))

    def read_only(self) -> str | None:
        """What is wrong with how it ends where the folder cannot be written."""
        scene = self.scene
        scene.fresh(self.begin)
        for name in self.begin:
            (scene.home / name).chmod(0o444)
        scene.home.chmod(0o555)
        status = scene.run(*self.command.words, database=self.command.database, prepare=scenes.obey_modes)
        scene.home.chmod(0o755)
        return self._refused(status)

    def _refused(self, status: int) -> str | None:
        said = self.scene.said.read_text(errors="replace")
        if status and ("Traceback" in said or "report it" in said or not any(word in said for word in FULL)):
            return f"exit {status}: {said}"
        return self._completed()


def _is_empty(now: Contents) -> bool:
    """Whether this is what a command that makes a database begins with."""
    return not now.get("traces")


def _differing(one: Contents, other: Contents) -> dict[str, tuple[int, int]]:
    tables = {*one, *other}
    return {
        table: (len(one.get(table, [])), len(other.get(table, [])))
        for table in sorted(tables)
        if one.get(table) != other.get(table)
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """An interruption: what was done to which command and when, and what is wrong after it."""

    command: str
    kind: str
    when: str
    problem: str | None


def trials(scene: Scene, names: Sequence[str], each: int, share: Share = WHOLE) -> Iterator[Tried]:
    """Interrupted commands, `each` kills of each, or a share of them."""
    for name in names:
        trial = Trial.of(scene, name)
        yield from at_calls(trial, each, share) if trial.calls else in_time(trial, each)
        yield Tried(name, "read-only folder", "", trial.read_only())


def spread(count: int, most: int) -> list[int]:
    """So many of the numbers from 1 to `most`, evenly spread; all where there are no more."""
    count = min(count, most)
    return sorted({1 + (2 * number + 1) * most // (2 * count) for number in range(count)})


def at_calls(trial: Trial, each: int, share: Share) -> Iterator[Tried]:
    """Kills before and in the middle of calls, half of them each; full and read-only disks from a call on."""
    first, step = share
    for way, kind in ((calls.ENDS, "killed before a call"), (calls.ENDS_HALFWAY, "killed in a call")):
        for number in spread(each // 2, trial.calls)[first::step]:
            yield Tried(trial.name, kind, f"call {number} of {trial.calls}", trial.killed(number, way))
    for error in (errno.ENOSPC, errno.EROFS):
        for number in spread(each // 4, trial.calls)[first::step]:
            when = f"from call {number} of {trial.calls} on"
            yield Tried(trial.name, errno.errorcode[error], when, trial.failed(number, error))


def in_time(trial: Trial, each: int) -> Iterator[Tried]:
    """Kills spread over the time of the command, and full disks."""
    for number in range(each):
        part = (number + 0.5) / each
        when = f"at {part:.1%} of {trial.cpu_s:.2f} s"
        yield Tried(trial.name, "killed in time", when, trial.killed_in_time(part))
    for number in range(each // 2):
        part = (number + 0.5) / (each // 2)
        yield Tried(trial.name, "disk full", f"at {part:.1%}", trial.full(part))


def _has_lakes() -> bool:
    """In a process of its own: the engine starts threads."""
    import duckdb

    from kerneldb.warehouse import lakes

    with duckdb.connect() as con:
        try:
            for name in ("ducklake", "sqlite_scanner"):
                lakes.load_extension(con, name)
        except WarehouseError:
            return False
    return True


def run(given: argparse.Namespace) -> int:
    """Interrupt commands, and print what is wrong, and how often what was done."""
    scenes.preload()
    names = given.command or [*COMMANDS]
    if any(COMMANDS[name].needs_lakes for name in names) and scenes.forked(
        lambda: sys.exit(not _has_lakes()), Path(os.devnull)
    ):
        sys.stdout.write(NO_LAKE)
        names = [name for name in names if not COMMANDS[name].needs_lakes]
    totals = Totals(given.totals)
    totals.write()
    for number, tried in _as_asked(names, given):
        what = f"{tried.command}: {tried.kind}"
        said = None if tried.problem is None else f"{what} {tried.when} (--scene {number}): {tried.problem}"
        totals.add(number, what, said)
        if said is not None:
            sys.stdout.write(f"{said}\n")
            sys.stdout.flush()
    totals.finish()
    done, wrong = totals.done(), len(totals.findings)
    sys.stdout.writelines(f"{count} × {what}\n" for what, count in done.items())
    sys.stdout.write(f"{done.total()} interrupted commands in {totals.seconds():.0f} s: {wrong} findings\n")
    return min(wrong, 1)


def _as_asked(names: Sequence[str], given: argparse.Namespace) -> Iterator[tuple[int, Tried]]:
    """The interruptions of a scene, or of one after the other as long as there is time, each with its number."""
    part, parts = map(int, given.shard.split("/"))
    ends = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    for number in itertools.count(given.scene):
        with tempfile.TemporaryDirectory() as folder:
            scene = Scene(Path(folder), number)
            for tried in trials(scene, names, given.each or 1 << 20, (part - 1, parts)):
                yield number, tried
                if ends is not None and time.monotonic() > ends:
                    return
        if ends is None:
            return


def main() -> int:
    """Run what the arguments ask for, in a process that begins with what counts the calls."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.killing", description=__doc__)
    parser.add_argument("--each", type=int, default=10, help="so many kills of each command; 0: at every call")
    parser.add_argument("--command", action="append", choices=[*COMMANDS], help="only this one; may be repeated")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="only the I-th of N parts of the kills")
    parser.add_argument("--scene", type=int, default=0, help="another number: larger databases, with other traces")
    parser.add_argument("--minutes", type=float, help="as many as there is time for, with one scene after the other")
    parser.add_argument("--totals", type=Path, help="a JSON file with the interruptions so far, at any time")
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inner:
        return run(given)
    with tempfile.TemporaryDirectory(prefix="kill-") as folder:
        (Path(folder) / "tmp").mkdir()
        library = calls.built(Path(folder))
        if library is None:
            sys.stdout.write(NO_COMPILER)
        loaded = {"LD_PRELOAD": str(library)} if library else {}
        environment = {**os.environ, **loaded, "TMPDIR": str(Path(folder) / "tmp")}
        words = [sys.executable, "-m", "tests.fuzz.killing", "--inner", *sys.argv[1:]]
        return subprocess.run(words, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
