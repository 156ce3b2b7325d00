"""What a Perfetto trace says: slices of tracks, readings of counters, and what packets of one writer refer to."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any, Final, NamedTuple

from kerneldb.ingest.output import Report
from kerneldb.ingest.wire import Message

BOOTTIME: Final = 6
"""The number of the boot clock, on which times are unless a packet says otherwise."""

STAGE: Final = "gpu_render_stage_event"
KINDS: Final = {
    **dict.fromkeys(("kernel_dispatch", "rocm_kernel_dispatch", "kernel", "gpu_kernel", "device_hip", STAGE), "kernel"),
    **dict.fromkeys(("memory_copy", "rocm_memory_copy", "gpu_memcpy"), "memcpy"),
    "gpu_memset": "memset",
}
"""Category → kind of launch."""
HOST_ARGUMENTS: Final = ("begin_ns", "end_ns", "corr_id", "correlation")
"""What is kept of the arguments of slices that are no launches."""


@dataclasses.dataclass(slots=True)
class Clock:
    """A clock as a snapshot relates it to the boot clock (None: it does not). `unit_ns` is the length of a tick.

    Times of an incremental clock count from the packet before.
    """

    ticks: int
    boottime_ns: int | None
    unit_ns: int
    incremental: bool

    def boottime(self, ticks: int) -> int | None:
        """A time of this clock in ns of the boot clock."""
        if not self.incremental:
            return None if self.boottime_ns is None else self.boottime_ns + (ticks - self.ticks) * self.unit_ns
        self.ticks += ticks
        if self.boottime_ns is None:
            return None
        self.boottime_ns += ticks * self.unit_ns
        return self.boottime_ns


class Slice(NamedTuple):
    """Something with a start and an end (None: it never ended) in ns; `flows` tie it to others."""

    track: int
    categories: tuple[str, ...]
    name: str
    start_ns: int | None
    end_ns: int | None
    arguments: dict[str, Any]
    flows: tuple[int, ...]


class Reading(NamedTuple):
    """A value of a counter: of a track, or of a GPU by its name."""

    counter: str
    track: int | None
    device: int | None
    ts_ns: int | None
    value: float


@dataclasses.dataclass(frozen=True, slots=True)
class Track:
    """A track: process and thread with their numbers, or what is above it; counters have a unit and a factor."""

    name: str | None
    parent: int | None
    process: str | None
    thread: str | None
    unit: str | None = None
    factor: int = 1
    incremental: bool = False


@dataclasses.dataclass(slots=True)
class Sequence:
    """What packets of one writer refer to: texts by field and number, the default track, and its own clock."""

    interned: dict[int, dict[int, Message]] = dataclasses.field(default_factory=lambda: defaultdict(dict))
    track: int | None = None
    clock: int = BOOTTIME
    clocks: dict[int, Clock] = dataclasses.field(default_factory=dict)

    def text(self, field: int, number: int | None) -> str | None:
        """The text with this number (EventCategory, EventName, …: iid 1, name 2); None where it is not in the file."""
        found = self.interned[field].get(number or 0)
        return None if found is None else found.text(2)


@dataclasses.dataclass(slots=True)
class Trace:
    """All that a file says, in order. `report` counts what is damaged or left out."""

    report: Report
    slices: list[Slice] = dataclasses.field(default_factory=list)
    stages: list[Slice] = dataclasses.field(default_factory=list)
    readings: list[Reading] = dataclasses.field(default_factory=list)
    tracks: dict[int, Track] = dataclasses.field(default_factory=dict)
    packets: int = 0
