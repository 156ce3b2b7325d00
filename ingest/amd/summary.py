"""What the report says of every trace of AMD's profilers."""

from __future__ import annotations

from typing import Final

from kerneldb.ingest.amd.host import Host
from kerneldb.ingest.amd.launches import Launches
from kerneldb.ingest.amd.output import Output

PROFILED: Final = "kernels timed under counter collection: not part of time sums"
RDNA_SCALARS: Final = "scalar registers are fixed on RDNA and limit nothing: sgprs left empty"


def describe(output: Output, host: Host, launches: Launches) -> None:
    """Say how launches were linked, and what was left empty on purpose."""
    for status, n in launches.statuses.items():
        output.report.add("note", f"launches {status}", n)
    if host.has_ranges:
        output.report.add("note", "launches inside roctx ranges", launches.phased)
    output.report.add("note", PROFILED, launches.timings["profiled"])
    output.report.add("note", RDNA_SCALARS, launches.rdna)
