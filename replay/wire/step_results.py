"""What came of running a recorded step again, as workers send it, journals hold it and databases store it."""

from __future__ import annotations

from dataclasses import dataclass

from kerneldb.codec import Int32
from kerneldb.recordings import Measurement
from kerneldb.replay.wire.results import AttemptResult, Grade, Spread
from kerneldb.replay.wire.steps import Mode, Size


@dataclass(frozen=True, slots=True)
class StepKernel:
    """The launches of one signature in a step: what was recorded and what came out, summed over the step.

    `time` is of the sum over its launches, per replayed step; `close_ns` the recorded time of those launches whose
    replayed median is within 10 %. `filled` launches had no call of their own and waited for as long as recorded.
    Of collectives, both times are of the transfer; what they waited for other ranks is apart, in `waited_ns` (recorded)
    and `wait`.
    """

    signature_id: str
    item: str
    ordinal: Int32
    launches: Int32
    grade: Grade
    recorded_ns: Size
    time: Spread | None = None
    reason: str | None = None
    close_ns: Size = 0
    filled: Int32 = 0
    waited_ns: Size | None = None
    wait: Spread | None = None


@dataclass(frozen=True, slots=True)
class Trail:
    """The calls that were tried for an item, because several fit; times are those of one call of it in the step."""

    item: str
    tried: tuple[AttemptResult, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of a step in one mode.

    Of its calls, `rebuilt` ran on the memory of the step, `apart` on inputs of their own, `filled` are stood in for.
    `substituted` counts tensors that were made because the step's own did not fit, with the reasons in `notes`.
    `segments` are the CUDA graphs it was captured as, `uncaptured` the operators between them. `measured` is the step
    as a whole, without a profiler: wall_ns, energy_mj. `trails` are of items whose call was chosen among several,
    `attempts` says which rebuilt call it is of items whose first one is not. `ranks` ran it together; its calls ran on
    as many `streams`.
    """

    step: str
    mode: Mode
    calls: Int32
    rebuilt: Int32 = 0
    apart: Int32 = 0
    filled: Int32 = 0
    kernels: tuple[StepKernel, ...] = ()
    measured: tuple[Measurement, ...] = ()
    segments: Int32 = 0
    uncaptured: tuple[str, ...] = ()
    substituted: Int32 = 0
    notes: tuple[str, ...] = ()
    reason: str | None = None
    memory_bytes: Size | None = None
    wall_s: float = 0.0
    trails: tuple[Trail, ...] = ()
    attempts: tuple[tuple[str, Int32], ...] = ()
    ranks: Int32 = 1
    streams: Int32 = 1
