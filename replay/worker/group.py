"""The worker for collectives: as many processes as ranks, in lockstep, of which the first talks to the host.

`python -m kerneldb.replay.worker.group DEVICES DESCRIPTOR`, with a job as the first line of standard input; DEVICES is
`cuda:0,cuda:1`, one per rank. It starts the other ranks itself, and ends when one of them dies.

All calls of an item are made one after the other. All ranks are there when the last has come, so the shortest of their
durations is the transfer; what the others have beyond it is waiting (as `collective_waits` takes recorded ones apart).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kerneldb import codec
from kerneldb.errors import KerneldbError
from kerneldb.replay import facts, processes, routes
from kerneldb.replay.errors import FAILURES, ReplayError, first_line
from kerneldb.replay.measure.loops import smallest_sample
from kerneldb.replay.options import Options
from kerneldb.replay.recording.ranks import Place, Ranks, free_ports
from kerneldb.replay.routes import collective, grades
from kerneldb.replay.routes.collective import Exchange
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.messages import Begin, Broken, Done, Job, Message, Result, Send, Sender, Unusable
from kerneldb.replay.wire.plan import Item, Plan
from kerneldb.replay.wire.results import Activity, CallResult, Grade, failure
from kerneldb.replay.worker.executor import BrokenDeviceError, Verdict, success, usual
from kerneldb.replay.worker.profiling import Marked, Session, marker

RANK: Final = "KERNELDB_REPLAY_RANK"
BATCH_BYTES: Final = 8 << 30
NO_MULTICAST: Final = {"NCCL_NVLS_ENABLE": "0"}
"""Multicast over NVLink needs a fabric manager that a part of a host may lack. A user's own setting is kept."""
NO_LOOP: Final = "collectives are not timed in loops"
NOTES: Final = ("transfer: the shortest of the ranks", "buffers stay where they are, warm")

Activities = tuple[Activity, ...]


def main() -> int:
    """Do the job; the exit code is 0 unless a rank cannot be used."""
    processes.die_with_parent()
    for name, value in NO_MULTICAST.items():
        os.environ.setdefault(name, value)
    devices = sys.argv[1].split(",")
    job = codec.load(Job, sys.stdin.readline(), own=True)
    given = os.environ.get(RANK)
    own = Place(*map(int, given.split(","))) if given else Place(0, len(devices), free_ports(1)[0])
    send: Send = Sender(int(sys.argv[2])) if own.rank == 0 else _say  # nobody listens to the others
    if own.rank == 0:
        _start_others(job, devices, own)
    job = dataclasses.replace(job, options=dataclasses.replace(job.options, device=devices[own.rank]))
    try:
        processes.import_all(job.options.modules)
        facts.open_device(job.options, send)
    except KerneldbError as error:
        send(Unusable(str(error)))
        return 1
    ranks = Ranks(own)
    ranks.join(job.options.device)
    planned = plan.read(Path(job.plan))
    items = {item.id: item for item in planned.items}
    if job.steps:
        return _steps(planned, items, job, ranks, send)
    foreign = None if job.options.on_cpu else facts.foreign(planned.notes.get("vendor"), facts.vendor())
    _Lockstep(ranks, job.options, send, foreign).run([items[name] for name in job.items])
    send(Done())
    ranks.leave()
    return 0


def _steps(planned: Plan, items: Mapping[str, Item], job: Job, ranks: Ranks, send: Send) -> int:
    """Run the steps of jobs, each rank its own; the exit code is 0 unless the device broke."""
    from kerneldb.replay.worker import steps

    routes.provide(planned.sources, allowed=job.options.allow_code)
    own = [one for one in planned.steps if one.id in job.steps and one.rank == ranks.place.rank]
    own.sort(key=lambda one: one.job or "")
    try:
        steps.main(own, items, job.options, send, job.filled, ranks)
    except BrokenDeviceError as error:
        send(Broken(str(error)))
        return 1
    send(Done())
    ranks.leave()
    return 0


def _start_others(job: Job, devices: Sequence[str], own: Place) -> None:
    """Start the other ranks. They belong to the session of this process, and end with it; and it ends with them."""
    for rank in range(1, len(devices)):
        process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            processes.command("kerneldb.replay.worker.group", sys.argv[1], "-1"),
            stdin=subprocess.PIPE,
            env={**os.environ, RANK: f"{rank},{len(devices)},{own.port}"},
        )
        assert process.stdin is not None  # noqa: S101 (it was asked for)
        process.stdin.write(f"{codec.dump(job)}\n".encode())
        process.stdin.close()
        threading.Thread(target=_watch, args=(process, rank), daemon=True).start()


def _watch(process: subprocess.Popen[bytes], rank: int) -> None:
    """Others would wait for a rank that has died for as long as NCCL has patience."""
    code = process.wait()
    if code < 0:
        sys.stderr.write(f"rank {rank} ended with signal {-code}\n")
        sys.stderr.flush()
    if code:  # it has said why
        os._exit(1)


def _say(message: Message) -> None:
    """Write down why a rank cannot go on: the last line is what the host says of it."""
    if isinstance(message, Unusable | Broken):
        sys.stderr.write(f"{message.reason}\n")
        sys.stderr.flush()


class _RefusedError(KerneldbError):
    """One of the ranks cannot make an exchange, and all know it."""


@dataclasses.dataclass(slots=True)
class _Ready:
    item: Item
    exchange: Exchange
    label: str
    walls: list[float]


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """What a rank tells the others: the activities of its runs, by label."""

    runs: Mapping[str, tuple[Activities, ...]]


@dataclasses.dataclass(slots=True)
class _Lockstep:
    """Replays items together with the other ranks, which do the same in the same order."""

    ranks: Ranks
    options: Options
    send: Send
    foreign: str | None

    def run(self, items: Sequence[Item]) -> None:
        """Replay all, in sessions of as many as there is room for."""
        batch: list[Item] = []
        held = 0
        for item in items:
            held += _bytes(item)
            if batch and (held > BATCH_BYTES or len(batch) >= self.options.batch):
                self._session(batch)
                batch, held = [], _bytes(item)
            batch.append(item)
        if batch:
            self._session(batch)

    def _session(self, items: Sequence[Item]) -> None:
        ready: list[_Ready] = []
        with Session(gpu=not self.options.on_cpu) as session:
            for number, item in enumerate(items):
                self.send(Begin(item.id, "rehearse"))
                try:
                    ready.append(self._rehearse(item, str(number)))
                except _RefusedError as error:
                    self.send(Result(failure(item, self.options.cache, str(error))))
            self.send(Begin(ready[0].item.id if len(ready) == 1 else None, "collect"))
        mine = {one.label: self._runs_of(one, session.seen.get(one.label, ())) for one in ready}
        everyone = [codec.decode(_Seen, one) for one in self.ranks.gather(codec.encode(_Seen(mine)))]
        for one in ready:
            self.send(Result(self._result(one, [seen.runs[one.label] for seen in everyone])))

    def _rehearse(self, item: Item, label: str) -> _Ready:
        """Run the collective, marked. Raises _RefusedError on all ranks where it fails on one."""
        with self._on_all():
            wanted = collective.message(item)
            made = collective.exchange(wanted, self.ranks.place.rank, self.options.device)
            for _ in range(max(self.options.warmup, 1)):
                made.call()
            self._synchronize()
        walls = []
        with self._on_all():
            for _ in range(max(self.options.runs, smallest_sample())):
                started = time.perf_counter_ns()
                with marker(label):
                    made.call()
                walls.append(float(time.perf_counter_ns() - started))
            self._synchronize()
        return _Ready(item, made, label, walls)

    @contextlib.contextmanager
    def _on_all(self) -> Iterator[None]:
        """Ends when all ranks are here. Raises _RefusedError on all of them where it failed on one."""
        reason = None
        try:
            yield
        except FAILURES as error:
            reason = first_line(error)
        reason = self.ranks.agree(reason)
        if reason is not None:
            raise _RefusedError(reason)

    def _runs_of(self, one: _Ready, marked: Sequence[Marked]) -> tuple[Activities, ...]:
        """The activities of each run; on a CPU the run itself, by the clock."""
        if self.options.on_cpu:
            call = one.exchange.overload
            return tuple((Activity("call", call, duration_ns=wall),) for wall in one.walls)
        return tuple(tuple(run.activities) for run in marked)

    def _synchronize(self) -> None:
        if not self.options.on_cpu:
            import torch

            torch.cuda.synchronize()

    def _result(self, one: _Ready, ranks: Sequence[Sequence[Activities]]) -> CallResult:
        seen, durations, changing = usual(ranks)
        equal = ["shares taken to be equal"] if one.exchange.message.operation == "alltoallv" else []
        notes = (*NOTES, *equal, *(["ranks ran different kernels"] if changing else []))
        if self.options.on_cpu:
            match = grades.on_cpu(one.item, Grade.L0, faithful=True)
        else:
            match = grades.compare(one.item.kernels, seen)
        if self.foreign is not None:
            match = grades.at_best(match, Grade.L3, self.foreign)
        verdict = Verdict(0, match, one.exchange.overload, notes, seen, durations)
        result = success(one.item, self.options.cache, verdict)
        waits = _waits(ranks)
        found = {"ranks": len(ranks), **({} if waits is None else {"wait_ns": waits})}
        return dataclasses.replace(result, inputs=found, tries=1, warmup=self.options.warmup, loop_note=NO_LOOP)


def _bytes(item: Item) -> int:
    """Bytes of the buffers, about."""
    try:
        wanted = collective.message(item)
    except KerneldbError:
        return 0
    return 2 * 8 * wanted.elements


def _waits(ranks: Sequence[Sequence[Activities]]) -> list[float] | None:
    """Median wait of each rank: what its runs have beyond the shortest of all ranks."""
    totals = [[sum(one.duration_ns for one in run) for run in rank] for rank in ranks]
    together = list(zip(*totals, strict=False))
    if not together:
        return None
    return [statistics.median(run[rank] - min(run) for run in together) for rank in range(len(ranks))]


if __name__ == "__main__":
    try:
        code = main()
    except ReplayError as error:
        sys.stderr.write(f"{error}\n")
        code = 1
    except Exception:  # noqa: BLE001 (said, and ended below)
        traceback.print_exc()
        code = 1
    if code:  # others wait in an exchange for this rank, and so may Python's own end
        sys.stderr.flush()
        os._exit(code)
