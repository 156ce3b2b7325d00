"""Commands that write, the files that each begins with, and what their databases hold."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib
import json
import lzma
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kerneldb.cli import cli
from tests.conftest import ROOT
from tests.fuzz import calls
from tests.ingest.traces import LAYOUTS, T0, everything, kineto

Contents = dict[str, list[str]]
Files = Mapping[str, bytes]
NAME: Final = "k.duckdb"
LAKE: Final = "lake.sqlite"
NOT_COMPARED: Final = (
    "ingested_at", "applied_at", "archived_at", "started", "seconds", "path", "name", "run_id"
)  # fmt: skip
PRELOADED: Final = (
    "polars",
    "duckdb",
    "pyarrow",
    "kerneldb.warehouse",
    "kerneldb.warehouse.lakes",
    "kerneldb.warehouse.transfer",
    "kerneldb.api.replaying",
    "kerneldb.ingest.pytorch.convert",
    "kerneldb.derive",
)
"""What each command would take time to import. None of it starts a thread, which a fork would lose."""
CAPABILITY_VERSION: Final = 0x20080522


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A command that writes; `begins` says with which files. Words in capitals are names of files."""

    words: tuple[str, ...]
    begins: str
    same: bool = True
    """Whether it leaves the same rows each time."""
    once: bool = True
    """Whether a kill leaves the rows before or those after, and nothing between."""
    resumes: bool = False
    """Whether `--resume` goes on, where something was begun."""
    lake: bool = False
    """Whether it writes a lake."""
    database: str = ""
    """The database of the command, where it is not the file."""

    @property
    def needs_lakes(self) -> bool:
        """Whether it reads or writes a lake."""
        return self.lake or "LAKE" in self.words


REPLAY: Final = ("replay", "--device", "cpu", "--no-energy", "--trace", "stacks-memory-h200")
COMMANDS: Final = {
    "ingest": Command(("ingest", "TRACE"), "nothing"),
    "ingest another": Command(("ingest", "OTHER"), "filled"),
    "replace": Command(("ingest", "--replace", "TRACE"), "filled"),
    "remove": Command(("traces", "trace", "--remove", "--yes"), "filled"),
    "refresh": Command(("db", "refresh", "--all"), "filled"),
    "migrate": Command(("db", "migrate"), "old", once=False),
    "copy": Command(("db", "lake", "pull", "--from", "FILLED"), "nothing"),
    "journal": Command(
        ("replay", "--write-plan", "PLAN", "--read-journal", "JOURNAL"), "planned", same=False, once=False
    ),
    "replay": Command(REPLAY, "planned", same=False, once=False, resumes=True),
    "make a lake": Command(("db", "init", "--data", "DATA"), "nothing", once=False, lake=True, database="LAKE"),
    "push": Command(("db", "lake", "push", "--to", "LAKE"), "lake", lake=True),
    "ingest into a lake": Command(("ingest", "OTHER"), "lake", lake=True, database="LAKE"),
    "pull": Command(("db", "lake", "pull", "--from", "LAKE"), "stocked"),
    "remove from a lake": Command(("traces", "trace", "--remove", "--yes"), "stocked", lake=True, database="LAKE"),
    "compact": Command(("db", "lake", "compact"), "stocked", lake=True, database="LAKE"),
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


def preload() -> None:
    """Import what the commands need, for the processes that will be forked."""
    for module in PRELOADED:
        importlib.import_module(module)


def contents(place: str) -> Contents:
    """The rows of all tables, whenever they were written."""
    from kerneldb.warehouse import lakes
    from kerneldb.warehouse.place import Place

    found = Place.of(place)
    if found.is_lake:
        with lakes.reading(found) as con:
            return _rows(con)
    import duckdb

    with duckdb.connect() as con:
        con.execute(f"ATTACH '{place}' AS warehouse (TYPE duckdb, READ_ONLY)")
        con.execute("USE warehouse")
        return _rows(con)


def _rows(con: Any) -> Contents:
    asked = (
        "SELECT table_name FROM duckdb_tables() "
        "WHERE database_name = 'warehouse' AND schema_name = 'main' AND table_name <> 'commit_lock'"
    )
    kept = f"COLUMNS(lambda c: c NOT IN {NOT_COMPARED})"
    return {
        table: sorted(map(repr, con.execute(f"SELECT {kept} FROM {table}").fetchall()))
        for (table,) in con.execute(asked).fetchall()
    }


def texts(number: int) -> list[str]:
    """Traces of a scene: what its commands take, another one, and those that its databases hold besides."""
    if number == 0:
        found, more = kineto(everything()), 0
    else:
        dice = random.Random(number)
        trace = everything()
        for at in range(T0 + 1_000_000, T0 + 1_000_000 + 1_000 * dice.randrange(3_000), 1_000):
            trace.api("cudaLaunchKernel", at, 200, at)
            trace.kernel(f"gemm_{at // 1000 % 70}", at + 300, 400, at)
        found, more = dice.choice([*LAYOUTS.values()])(trace), dice.randrange(1, 5)
    return [found, *(found.replace("gemm", name) for name in ("gemv", *(f"more{one}" for one in range(more))))]


class Scene:
    """A folder in which commands run, and what each begins with; scenes of other numbers have other traces."""

    def __init__(self, root: Path, number: int = 0) -> None:
        self.root = root
        self.said = root / "said"
        self.home = root / "home"
        self.lake = f"ducklake:sqlite:{self.home / LAKE}"
        self.files = {
            "TRACE": str(root / "trace.json"), "OTHER": str(root / "other.json"), "FILLED": str(root / "filled.duckdb"),
            "LAKE": self.lake, "DATA": str(self.home / "data"),
        }  # fmt: skip
        self.more = root / "more"
        self.more.mkdir(exist_ok=True)
        first, second, *others = texts(number)
        Path(self.files["TRACE"]).write_text(first, encoding="utf-8")
        Path(self.files["OTHER"]).write_text(second, encoding="utf-8")
        for at, text in enumerate(others):
            (self.more / f"more{at}.json").write_text(text, encoding="utf-8")
        self._begin: dict[str, Files] = {"nothing": {}}

    def begin(self, what: str) -> Files:
        """The files that a command begins with."""
        if what not in self._begin:
            self._begin[what] = getattr(self, f"_{what}")()
        return self._begin[what]

    def _filled(self) -> Files:
        path = Path(self.files["FILLED"])
        if self.run("ingest", "TRACE", *map(str, sorted(self.more.iterdir())), database=path):
            raise RuntimeError(self.said.read_text())
        return {NAME: path.read_bytes()}

    def _old(self) -> Files:
        return {NAME: lzma.decompress((ROOT / "tests/fixtures/kernels-0.1.0.duckdb.xz").read_bytes())}

    def _planned(self) -> Files:
        folder = self.root / "healthy"
        folder.mkdir()
        forked(functools.partial(_healthy, folder), self.said)
        self.files |= {"PLAN": str(folder / "p"), "JOURNAL": str(folder / "j")}
        return {NAME: (folder / "k.duckdb").read_bytes()}

    def _lake(self) -> Files:
        filled = self.begin("filled")
        self.fresh({})
        if self.run("db", "init", "--data", "DATA", database=self.lake):
            raise RuntimeError(self.said.read_text())
        return {**filled, **self.held()}

    def _stocked(self) -> Files:
        self.fresh(self.begin("lake"))
        if self.run("db", "lake", "push", "--to", "LAKE") or self.run("ingest", "OTHER", database=self.lake):
            raise RuntimeError(self.said.read_text())
        return {name: content for name, content in self.held().items() if name != NAME}

    def run(
        self,
        *words: str,
        database: Path | str = "",
        cpu_s: float | None = None,
        prepare: Callable[[], object] | None = None,
    ) -> int:
        """The exit status of a command; `prepare` runs before it in its process."""
        given = [str(self.files.get(word, word)) for word in words]

        def work() -> None:
            os.environ["XDG_CACHE_HOME"] = str(self.root / "cache")
            if words[0] == "replay":
                _stand_in_for_the_worker()
            if prepare is not None:
                prepare()
            place = self.files.get(str(database), database) or self.home / NAME
            cli.main(["--db", str(place), *given])

        return forked(work, self.said, cpu_s)

    def counted(self, trap: calls.Trap, *words: str, database: str = "") -> tuple[int, int]:
        """The exit status of a command that meets the trap, and how many calls it made that change files."""
        counter = calls.counter()
        status = self.run(*words, database=database, prepare=functools.partial(trap.set, self.home, counter))
        return status, calls.value(counter)

    def fresh(self, begin: Files) -> None:
        """The folder as a command finds it."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        for name, content in begin.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_bytes(content)

    def held(self) -> Files:
        """The files in the folder."""
        return {str(path.relative_to(self.home)): path.read_bytes() for path in self.home.rglob("*") if path.is_file()}

    def untouched(self, begin: Files) -> bool:
        """Whether the databases are as they were: only what is in the making lies beside them."""
        return {name: content for name, content in self.held().items() if ".spool-" not in name} == begin

    def contents(self, *, lake: bool = False) -> Contents | str:
        """What the database holds, or why it cannot be asked."""
        path, kept = self.home / (LAKE if lake else NAME), self.root / "contents"
        if not path.exists():
            return {}
        place = self.lake if lake else str(path)
        status = forked(lambda: kept.write_text(json.dumps(contents(place)), encoding="utf-8"), self.said)
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


def _stand_in_for_the_worker() -> None:
    """A replay needs no PyTorch then: each call fails, which is a result to store, too."""
    from kerneldb.replay.host import run
    from tests.replay_host.test_damaged_files import Stub

    vars(run)["WorkerProcess"] = Stub


def limit_size(most_bytes: int) -> None:
    """In a process: no file grows beyond that."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def obey_modes() -> None:
    """In a process: modes of files hold for root, too."""
    if ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()):
        raise OSError("capset")
