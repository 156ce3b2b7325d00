"""The worker's second job: the energy of calls that ran already, as the journal has them.

It is done by a process of its own, without a profiler, so that what the idle device draws is measured before there is a
context on it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kerneldb.errors import KerneldbError
from kerneldb.replay import facts, routes
from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.facts import Monitor
from kerneldb.replay.measure.energy.evaluate import Kernels, Limits
from kerneldb.replay.measure.energy.loads import GpuLoads, Loads
from kerneldb.replay.measure.energy.meter import Meter, MeterError, NoMeterError, open_meter, reopened
from kerneldb.replay.measure.energy.phase import UNCAPTURED, Phase, Task, idle_power
from kerneldb.replay.measure.energy.steps import Clock, Watch, find_period
from kerneldb.replay.measure.inputs import GROWING
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts
from kerneldb.replay.wire.messages import Broken, Done, Energy, Job, Send, SharedEnergy, Unusable
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import CallResult
from kerneldb.replay.worker.executor import BrokenDeviceError

OLD: Final = "replayed by a version that did not note which call it was"
NO_TIME: Final = "nothing ran on the GPU"
WIDTH: Final = 2 * 1.96

Opener = Callable[[Options, Send], Monitor]


def main(job: Job, send: Send, open_device: Opener) -> int:
    """Measure the items of `job`; the exit code is 0 unless the device broke or cannot be used."""
    found = journal.read(Path(str(job.journal)))
    known = found.energy or EnergyFacts()
    try:
        meter = open_meter(job.options.device)
        known = _idle(meter, known, job.options)
        open_device(job.options, send)
        meter = reopened(meter, job.options.device, facts.uuid(job.options.device))
    except (NoMeterError, MeterError) as error:
        _none(job, send, dataclasses.replace(known, reason=str(error)))
        return 0
    except (KerneldbError, ImportError, OSError) as error:  # torch may be broken
        send(Unusable(str(error)))
        return 1
    try:
        loads = Loads(job.options) if job.options.on_cpu else GpuLoads(job.options)
        tasks = _tasks(job, found, send)
        limits = Limits(found.run.power_limit_w, found.run.max_sm_mhz)
        Phase(loads, meter, Clock(), send, known, limits).run(tasks, job.options.energy_seconds)
    except BrokenDeviceError as error:
        send(Broken(str(error)))
        return 1
    finally:
        meter.close()
    send(Done())
    return 0


def _idle(meter: Meter, known: EnergyFacts, options: Options) -> EnergyFacts:
    """What the device draws while this process has no context on it, unless that is known. Raises MeterError."""
    if options.on_cpu or known.idle_power_w is not None:
        return known
    importlib.import_module("torch")  # takes seconds, in which the device comes to rest
    watch = Watch(meter, Clock())
    found = idle_power(watch, find_period(watch))
    return dataclasses.replace(known, meter=meter.name, idle_power_w=found.power_w, idle_power_sd_w=found.sd_w)


def _none(job: Job, send: Send, known: EnergyFacts) -> None:
    """No energy can be measured: say why, for the run and for every call."""
    send(SharedEnergy(known))
    for name in job.items:
        send(Energy(name, CallEnergy(reason=known.reason)))
    send(Done())


def _tasks(job: Job, found: journal.Journal, send: Send) -> list[Task]:
    items = {item.id: item for item in plan.read(Path(job.plan)).items}
    calls = {call.item: call for call in found.calls if call.cache == job.options.cache}
    tasks: list[Task] = []
    for name in job.items:
        try:
            task = _task(items[name], calls[name])
        except FAILURES as error:  # of a route that is not known here, or fails
            task = first_line(error)
        if isinstance(task, str):
            send(Energy(name, CallEnergy(reason=task)))
        else:
            tasks.append(task)
    return tasks


def _task(item: Item, call: CallResult) -> Task | str:
    """What to measure, or why not."""
    if call.time is None:
        return NO_TIME
    if call.loop_note == GROWING:
        return GROWING
    stands = routes.find(item.route).again(item, call)
    if stands is None:
        return OLD
    capture = call.loop is not None or not (call.loop_note or "").startswith(UNCAPTURED)
    windows = list(call.energy.windows) if call.energy is not None else []
    looped = call.loop.time.median_ns if call.loop is not None else 0.0
    kernels = Kernels(call.time.mean_ns, (call.time.high_ns - call.time.low_ns) / WIDTH, looped or None)
    return Task(*stands, kernels, capture, windows, loop_ns=looped)
