"""What counter profilers are asked for, set by set, and what their refusals mean.

Sections and metrics of Nsight Compute are those of its section files (2025.3), counters of rocprofv3 the derived ones
of its page on counter collection; AMD's names differ between architectures, `rocprofv3 --list-avail` lists them.
"""

from __future__ import annotations

import re
from typing import Final

SECTIONS: Final = (
    "SpeedOfLight", "SpeedOfLight_RooflineChart", "SpeedOfLight_HierarchicalSingleRooflineChart",
    "SpeedOfLight_HierarchicalDoubleRooflineChart", "SpeedOfLight_HierarchicalHalfRooflineChart",
    "SpeedOfLight_HierarchicalTensorRooflineChart", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats",
)  # fmt: skip
"""Identifiers of the sections of Nsight Compute that the views `bounds` and `ncu_roofline` read."""

METRICS: Final = ("dram__bytes.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")
"""DRAM bytes, which these sections have as rates only."""

SETS: Final = {
    "roofline": (*SECTIONS[:6], *METRICS),
    "memory": ("SpeedOfLight", *SECTIONS[6:8], *METRICS, "lts__t_bytes.sum", "l1tex__t_bytes.sum"),
    "compute": ("SpeedOfLight", "ComputeWorkloadAnalysis", "InstructionStats"),
    "stalls": ("WarpStateStats", "SchedulerStats", "Occupancy"),
}
"""What a set asks of Nsight Compute: sections, and metrics, which have a dot."""

ALWAYS: Final = ("LaunchStats", "gpu__time_duration.sum")
"""What says which kernel was profiled, and the duration that rates are taken over."""

PASSES: Final = {"roofline": 13, "memory": 10, "compute": 8, "stalls": 6}
"""Passes that a set takes on Hopper with ncu 2025.3, about."""

PER_PASS: Final = 4
"""Other metrics that a pass has, about: bytes of DRAM and L2, occupancy and duration took one."""

AMD_SETS: Final = {
    "roofline": ("FETCH_SIZE", "WRITE_SIZE", "OccupancyPercent"),
    "memory": ("FETCH_SIZE", "WRITE_SIZE", "L2CacheHit", "MemUnitBusy"),
    "compute": ("VALUBusy", "VALUUtilization", "SALUBusy", "MfmaUtil"),
    "stalls": ("MemUnitStalled", "WriteUnitStalled", "LDSBankConflict", "OccupancyPercent"),
}
"""Counters of rocprofv3 by set; it collects each in a run of its own."""

NAMED: Final = re.compile(r"[A-Za-z]\w*__\w+(?:\.\w+)*|[A-Z]\w*(?:\[\d+\])?")
"""Names of metrics: of Nsight Compute (unit__counter.rollup), of ROCm (which begin with a capital)."""

REMEDIES: Final = {
    "ERR_NVGPUCTRPERM": "Profile as root, or allow counters: https://developer.nvidia.com/ERR_NVGPUCTRPERM.",
    "driver resource was unavailable": "Another profiler holds the counters (DCGM, another ncu or nsys, CUPTI): end "
    "it, or pause it (`dcgmi profile --pause`).",
    "profiler is already": "End the other profiler of this process, or start without it.",
    "driver is not compatible": "Install a version of Nsight Compute for this driver, and name it with --ncu PATH.",
    "LibraryNotLoaded": "Counters cannot be read in this container or sandbox: run on the host, or in one that passes "
    "the driver's profiling interface through.",
    "No kernels were profiled": "Check the kernel and NVTX filters, and profile child processes "
    "(`--target-processes all`).",
    "application returned an error code": "Run the program without ncu until it ends well, then profile again.",
    "No space left": "Free some space, or point TMPDIR elsewhere.",
}
"""What to do about messages of Nsight Compute, by what they contain."""

_MESSAGE: Final = re.compile(r"==(ERROR|WARNING)==\s*(\S.*)")


def complaint(text: str) -> str:
    """The first errors (else warnings) in the output of Nsight Compute, in one line, with what to do; '' for none."""
    found = [(kind, said.strip()) for kind, said in _MESSAGE.findall(text)]
    chosen = [said for kind, said in found if kind == "ERROR"] or [said for _, said in found]
    return advised(chosen)


def advised(said: list[str]) -> str:
    """The first three messages in one line, with what to do about the first known one of all."""
    remedy = next((hint for mark, hint in REMEDIES.items() if any(mark in text for text in said)), "")
    return " ".join([*said[:3], remedy]).strip()


def unknown(names: tuple[str, ...]) -> list[str]:
    """What of `names` is neither a set nor may be the name of a metric."""
    return [name for name in names if name not in SETS and not NAMED.fullmatch(name)]


def passes(names: tuple[str, ...]) -> int:
    """About how often each kernel runs, so that Nsight Compute has these sets and metrics."""
    sets = [PASSES[name] for name in names if name in PASSES]
    return (
        max(sets, default=0) + sum(sorted(sets)[:-1]) // 2 + -(-sum(name not in PASSES for name in names) // PER_PASS)
        or 1
    )
