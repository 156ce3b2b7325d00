"""Damages a file, reads it as `kerneldb ingest` does, and says what must not be: a finding, or nothing.

A case is drawn by (seed, format, number) alone. The rows of what was read go into a real schema and are rolled back;
now and then a trace is committed and asked about.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

import kerneldb
from kerneldb import ingest, repeated
from kerneldb.api import ingestion
from kerneldb.api.ingestion import IngestOptions, Outcome
from kerneldb.errors import TraceError
from kerneldb.warehouse import commit, migrate, session
from kerneldb.warehouse.engine import store_errors
from kerneldb.warehouse.place import Place
from tests.fuzz.corpus import FORMATS, Format, Sample
from tests.fuzz.files_of_ours import OURS
from tests.fuzz.mutations import traced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kerneldb.batch import Manifest
    from kerneldb.ingest import Unit

LONGEST: Final = 1_000
"""Characters of a message."""
GROWTH: Final = 2 << 30
ASKED_EVERY: Final = 40
NAMES: Final = (*FORMATS, *OURS)
QUESTIONS: Final = ("FROM trace_overview", "FROM gpu_time()", "FROM top_kernels()", "FROM time_by('category')")
EVENTS: Final = ("launches", "ops", "api_calls", "sync_events", "memory_events")
ACCOUNTED: Final = ("stored", "skipped", "lost", "refused")
WHOLE: Final = ("stored", "skipped", "lost")


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What a case did that no input may do; `said` is the message or the traceback."""

    format: str
    seed: int
    case: int
    problem: str
    said: str = ""

    def __str__(self) -> str:
        command = f"python -m tests.fuzz --seed {self.seed} --format {self.format} --case {self.case}"
        return f"{self.problem}\n  {command}\n  {self.said}"


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """Of a trace: events that were read, the most rows of one table of events, and the report."""

    events: int
    rows: int
    told: list[tuple[str, str, int]]


class Rows:
    """A store that takes the rows of each trace as a database does, and forgets them."""

    def __init__(self) -> None:
        self._con = duckdb.connect()
        self._con.execute("ATTACH ':memory:' AS warehouse")
        self._con.execute("USE warehouse")
        migrate.make_scratch(self._con)
        self.sums: list[Sums] = []

    def batch(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def held(self, unit: Unit) -> list[tuple[str, str]]:
        ingest.trace_keys(unit)
        return []

    def commit(self, manifest: Manifest, *, replace: bool, tags: Mapping[str, str]) -> commit.Added:
        with store_errors(Place(Path("scratch"))):
            self._con.execute("BEGIN")
            try:
                added = commit.commit(self._con, manifest, replace=replace, tags=tags)
            finally:
                with contextlib.suppress(duckdb.Error):
                    self._con.execute("ROLLBACK")
        self.sums.append(_counted(manifest))
        return added


@dataclasses.dataclass(slots=True)
class Room:
    """Where cases run: a folder, the store, and a database for those that are committed."""

    folder: Path
    rows: Rows
    done: int = 0

    @classmethod
    def make(cls, folder: Path) -> Room:
        (folder / "k.duckdb").unlink(missing_ok=True)
        return cls(folder, Rows())

    def fresh(self) -> Path:
        """An empty folder for the files of a case."""
        place = self.folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place


def damaged(name: str, seed: int, case: int) -> Sample:
    """The files of a case."""
    one = FORMATS[name]
    samples = one.all()
    dice = random.Random(f"{seed}/{name}/{case}")
    sample = dict(samples[case % len(samples)])
    found = [file for file in sample if file.endswith(one.files)]
    chosen = dice.choice(found)
    sample[chosen] = one.mutate(dice, sample[chosen])
    if not one.files and chosen.endswith((".json", ".csv")) and dice.random() < 0.05:
        sample[f"{chosen}.gz"] = gzip.compress(sample.pop(chosen), mtime=0)[: dice.choice((None, -4, -20))]
    return sample


def written(sample: Sample, folder: Path) -> None:
    for name, content in sample.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def attempt(room: Room, name: str, seed: int, case: int) -> Finding | None:
    """Run a case."""
    finding = functools.partial(Finding, name, seed, case)
    folder = room.fresh()
    if name in OURS:
        try:
            problem = OURS[name](random.Random(f"{seed}/{name}/{case}"), folder)
        finally:
            session.release_all()
        return None if problem is None else finding(*problem)
    one = FORMATS[name]
    sample = damaged(name, seed, case)
    written(sample, folder)
    try:
        outcomes = list(_ingested(room.rows, folder, one))
    except BaseException as error:  # what no command line could take for an error of the input
        if isinstance(error, KeyboardInterrupt):
            raise
        return finding("ends the batch", traced(error))
    return (
        _first(finding, (_judged(outcome, folder) for outcome in outcomes))
        or _first(finding, (_sums(one, sums) for sums in room.rows.sums))
        or _first(finding, iter([_uncounted(one, sample, room.rows.sums)]))
        or _asked(finding, room, folder, one, outcomes)
    )


def _ingested(rows: Rows, folder: Path, one: Format) -> Iterator[Outcome]:
    rows.sums.clear()
    given = [folder] if one.whole else sorted(path for path in folder.rglob("*") if path.is_file())
    yield from ingestion.ingest_each(rows, folder / "k.duckdb", given, IngestOptions(time_zone="UTC"), None)


def _first(finding: Callable[..., Finding], problems: Iterator[tuple[str, str] | None]) -> Finding | None:
    found = next((problem for problem in problems if problem is not None), None)
    return None if found is None else finding(*found)


def _judged(outcome: Outcome, folder: Path) -> tuple[str, str] | None:
    """What is wrong with how a file was refused."""
    error = outcome.error
    if error is None:
        return None
    said = str(error)
    shown = f"{type(error).__name__}: {said}\n{traced(error.__cause__)}"
    if not isinstance(error, TraceError):
        return "refused with an error that is not of the trace", shown
    if "report it" in said:
        return "asks for a report", shown
    if "\n" in said or not said.isprintable():
        return "more than one printable line", repr(said)
    if len(said) > LONGEST:
        return f"a message of {len(said)} characters", said[:300]
    if str(folder) not in said:
        return "names no file", shown
    return None


def _counted(manifest: Manifest) -> Sums:
    files = ingestion.read_part(manifest, "trace_files", ["events"])
    report = ingestion.read_part(manifest, "ingest_reports", ["outcome", "reason", "n"])
    events = sum(row["events"] or 0 for row in files)
    told = [(row["outcome"], row["reason"], row["n"]) for row in report]
    return Sums(events, max((manifest.rows.get(table, 0) for table in EVENTS), default=0), told)


def _sums(one: Format, sums: Sums) -> tuple[str, str] | None:
    """Whether an event is in no line of the report, or became several rows of one table."""
    counted = [line for line in sums.told if not line[1].endswith(repeated.LEFT_OUT)]  # those are of stored rows
    found = sum(n for outcome, _, n in counted if outcome in ACCOUNTED)
    if not one.told or sums.rows <= sums.events <= found:
        return None
    return f"{sums.events} events, {found} accounted for, {sums.rows} rows of a table", str(sums.told)


def _uncounted(one: Format, sample: Sample, read: list[Sums]) -> tuple[str, str] | None:
    """Whether what was read and what was refused of a file add up to what it holds, where that can be counted."""
    held = one.counted(next(iter(sample.values()))) if len(sample) == len(read) == 1 else None
    if held is None:
        return None
    (sums,) = read
    found = sum(n for outcome, _, n in sums.told if outcome in WHOLE)
    if held == found and sums.events <= held:
        return None
    return f"{held} events of the file, {sums.events} read, {found} accounted for", str(sums.told)


def _asked(
    finding: Callable[..., Finding], room: Room, folder: Path, one: Format, outcomes: list[Outcome]
) -> Finding | None:
    """Now and then: what was read is committed to a database, and all questions are answered."""
    if not any(outcome.status == "ingested" for outcome in outcomes):
        return None
    room.done += 1
    if room.done % ASKED_EVERY:
        return None
    path = room.folder / "k.duckdb"
    database = kerneldb.open(path)
    try:
        given = [folder] if one.whole else sorted(path for path in folder.rglob("*") if path.is_file())
        done = list(database.ingest_each(given, IngestOptions(time_zone="UTC")))
        for question in QUESTIONS:
            database.sql(question)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return finding("a question or a commit fails", traced(error))
    finally:
        database.close()
        path.unlink(missing_ok=True)
    left = [file.name for file in room.folder.iterdir() if "spool" in file.name]
    same = [one.status == "failed" for one in done] == [one.status == "failed" for one in outcomes]
    return None if same and not left else finding("another outcome, or something left", f"{done} {left}")


def peak_bytes() -> int:
    """The most memory that this process held since `forget_peak`."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return 0


def forget_peak() -> None:
    """Begin anew to measure the peak."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def run(room: Room, name: str, seed: int, case: int) -> Finding | None:
    """Run a case, and watch memory."""
    forget_peak()
    before = peak_bytes()
    found = attempt(room, name, seed, case)
    grown = peak_bytes() - before
    if found is None and grown > GROWTH:
        return Finding(name, seed, case, f"memory grew by {grown >> 20} MiB")
    return found
