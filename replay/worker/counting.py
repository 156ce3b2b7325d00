"""The worker's third job, under a counter profiler: each call once, and only its kernels are profiled.

`python -m kerneldb.replay.worker.counting FOLDER HOST`: the job is the file `job` of the folder, messages are added to
`messages`, HOST is the process to end with. What brings inputs into their cache state, and the calls that warm up, run
before the profiler is told to begin.

torch's profiler is not used here: it and a counter profiler cannot both have the device. Which kernels ran is judged by
what the counter profiler prints, where the results are stored.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kerneldb import codec
from kerneldb.errors import KerneldbError
from kerneldb.replay import facts, processes, routes
from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.measure.energy.loads import built
from kerneldb.replay.measure.inputs import Flush, Layouts, Sets, roles
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.messages import Begin, Broken, Counted, Done, Job, Ready, Sender, Unusable
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import CallResult
from kerneldb.replay.wire.steps import Step
from kerneldb.replay.worker.energy import OLD
from kerneldb.replay.worker.executor import BrokenDeviceError, l2_bytes

LABEL: Final = "kerneldb "
"""What the NVTX range around a call is named, before the id of its item."""
NTH: Final = "#"
"""What is between that and the number of the call, where several of an item are profiled."""
WATCH_SECONDS: Final = 1.0
ROCTX: Final = ("librocprofiler-sdk-roctx.so", "librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0")


def main() -> int:
    """Do the job; the exit code is 0 unless the device broke or cannot be used."""
    folder = Path(sys.argv[1])
    threading.Thread(target=_end_with, args=(int(sys.argv[2]),), daemon=True).start()
    send = Sender(os.open(folder / "messages", os.O_WRONLY | os.O_APPEND))
    send(Ready({"pid": os.getpid()}))
    job = codec.load(Job, (folder / "job").read_text(encoding="utf-8"), own=True)
    planned = plan.read(Path(job.plan))
    try:
        processes.import_all(job.options.modules)
        routes.provide(planned.sources, allowed=job.options.allow_code)
        facts.require(job.options.device)
        device = _Device(job.options) if job.options.on_cpu else _Gpu(job.options)
    except KerneldbError as error:
        send(Unusable(str(error)))
        return 1
    items = {item.id: item for item in planned.items}
    if job.steps:
        return _in_steps(device, planned, job, send)
    calls = {call.item: call for call in journal.read(Path(str(job.journal))).calls if call.cache == job.options.cache}
    for name in job.items:
        send(Begin(name, "count"))
        reason, broken = _counted(device, items[name], calls[name]), device.broken()
        if broken is not None:
            send(Broken(broken))
            return 1
        send(Counted(name, reason))
    send(Done())
    return 0


def _in_steps(device: _Device, planned: plan.Plan, job: Job, send: Sender) -> int:
    """Run the steps as they were replayed; of each call that is asked for some are profiled, over the whole step."""
    from kerneldb.replay.worker.steps import StepRun

    items = {item.id: item for item in planned.items}
    results = {step: one for (step, mode), one in journal.read(Path(str(job.journal))).steps.items() if mode == "eager"}
    asked = set(job.items)
    for step in planned.steps:
        if step.id not in job.steps or step.id not in results or not asked:
            continue
        filled = frozenset(one.item for one in results[step.id].kernels if one.filled)
        chosen = spread(step, asked - filled, job.options.counted)
        try:
            player = StepRun(step, items, job.options, lambda _: None, filled).as_before(results[step.id])
            named = {place: f"{name}{NTH}{nth}" for name, places in chosen.items() for nth, place in enumerate(places)}
            player.run(around=functools.partial(_alone, device, named, send))
        except BrokenDeviceError as error:
            send(Broken(str(error)))
            return 1
        for name in chosen:
            send(Counted(name))
        asked -= chosen.keys()
    for name in sorted(asked):
        send(Counted(name, "no step has a call of it that ran"))
    send(Done())
    return 0


def _alone(
    device: _Device, named: Mapping[int, str], send: Sender, place: int
) -> contextlib.AbstractContextManager[Any]:
    """Around a call of a step: the profiler sees it, and the host hears of it, where it has a name."""
    name = named.get(place)
    if name is not None:
        send(Begin(name.partition(NTH)[0], "count"))
    return device.alone(name)


def spread(step: Step, asked: Collection[str], most: int) -> dict[str, list[int]]:
    """Places of the calls of `asked` items: up to `most` of each, the middle ones of as many equal parts of its calls.

    What the caches hold differs from call to call: on an H100 the last call alone has DRAM bytes within 3 % of the mean
    of all for 72 and 85 % of the time of two steps, four of them for 100 and 96 %.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for place, call in enumerate(step.calls):
        if call.item in asked:
            places[call.item].append(place)
    return {
        name: [all_[(2 * part + 1) * len(all_) // (2 * parts)] for part in range(parts)]
        for name, all_ in places.items()
        for parts in [min(most, len(all_))]
    }


def _counted(device: _Device, item: Item, result: CallResult) -> str | None:
    """Run the call that was replayed; why it could not be, if so."""
    try:
        stands = routes.find(item.route).again(item, result)
        if stands is None:
            return OLD
        device.run(item.id, *stands)
    except FAILURES as error:
        return first_line(error)
    return None


def _end_with(host: int) -> None:
    """End this process when the host has: the profiler, its parent, does not."""
    while True:
        try:
            os.kill(host, 0)
        except ProcessLookupError:
            os._exit(1)
        time.sleep(WATCH_SECONDS)


class _Device:
    """Runs calls; by itself on a CPU, where nothing is to be prepared."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def run(self, name: str, item: Item, attempt: int) -> None:
        """Run the `attempt`-th call of an item, seen by the profiler under `name`. Raises what operators raise."""
        del name
        built(item, attempt, self._options.device).call()

    @contextlib.contextmanager
    def alone(self, name: str | None) -> Iterator[None]:
        """What runs in here is seen by the profiler under `name`, if there is one."""
        del name
        yield

    def broken(self) -> str | None:
        """What broke the device, if that happened."""
        return None


class _Gpu(_Device):
    def __init__(self, options: Options) -> None:
        import torch

        super().__init__(options)
        self._cuda = torch.cuda
        self._l2 = l2_bytes(torch.cuda.get_device_properties(torch.cuda.current_device()))
        self._flush = Flush(options.device, self._l2)
        self._control = _Roctx() if facts.vendor() == "AMD" else torch.cuda.cudart()

    def run(self, name: str, item: Item, attempt: int) -> None:
        call = built(item, attempt, self._options.device)
        layouts = Layouts(call)
        for _ in range(max(self._options.warmup, 1)):
            call.call()
        self._cuda.synchronize()
        layouts.put_back()
        given = roles(item, call.inputs, getattr(call, "cache", None) or self._options.cache, self._l2)
        memory = int(0.25 * self._cuda.mem_get_info()[0])
        sets = Sets(call, given, runs=1, l2_bytes=self._l2, memory_bytes=memory)
        try:
            if sets.needs_flush:
                self._flush()
            sets.advance()
            sets.touch()
            with self.alone(name):
                call.call()
        finally:
            sets.reset()

    @contextlib.contextmanager
    def alone(self, name: str | None) -> Iterator[None]:
        if name is None:
            yield
            return
        self._cuda.synchronize()
        self._control.cudaProfilerStart()
        self._cuda.nvtx.range_push(LABEL + name)
        try:
            yield
            self._cuda.synchronize()
        finally:
            self._cuda.nvtx.range_pop()
            self._control.cudaProfilerStop()

    def broken(self) -> str | None:
        try:
            self._cuda.synchronize()
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return None


class _Roctx:
    """Tells rocprofv3 (`--selected-regions`) when to profile, under the names of CUDA's functions for that."""

    def __init__(self) -> None:
        self._library: Any = None
        for name in ROCTX:
            with contextlib.suppress(OSError):
                self._library = self._library or ctypes.CDLL(name)

    def cudaProfilerStart(self) -> None:  # noqa: N802 (as torch.cuda.cudart() has it)
        """Profile this process from here."""
        if self._library is not None:
            self._library.roctxProfilerResume(0)

    def cudaProfilerStop(self) -> None:  # noqa: N802
        """Profile no further."""
        if self._library is not None:
            self._library.roctxProfilerPause(0)


if __name__ == "__main__":
    sys.exit(main())
