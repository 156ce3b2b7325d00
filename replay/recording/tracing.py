"""Traces a few iterations with PyTorch's profiler: shapes recorded, the Execution Trace beside, steps marked.

Each iteration is a step of the profiler (`ProfilerStep#2`) and is inside a range named like its workload. One step more
runs before them, with the profiler on and not recorded: the first one pays for the start of CUPTI.

The trace also says how long the device ran anything. In a job of several ranks, collectives count from when the last
rank came. A collective lasts until all ranks have come, and the profiler slows them unequally: with those waits, a rank
would seem busy for longer than a run without profiler takes. The shortest of the launches of a collective is its
transfer.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from kerneldb.recordings import Part, Traced
from kerneldb.replay.recording.ranks import ALONE, Ranks
from kerneldb.replay.recording.settings import CUDA_GRAPH, Settings
from kerneldb.replay.recording.workloads import Work, synchronize

TRACE_ENDING: Final = ".pt.trace.json.gz"
EXECUTION_ENDING: Final = ".et.json.gz"
TAIL_BYTES: Final = 4096
FILE_NAME: Final = re.compile(rb'("traceName"\s*:\s*")(?:[^"\\]|\\.)*"')
ON_GPU: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
COLLECTIVE: Final = re.compile(r"(void )?(nccl|rccl|msccl)(?!.*SendRecv)", re.IGNORECASE)
"""Kernels that all ranks of a group run together; pairs of sends and receives are none."""
Durations = dict[str, list[float]]


def trace(work: Work, part: Part, settings: Settings, folder: Path, ranks: Ranks = ALONE) -> Traced:
    """Trace `settings.iterations` iterations into `folder`. Files appear when they are complete."""
    stem = part.workload if part.mode != CUDA_GRAPH else f"{part.workload}.{part.mode}"
    plain, execution = folder / f".{stem}.json", folder / f".{stem}.et.json"
    try:
        _profile(work, part.workload, settings, plain, None if part.mode == CUDA_GRAPH else execution)
        ran = activities(json.loads(plain.read_bytes())["traceEvents"])
        # of a job without the waits of collectives: not known where its ranks do not show the same ones
        shortest = transfers(ranks.gather(ran.collectives())) if ranks.many else None
        busy = None if ranks.many and shortest is None else ran.busy_ns(shortest)
        _forget_path(plain, f"{stem}{TRACE_ENDING.removesuffix('.gz')}")
        with plain.open("rb") as file:
            size, digest = plain.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
        beside = _packed(execution, folder / f"{stem}{EXECUTION_ENDING}") if execution.exists() else None
        packed = _packed(plain, folder / f"{stem}{TRACE_ENDING}")
    finally:
        plain.unlink(missing_ok=True)
        execution.unlink(missing_ok=True)
    n = settings.iterations
    return Traced(packed, digest, size, n, ran.count / n, None if busy is None else busy / n, beside)


def _profile(work: Work, workload: str, settings: Settings, plain: Path, execution: Path | None) -> None:
    """Write the trace to `plain`, and the Execution Trace to `execution`."""
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function, schedule

    observer = None if execution is None else ExecutionTraceObserver().register_callback(str(execution))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if settings.on_gpu else [])]
    steps = schedule(wait=0, warmup=1, active=settings.iterations, repeat=1)
    with warnings.catch_warnings():
        # the profiler says that a cycle's events are dropped after it: they are exported
        warnings.simplefilter("ignore")
        with profile(
            activities=activities,
            schedule=steps,
            record_shapes=True,
            on_trace_ready=lambda done: done.export_chrome_trace(str(plain)),
            execution_trace_observer=observer,
        ) as profiler:
            for number in range(1 + settings.iterations):
                with record_function(workload):
                    work()
                if number in (0, settings.iterations):
                    synchronize(settings)
                profiler.step()
        if observer is not None:
            observer.unregister_callback()


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
    unfinished = target.with_name(f".{target.name}.tmp")
    with source.open("rb") as plain, gzip.GzipFile(unfinished, "wb", 5, mtime=0) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    unfinished.replace(target)
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
