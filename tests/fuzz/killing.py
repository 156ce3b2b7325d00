"""Kill commands that write, at moments all over what they take, and look what is left: `python -m tests.fuzz.killing`.

A kill comes when the process has used so much processor time, so that a busy machine kills at the same moments. What
was killed is given again, and must end as if nothing had been.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import functools
import importlib
import json
import lzma
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb.cli import cli
from tests.conftest import ROOT
from tests.ingest.traces import everything, kineto

Contents = dict[str, list[str]]
NAME: Final = "k.duckdb"
EARLIEST_S: Final = 0.004
NOT_COMPARED: Final = ("ingested_at", "applied_at", "archived_at", "seconds", "path", "name")
PRELOADED: Final = (
    "polars",
    "duckdb",
    "pyarrow",
    "kerneldb.warehouse",
    "kerneldb.ingest.pytorch.convert",
    "kerneldb.derive",
)
"""What each command would take time to import. None of it starts a thread, which a fork would lose."""
ROOM: Final = 2 << 20
"""Bytes that any of the commands makes a file grow by."""
CAPABILITY_VERSION: Final = 0x20080522
FULL: Final = ("space", "File too large", "read-only", "Read-only", "denied")
"""What a message about a disk says."""


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A command that writes; `begins` says with which files. Words in capitals are names of files."""

    words: tuple[str, ...]
    begins: str
    opens: bool = True
    """Whether the file can be asked before the command is done: one of an older version waits for it."""
    same: bool = True
    """Whether it leaves the same rows each time."""


COMMANDS: Final = {
    "ingest": Command(("ingest", "TRACE"), "nothing"),
    "ingest another": Command(("ingest", "OTHER"), "filled"),
    "replace": Command(("ingest", "--replace", "TRACE"), "filled"),
    "remove": Command(("traces", "trace", "--remove", "--yes"), "filled"),
    "refresh": Command(("db", "refresh", "--all"), "filled"),
    "migrate": Command(("db", "migrate"), "old"),
    "copy": Command(("lake", "pull", "--from", "FILLED"), "nothing"),
    "journal": Command(("replay", "--write-plan", "PLAN", "--read-journal", "JOURNAL"), "planned", same=False),
}


def forked(work: Callable[[], object], said: Path, cpu_s: float | None = None) -> int:
    """The exit status of a process that does `work` and prints into `said`; it is killed after `cpu_s` of its own."""
    pid = os.fork()
    if pid == 0:
        out = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if cpu_s is not None:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process at once, as SIGKILL does
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
        code = 70
        try:
            work()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 70
        except BaseException as error:  # noqa: BLE001 (a child that went on would be a second parent)
            sys.stderr.write(f"Traceback: {error!r}\n")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def contents(path: Path) -> Contents:
    """The rows of all tables, whenever they were written."""
    import duckdb

    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS w (TYPE duckdb, READ_ONLY)")
        con.execute("USE w")
        tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'w'").fetchall()
        kept = f"COLUMNS(lambda c: c NOT IN {NOT_COMPARED})"
        return {table: sorted(map(repr, con.execute(f"SELECT {kept} FROM {table}").fetchall())) for (table,) in tables}


class Scene:
    """Files that commands begin with, and what they leave when nothing happens to them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said = root / "said"
        self.home = root / "home"
        self.files = {"TRACE": root / "trace.json", "OTHER": root / "other.json", "FILLED": root / "filled.duckdb"}
        text = kineto(everything())
        self.files["TRACE"].write_text(text, encoding="utf-8")
        self.files["OTHER"].write_text(text.replace("gemm", "gemv"), encoding="utf-8")
        self.run("ingest", "TRACE", database=self.files["FILLED"])
        self._begin = {"filled": self.files["FILLED"].read_bytes()}

    def begin(self, what: str) -> bytes | None:
        """The database that a command begins with."""
        if what == "old":
            self._begin[what] = lzma.decompress((ROOT / "tests/fixtures/kernels-0.1.0.duckdb.xz").read_bytes())
        elif what == "planned" and what not in self._begin:
            folder = self.root / "healthy"
            folder.mkdir()
            forked(functools.partial(_healthy, folder), self.said)
            self.files |= {"PLAN": folder / "p", "JOURNAL": folder / "j"}
            self._begin[what] = (folder / "k.duckdb").read_bytes()
        return self._begin.get(what)

    def run(self, *words: str, database: Path | None = None, cpu_s: float | None = None, **how: Any) -> int:
        """The exit status of a command."""
        place = database or self.home / NAME
        given = [str(self.files.get(word, word)) for word in words]

        def work() -> None:
            for limit, value in how.items():
                _limited(limit, value)
            cli.main(["--db", str(place), *given])

        return forked(work, self.said, cpu_s)

    def fresh(self, begin: bytes | None) -> None:
        """The folder as a command finds it."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        if begin is not None:
            (self.home / NAME).write_bytes(begin)

    def contents(self) -> Contents | str:
        """What the database holds, or why it cannot be asked."""
        path, kept = self.home / NAME, self.root / "contents"
        if not path.exists():
            return {}
        status = forked(lambda: kept.write_text(json.dumps(contents(path)), encoding="utf-8"), self.said)
        if status:
            return self.said.read_text(errors="replace")
        found: Contents = json.loads(kept.read_text(encoding="utf-8"))
        return found

    def left(self) -> set[str]:
        """What is in the folder."""
        return {str(path.relative_to(self.home)) for path in self.home.rglob("*")}


def _healthy(folder: Path) -> None:
    from tests.replay_host.test_damaged_files import make_healthy

    made = make_healthy(folder)
    (folder / "p").write_bytes(made.plan)
    (folder / "j").write_bytes(made.journal)


def _limited(limit: str, value: int) -> None:
    """In the process: no file grows beyond `most_bytes`, or modes of files hold for root, too."""
    if limit == "most_bytes":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (value, value))
    elif ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()):
        raise OSError("capset")


@dataclasses.dataclass(slots=True)
class Trial:
    """A command, what it begins with, and what it leaves."""

    scene: Scene
    name: str
    command: Command
    begin: bytes | None
    before: Contents
    after: Contents
    cpu_s: float

    @classmethod
    def of(cls, scene: Scene, name: str) -> Trial:
        """Run the command once, as nothing happens to it."""
        command = COMMANDS[name]
        begin = scene.begin(command.begins)
        scene.fresh(begin)
        before = scene.contents()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = scene.run(*command.words)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        after = scene.contents()
        if status or isinstance(before, str) or isinstance(after, str):
            raise RuntimeError(f"{name}: {scene.said.read_text()}")
        cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        return cls(scene, name, command, begin, before, after, cpu_s)

    def killed(self, part: float) -> str | None:
        """What is wrong after a kill at this part of the time; None where all is well."""
        scene = self.scene
        scene.fresh(self.begin)
        status = scene.run(*self.command.words, cpu_s=max(EARLIEST_S, part * self.cpu_s))
        if status not in (0, -signal.SIGPROF):
            return f"not killed but {status}: {scene.said.read_text()}"
        return self._completed()

    def _completed(self) -> str | None:
        """Whether the database is whole, and the same command completes what was begun."""
        scene = self.scene
        if self.command.begins in ("filled", "planned") and scene.run("traces"):
            return f"cannot be read: {scene.said.read_text()}"
        now = scene.contents()
        if isinstance(now, str) and self.command.begins == "nothing":
            now = {}  # cut short in the making: the command below makes it anew
        if isinstance(now, str):
            return f"cannot be read: {now}"
        is_done = self._same(now, self.after)
        if self.command.begins == "filled" and not (is_done or self._same(now, self.before)):
            return f"neither before nor after: {_differing(now, self.after)}"
        if "--remove" in self.command.words and is_done:
            return None
        if scene.run(*self.command.words):
            return f"does not complete: {scene.said.read_text()}"
        now = scene.contents()
        if isinstance(now, str) or not self._same(now, self.after):
            return f"lost or doubled: {now if isinstance(now, str) else _differing(now, self.after)}"
        left = scene.left() - {NAME} - ({f"{NAME}.wal"} if is_done else set())
        return f"left behind: {left}" if left else None

    def _same(self, one: Contents, other: Contents) -> bool:
        if self.command.same:
            return one == other
        return {table: len(rows) for table, rows in one.items()} == {table: len(rows) for table, rows in other.items()}

    def full(self, part: float) -> str | None:
        """What is wrong with how it ends on a disk that is full after a part of what it writes.

        What a file has already it can always write: a disk that is full does not take it away.
        """
        scene = self.scene
        scene.fresh(self.begin)
        status = scene.run(*self.command.words, most_bytes=len(self.begin or b"") + max(1, int(part * ROOM)))
        return self._refused(status)

    def read_only(self) -> str | None:
        """What is wrong with how it ends where the folder cannot be written."""
        scene = self.scene
        scene.fresh(self.begin)
        (scene.home / NAME).chmod(0o444) if self.begin else None
        scene.home.chmod(0o555)
        status = scene.run(*self.command.words, bare_root=1)
        scene.home.chmod(0o755)
        return self._refused(status)

    def _refused(self, status: int) -> str | None:
        said = self.scene.said.read_text(errors="replace")
        if status and ("Traceback" in said or "report it" in said or not any(word in said for word in FULL)):
            return f"exit {status}: {said}"
        return self._completed()


def _differing(one: Contents, other: Contents) -> dict[str, tuple[int, int]]:
    tables = {*one, *other}
    return {
        table: (len(one.get(table, [])), len(other.get(table, [])))
        for table in sorted(tables)
        if one.get(table) != other.get(table)
    }


def trials(scene: Scene, names: Sequence[str], each: int) -> Iterator[tuple[str, str | None]]:
    """Kills of each command, spread over its time, then full and read-only disks: what was done, and what is wrong."""
    for name in names:
        trial = Trial.of(scene, name)
        for number in range(each):
            part = (number + 0.5) / each
            yield f"{name}: killed at {part:.1%} of {trial.cpu_s:.2f} s", trial.killed(part)
        for number in range(each // 4):
            part = (number + 0.5) / (each // 4)
            yield f"{name}: disk full at {part:.1%}", trial.full(part)
        yield f"{name}: read-only folder", trial.read_only()


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.killing", description=__doc__)
    parser.add_argument("--each", type=int, default=10, help="so many kills of each command")
    parser.add_argument("--command", action="append", choices=[*COMMANDS], help="only this one; may be repeated")
    given = parser.parse_args()
    for module in PRELOADED:
        importlib.import_module(module)
    began, wrong, done = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="kill-") as folder:
        for what, problem in trials(Scene(Path(folder)), given.command or [*COMMANDS], given.each):
            done += 1
            if problem is not None:
                wrong += 1
                sys.stdout.write(f"{what}: {problem}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{done} interrupted commands in {time.monotonic() - began:.0f} s: {wrong} findings\n")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
