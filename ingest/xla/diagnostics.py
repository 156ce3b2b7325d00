"""What `kerneldb db doctor` says of profiles of XLA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import NO_DEVICES, Diagnostic, launched, read_table, untimed

XPLANE: Final = "Give the `*.xplane.pb` of the same session: it holds the HLO modules and the GPU."
DISCARDED: Final = "Compile inside the profiled program, or profile with `enable_hlo_proto` (the default)."
WHOLE: Final = "Profile without `gpu_enable_cupti_activity_graph_trace`."
ANNOTATE: Final = 'Wrap stages in `jax.profiler.TraceAnnotation("prefill")`, or ingest with `--phase NAME`.'


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """Judge a converted profile: whether kernels have an instruction with shapes, the GPU a name, stages a phase."""
    launches = read_table(
        manifest, "launches", "signature_id", "kind", "duration_ns", "launch_status", "phase", "api_index"
    )
    yield launched(launches)
    yield from untimed(launches)
    kernels = launches.filter(pl.col("kind") == "kernel")
    linked = kernels.filter(pl.col("launch_status") == "linked").height
    text = f"{linked:,} of {kernels.height:,} kernels have their HLO instruction with shapes."
    graphs = launches.filter(pl.col("kind") == "graph").height
    if graphs:
        hidden = f"{graphs:,} command buffers were recorded as a whole: their kernels are not in the file."
        yield Diagnostic("warning", "command buffers", hidden, WHOLE)
    if linked < kernels.height:
        remedy = XPLANE if manifest.trace["era"] == "trace.json" else DISCARDED
        yield Diagnostic("warning", "HLO", text, remedy)
    elif linked:
        yield Diagnostic("ok", "HLO", text)
    if "devices" not in manifest.parts:
        yield NO_DEVICES
    called = launches["api_index"].count()
    yield Diagnostic("ok", "launch calls", f"{called:,} of {launches.height:,} launches are linked to the driver call.")
    if launches["phase"].null_count() == launches.height:
        text = "No annotations around launches, or only steps: they have no phase."
        yield Diagnostic("note", "phases", text, ANNOTATE)
