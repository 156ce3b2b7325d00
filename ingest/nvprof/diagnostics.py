"""What `kerneldb db doctor` says about files of nvprof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import NO_DEVICES, Diagnostic, launched, read_table
from kerneldb.ingest.nsys.diagnostics import OPERATORS, defects, sums_only

SINGLE: Final = "Print single launches: `nvprof --csv --print-gpu-trace --import-profile FILE.nvvp`."
DATABASE: Final = "Give the file of `nvprof --export-profile FILE.nvvp`, which holds whole nanoseconds and bytes."
NEWER: Final = (
    "nvprof sees no GPU of compute capability 8.0 or higher (A100 and later): record there with "
    "`nsys profile --trace=cuda,nvtx`."
)
PHASES: Final = "Ingest a file of one stage with `--phase NAME`, or record with `nsys profile --trace=cuda,nvtx`."
ROUNDED: Final = {
    "shared_rounded": "rounded shared memory",
    "bytes_rounded": "rounded copied bytes",
    "start_rounded": "rounded starts",
    "duration_rounded": "rounded durations",
}


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """Diagnostics of one file, as text or database.

    nvprof ends with compute capability 7.x: https://docs.nvidia.com/cuda/profiler-users-guide/, "Migrating to Nsight
    Tools from Visual Profiler and nvprof".
    """
    if manifest.trace["kind"] == "summary":
        yield sums_only(manifest, SINGLE)
        return
    launches = read_table(manifest, "launches")
    if launches.is_empty() or "kernel" not in launches["kind"]:
        yield Diagnostic("problem", "no GPU events", "The file holds no kernels.", NEWER)
        return
    yield launched(launches)
    for defect, number in defects(launches):
        message = f"{number:,} launches with {ROUNDED.get(defect, defect)}: the printed text has no more digits."
        yield Diagnostic("note", "precision", message, DATABASE)
    if "devices" not in manifest.parts:
        yield NO_DEVICES
    message = "Calls and NVTX ranges of nvprof are not read: launches have none."
    yield Diagnostic("note", "launch calls", message, PHASES)
    yield Diagnostic("note", "operators", "nvprof records no operators: launches have no shapes.", OPERATORS)
