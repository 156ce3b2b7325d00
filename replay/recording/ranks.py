"""The processes of a recording: how they are started, one or one per rank, and how ranks agree.

Ranks agree through a key-value store beside the process group of the model, so that no exchange of theirs is among the
recorded ones, and a script can make a process group of its own.

A recording has a process of its own: what a script does to it, or lack of memory, costs no more than the recording.
"""

from __future__ import annotations

import dataclasses
import datetime
import gc
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from kerneldb import codec
from kerneldb.replay import processes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.recording import bundle
from kerneldb.replay.recording.settings import RecordError, Settings

HOST: Final = "127.0.0.1"
PATIENCE: Final = datetime.timedelta(minutes=30)
GOODBYE_S: Final = 10.0
POLL_S: Final = 0.01
LEFT: Final = "left"
WORKER: Final = processes.command("kerneldb.replay.recording")
INTERRUPTED: Final = 130
ENDINGS: Final = ("end", "error")
GRACE_S: Final = 5.0
AGREEMENT: Final = datetime.timedelta(seconds=30)
"""How long a rank that cannot go on waits for the others: one of them may wait for it in an exchange."""
Listener = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process stands. `port` is that of the store, which rank 0 keeps; `script_port` is free for a script."""

    rank: int = 0
    world_size: int = 1
    port: int = 0
    script_port: int = 0

    def environment(self) -> dict[str, str]:
        """What torchrun tells a script about the place."""
        ranks = dict.fromkeys(("RANK", "LOCAL_RANK"), str(self.rank))
        sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(self.world_size))
        return {**ranks, **sizes, "MASTER_ADDR": HOST, "MASTER_PORT": str(self.script_port)}


class Ranks:
    """The processes of a job, as one of them sees them. All must ask for the same things in the same order.

    A process alone is a job of one, and needs no store.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._asked = 0
        self._store: Any = None
        self._joined = False

    @property
    def many(self) -> bool:
        """Whether there are others."""
        return self.place.world_size > 1

    def gather(self, value: Any) -> list[Any]:
        """The JSON-ready value of every rank, in their order; waits until all have given theirs."""
        if not self.many:
            return [value]
        store, number = self._opened(), self._asked
        self._asked += 1
        store.set(f"{number}/{self.place.rank}", json.dumps(value))
        return [json.loads(store.get(f"{number}/{rank}")) for rank in range(self.place.world_size)]

    def agree(self, reason: str | None) -> str | None:
        """Why one of the ranks cannot go on, told to all; None where all can.

        Raises ReplayError on a rank with a reason when the others do not come: they wait in an exchange, for ever.
        """
        if self.many and reason is not None:
            store, number = self._opened(), self._asked
            store.set(f"{number}/{self.place.rank}", json.dumps(reason))
            try:
                store.wait([f"{number}/{rank}" for rank in range(self.place.world_size)], AGREEMENT)
            except RuntimeError as error:
                raise ReplayError(f"rank {self.place.rank}: {reason}") from error
        return next((one for one in self.gather(reason) if one is not None), None)

    def wait(self) -> None:
        """Until all are here."""
        self.gather(None)

    def join(self, device: str) -> None:
        """Make the process group of the model: NCCL or RCCL on GPUs, gloo on a CPU."""
        import torch
        import torch.distributed as dist

        on_gpu = device != "cpu"
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=dist.PrefixStore("model", self._opened()),
            rank=self.place.rank,
            world_size=self.place.world_size,
            device_id=torch.device(device) if on_gpu else None,
        )
        self._joined = True

    def leave(self) -> None:
        """End the process group, when all are at their end; the keeper of the store goes last."""
        if self._store is None:
            return
        self.wait()
        if self._joined:
            import torch.distributed as dist

            gc.collect()  # NCCL waits for the end of CUDA graphs that have its kernels
            dist.destroy_process_group()
        self._store.add(LEFT, 1)
        until = time.monotonic() + GOODBYE_S
        while self.place.rank == 0 and self._store.add(LEFT, 0) < self.place.world_size and time.monotonic() < until:
            time.sleep(POLL_S)

    def _opened(self) -> Any:
        if self._store is None:
            from torch.distributed import TCPStore

            place = self.place
            self._store = TCPStore(HOST, place.port, None, place.rank == 0, PATIENCE, wait_for_workers=False)
        return self._store


ALONE: Final = Ranks(Place())


def free_ports(count: int) -> list[int]:
    """Ports of this host that nobody uses now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


@dataclass(frozen=True, slots=True)
class Job:
    """What a process is to record, where, and as which of the processes that record together."""

    settings: Settings
    folder: str
    resume: bool
    place: Place = ALONE.place


class SilentEndError(RecordError):
    """The process ended without a word."""


def run(settings: Settings, folder: Path, *, resume: bool, listen: Listener) -> bool:
    """Record into `folder`; whether every workload could be recorded. `listen` gets each step.

    Of several ranks, each records into a folder of its own below `folder`, and `listen` gets the first one's
    steps. What a script prints goes to stderr. Raises RecordError, with its exit code, where it came to nothing.
    """
    if settings.tp == 1:
        return _Process(Job(settings, str(folder), resume)).run(listen)
    named = dataclasses.replace(settings, name=settings.name or folder.resolve().name)
    ports = free_ports(2)
    jobs = []
    for rank in range(settings.tp):
        own = dataclasses.replace(named, rank=rank, device=f"cuda:{rank}" if settings.on_gpu else "cpu")
        jobs.append(Job(own, str(bundle.of_rank(folder, rank)), resume, Place(rank, settings.tp, *ports)))
    return _together([_Process(job) for job in jobs], listen)


def _together(processes: Sequence[_Process], listen: Listener) -> bool:
    """Run the ranks of a job. Where one fails, the others would wait for it forever: they are ended."""
    with ThreadPoolExecutor(len(processes)) as pool:
        try:
            heard = [listen, *[_unheard] * (len(processes) - 1)]
            runs = [pool.submit(one.run, each) for one, each in zip(processes, heard, strict=True)]
            wait(runs, return_when=FIRST_EXCEPTION)
            wait(runs, timeout=GRACE_S)  # others may say what the matter is
        finally:
            for one in processes:
                one.stop()
    errors = [error for error in (one.exception() for one in runs) if error is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, SilentEndError)), errors[0])
    return all(one.result() for one in runs)


def _unheard(event: Mapping[str, Any]) -> None:
    """Listens to nothing: the first rank's steps are those of all."""
    del event


class _Process:
    """A process that records into a folder. It may be stopped from another thread, also before it is started."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Lock()
        self._stopped = False

    def run(self, listen: Listener) -> bool:
        """Record; whether every workload could be recorded."""
        reading, writing = os.pipe()
        with (
            tempfile.TemporaryFile() as said,
            os.fdopen(reading, encoding="utf-8") as events,
            os.fdopen(writing, "wb") as theirs,
        ):
            output = None if self._job.settings.script else said
            with self._started(writing, output) as process:
                theirs.close()
                assert process.stdin is not None  # noqa: S101 (asked for)
                process.stdin.write(codec.dump(self._job).encode())
                process.stdin.close()
                last = _follow(events, listen)
                code = _ended(process, last)
            _raise(code, last, output)
        return code == 0

    def _started(self, writing: int, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        """The process. Raises SilentEndError where it was stopped before."""
        with self._stopping:
            if self._stopped:
                raise SilentEndError("the recording was stopped before it began")
            self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                (*WORKER, "--events", str(writing)),
                stdin=subprocess.PIPE,
                stdout=output or 2,  # descriptor 2: standard error
                stderr=output,
                pass_fds=(writing,),
                env=processes.environment(),
            )
            return self._process

    def stop(self) -> None:
        """End the process, if it is still there; none is started any more."""
        with self._stopping:
            self._stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()


def _ended(process: subprocess.Popen[bytes], last: Mapping[str, Any]) -> int:
    """The exit code. A rank that failed is not waited for: Python's own end may wait for the others in an exchange."""
    if last.get("what") == "error":
        try:
            return process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def _follow(events: Iterable[str], listen: Listener) -> Mapping[str, Any]:
    """Pass events on until the process ends, or says that it fails; returns how it said that it ended."""
    last: Mapping[str, Any] = {}
    for line in events:
        event = json.loads(line)
        if event["what"] in ENDINGS:
            last = event
        else:
            listen(event)
        if last.get("what") == "error":
            break
    return last


def _raise(code: int, last: Mapping[str, Any], said: IO[bytes] | None) -> None:
    """Raise RecordError or KeyboardInterrupt for a recording that did not come to its end."""
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if last.get("what") == "error":
        error = RecordError(str(last["message"]))
        error.exit_code = int(last["exit_code"])
        raise error
    if last.get("what") != "end":
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise SilentEndError(f"the recording ended with {how}: {_last(said)}; --resume goes on with it")


def _last(said: IO[bytes] | None) -> str:
    """The last line that the process wrote; None: what it wrote was shown as it came."""
    if said is None:
        return "what it said stands above"
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").splitlines()
    kept = [line.strip() for line in lines if line.strip() and not line.startswith(("USDT:", "[W"))]
    return kept[-1] if kept else "it said nothing more"
