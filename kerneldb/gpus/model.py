"""The record of one GPU model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

PEAKS: Final = {
    **{dtype: f"{dtype}_tflops" for dtype in ("fp64", "fp32", "tf32", "fp16", "bf16")},
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "mxfp8"), "fp8_tflops"),
    **dict.fromkeys(("fp4", "mxfp4"), "fp4_tflops"),
    **dict.fromkeys(("int8", "uint8"), "int8_tops"),
}
"""Element type, as kernel names spell it in kerneldb → the figure of a Gpu that is its peak."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Facts of a GPU as a program sees it: one device, so one of the two dies of an MI250X.

    Peaks are dense (no structured sparsity) rates at boost clock, in units of 1e12 operations per second, a
    multiply-add as two, accumulating in fp32 (int32 for int8): the fastest unit for the type counts, matrix units
    included; `fp32_tflops` of NVIDIA GPUs is that of the CUDA cores, because TF32 rounds its inputs. `memory_gib` is
    the nominal capacity, `bandwidth_gbs` in 1e9 bytes per second. Per-multiprocessor limits are per SM (NVIDIA) or
    compute unit (AMD); registers are 32 bits wide.

    `source` names the document of all figures but those for which `sources` names another one. What no source states is
    None; where a figure might be expected, `sources` says why there is none.
    """

    name: str
    vendor: str
    arch: str
    source: str
    multiprocessors: int | None = None
    memory_gib: int | None = None
    bandwidth_gbs: float | None = None
    fp64_tflops: float | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    fp4_tflops: float | None = None
    int8_tops: float | None = None
    l2_bytes: int | None = None
    max_threads_per_multiprocessor: int | None = None
    registers_per_multiprocessor: int | None = None
    shared_bytes_per_multiprocessor: int | None = None
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def memory_bytes(self) -> int | None:
        """Nominal memory in bytes."""
        return None if self.memory_gib is None else self.memory_gib * 2**30

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """Peak memory bandwidth in bytes per second."""
        return None if self.bandwidth_gbs is None else self.bandwidth_gbs * 1e9

    def peak_flops(self, dtype: str) -> float | None:
        """Peak operations per second for an element type of PEAKS, if known."""
        peak: float | None = getattr(self, PEAKS[dtype]) if dtype in PEAKS else None
        return None if peak is None else peak * 1e12
