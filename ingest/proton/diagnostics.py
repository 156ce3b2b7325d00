"""What `kerneldb db doctor` says of profiles of Proton."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import NO_DEVICES, Diagnostic, launched, read_table, untimed

TIMELINE: Final = 'Profile with `triton.profiler.start(NAME, data="trace")` for single launches.'
SCOPES: Final = 'Wrap stages in `triton.profiler.scope("prefill")`, or ingest with `--phase NAME`.'


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """Judge a converted profile: sums or launches, and whether they are in scopes."""
    is_summary = manifest.trace["kind"] == "summary"
    rows = read_table(manifest, "rollups" if is_summary else "launches", "signature_id", "phase", "n", "duration_ns")
    if is_summary:
        text = f"{rows.height:,} sums, no single launches: no timeline, gaps, launch parameters or replays."
        yield Diagnostic("note", "sums only", text, TIMELINE)
    else:
        yield launched(rows)
        yield from untimed(rows)
    if rows["phase"].null_count() == rows.height:
        yield Diagnostic("note", "phases", "No scopes around kernels: they have no phase.", SCOPES)
    if "devices" not in manifest.parts:
        yield NO_DEVICES
