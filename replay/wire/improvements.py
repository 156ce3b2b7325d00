"""What came of the rewrites that were tried in a step, as the process on the device writes it: one JSON line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kerneldb.codec import Int32

Status = Literal["accepted", "rejected", "not tried", "together"]


@dataclass(frozen=True, slots=True)
class Times:
    """Nanoseconds before and after, and the share saved with its 95 % interval."""

    before_ns: float
    after_ns: float
    gain: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Improvement:
    """A rewrite in a step: where, what, how exact, and what it gains.

    `together` is the row of all accepted ones at once. `alone` is of one place by itself, `busy` and `wall` of the
    step; `energy` in millijoules where times are in nanoseconds. What was not measured is None, `reason` says why it
    is not accepted, `wall_reason` and `energy_reason` why there is no figure.
    """

    step: str
    number: Int32
    rewrite: str
    status: Status
    what: str = ""
    place: str | None = None
    places: Int32 = 0
    calls: Int32 = 0
    alone: Times | None = None
    busy: Times | None = None
    wall: Times | None = None
    energy: Times | None = None
    error: float | None = None
    error_before: float | None = None
    error_ratio: float | None = None
    reason: str | None = None
    wall_reason: str | None = None
    energy_reason: str | None = None
    change: Mapping[str, Any] = field(default_factory=dict)
