"""Counter profilers as command lines: Nsight Compute, and rocprofv3 for AMD.

Options of Nsight Compute as in NVIDIA's CLI guide (2025.3). Cold caches are its own flush before each pass. In the
states warm and mixed nothing is flushed: mixed runs the whole worker once per pass (application replay), because
the passes of kernel replay find what the one before left in the caches. Clocks are left as they are.

rocprofv3 as in AMD's guide on it (ROCm 7); it has not been tried on a GPU.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kerneldb.gpus import counting
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host import traffic
from kerneldb.replay.options import Options

AMD: Final = "AMD"
NCU_PLACES: Final = (
    "usr/local/cuda*/bin/ncu", "opt/nvidia/nsight-compute/*/ncu", "usr/local/NVIDIA-Nsight-Compute*/ncu",
)  # fmt: skip
KERNEL_REPLAY: Final = "kernel"
STATES: Final = {"cold": (KERNEL_REPLAY, "all"), "warm": (KERNEL_REPLAY, "none"), "mixed": ("application", "none")}
"""Replay mode and cache control of Nsight Compute by state of the cache."""
TABLE: Final = re.compile(rb'^"?(?:ID"?,"?Process ID|Correlation_Id"?,"?Dispatch_Id)', re.MULTILINE)
"""The header of a table of either profiler."""
VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Profiler:
    """A counter profiler: what it is called, where it is, and which version."""

    name: str
    path: str
    version: str = ""

    def commands(self, options: Options, output: Path, worker: Sequence[str]) -> list[list[str]]:
        """The command lines that run `worker` and write files whose names begin with that of `output`."""
        if self.name == "ncu":
            asked = traffic.parts(needed(options), kernel_replay=STATES[options.cache][0] == KERNEL_REPLAY)
            pages = [f"{output}{traffic.SUFFIX}.csv", f"{output}.csv"][-len(asked) :]
            return [
                [self.path, *ncu_options(options, part), "--log-file", page, *worker]
                for part, page in zip(asked, pages, strict=True)
            ]
        return [
            [
                *(self.path, "--pmc", counter, "--selected-regions", "--output-format", "csv"),
                *("-d", str(output.parent), "-o", f"{output.name}.{number}", "--", *worker),
            ]
            for number, counter in enumerate(_amd_counters(options.counters), 1)
        ]

    @staticmethod
    def written(output: Path) -> list[Path]:
        """The files with tables that it wrote; bytes that have a page of their own go into that of all else."""
        found = sorted(output.parent.glob(f"{output.name}.*csv"))
        tables = [path for path in found if TABLE.search(path.read_bytes())]
        apart, whole = output.with_name(f"{output.name}{traffic.SUFFIX}.csv"), output.with_name(f"{output.name}.csv")
        if apart in tables:
            if whole in tables:
                traffic.join(whole, apart)
            apart.unlink()
        return [path for path in tables if path != apart]


def needed(options: Options) -> list[str]:
    """The sections and metrics that are asked for, and those that say which kernel it was."""
    asked = [part for name in options.counters for part in counting.SETS.get(name, (name,))]
    return list(dict.fromkeys((*asked, *counting.ALWAYS)))


def ncu_options(options: Options, wanted: Sequence[str] | None = None) -> list[str]:
    """What Nsight Compute is to collect (all that is needed, or `wanted` of it), of what, how, and how it prints it."""
    wanted = needed(options) if wanted is None else wanted
    sections = [part for name in wanted if "__" not in name for part in ("--section", name)]
    metrics = ["--metrics", ",".join(name for name in wanted if "__" in name)]
    mode, flush = STATES[options.cache]
    return [
        *("--profile-from-start", "off", "--replay-mode", mode, "--cache-control", flush, "--clock-control", "none"),
        *("--target-processes", "all", "--nvtx", *sections, *metrics),
        *("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled"),
    ]


def _amd_counters(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(part for name in names for part in counting.AMD_SETS.get(name, (name,))))


def find(options: Options, vendor: str | None) -> Profiler:
    """The profiler for a GPU of `vendor`. Raises ReplayError for names that it cannot have, and where it is missing."""
    strange = counting.unknown(options.counters)
    if strange:
        sets = ", ".join(counting.SETS)
        raise ReplayError(f"no counters {strange[0]!r}: give {sets}, or names of metrics such as dram__bytes.sum")
    name = "rocprofv3" if (vendor or "").upper() == AMD else "ncu"
    if options.ncu is not None:
        if not os.access(options.ncu, os.X_OK) or Path(options.ncu).is_dir():
            raise ReplayError(f"{options.ncu}: no program that can be run; --ncu PATH names the program {name}")
        return Profiler(name, options.ncu, _version(options.ncu))
    path = shutil.which(name) or (_installed() if name == "ncu" else None)
    if path is None:
        package = "Nsight Compute (ncu)" if name == "ncu" else "rocprofv3 (package rocprofiler-sdk)"
        raise ReplayError(f"counters are read by {package}, which is not on PATH: install it, or give --ncu PATH")
    return Profiler(name, path, _version(path))


def require(options: Options, vendor: str | None) -> None:
    """Raise ReplayError where there is no profiler, of whatever vendor: a plan of one may run on GPUs of another."""
    try:
        find(options, vendor)
    except ReplayError as error:
        other = "NVIDIA" if (vendor or "").upper() == AMD else AMD
        try:
            find(options, other)
        except ReplayError:
            raise error from None


def _installed() -> str | None:
    """The newest ncu where its installers put it."""
    found = [path for place in NCU_PLACES for path in Path("/").glob(place) if os.access(path, os.X_OK)]
    newest = max(found, key=lambda path: [int(part) for part in re.findall(r"\d+", str(path))], default=None)
    return None if newest is None else str(newest)


@functools.cache
def _version(path: str) -> str:
    """What it says of its version; '' where it does not."""
    try:
        said = subprocess.run(  # noqa: S603 (the profiler that the user names, or the one that is installed)
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=60, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReplayError(f"{path} --version: {error}; --ncu PATH names the profiler") from error
    found = VERSION.findall(said)
    return found[-1] if found else ""
