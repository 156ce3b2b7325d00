"""Traces a few iterations with PyTorch's profiler: shapes recorded, the Execution Trace beside, steps marked.

Each iteration is a step of the profiler (`ProfilerStep#2`) and stands in a range named as its stage. One step more
runs before them, with the profiler on and not recorded: the first one pays for the start of CUPTI.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kerneldb.replay.recording.busy import Activities, activities, transfers
from kerneldb.replay.recording.ranks import ALONE, Ranks
from kerneldb.replay.recording.settings import CUDA_GRAPH, Settings
from kerneldb.replay.recording.stages import Work, synchronize

TRACE_ENDING: Final = ".pt.trace.json.gz"
EXECUTION_ENDING: Final = ".et.json.gz"
LEVEL: Final = 5
TAIL_BYTES: Final = 4096
FILE_NAME: Final = re.compile(rb'("traceName"\s*:\s*")(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace in the bundle, and per iteration the GPU-busy time and the number of launches on the device.

    `busy_ns` is None where collectives wait for other ranks for nobody knows how long. `sha256` is that of the
    decompressed text, which the identity of the trace in a database comes from.
    """

    file: str
    sha256: str
    bytes: int
    iterations: int
    launches: float
    busy_ns: float | None
    execution_trace: str | None = None


def stem(stage: str, mode: str) -> str:
    """The name of the files of a stage, without ending."""
    return stage if mode != CUDA_GRAPH else f"{stage}.{mode}"


def trace(work: Work, part: tuple[str, str], settings: Settings, folder: Path, ranks: Ranks = ALONE) -> Traced:
    """Trace `settings.iterations` iterations into `folder`. Files appear when they are complete."""
    stage, mode = part
    plain, execution = folder / f".{stem(*part)}.json", folder / f".{stem(*part)}.et.json"
    observer = None if mode == CUDA_GRAPH else _observer(execution)
    try:
        _profile(work, stage, settings, plain, observer)
        ran = activities(json.loads(plain.read_bytes())["traceEvents"])
        busy = _busy_ns(ran, ranks)
        _forget_path(plain, f"{stem(*part)}{TRACE_ENDING.removesuffix('.gz')}")
        size, digest = plain.stat().st_size, _sha256(plain)
        beside = _packed(execution, folder / f"{stem(*part)}{EXECUTION_ENDING}") if execution.exists() else None
        packed = _packed(plain, folder / f"{stem(*part)}{TRACE_ENDING}")
    finally:
        plain.unlink(missing_ok=True)
        execution.unlink(missing_ok=True)
    n = settings.iterations
    each = None if busy is None else busy / n
    return Traced(packed.name, digest, size, n, ran.count / n, each, None if beside is None else beside.name)


def _observer(path: Path) -> Any:
    from torch.profiler import ExecutionTraceObserver

    return ExecutionTraceObserver().register_callback(str(path))


def _profile(work: Work, stage: str, settings: Settings, plain: Path, observer: Any) -> None:
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if settings.on_gpu else [])]
    steps = schedule(wait=0, warmup=1, active=settings.iterations, repeat=1)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the profiler says that a cycle's events are dropped after it: they are exported
        with profile(
            activities=activities,
            schedule=steps,
            record_shapes=True,
            on_trace_ready=lambda done: done.export_chrome_trace(str(plain)),
            execution_trace_observer=observer,
        ) as profiler:
            for number in range(1 + settings.iterations):
                with record_function(stage):
                    work()
                if number in (0, settings.iterations):
                    synchronize(settings)
                profiler.step()
        if observer is not None:
            observer.unregister_callback()


def _busy_ns(found: Activities, ranks: Ranks) -> float | None:
    """Of a job, without the waits of collectives; None where its ranks do not show the same collectives."""
    if not ranks.many:
        return found.busy_ns()
    shortest = transfers(ranks.gather(found.collectives()))
    return None if shortest is None else found.busy_ns(shortest)


def _forget_path(path: Path, name: str) -> None:
    """The profiler notes the path that it wrote to behind the events: leave the name of the file only."""
    with path.open("r+b") as file:
        start = max(0, path.stat().st_size - TAIL_BYTES)
        file.seek(start)
        tail = FILE_NAME.sub(rb"\g<1>" + name.encode() + b'"', file.read())
        file.seek(start)
        file.write(tail)
        file.truncate()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _packed(source: Path, target: Path) -> Path:
    """Compress `source` into `target`, which appears when it is complete."""
    unfinished = target.with_name(f".{target.name}.tmp")
    with source.open("rb") as plain, gzip.GzipFile(unfinished, "wb", LEVEL, mtime=0) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    unfinished.replace(target)
    return target
