"""The columns of nvidia-smi that `power_samples` has, and their values.

Names and units: `nvidia-smi --help-query-gpu` and the section "Device Monitoring" of nvidia-smi(1), drivers 361 to 580.
"""

from __future__ import annotations

import re
from typing import Final

TIME: Final = "timestamp"
DATE_COLUMN: Final = "Date"
TIME_COLUMN: Final = "Time"

IDENTITY: Final[dict[str, str]] = {
    "index": "index",
    "gpu": "index",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "name": "name",
    "gpu_name": "name",
    "pci.bus_id": "bus_id",
    "gpu_bus_id": "bus_id",
}
"""What tells GPUs apart: printed name → index, uuid, name or bus_id. `gpu` is dmon's."""

QUERY: Final[dict[str, tuple[str, ...]]] = {
    "power_w": ("power.draw.instant", "power.draw", "power.draw.average"),
    "energy_mj": ("total_energy_consumption",),
    "sm_mhz": ("clocks.current.sm", "clocks.sm"),
    "memory_mhz": ("clocks.current.memory", "clocks.mem", "clocks.current.mem"),
    "temperature_c": ("temperature.gpu",),
    "gpu_util_pct": ("utilization.gpu",),
    "memory_util_pct": ("utilization.memory",),
    "throttle": ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
}
"""Column of `power_samples` → fields of --query-gpu, the best first."""

DMON: Final[dict[str, tuple[str, ...]]] = {
    "power_w": ("pwr",),
    "sm_mhz": ("pclk",),
    "memory_mhz": ("mclk",),
    "temperature_c": ("gtemp", "temp"),
    "gpu_util_pct": ("sm",),
    "memory_util_pct": ("mem",),
}
"""Column of `power_samples` → columns of dmon. Their units stand in the second header line."""

DMON_COLUMNS: Final = frozenset(
    ("pwr", "gtemp", "mtemp", "temp", "sm", "mem", "enc", "dec", "jpg", "ofa", "mclk", "pclk", "fb", "bar1", "ccpm",
     "pviol", "tviol", "rxpci", "txpci", "sbecc", "dbecc", "pci")
)  # fmt: skip
"""Figures of which a header of dmon has at least one."""

KNOWN: Final = frozenset([TIME, *IDENTITY, *(name for names in QUERY.values() for name in names)])
QUERY_NAME: Final = re.compile(r"^[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*(?: \[[^\]]+\])?$", re.IGNORECASE)
"""A field in the header of --query-gpu: `power.draw [W]`."""

UNITS: Final[dict[str, tuple[str, float]]] = {
    "W": ("W", 1.0),
    "mW": ("W", 1e-3),
    "J": ("mJ", 1e3),
    "mJ": ("mJ", 1.0),
    "MHz": ("MHz", 1.0),
    "%": ("%", 1.0),
    "C": ("°C", 1.0),
    "KiB": ("byte", 2.0**10),
    "MiB": ("byte", 2.0**20),
    "GiB": ("byte", 2.0**30),
}
"""Unit as printed → unit as stored, and the factor between them. Others stay as they are."""

NUMBER: Final = r"^\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z%/]*)\s*$"
ABSENT: Final = r"^\s*(?:-|\[.*\]|N/A|Not Supported|)\s*$"
"""No value: `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `[GPU requires reset]`, and `-` of dmon."""

REASONS: Final = {
    0x0002: "applications clocks",
    0x0004: "software power cap",
    0x0008: "hardware slowdown",
    0x0010: "sync boost",
    0x0020: "software thermal slowdown",
    0x0040: "hardware thermal slowdown",
    0x0080: "hardware power brake",
    0x0100: "display clocks",
}
"""nvmlClocksEventReasons* of nvml.h; being idle (1) is none."""

SINGLE_REASONS: Final = {
    "applications_clocks_setting": "applications clocks",
    "sw_power_cap": "software power cap",
    "hw_slowdown": "hardware slowdown",
    "sync_boost": "sync boost",
    "sw_thermal_slowdown": "software thermal slowdown",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "hardware power brake",
}
"""Reasons that are columns of their own, with the values Active and Not Active."""


def reasons(mask: str) -> str | None:
    """The reasons in a mask such as 0x0000000000000024, joined by "; "; '' for none, None where there is no mask."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return None
    return "; ".join(name for bit, name in REASONS.items() if bits & bit)


def single_reason(field: str) -> str | None:
    """The reason that a column such as `clocks_event_reasons.sw_power_cap` is about."""
    group, _, name = field.partition(".")
    return SINGLE_REASONS.get(name) if group in ("clocks_event_reasons", "clocks_throttle_reasons") else None
