"""What the balance is made of: measured workloads, sums over their launches, how the device ran, and replays."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerneldb.reconciliation.unknown import Figure

Key: TypeAlias = tuple[str, str, str | None]
"""Trace, workload and mode."""

GRAPH: Final = "cuda_graph"
COMMUNICATION: Final = "COMMUNICATION"
KNOWN_PCT: Final = 80.0
"""So much has to be known of a time or an energy, or busy of a workload, before an error or an interval is given."""


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """What was measured of a workload without a profiler, and the traces that its kernels are read from.

    `trace` has the name of the trace of the workload and mode, `kernels_trace` of the one with names and calls of the
    kernels; `launches_trace_id` is that whose launches count, in a job of `launches_world_size` ranks. `rank`, `job`,
    `world_size` are those of the trace of the workload, which is here where it `has_trace`. Figures are per iteration:
    times in ns, energies in mJ, powers in W, clocks in MHz; `busy_ns` is the measured time in which the GPU ran
    anything, `launches` the measured number of launches.
    """

    trace: str
    run: str | None
    model: str | None
    board: str | None
    workload: str
    mode: str | None
    gpu: str | None
    kernels_trace: str | None
    wall_ns: Figure
    wall_low_ns: Figure
    wall_high_ns: Figure
    wall_method: str | None
    energy_mj: Figure
    energy_low_mj: Figure
    energy_high_mj: Figure
    energy_method: str | None
    energy_reason: str | None
    busy_ns: Figure
    launches: Figure
    sm_mhz: Figure
    gap_run_id: str | None
    gap_ns: Figure
    launch_loop_power_w: Figure
    launch_loop_power_error_w: float
    context_power_w: Figure
    trace_id: str | None
    kernels_trace_id: str
    launches_trace_id: str
    has_trace: bool = True
    job: str | None = None
    rank: int | None = None
    world_size: int | None = None
    launches_world_size: int | None = None

    @property
    def key(self) -> Key:
        """Trace, workload and mode."""
        return self.trace, self.workload, self.mode


@dataclasses.dataclass(frozen=True, slots=True)
class Launches:
    """The launches of one signature in a workload, over all iterations of a trace.

    Launches without a recorded call may have an `inferred_id`, the signature of the call that was inferred for them, by
    way of `inferred_by`. `total_ns` is without `wait_ns`, in which collectives waited for other ranks (None: not
    known). `unmatched` says why their calls under a CUDA graph are unknown.
    """

    trace_id: str
    workload: str
    signature_id: str
    inferred_id: str | None
    inferred_by: str | None
    kernel: str | None
    kind: str | None
    category: str | None
    library: str | None
    unmatched: str | None
    n: int
    total_ns: float
    wait_ns: Figure


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """How a device went from launch to launch in a workload of a trace, over all iterations; times in ns.

    `busy_ns`: something ran; `duration_ns`: the sum of all durations. `alone` launches began when nothing else ran. A
    launch is queued where it was made before the device was through with the work before: then its gap is the device's
    own. `queued_gaps` have one, `queued_gap_ns` is their median, `queued_total_ns` the sum of those not held up;
    `flowing` are all launches but queued ones that were held up. `exchanges` are collectives, `unmatched` those of them
    whose waits for other ranks are not known, `waits_ns` the sum of these waits. `iterations` are those that something
    marks; None: nothing does.
    """

    trace_id: str
    workload: str
    n: int
    busy_ns: float
    duration_ns: float
    alone: int
    queued_gaps: int
    queued_gap_ns: Figure
    queued_total_ns: Figure
    flowing: int
    exchanges: int
    unmatched: int
    waits_ns: Figure
    devices: int
    iterations: int | None

    @property
    def overlap_share(self) -> Figure:
        """The part of all durations in which something else ran, too."""
        return None if not self.duration_ns else 1 - self.busy_ns / self.duration_ns

    @property
    def alone_share(self) -> float:
        """The part of the launches that began when nothing else ran."""
        return self.alone / self.n


@dataclasses.dataclass(frozen=True, slots=True)
class Replay:
    """What a signature costs on a GPU by its replays, per launch; in steps of a trace with `step_trace_id`.

    `mean_ns` ± `half_ns` in a queue of its own; `dynamic_mj` ± `above_half_mj` beyond launch-loop power, measured at
    `energy_mhz`. Under a lower clock, `capped_mhz`, it took `capped_stretch` times as long and `capped_energy` times as
    much dynamic energy. `reason` says why there is no time, `energy_reason` why no energy.
    """

    signature_id: str
    gpu: str | None
    run_id: str
    grade: str | None
    route: str | None
    cache: str | None
    mean_ns: Figure
    half_ns: Figure
    clock_mhz: Figure
    reason: str | None
    energy_run_id: str | None
    dynamic_mj: Figure
    above_half_mj: Figure
    energy_mhz: Figure
    capped_mhz: Figure
    capped_stretch: Figure
    capped_energy: Figure
    energy_reason: str | None
    step_trace_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A replay run that measured energies: its board, launch-loop power, power with an open context, and its drift."""

    run_id: str
    uuid: str | None
    launch_loop_power_w: Figure
    launch_loop_power_error_w: Figure
    context_power_w: Figure
    energy_drift: Figure


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """Everything that a balance is made of.

    `launches` are those that are selected, `selected` how many of them each (trace id, workload) has and in how many
    iterations; `flows` are over whole traces, whatever is selected. `replays` are those of all GPUs.
    """

    workloads: Sequence[Workload]
    launches: Sequence[Launches]
    selected: Mapping[tuple[str, str], Flow]
    flows: Mapping[tuple[str, str], Flow]
    replays: Sequence[Replay]
    runs: Mapping[str, Run]


def order(key: Key) -> tuple[str, str, bool, str]:
    """Sorts traces, workloads and modes; no mode comes last."""
    trace, workload, mode = key
    return trace, workload, mode is None, mode or ""
