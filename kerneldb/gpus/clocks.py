"""Why a GPU's clocks are below their highest, as NVML says it: nvmlClocksEventReasons* of nvml.h."""

from __future__ import annotations

from typing import Final

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


def reasons(mask: int) -> tuple[str, ...]:
    """The names of the reasons in a mask; being idle (1) is none."""
    return tuple(name for bit, name in REASONS.items() if mask & bit)
