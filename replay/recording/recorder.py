"""Records: what the device draws, each workload measured whole, then each workload traced; every step is kept at once.

All workloads are measured before any is traced: once the profiler has been there, calls of the runtime cost more.

A few iterations are traced with PyTorch's profiler: shapes recorded, the Execution Trace beside, steps marked. Each
iteration is a step of the profiler (`ProfilerStep#2`) and is inside a range named like its workload. One step more
runs before them, with the profiler on and not recorded: the first one pays for the start of CUPTI.

A graph runs its kernels without any call. Its capture is traced too, with shapes and the Execution Trace, into a trace
of its own, in which nothing runs: a model may do something else while it is captured than eagerly.

The trace also says how long the device ran anything. In a job of several ranks, collectives count from when the last
rank came. A collective lasts until all ranks have come, and the profiler slows them unequally: with those waits, a rank
would seem busy for longer than a run without profiler takes. The shortest of the launches of a collective is its
transfer.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import hashlib
import importlib
import json
import re
import shutil
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from kerneldb import files
from kerneldb.errors import KerneldbError
from kerneldb.recordings import CAPTURE, Part, Traced
from kerneldb.replay import facts, processes
from kerneldb.replay.errors import FAILURES, ReplayError, first_line
from kerneldb.replay.facts import Monitor
from kerneldb.replay.measure.energy.meter import Meter, MeterError, NoMeterError, Sampler, open_meter, reopened
from kerneldb.replay.measure.energy.steps import CounterPeriod, Load
from kerneldb.replay.recording import build, bundle, measuring, sources, workloads
from kerneldb.replay.recording.bundle import Bundle
from kerneldb.replay.recording.ranks import ALONE, Listener, Ranks
from kerneldb.replay.recording.settings import CUDA_GRAPH, RecordError, Settings, WorkloadError
from kerneldb.replay.recording.workloads import Watch, Work, synchronize

TRACE_ENDING: Final = ".pt.trace.json.gz"
EXECUTION_ENDING: Final = ".et.json.gz"
TAIL_BYTES: Final = 4096
FILE_NAME: Final = re.compile(rb'("traceName"\s*:\s*")(?:[^"\\]|\\.)*"')
ON_GPU: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
COLLECTIVE: Final = re.compile(r"(void )?(nccl|rccl|msccl)(?!.*SendRecv)", re.IGNORECASE)
"""Kernels that all ranks of a group run together; pairs of sends and receives are none."""
NEVER: Final = 1 << 30
"""Collections of the younger objects before one of all: more than a recording has."""
Durations = dict[str, list[float]]


def trace(work: Work, part: Part, settings: Settings, folder: Path, ranks: Ranks = ALONE) -> Traced:
    """Trace `settings.iterations` iterations into `folder`. Files appear when they are complete."""
    stem = part.workload if part.mode != CUDA_GRAPH else f"{part.workload}.{part.mode}"
    with _written(folder, stem) as found:
        _profile(work, part.workload, settings, found.plain, None if part.mode == CUDA_GRAPH else found.execution)
        ran = activities(json.loads(found.plain.read_bytes())["traceEvents"])
        # of a job without the waits of collectives: not known where its ranks do not show the same ones
        shortest = transfers(ranks.gather(ran.collectives())) if ranks.many else None
        busy = None if ranks.many and shortest is None else ran.busy_ns(shortest)
        n = settings.iterations
        return found.kept(n, ran.count / n, None if busy is None else busy / n)


@contextlib.contextmanager
def traced_capture(workload: str, settings: Settings, folder: Path, traced: list[Traced]) -> Iterator[Any]:
    """Trace what is called while a graph is captured: the calls of its kernels, which no launch of the graph tells.

    Gives the profiler; `traced` gets the trace where nothing fails.
    """
    from torch.profiler import record_function

    with _written(folder, f"{workload}.{CAPTURE}") as found:
        with _profiler(settings, found.plain, found.execution) as profiler, record_function(workload):
            yield profiler
        traced.append(found.kept(1, 0.0, None))


@dataclass(frozen=True, slots=True)
class _Written:
    """A trace that is being written into a folder, and the Execution Trace beside it."""

    folder: Path
    stem: str

    @property
    def plain(self) -> Path:
        return self.folder / f".{self.stem}.json"

    @property
    def execution(self) -> Path:
        return self.folder / f".{self.stem}.et.json"

    def kept(self, iterations: int, launches: float, busy_ns: float | None) -> Traced:
        """Pack the files, and say what they are."""
        plain, execution = self.plain, self.execution
        _forget_path(plain, f"{self.stem}{TRACE_ENDING.removesuffix('.gz')}")
        with plain.open("rb") as file:
            size, digest = plain.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
        beside = _packed(execution, self.folder / f"{self.stem}{EXECUTION_ENDING}") if execution.exists() else None
        packed = _packed(plain, self.folder / f"{self.stem}{TRACE_ENDING}")
        return Traced(packed, digest, size, iterations, launches, busy_ns, beside)


@contextlib.contextmanager
def _written(folder: Path, stem: str) -> Iterator[_Written]:
    found = _Written(folder, stem)
    try:
        yield found
    finally:
        found.plain.unlink(missing_ok=True)
        found.execution.unlink(missing_ok=True)


def _profile(work: Work, workload: str, settings: Settings, plain: Path, execution: Path | None) -> None:
    """Write the trace to `plain`, and the Execution Trace to `execution`."""
    from torch.profiler import record_function, schedule

    steps = schedule(wait=0, warmup=1, active=settings.iterations, repeat=1)
    with _profiler(settings, plain, execution, steps) as profiler:
        for number in range(1 + settings.iterations):
            with record_function(workload):
                work()
            if number in (0, settings.iterations):
                synchronize(settings)
            profiler.step()


@contextlib.contextmanager
def _profiler(
    settings: Settings, plain: Path, execution: Path | None, steps: Callable[[int], Any] | None = None
) -> Iterator[Any]:
    """PyTorch's profiler, which writes to `plain` at its end, and to `execution` an Execution Trace."""
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

    observer = None if execution is None else ExecutionTraceObserver().register_callback(str(execution))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if settings.on_gpu else [])]
    with warnings.catch_warnings():
        # the profiler says that a cycle's events are dropped after it: they are exported
        warnings.simplefilter("ignore")
        with profile(
            activities=activities,
            schedule=steps,
            record_shapes=True,
            with_stack=settings.stack,
            profile_memory=True,
            on_trace_ready=lambda done: done.export_chrome_trace(str(plain)),
            execution_trace_observer=observer,
            experimental_config=sync_events() if settings.on_gpu else None,
        ) as profiler:
            yield profiler
        if observer is not None:
            observer.unregister_callback()


def sync_events() -> Any:
    """What asks the profiler for waits of streams and of the host; None with a torch that has no such events."""
    with contextlib.suppress(ImportError, TypeError):
        from torch._C._profiler import _ExperimentalConfig

        return _ExperimentalConfig(enable_cuda_sync_events=True)
    return None


def _forget_path(path: Path, name: str) -> None:
    """The profiler notes after the events the path that it wrote to: leave the name of the file only."""
    with path.open("r+b") as file:
        start = max(0, path.stat().st_size - TAIL_BYTES)
        file.seek(start)
        tail = FILE_NAME.sub(rb"\g<1>" + name.encode() + b'"', file.read())
        file.seek(start)
        file.write(tail)
        file.truncate()


def _packed(source: Path, target: Path) -> str:
    """Compress `source` into `target`, which appears when it is complete; returns its name."""
    with (
        source.open("rb") as plain, files.written(target) as file,
        gzip.GzipFile(target.name, "wb", 5, file, mtime=0) as packed,
    ):  # fmt: skip
        shutil.copyfileobj(plain, packed, 1 << 20)
    return target.name


@dataclass(frozen=True, slots=True)
class Activities:
    """What ran on the GPUs of a trace (µs): per device, start, end and, of a collective, the name of its kernel."""

    spans: Mapping[Any, Sequence[tuple[float, float, str | None]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.spans.values()))

    def collectives(self) -> Durations:
        """Durations of the collectives, by kernel, in the order of the start."""
        found: Durations = defaultdict(list)
        for start, end, name in sorted(one for some in self.spans.values() for one in some if one[2] is not None):
            found[str(name)].append(end - start)
        return dict(found)

    def busy_ns(self, transfers: Durations | None = None) -> float:
        """Time in which any ran, summed over devices; collectives for their last `transfers`, where these are given."""
        left = {name: iter(some) for name, some in (transfers or {}).items()}
        return 1000 * sum(_union(_shortened(sorted(some, key=itemgetter(0, 1)), left)) for some in self.spans.values())


def activities(events: Iterable[Mapping[str, Any]]) -> Activities:
    """What a Chrome trace holds of GPUs."""
    spans: dict[Any, list[tuple[float, float, str | None]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in ON_GPU and event.get("ph") == "X":
            name = event["name"] if event["cat"] == "kernel" and COLLECTIVE.match(event["name"]) else None
            start = float(event["ts"])
            spans[event.get("pid")].append((start, start + float(event["dur"]), name))
    return Activities(spans)


def transfers(by_rank: Sequence[Durations]) -> Durations | None:
    """The shortest launch of each collective: the n-th of a kernel is the same on all ranks.

    None where the ranks do not show the same ones.
    """
    counts = [{name: len(some) for name, some in one.items()} for one in by_rank]
    if any(one != counts[0] for one in counts):
        return None
    return {name: [min(same) for same in zip(*(one[name] for one in by_rank), strict=True)] for name in by_rank[0]}


def _shortened(
    spans: Iterable[tuple[float, float, str | None]], left: Mapping[str, Iterable[float]]
) -> Iterable[tuple[float, float]]:
    for start, end, name in spans:
        known = None if name is None else next(iter(left.get(name, ())), None)
        yield (start if known is None else end - known), end


def _union(spans: Iterable[tuple[float, float]]) -> float:
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


PRIVATE: Final = frozenset({"host", "device", "device_index"})


def record(settings: Settings, folder: Path, *, resume: bool, listen: Listener, ranks: Ranks = ALONE) -> Bundle:
    """Record into `folder`; `settings` are resolved. `listen` gets each step (`what`, `workload`, `mode`).

    `ranks`: the processes that record together; each has settings and a folder of its own.
    Raises RecordError, UsageError where the folder has another recording, UnreadableTraceError where it is damaged.
    """
    try:
        facts.require(settings.device, make_current=False, there="kerneldb ingest reads the recording here")
    except ReplayError as error:
        raise RecordError(str(error)) from error
    target = bundle.start(folder, settings, resume=resume)
    if settings.compile or settings.script:
        sources.redirect(folder)
    processes.import_all(settings.modules)
    sources.watch(folder)
    made = _Recorder(settings, target, listen, ranks)
    try:
        made.run()
    finally:
        made.close()
        sources.clean(folder)
    return target


class _Recorder:
    def __init__(self, settings: Settings, target: Bundle, listen: Listener, ranks: Ranks) -> None:
        self._settings = settings
        self._ranks = ranks
        self._bundle = target
        self._listen = listen
        self._models = workloads.Models(settings)
        self._meter: Meter | None = None
        self._period: CounterPeriod | None = None
        self._no_meter: str | None = None

    def run(self) -> None:
        """Everything that is missing."""
        steps = {"measure": self._measure, "trace": self._trace}
        wanted = [(what, part) for what in steps for part in self._bundle.content.parts if part.mode != CAPTURE]
        had = self._ranks.gather([self._done(*one) for one in wanted])
        left = [one for one, done in zip(wanted, zip(*had, strict=True), strict=True) if not all(done)]
        if left:
            if not self._settings.trace_only:
                self._open_meter()
            facts.require(self._settings.device)
            device = self._settings.device
            found = facts.gather(device, Monitor(facts.uuid(device), facts.index(device) or 0))
            known = {key: value for key, value in found.items() if key not in PRIVATE} | {"device": facts.index(device)}
            if not self._settings.script:
                known["transformers"] = build.transformers().__version__
            self._bundle.note(software=known)
            if self._meter is not None:
                # What the device draws with a context, and between kernels.
                if self._settings.on_gpu:
                    self._listen({"what": "power"})
                    self._power("context", lambda: measuring.context(self._settings.device))
                    self._power("gap", measuring.empty_kernels)
                else:
                    gap = measuring.row("launch_loop_power_w", None, "W", reason="a CPU has no launch gaps")
                    self._bundle.keep_power("gap", measuring.stamped([gap]), [])
            if self._ranks.many and not self._settings.script:
                self._ranks.join(self._settings.device)
        for what, part in left:
            if part.reason is None:  # a part that could not be measured is not traced either
                self._attempt(what, part, steps[what])
        self._bundle.note(finished=facts.now())

    def close(self) -> None:
        """Let go of the meter."""
        if self._meter is not None:
            self._meter.close()

    def _make(self, part: Part, watch: Watch | None = None) -> Work:
        """The work of a workload, ready on all ranks. Raises WorkloadError where it cannot be made on one of them."""
        reason, work = None, None
        try:
            work = workloads.make(part.workload, part.mode, self._settings, self._models, watch)
        except WorkloadError as error:
            reason = str(error)
        reason = self._ranks.agree(reason)
        if work is None or reason is not None:
            raise WorkloadError(reason)
        return work

    def _make_traced(self, part: Part) -> Work:
        """The work of a workload that is to be traced; of one in a graph the trace of its capture is kept."""
        if part.mode != CUDA_GRAPH:
            return self._make(part)
        traced = list[Traced]()
        folder = self._bundle.folder
        capture = Part(part.workload, CAPTURE, self._settings.tags(part.workload, CAPTURE))
        try:
            work = self._make(part, lambda: traced_capture(part.workload, self._settings, folder, traced))
        except WorkloadError as error:  # it could be captured when it was measured: the profiler was in the way
            for one in traced:
                for name in filter(None, (one.file, one.execution_trace)):
                    (folder / name).unlink(missing_ok=True)
            workloads.empty_cache(self._settings)
            self._tell("failed", capture, reason=f"{error}; the kernels of the graph have no calls")
            return self._make(part)
        capture = replace(capture, trace=traced[0])
        others = [one for one in self._bundle.content.parts if (one.workload, one.mode) != (part.workload, CAPTURE)]
        self._bundle.note(parts=[*others, capture])
        return work

    def _done(self, what: str, part: Part) -> bool:
        if part.reason is not None or (what == "measure" and self._settings.trace_only):
            return True
        return (part.measurements if what == "measure" else part.trace) is not None

    def _attempt(self, what: str, part: Part, step: Callable[[Part], None]) -> None:
        self._tell(what, part)
        try:
            step(part)
        except WorkloadError as error:
            self._bundle.keep(part, [], reason=str(error))
            self._tell("failed", part, reason=str(error))
        except FAILURES as error:
            if isinstance(error, KerneldbError) or self._settings.script:
                raise
            raise _explained(error, part.workload, self._settings) from error
        workloads.empty_cache(self._settings)

    def _tell(self, what: str, part: Part, **more: Any) -> None:
        self._listen({"what": what, "workload": part.workload, "mode": part.mode, **more})

    def _open_meter(self) -> None:
        """The meter, the period of its counter, and what the device draws before this process has a context on it."""
        try:
            self._meter = open_meter(self._settings.device)
            if self._settings.on_gpu:
                importlib.import_module("torch")  # takes seconds, in which the device comes to rest
            self._period = period = measuring.learn_period(self._meter)
            self._power("idle")
            if self._settings.on_gpu:
                facts.require(self._settings.device)
            self._meter = reopened(self._meter, self._settings.device, facts.uuid(self._settings.device))
            known = {"name": self._meter.name, "period_ms": period.seconds * 1000, "jitter_ms": period.jitter * 1000}
        except (NoMeterError, MeterError) as error:
            self._no_meter = str(error)
            self._meter = self._period = None
            known = {"reason": self._no_meter}
        self._bundle.note(meter=known)

    def _power(self, name: str, make: Callable[[], Load] = Load) -> None:
        """Measure what the device draws under the load that is made, unless it is known."""
        known = [one.quantity for one in self._bundle.content.powers if one.value is not None]
        if f"{name}_power_w" in known or self._meter is None or self._period is None:
            return
        with contextlib.closing(make()) as load:
            row, samples = measuring.measure_power(name, self._meter, self._period, load)
        self._bundle.keep_power(name, measuring.stamped([row]), samples)

    def _measure(self, part: Part) -> None:
        work = self._make(part)
        with _model_left_alone():
            found, samples = measuring.run(work, self._settings, self._meter, self._period, self._ranks)
        rows = measuring.of_repetitions(found, on_gpu=self._settings.on_gpu, no_meter=self._no_meter)
        if work.tokens is not None:
            rows.append(measuring.row("tokens", work.tokens))
        if self._period is not None:
            rows.append(measuring.row("meter_period_ms", self._period.seconds * 1000, "ms"))
        self._bundle.keep(part, samples, measurements=measuring.stamped(rows))

    def _trace(self, part: Part) -> None:
        work = self._make_traced(part)
        measuring.load(work, self._settings, self._ranks)
        self._ranks.wait()
        with contextlib.nullcontext() if self._meter is None else Sampler(self._meter, 0.1) as sampler:
            found = trace(work, part, self._settings, self._bundle.folder, self._ranks)
        samples = [] if sampler is None else [one for _, one in sampler.samples]
        self._bundle.content.sources = sources.keep(self._bundle.folder) or ()
        rows = measuring.of_trace(found.busy_ns, found.launches, found.iterations)
        self._bundle.keep(part, samples, trace=found, of_trace=measuring.stamped(rows))


@contextlib.contextmanager
def _model_left_alone() -> Iterator[None]:
    """Python's collector does not walk through the model while it is timed: it looks at younger objects only."""
    gc.collect()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)


def _explained(error: Exception, workload: str, settings: Settings) -> RecordError:
    """An error of PyTorch or transformers, with what to do about it."""
    first = first_line(error)
    if "out of memory" in first:
        message = (
            f"out of memory in {workload}: lower --batch (now {settings.batch}) or --prompt (now {settings.prompt}), "
            "or take --layers N or a smaller --dtype"
        )
        return RecordError(message)
    return RecordError(f"{workload}: {first}")
