"""Small captures, made by hand: launches that share names and grids across profilers, and counters of some of them."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import polars as pl

from kerneldb.batch import Manifest, Spool
from kerneldb.derive import derive_names, derive_signatures
from kerneldb.ingest.launches import Signer

Row = dict[str, Any]

MUL_KINETO = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, "
    "float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::"
    "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>"
    "(int, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::"
    "binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, float, float, "
    "at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1})"
)
MUL_NSYS = (
    "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::"
    "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>>(at::TensorIteratorBase &, "
    "const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
)
MUL_NCU = (
    "void elementwise_kernel<128, 2, void gpu_kernel_impl_nocast<BinaryFunctor<float, float, float, MulFunctor<float>>>"
    "(TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
)
EXTENTS = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
GEMM = "nvjet_sm90_tst_80x64_64x11_1x2_h_bz_TNN"

SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
DURATION = "gpu__time_duration.sum"
WAVES = "launch__waves_per_multiprocessor"


@dataclasses.dataclass(frozen=True)
class Launch:
    """A kernel launch; with `counters` (metric → value in base units) it was profiled, else it has a place in time.

    With a process it has a number there, by which other prints of it are found.
    """

    name: str
    duration: int = 1000
    grid: int = 8
    start: int = 0
    counters: dict[str, float] | None = None
    phase: str | None = None
    kind: str = "kernel"
    process: str | None = None


class Captures:
    """Makes manifests in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()

    def __call__(
        self,
        name: str,
        launches: tuple[Launch, ...] = (),
        *,
        sums: dict[str, tuple[Launch, ...]] | None = None,
        **facts: Any,
    ) -> Manifest:
        """A trace with these launches, and with the sums of others that a tool printed, by their origin."""
        trace_id = f"t:{name}"
        spool, signer = Spool(self.folder / f"spool-{next(self._numbers)}"), Signer()
        spool.write("launches", _launches(trace_id, signer, launches))
        for origin, summed in (sums or {}).items():
            spool.write("rollups", _sums(trace_id, signer, origin, summed))
        spool.write("metrics", _metrics(trace_id, launches))
        names = derive_names(signer.names())
        spool.write("kernel_names", names)
        spool.write("signatures", derive_signatures(signer.signatures(), names))
        profiled = any(launch.counters is not None for launch in launches)
        kind = "profiled" if profiled else "timeline" if launches else "summary"
        row = {"trace_id": trace_id, "name": name, "kind": kind, "source": "nsys"} | facts
        spool.write("traces", pl.DataFrame([row], infer_schema_length=None))
        return spool.finish(row)


def _launches(trace_id: str, signer: Signer, launches: tuple[Launch, ...]) -> pl.DataFrame:
    rows = [_launch(trace_id, index, launch) for index, launch in enumerate(launches)]
    return signer.sign(pl.DataFrame(rows, infer_schema_length=None)).drop("name", *EXTENTS) if rows else pl.DataFrame()


def _launch(trace_id: str, index: int, launch: Launch) -> Row:
    profiled = launch.counters is not None
    return {
        "trace_id": trace_id,
        "launch_index": index,
        "kind": launch.kind,
        "name": launch.name,
        "timing": "profiled" if profiled else "timeline",
        "launch_status": "no_launch",
        "device": 0,
        "stream": 7,
        "start_ns": None if profiled else launch.start,
        "end_ns": None if profiled else launch.start + launch.duration,
        "duration_ns": launch.duration,
        "phase": launch.phase,
        "process": launch.process,
        "correlation_id": None if launch.process is None else index,
        **_extents(launch),
    }


def _extents(launch: Launch) -> Row:
    sizes = (launch.grid, 1, 1, 128, 1, 1) if launch.kind == "kernel" else (None,) * len(EXTENTS)
    return dict(zip(EXTENTS, sizes, strict=True))


def _sums(trace_id: str, signer: Signer, origin: str, launches: tuple[Launch, ...]) -> pl.DataFrame:
    rows = [
        {
            "trace_id": trace_id,
            "origin": origin,
            "kind": launch.kind,
            "name": launch.name,
            "timing": "timeline",
            "phase": launch.phase,
            "n": 1,
            "timed": 1,
            "total_ns": launch.duration,
            "min_ns": launch.duration,
            "max_ns": launch.duration,
            **(_extents(launch) if origin == "report_grid" else {}),
        }
        for launch in launches
    ]
    signed = signer.sign(pl.DataFrame(rows, infer_schema_length=None))
    wanted = ("trace_id", "origin", "timing", "phase", "n", "timed", "total_ns", "min_ns", "max_ns", "signature_id")
    return signed.select(wanted)


def _metrics(trace_id: str, launches: tuple[Launch, ...]) -> pl.DataFrame:
    rows = [
        {"trace_id": trace_id, "launch_index": index, "metric": metric, "value": value, "unit": "%", "precision": 0.005}
        for index, launch in enumerate(launches)
        for metric, value in (launch.counters or {}).items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
