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
from pathlib import Path
from typing import Final

from kerneldb.recordings import Part, Traced
from kerneldb.replay.recording.busy import activities, transfers
from kerneldb.replay.recording.ranks import ALONE, Ranks
from kerneldb.replay.recording.settings import CUDA_GRAPH, Settings
from kerneldb.replay.recording.stages import Work, synchronize

TRACE_ENDING: Final = ".pt.trace.json.gz"
EXECUTION_ENDING: Final = ".et.json.gz"
LEVEL: Final = 5
TAIL_BYTES: Final = 4096
FILE_NAME: Final = re.compile(rb'("traceName"\s*:\s*")(?:[^"\\]|\\.)*"')


def trace(work: Work, part: Part, settings: Settings, folder: Path, ranks: Ranks = ALONE) -> Traced:
    """Trace `settings.iterations` iterations into `folder`. Files appear when they are complete."""
    stem = part.stage if part.mode != CUDA_GRAPH else f"{part.stage}.{part.mode}"
    plain, execution = folder / f".{stem}.json", folder / f".{stem}.et.json"
    try:
        _profile(work, part.stage, settings, plain, None if part.mode == CUDA_GRAPH else execution)
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


def _profile(work: Work, stage: str, settings: Settings, plain: Path, execution: Path | None) -> None:
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
                with record_function(stage):
                    work()
                if number in (0, settings.iterations):
                    synchronize(settings)
                profiler.step()
        if observer is not None:
            observer.unregister_callback()


def _forget_path(path: Path, name: str) -> None:
    """The profiler notes the path that it wrote to behind the events: leave the name of the file only."""
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
    with source.open("rb") as plain, gzip.GzipFile(unfinished, "wb", LEVEL, mtime=0) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    unfinished.replace(target)
    return target.name
