"""What a replay says of its run and of each item, as workers send it, journals hold it and databases store it.

Standard library only. Times in nanoseconds, sizes in bytes, unless a name says otherwise.
"""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kerneldb import codec
from kerneldb.codec import CodecError, Int32, printable
from kerneldb.replay.wire.energy import CallEnergy
from kerneldb.replay.wire.plan import Candidate, Item, OpCall

OK: Final = "ok"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"

TIME: Final = re.compile(r"(?:19|20)\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?", re.ASCII)

Status = Literal["ok", "failed", "skipped"]


class Grade(enum.StrEnum):
    """How close a replay came; `L0` is the best. Compares by rank."""

    L0 = "L0"
    L1 = "L1"
    L2 = "L2"
    L3 = "L3"
    L4 = "L4"

    @property
    def rank(self) -> int:
        """0 for L0 to 4 for L4."""
        return int(self.value[1])


@dataclass(frozen=True, slots=True)
class Spread:
    """Durations of `n` runs, in nanoseconds.

    `mad_ns` is the median absolute deviation (not scaled); `low_ns` and `high_ns` bound the median with at least 95 %
    confidence, or are the extremes where fewer than six runs allow no such statement.
    """

    n: Int32
    median_ns: float
    mad_ns: float
    low_ns: float
    high_ns: float
    mean_ns: float
    min_ns: float


@dataclass(frozen=True, slots=True)
class Activity:
    """One GPU activity, named as the profiler prints it. `grid` in blocks, `block` in threads, sizes in bytes.

    `shared_bytes` is static plus dynamic shared memory (what Kineto prints as "shared memory").
    """

    kind: str
    name: str
    duration_ns: float = 0.0
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared_bytes: int | None = None
    bytes: int | None = None

    @property
    def launch(self) -> tuple[Any, ...]:
        """All but its duration."""
        return self.kind, self.name, self.grid, self.block, self.shared_bytes, self.bytes


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Where and how a run was made. Fields are None where the machine does not say.

    `started` is UTC, ISO 8601. `l2_bytes` and `memory_bytes` are of the device, clocks in MHz. `arguments` are the
    options of the run, `plan_notes` the notes of its plan.
    """

    run_id: str
    started: str
    cache: str
    device: str
    device_index: Int32 | None = None
    gpu: str | None = None
    vendor: str | None = None
    arch: str | None = None
    uuid: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    cublas: str | None = None
    kerneldb: str | None = None
    host: str | None = None
    python: str | None = None
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    sm_count: Int32 | None = None
    max_sm_mhz: int | None = None
    max_memory_mhz: int | None = None
    power_limit_w: float | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    plan_notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a start that is not a time, or in another spelling of ISO 8601 than the database reads."""
        try:
            datetime.datetime.fromisoformat(self.started if TIME.fullmatch(self.started) else "")
        except ValueError:
            message = f"expected a time such as 2026-01-31T12:00:00, found '{printable(self.started)}'"
            raise CodecError(message, "started") from None


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A reading of the device: clocks in MHz, °C, watts, and the names of the reasons why clocks are held down."""

    sm_mhz: Int32 | None = None
    memory_mhz: Int32 | None = None
    temperature_c: Int32 | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopCost:
    """Time per call in a CUDA-graph loop: `calls` calls per graph, over a ring of `ring` input sets."""

    time: Spread
    calls: Int32
    ring: Int32


@dataclass(frozen=True, slots=True)
class KernelResult:
    """A planned kernel and what came out in its place.

    `replayed` is None where nothing did. `unknown` names the launch fields that neither side has, `share` is the
    kernel's part of the call's GPU time (0–1), `time` its CUPTI durations.
    """

    ordinal: Int32
    signature_id: str
    name: str
    grade: Grade
    reason: str | None = None
    replayed: Activity | None = None
    unknown: tuple[str, ...] = ()
    share: float | None = None
    time: Spread | None = None


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """A call tried for an item whose own is not recorded, and how the kernel that came out compares.

    `candidate` is its place among the item's candidates, None where it was made from an earlier try; `attempt` the
    number by which a result names it. Times are GPU nanoseconds. `reason` says what differs, or the error.
    """

    call: OpCall
    why: str
    grade: Grade
    candidate: Int32 | None = None
    overload: str | None = None
    same_name: bool | None = None
    same_grid: bool | None = None
    same_block: bool | None = None
    same_shared: bool | None = None
    time_ns: float | None = None
    recorded_ns: float | None = None
    score: float | None = None
    reason: str | None = None
    accepted: bool = codec.once("believed", False)
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """What became of one item under one cache state.

    `status` is ok, failed or skipped (not attempted; a resumed run tries it). `time` is the GPU time of the call (all
    activities, CUPTI), on a CPU its wall time; `loop` the CUDA-graph loop, with `loop_note` where there is none.
    `extra` activities came out unplanned, `missing` names did not come out. `tries` counts rebuilt calls, and `attempt`
    is the one that was kept, counted from 0; `wall_s` seconds spent. `energy` is None where none was asked for, or none
    is known yet. `trail` are the calls tried for an item without a recorded one, and `found` the one that is accepted.
    """

    item: str
    route: str
    cache: str
    status: Status
    grade: Grade
    reason: str | None = None
    overload: str | None = None
    notes: tuple[str, ...] = ()
    tries: Int32 = 0
    warmup: Int32 = 0
    runs: Int32 = 0
    wall_s: float = 0.0
    final: bool = True
    kernels: tuple[KernelResult, ...] = ()
    extra: tuple[Activity, ...] = ()
    missing: tuple[str, ...] = ()
    time: Spread | None = None
    loop: LoopCost | None = None
    loop_note: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    state: DeviceState | None = None
    attempt: int | None = None
    energy: CallEnergy | None = None
    trail: tuple[AttemptResult, ...] = ()
    found: Candidate | None = None


def failure(item: Item, cache: str, reason: str, status: Status = FAILED) -> CallResult:
    """The result of a call that failed, or that was not attempted: L4 for all of its kernels."""
    kernels = tuple(KernelResult(one.ordinal, one.signature_id, one.name, Grade.L4, reason) for one in item.kernels)
    missing = tuple(one.name for one in item.kernels)
    return CallResult(item.id, item.route, cache, status, Grade.L4, reason, kernels=kernels, missing=missing)
