"""Durations that a roofline expects of a call, to rank candidates by: work over peak, bytes over bandwidth, a floor.

The shares of peak and bandwidth are what good kernels of A100 and H100 class GPUs reach in PyTorch models.
"""

from __future__ import annotations

import math
from typing import Final

from kerneldb.replay.infer.calls import FP8
from kerneldb.replay.plan.unknowns import Device

PEAK_SHARE: Final = 0.72
BANDWIDTH_SHARE: Final = 0.72
FLOOR_NS: Final = 1500.0
PRODUCT_FLOOR_NS: Final = 2500.0
PEAKS: Final = {"fp16": 300.0, "bf16": 300.0, "fp32": 20.0, "tf32": 150.0, "fp64": 10.0, "fp8": 600.0}
BANDWIDTH_GBS: Final = 1500.0
SHARPNESS: Final = 1.5


def expected(device: Device, moved: float, flops: float = 0.0, dtype: str | None = None) -> float:
    """Nanoseconds for `moved` bytes and `flops` operations."""
    floor = PRODUCT_FLOOR_NS if flops else FLOOR_NS
    return floor + max(moved / bandwidth(device), flops / peak(device, dtype) / 1000)


def bandwidth(device: Device) -> float:
    """Bytes per nanosecond that good kernels move; that of an A100 where the device is not known."""
    return (device.bandwidth_gbs or BANDWIDTH_GBS) * BANDWIDTH_SHARE


def peak(device: Device, dtype: str | None) -> float:
    """TFLOPS that good matrix products of a dtype reach; those of an A100 where the device is not known."""
    name = "fp8" if dtype in FP8 else dtype or ""
    return (device.peaks.get(name) or PEAKS.get(name, PEAKS["fp32"])) * PEAK_SHARE


def likeness(expected_ns: float | None, recorded_ns: float | None) -> float:
    """1 where both are equal, towards 0 with their ratio; 0.5 where one is not known."""
    if not expected_ns or not recorded_ns:
        return 0.5
    return math.exp(-SHARPNESS * abs(math.log(expected_ns / recorded_ns)))
