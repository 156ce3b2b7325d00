"""The worker for collectives: as many processes as ranks, in lockstep, of which the first talks to the supervisor.

`python -m kerneldb.replay.worker.group DEVICES DESCRIPTOR`, with a job as the first line of standard input; DEVICES is
`cuda:0,cuda:1`, one per rank. It starts the other ranks itself, and ends when one of them dies.

All calls of an item are made one behind the other. All ranks are there when the last has come, so the shortest of their
durations is the transfer; what the others have beyond it is waiting (as `collective_waits` takes recorded ones apart).
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import KerneldbError
from kerneldb.replay import facts, processes
from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.measure.spread import smallest_sample
from kerneldb.replay.options import Options
from kerneldb.replay.recording.ranks import Place, Ranks, free_ports
from kerneldb.replay.routes import collective
from kerneldb.replay.routes.collective import Exchange
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.journal import CallResult
from kerneldb.replay.wire.messages import Job, Sender, job_from_text, job_to_text
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.worker import grades, results
from kerneldb.replay.worker.activity import Activity, Marked
from kerneldb.replay.worker.device import die_with_parent, open_device
from kerneldb.replay.worker.grades import CallMatch, Grade, KernelMatch
from kerneldb.replay.worker.profiling import Session, marker
from kerneldb.replay.worker.results import Verdict

RANK: Final = "KERNELDB_REPLAY_RANK"
BATCH_BYTES: Final = 8 << 30
NO_MULTICAST: Final = {"NCCL_NVLS_ENABLE": "0"}
"""Multicast over NVLink needs a fabric manager that a part of a host may lack. A user's own setting stands."""
NO_LOOP: Final = "collectives are not timed in loops"
OTHER_KERNELS: Final = "ranks ran different kernels"
EQUAL_SHARES: Final = "shares taken to be equal"
ON_CPU: Final = "replayed on the CPU, where no GPU kernel runs"


class _Mute(Sender):
    """For the ranks that nobody listens to."""

    def __init__(self) -> None:
        """Without a pipe."""

    def _send(self, event: str, **fields: Any) -> None:
        del event, fields


def main() -> int:
    """Do the job; the exit code is 0 unless a rank cannot be used."""
    die_with_parent()
    for name, value in NO_MULTICAST.items():
        os.environ.setdefault(name, value)
    devices = sys.argv[1].split(",")
    job = job_from_text(sys.stdin.readline())
    own = Place(**_own_place()) if RANK in os.environ else Place(0, len(devices), free_ports(1)[0])
    sender = Sender(int(sys.argv[2])) if own.rank == 0 else _Mute()
    if own.rank == 0:
        _start_others(job, devices, own)
    job = dataclasses.replace(job, options=dataclasses.replace(job.options, device=devices[own.rank]))
    try:
        open_device(job.options, sender)
    except KerneldbError as error:
        sender.unusable(str(error))
        return 1
    ranks = Ranks(own)
    ranks.join(job.options.device)
    planned = plan.read(Path(job.plan))
    items = {item.id: item for item in planned.items}
    foreign = None if job.options.on_cpu else facts.foreign(planned.notes.get("vendor"), facts.vendor())
    _Lockstep(ranks, job.options, sender, foreign).run([items[name] for name in job.items])
    sender.done()
    ranks.leave()
    return 0


def _own_place() -> dict[str, int]:
    rank, size, port = map(int, os.environ[RANK].split(","))
    return {"rank": rank, "world_size": size, "port": port}


def _start_others(job: Job, devices: Sequence[str], own: Place) -> None:
    """Start the other ranks. They belong to the session of this process, and end with it; and it ends with them."""
    for rank in range(1, len(devices)):
        process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            processes.command("kerneldb.replay.worker.group", sys.argv[1], "-1"),
            stdin=subprocess.PIPE,
            env={**os.environ, RANK: f"{rank},{len(devices)},{own.port}"},
        )
        assert process.stdin is not None  # noqa: S101 (it was asked for)
        process.stdin.write(f"{job_to_text(job)}\n".encode())
        process.stdin.close()
        threading.Thread(target=_watch, args=(process, rank), daemon=True).start()


def _watch(process: subprocess.Popen[bytes], rank: int) -> None:
    """Others would wait for a rank that has died for as long as NCCL has patience."""
    code = process.wait()
    if code:
        sys.stderr.write(f"rank {rank} ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}\n")
        sys.stderr.flush()
        os._exit(1)


@dataclasses.dataclass(slots=True)
class _Ready:
    item: Item
    exchange: Exchange
    label: str
    walls: list[float]


class _Lockstep:
    """Replays items together with the other ranks, which do the same in the same order."""

    def __init__(self, ranks: Ranks, options: Options, sender: Sender, foreign: str | None = None) -> None:
        self._ranks = ranks
        self._options = options
        self._sender = sender
        self._foreign = foreign
        self._runs = max(options.runs, smallest_sample())

    def run(self, items: Sequence[Item]) -> None:
        """Replay all, in sessions of as many as there is room for."""
        rest = list(items)
        while rest:
            batch = rest[: self._fitting(rest)]
            rest = rest[len(batch) :]
            self._session(batch)

    def _fitting(self, items: Sequence[Item]) -> int:
        held = 0
        for count, item in enumerate(items):
            held += _bytes(item)
            if count and (held > BATCH_BYTES or count >= self._options.batch):
                return count
        return len(items)

    def _session(self, items: Sequence[Item]) -> None:
        ready: list[_Ready] = []
        with Session(gpu=not self._options.on_cpu) as session:
            for number, item in enumerate(items):
                self._sender.begin(item.id, "rehearse")
                try:
                    ready.append(self._rehearse(item, str(number)))
                except FAILURES as error:
                    # the same on all ranks; where one has died, the others wait here until they are ended
                    self._ranks.wait()
                    self._sender.result(results.failure(item, self._options.cache, first_line(error)))
            self._sender.begin(ready[0].item.id if len(ready) == 1 else None, "collect")
        mine = {one.label: self._runs_of(one, session.seen.get(one.label, ())) for one in ready}
        everyone = self._ranks.gather(mine)
        for one in ready:
            self._sender.result(self._result(one, [seen[one.label] for seen in everyone]))

    def _rehearse(self, item: Item, label: str) -> _Ready:
        """Run the collective, marked."""
        wanted = collective.message(item)
        made = collective.exchange(wanted, self._ranks.place.rank, self._options.device)
        for _ in range(max(self._options.warmup, 1)):
            made.call()
        self._synchronize()
        self._ranks.wait()
        walls = []
        for _ in range(self._runs):
            started = time.perf_counter_ns()
            with marker(label):
                made.call()
            walls.append(float(time.perf_counter_ns() - started))
        self._synchronize()
        return _Ready(item, made, label, walls)

    def _runs_of(self, one: _Ready, marked: Sequence[Marked]) -> list[list[dict[str, Any]]]:
        """The activities of each run, JSON-ready; on a CPU the run itself, by the clock."""
        if self._options.on_cpu:
            call = _overload(one)
            return [[journal.to_dict(Activity("call", call, duration_ns=wall))] for wall in one.walls]
        return [[journal.to_dict(activity) for activity in run.activities] for run in marked]

    def _synchronize(self) -> None:
        if not self._options.on_cpu:
            import torch

            torch.cuda.synchronize()

    def _result(self, one: _Ready, by_rank: Sequence[Sequence[Sequence[Mapping[str, Any]]]]) -> CallResult:
        verdict = self._verdict(one, by_rank)
        result = results.success(one.item, self._options.cache, verdict)
        waits = _waits(by_rank)
        found = {"ranks": len(by_rank), **({} if waits is None else {"wait_ns": waits})}
        return dataclasses.replace(
            result, inputs=found, tries=1, warmup=self._options.warmup, loop_note=NO_LOOP, state=None
        )

    def _verdict(self, one: _Ready, by_rank: Sequence[Sequence[Sequence[Mapping[str, Any]]]]) -> Verdict:
        notes: tuple[str, ...] = ("transfer: the shortest of the ranks", "buffers stay where they are, warm")
        if one.exchange.message.operation == "alltoallv":
            notes = (*notes, EQUAL_SHARES)
        if self._options.on_cpu:
            kernels = tuple(KernelMatch(kernel, Grade.L4, reason=ON_CPU) for kernel in one.item.kernels)
            walls = [min(run[0]["duration_ns"] for run in runs) for runs in zip(*by_rank, strict=True)]
            return Verdict(0, CallMatch(Grade.L0, kernels), _overload(one), notes, durations=[walls])
        usual = Counter(tuple(_launch(place) for place in run) for rank in by_rank for run in rank).most_common(1)
        kept = [
            runs for runs in zip(*by_rank, strict=False)
            if usual and all(tuple(_launch(place) for place in run) == usual[0][0] for run in runs)
        ]  # fmt: skip
        if len(kept) < max(map(len, by_rank)):
            notes = (*notes, OTHER_KERNELS)
        seen = tuple(_activity(place) for place in kept[0][0]) if kept else ()
        durations = [[min(run[place]["duration_ns"] for run in runs) for runs in kept] for place in range(len(seen))]
        match = grades.compare(one.item.kernels, seen)
        if self._foreign is not None:
            match = grades.at_best(match, Grade.L3, self._foreign)
        return Verdict(0, match, _overload(one), notes, seen, durations)


def _bytes(item: Item) -> int:
    """Bytes of the buffers, about."""
    try:
        wanted = collective.message(item)
    except KerneldbError:
        return 0
    return 2 * 8 * wanted.elements


def _overload(one: _Ready) -> str:
    return f"torch.distributed, {one.exchange.message.operation}"


def _activity(data: Mapping[str, Any]) -> Activity:
    triples = {name: tuple(data[name]) for name in ("grid", "block") if data.get(name) is not None}
    return Activity(**{**data, **triples})


def _launch(data: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(str(data.get(name)) for name in ("kind", "name", "grid", "block", "shared_bytes"))


def _waits(by_rank: Sequence[Sequence[Sequence[Mapping[str, Any]]]]) -> list[float] | None:
    """Median wait of each rank: what its runs have beyond the shortest of all ranks."""
    totals = [[sum(place.get("duration_ns", 0.0) for place in run) for run in rank] for rank in by_rank]
    together = list(zip(*totals, strict=False))
    if not together:
        return None
    return [statistics.median(run[rank] - min(run) for run in together) for rank in range(len(by_rank))]


if __name__ == "__main__":
    sys.exit(main())
