"""Counters of the calls that ran: a worker runs them once more under a counter profiler.

A worker's messages come by a file, for profilers start it again for each pass, and do not say what they pass on. One
that is silent for too long is killed, and the profiler given time to write what it has; the call it was at is refused,
and all of which nothing was written are run again without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from kerneldb import codec
from kerneldb.codec import CodecError
from kerneldb.files import naming
from kerneldb.gpus import counting
from kerneldb.replay import processes, routes
from kerneldb.replay.errors import LINE, ReplayError
from kerneldb.replay.host import profilers
from kerneldb.replay.host.phases import STEP_SECONDS, Log, Pool, Progress
from kerneldb.replay.wire import journal
from kerneldb.replay.wire.messages import (
    MESSAGES,
    Begin,
    Broken,
    Counted,
    Counters,
    Done,
    Job,
    Message,
    Ready,
    Unusable,
)  # fmt: skip
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import CallResult, Grade

WORKER: Final = "kerneldb.replay.worker.counting"
BATCH: Final = 200
"""Calls of one profiler session: starting it takes seconds, and what it collected is lost where it breaks."""
LISTEN_SECONDS: Final = 0.1
WRITING_SECONDS: Final = 120.0
"""A profiler may take so long to write what it has, when its program has ended."""
PASS_SECONDS: Final = 0.03
START_SECONDS: Final = 15.0
MESSAGES_FILE: Final = "messages"
JOB_FILE: Final = "job"
NO_KERNELS: Final = "launches no kernel"
EXCHANGE: Final = "not run under a profiler: ranks that wait for each other would hang"


def estimate(kernels: int, counters: tuple[str, ...], *, steps: bool = False) -> tuple[int, float]:
    """About how many passes these counters take, and how many seconds they take for so many kernels.

    Of `steps`, each pass starts the worker anew.
    """
    passes = counting.passes(counters)
    if steps:
        return passes, passes * (START_SECONDS + kernels * PASS_SECONDS)
    return passes, START_SECONDS * (1 + kernels // BATCH) + kernels * passes * PASS_SECONDS


def why_not(item: Item, call: CallResult) -> str | None:
    """Why a call that ran gets no counters; None where it does."""
    if routes.find(item.route).waits or routes.ranks(item) > 1:
        return EXCHANGE
    if all(kernel.kind != "kernel" for kernel in item.kernels):
        return NO_KERNELS
    fitting = any(kernel.grade.rank <= Grade.L1.rank for kernel in call.kernels) or call.grade.rank <= Grade.L1.rank
    return None if fitting else f"replayed as {call.grade} only: {call.reason}"


@dataclass(slots=True)
class Session:
    """What one run of the profiler came to: calls that ran, refused ones, and the call that it was at."""

    ran: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    at: str | None = None
    reason: str | None = None
    stopped: bool = False

    def take(self, message: Message) -> None:
        """Take a message of the worker. Raises ReplayError where it cannot run here."""
        match message:
            case Begin(item):
                self.at = item
            case Counted(item, reason):
                self.at = None
                if reason is not None:
                    self.refused[item] = reason
                elif item not in self.ran:
                    self.ran.append(item)
            case Unusable(reason):
                raise ReplayError(reason)
            case Broken(reason):
                self.reason = f"device context broken: {reason}"


@dataclass(slots=True)
class Counting:
    """Reads the counters of calls, batch by batch, into files beside the journal. `interrupted`: by the user."""

    log: Log
    plan: Path
    journal: Path
    pool: Pool
    until: float
    interrupted: bool = False
    left: list[str] = field(default_factory=list)
    _progress: Progress = field(default_factory=lambda: Progress(0))
    _told: set[str] = field(default_factory=set)

    def run(self, calls: Mapping[str, CallResult]) -> bool:
        """Read those of `calls`. Returns whether all were attempted. Raises ReplayError where none can be read."""
        if not calls:
            return True
        profiler = profilers.find(self.log.options, journal.read(self.journal).run.vendor)
        if self.log.plan.steps and profiler.name != "ncu":
            message = "counters of a step need Nsight Compute: other profilers do not print which call a kernel is of"
            raise ReplayError(message)
        items = [item for item in self.log.plan.items if item.id in calls]
        refused = {item.id: reason for item in items if (reason := why_not(item, calls[item.id])) is not None}
        if refused:
            self.log.writer.counters(Counters((), (), refused))
        self.left = [item.id for item in items if item.id not in refused]
        self._progress = Progress(len(self.left))
        while self.left and not self.interrupted and time.monotonic() < self.until:
            batch = len(self.left) if self.log.plan.steps else BATCH  # a step is made again for each
            if not self._batch(profiler, self.left[:batch]):
                break
        return not self.left

    def _batch(self, profiler: profilers.Profiler, items: Sequence[str]) -> bool:
        """Run some of them, and write down what came of it; whether to go on."""
        output, command = self._output(), list[str]()
        session, whole = Session(ran=list(items)), False
        with tempfile.TemporaryDirectory(prefix="kerneldb-counters-") as name:
            folder, said = Path(name), Path(name) / "said"
            worker = processes.command(WORKER, name, str(os.getpid()))
            commands = profiler.commands(self.log.options, output, worker)
            for number, command in enumerate(commands, 1):
                self._ask(folder, session.ran)
                session = self._session(command, folder, said, Session(refused=session.refused))
                whole = number == len(commands)
                if session.stopped or not session.ran:
                    break
            files = profiler.written(output)
            if not files:
                self._nothing(session, output, said)
        ran = tuple(session.ran) if files and whole else ()
        names = tuple(path.name for path in files)
        options = tuple(part for part in command if part not in worker)[1:]
        self.log.writer.counters(
            Counters(names, ran, session.refused, f"{profiler.name} {profiler.version}".strip(), options)
        )
        self.left = [item for item in self.left if item not in ran and item not in session.refused]
        return not session.stopped and bool(ran or session.refused)

    def _ask(self, folder: Path, items: Sequence[str]) -> None:
        """Write down for the worker which calls it is to run."""
        steps = tuple(step.id for step in self.log.plan.steps)
        job = Job(str(self.plan), tuple(items), self.log.options, journal=str(self.journal), steps=steps)
        with naming(folder / JOB_FILE):
            (folder / JOB_FILE).write_text(codec.dump(job), encoding="utf-8")

    def _nothing(self, session: Session, output: Path, said: Path) -> None:
        """Nothing was written: that of one call is its refusal; else raises ReplayError with what the profiler said."""
        texts = [path.read_text("utf-8", "replace") for path in (*output.parent.glob(f"{output.name}.*"), said)]
        reason = counting.complaint("\n".join(texts)) or session.reason
        if session.stopped or session.refused:
            return
        last = [line.strip() for line in "\n".join(texts).splitlines() if line.strip()]
        raise ReplayError(f"no counters were read: {reason or codec.printable((last or ['no output'])[-1], LINE)}")

    def _output(self) -> Path:
        """What the names of the next batch's files begin with."""
        number = 1
        while list(self.journal.parent.glob(f"{self.journal.name}.counters-{number}.*")):
            number += 1
        return self.journal.with_name(f"{self.journal.name}.counters-{number}")

    def _session(self, command: Sequence[str], folder: Path, said: Path, session: Session) -> Session:
        """Run the profiler once, and follow its worker."""
        messages = folder / MESSAGES_FILE
        messages.write_bytes(b"")
        with said.open("wb") as output, messages.open("rb") as heard:
            process = subprocess.Popen(  # noqa: S603 (the profiler, and our own interpreter)
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                env=processes.environment(),
            )  # fmt: skip
            try:
                with self.pool.attending(process):
                    self.follow(process, heard, session)
            except KeyboardInterrupt:
                self.interrupted = session.stopped = True
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if session.at is not None and not session.stopped:
            session.refused[session.at] = session.reason or "the program died under the profiler"
        return session

    def follow(self, process: subprocess.Popen[bytes], heard: IO[bytes], session: Session) -> None:
        """Listen until the profiler has ended; a worker that is silent for too long is killed."""
        item_seconds = self.log.options.item_seconds
        if self.log.plan.steps:  # what is not profiled of a step says nothing
            item_seconds = max(item_seconds, STEP_SECONDS)
        patience, rest, last, pid = self.log.options.start_seconds, b"", time.monotonic(), 0
        while True:
            ended = process.poll() is not None
            data = rest + heard.read()
            *whole, rest = data.split(b"\n")
            for message in _messages(whole):
                patience, last = item_seconds, time.monotonic()
                session.take(message)
                match message:
                    case Ready(facts):
                        patience, pid = self.log.options.start_seconds, int(facts.get("pid", 0))
                    case Counted(item):
                        self._tell(item)
                    case Done():
                        patience = WRITING_SECONDS
            if ended:
                return
            out_of_time = not session.stopped and time.monotonic() > self.until
            if out_of_time or time.monotonic() > last + patience:
                if out_of_time:
                    session.stopped = True
                else:
                    session.reason = f"hung under the profiler: silent for {patience:g} s, killed"
                if not pid or (out_of_time and self.log.plan.steps):  # a pass that is not whole counts for nothing
                    return
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                pid, patience, last = 0, WRITING_SECONDS, time.monotonic()
            time.sleep(LISTEN_SECONDS)

    def _tell(self, item: str) -> None:
        if item not in self._told:  # profilers run the worker once per pass
            self._told.add(item)
            self.log.listen({"event": "counters", "item": item, "grade": "", **self._progress.more()})


def _messages(lines: Sequence[bytes]) -> Iterator[Message]:
    for line in filter(None, lines):
        try:
            yield MESSAGES.load(line.decode())
        except (CodecError, UnicodeDecodeError) as error:
            raise ReplayError(f"the worker wrote something that is not a message: {error}") from error
