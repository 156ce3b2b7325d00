"""Launches whose operator call is not known, in the order in which they ran, and what is guessed about them.

The data between the warehouse, which lists the launches of a trace, and `kerneldb.replay.infer`, which proposes
calls for them. Dataclasses only, standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kerneldb.replay.wire.plan import Candidate, OpCall

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Device:
    """The GPU of a trace. `bandwidth_gbs` in GB/s, `peaks` in TFLOPS by dtype; None and empty where not known."""

    name: str | None = None
    vendor: str | None = None
    arch: str | None = None
    multiprocessors: int | None = None
    bandwidth_gbs: float | None = None
    peaks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """A distinct launch of a sequence: what the trace tells, and the operator call where it is known.

    `grid` in blocks, `block` in threads; `total_blocks` and `threads_per_block` also where a profiler prints products
    only. `shared_bytes` is static plus dynamic. `bytes` and `copy_kind` belong to copies and fills. `moved_bytes` is
    DRAM traffic per launch by counters, where measured. `wanted` kinds are those for which a call is asked.
    """

    signature_id: str
    name: str
    kind: str = "kernel"
    grid: Triple | None = None
    block: Triple | None = None
    total_blocks: int | None = None
    threads_per_block: int | None = None
    shared_bytes: int | None = None
    registers: int | None = None
    bytes: int | None = None
    copy_kind: str | None = None
    moved_bytes: float | None = None
    call: OpCall | None = None
    wanted: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """The launches of one stream of a trace by start (of traces without times: in launch order).

    `order[i]` is the index in `kinds` of the i-th launch; `duration_ns`, `start_ns` and `phase` are as long. `timing`
    is profiled where the durations were measured under a counter profiler, else timeline.
    """

    trace: str
    device: Device
    kinds: tuple[Kind, ...]
    order: tuple[int, ...]
    duration_ns: tuple[int | None, ...]
    start_ns: tuple[int | None, ...]
    phase: tuple[str | None, ...]
    source: str = "pytorch"
    timing: str = "timeline"


@dataclass(frozen=True, slots=True)
class Clues:
    """What is known beside a sequence: calls recorded in the same run with their launches, and the model's config.

    `config` is a parsed `config.json` of a transformers model.
    """

    seen: tuple[tuple[OpCall, int], ...] = ()
    config: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Guess:
    """One distinct call to be found, with all its launches.

    `kernels[k]` are the places (indices of `Sequence.order`) where the k-th kernel of the call was launched. Candidates
    stand best first; where there are none, `reason` says why.
    """

    kernels: tuple[tuple[int, ...], ...]
    candidates: tuple[Candidate, ...] = ()
    reason: str | None = None
