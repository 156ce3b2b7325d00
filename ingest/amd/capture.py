"""What files of one run have in common: `<folder>/<prefix>_kernel_trace.csv`, `<prefix>_results.db`, `pass_2/…`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

WRAPPINGS: Final = (".gz", ".csv", ".json", ".db", ".rpd")
KINDS: Final = re.compile(
    r"[_.]?(results?(\.(\w+_)?stats)?|(agent_info|kernel_trace|kernel_stats|(copy_|hip_|hsa_)?stats|counter_collection|memory_copy_(trace|stats)|"
    r"memory_allocation_(trace|stats)|scratch_memory_(trace|stats)|domain_stats|"
    r"(hip|hip_api|hip_runtime_api|hip_compiler_api|hsa|hsa_api|marker|marker_api|rccl|rccl_api|rocdecode_api|"
    r"rocjpeg_api|ompt|kfd)_(trace|stats|domain_stats)|pc_sampling_\w+|regions|kernels|markers|counters))$"
)
PASS: Final = re.compile(r"pass_(\d+)")


def prefix_of(path: Path) -> str:
    """The part of a file's name that all files of the run share: `24228` of `24228_kernel_trace.csv`."""
    name = path.name
    for ending in WRAPPINGS:
        name = name.removesuffix(ending)
    return KINDS.sub("", name)


def pass_of(path: Path) -> int | None:
    """The number of the pass, from the folder `pass_<n>`."""
    found = PASS.fullmatch(path.resolve().parent.name)
    return int(found.group(1)) if found else None


def era_of(form: str, path: Path) -> str:
    """`form`, with the pass behind it: passes of one run repeat its launches, so only one of them may count."""
    number = pass_of(path)
    return form if number is None else f"{form}, pass {number}"
