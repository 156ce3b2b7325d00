"""The journal of a replay run: what became of each planned item, written as soon as it is known.

JSON Lines, UTF-8, append only, flushed line by line: a run that is killed loses at most the item it was working on.

    {"kind": "run", "format": "kerneldb-replay-journal", "version": 1, "run": {…}}     the facts of the run
    {"kind": "call", "call": {…}}      one item under one cache state, with its kernels. A later line replaces an
                                       earlier one of the same item and cache; `final` false: still being worked on
    {"kind": "step", "result": {…}}    a step that was run in context, in one mode; a later line replaces an earlier one
    {"kind": "energy", "energy": {…}}  what the energies of all calls share; a later line replaces an earlier one
    {"kind": "power", "readings": […]} readings of the device during the energy measurement
    {"kind": "counters", "files": […]} what a counter profiler wrote of a batch of calls, in files beside the journal
    {"kind": "resume", "run": {…}}     the run went on later, with these facts
    {"kind": "end", "finished": true, "remaining": 0, "wall_s": 31.4}

A last line without its line end was cut by a crash, and is dropped. Standard library only.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from kerneldb import codec, files
from kerneldb.codec import Count
from kerneldb.recordings import Reading
from kerneldb.replay.errors import JournalError, JournalExistsError
from kerneldb.replay.wire import lines
from kerneldb.replay.wire.energy import EnergyFacts
from kerneldb.replay.wire.messages import Counters, Readings, Result, SharedEnergy, StepDone
from kerneldb.replay.wire.results import OK, SKIPPED, CallResult, RunFacts
from kerneldb.replay.wire.step_results import StepKernel, StepResult
from kerneldb.shell import command_line, file

FORMAT: Final = "kerneldb-replay-journal"
VERSION: Final = 1
BEGINNING: Final = b'{"kind": "run"'


@dataclass(frozen=True, slots=True)
class RunLine:
    """The header: the facts of the run."""

    run: RunFacts
    format: str
    version: Count


@dataclass(frozen=True, slots=True)
class ResumeLine:
    """The run went on."""

    run: RunFacts


@dataclass(frozen=True, slots=True)
class EndLine:
    """The run ended, `finished` or with items `remaining`, `wall_s` seconds after it began or was resumed."""

    finished: bool
    remaining: int = 0
    wall_s: float = 0.0


LINES: Final = codec.Tagged(
    "kind",
    run=RunLine,
    call=Result,
    step=StepDone,
    energy=SharedEnergy,
    power=Readings,
    counters=Counters,
    resume=ResumeLine,
    end=EndLine,
)


@dataclass(slots=True)
class Journal:
    """A journal read back. `calls` holds the last line of each item and cache state, in the order of the file."""

    run: RunFacts
    latest: dict[tuple[str, str], CallResult] = field(default_factory=dict)
    resumed: list[RunFacts] = field(default_factory=list)
    finished: bool = False
    cut: bool = False
    energy: EnergyFacts | None = None
    readings: list[Reading] = field(default_factory=list)
    steps: dict[tuple[str, str], StepResult] = field(default_factory=dict)
    counters: list[Counters] = field(default_factory=list)

    @property
    def calls(self) -> tuple[CallResult, ...]:
        """The results that count."""
        return tuple(self.latest.values())

    def settled(self, cache: str) -> frozenset[str]:
        """The items that a resumed run need not look at again: final, and not skipped."""
        return frozenset(one.item for one in self.calls if one.cache == cache and one.final and one.status != SKIPPED)

    def unmeasured(self, cache: str) -> tuple[CallResult, ...]:
        """The calls that ran, and whose energy is still to be measured."""
        ran = (one for one in self.calls if one.cache == cache and one.final and one.status == OK)
        return tuple(one for one in ran if one.energy is None or not one.energy.final)

    def uncounted(self, cache: str) -> tuple[CallResult, ...]:
        """The calls that ran, and of which no counters were asked for yet."""
        asked = {item for batch in self.counters for item in batch.asked}
        ran = [one for one in self.calls if one.cache == cache and one.final and one.status == OK]
        return tuple(one for one in (*ran, *self.placed) if one.item not in asked)

    @property
    def placed(self) -> tuple[CallResult, ...]:
        """The calls of the steps that ran, each as it came out in its place."""
        groups: dict[str, list[StepKernel]] = defaultdict(list)
        for (_, mode), result in self.steps.items():
            for kernel in result.kernels if mode == "eager" else ():
                groups[kernel.item].append(kernel)
        return tuple(_placed(item, self.run.cache, kernels) for item, kernels in groups.items())

    def take(self, line: Any) -> None:
        """Add a further line."""
        self.finished = isinstance(line, EndLine) and line.finished
        match line:
            case Result(call):
                self.latest[call.item, call.cache] = call
            case StepDone(result):
                self.steps[result.step, result.mode] = result
            case SharedEnergy(energy):
                self.energy = energy
            case Readings(readings):
                self.readings += readings
            case Counters():
                self.counters.append(line)
            case ResumeLine(run):
                self.resumed.append(run)


def _placed(item: str, cache: str, kernels: Sequence[StepKernel]) -> CallResult:
    best = min(kernels, key=lambda one: one.grade.rank)
    return CallResult(item, "step", cache, OK, best.grade, best.reason)


class Reader:
    """Reads a journal while it grows: `advance` reads what is new. `journal` is None until the header is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal: Journal | None = None
        self._read = self._number = 0

    def advance(self) -> list[Any]:
        """The lines that came since the last call. Raises JournalError, naming the line."""
        found: list[Any] = []
        if self.journal is not None:
            self.journal.cut = False
        with _opened(self.path) as stream:
            stream.seek(self._read)
            for raw in stream:
                if not raw.endswith(b"\n"):
                    if self.journal is not None:
                        self.journal.cut = True
                    break
                self._read, self._number = self._read + len(raw), self._number + 1
                if raw.strip():
                    found.append(self._line(raw))
        return found

    def header(self) -> RunFacts:
        """The facts of the run. Raises JournalError where none have been read."""
        if self.journal is None:
            raise JournalError(
                f"{self.path}: line 1: not a replay journal (its header is missing or cut); "
                f"{JournalError.remedy(str(self.path), 1)}"
            )
        return self.journal.run

    def _line(self, raw: bytes) -> Any:
        with lines.naming(JournalError, str(self.path), self._number):
            text = raw.decode()
        if self.journal is None:
            wanted = lines.Wanted(FORMAT, VERSION, "a replay journal", JournalError)
            first = lines.header(RunLine, [(self._number, text)], wanted, str(self.path))
            self.journal = Journal(first.run)
            return first
        with lines.naming(JournalError, str(self.path), self._number):
            line = LINES.load(text)
        self.journal.take(line)
        return line


class Writer:
    """Appends to a journal. A line is with the operating system when its method returns: it outlives this process.

    Raises JournalExistsError where there is a journal at `path` and `resume` is not set. Resuming drops a cut last
    line.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        begun = exists(path)
        if begun and not resume:
            raise JournalExistsError(f"{path}: a journal exists already; resume it, or give another file")
        if begun:
            with path.open("rb+") as stream:
                whole = stream.read()
                stream.truncate(whole.rfind(b"\n") + 1)
        self._path = path
        self._file = path.open("a", encoding="utf-8")
        self._begun = exists(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with files.naming(self._path):
                self._file.close()  # which writes what could not be written before
        finally:
            if error is not None and self._path.is_file() and not exists(self._path):
                self._path.unlink()

    def run(self, facts: RunFacts) -> None:
        """Write the facts of the run: the header of a new journal, a `resume` line of an old one."""
        self._line(ResumeLine(facts) if self._begun else RunLine(facts, FORMAT, VERSION))
        self._begun = True

    @property
    def begun(self) -> bool:
        """Whether the journal has its header: before, nothing else may be written."""
        return self._begun

    def call(self, result: CallResult) -> None:
        """Write the result of one item."""
        self._line(Result(result))

    def step(self, result: StepResult) -> None:
        """Write the result of a step in one mode."""
        self._line(StepDone(result))

    def energy(self, facts: EnergyFacts) -> None:
        """Write what the energies of all calls share."""
        self._line(SharedEnergy(facts))

    def power(self, readings: Sequence[Reading]) -> None:
        """Write readings of the device."""
        self._line(Readings(tuple(readings)))

    def counters(self, batch: Counters) -> None:
        """Write what a counter profiler wrote of a batch of calls."""
        self._line(batch)

    def end(self, *, finished: bool, remaining: int, wall_s: float) -> None:
        """Write how the run ended."""
        self._line(EndLine(finished, remaining, round(wall_s, 3)))

    def _line(self, line: Any) -> None:
        with files.naming(self._path):
            self._file.write(f"{LINES.dump(line)}\n")
            self._file.flush()


def exists(path: Path) -> bool:
    """Whether there is anything at `path`."""
    return path.exists() and (path.is_dir() or path.stat().st_size > 0)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a journal. Raises JournalError for a folder, and for what this user may not read."""
    try:
        stream = path.open("rb")
    except IsADirectoryError as error:
        raise JournalError(f"{path}: a folder, no replay journal; {JournalError.remedy(str(path), 1)}") from error
    except PermissionError as error:
        allowed = command_line(("chmod", "u+r", file(path)))
        raise JournalError(f"{path}: this user may not read it; its owner allows that: {allowed}") from error
    with stream:
        yield stream


def begun(path: Path) -> Journal | None:
    """The journal at `path` to go on with; None where there is none, or only a header that was cut by a crash.

    Raises JournalError for any other file, before anything of it is dropped.
    """
    if not exists(path):
        return None
    reader = Reader(path)
    reader.advance()
    if reader.journal is None:
        with _opened(path) as stream:
            if not BEGINNING.startswith(stream.read(len(BEGINNING))):
                reader.header()
    return reader.journal


def read(path: Path) -> Journal:
    """The journal at `path`. Raises JournalError, naming file and line."""
    reader = Reader(path)
    reader.advance()
    reader.header()
    assert reader.journal is not None  # noqa: S101 (for the type checker: there is a header)
    return reader.journal
