"""The options of a replay run, as they travel from the command line to the worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

SPACINGS: Final = ("idle", "queued")


@dataclass(frozen=True, slots=True)
class Options:
    """How to replay.

    Attributes:
        device: torch device text, `cuda:0` or `cpu`.
        cache: cold, warm or mixed (see `kerneldb.replay.measure.residency`).
        runs: timed runs of a call in its first session; three times as many where they do not settle.
        warmup: calls before them.
        modules: modules to import first: they register operators or routes.
        spacing: `idle` lets the device run dry before each timed call, as eager code that waits for its launches does;
            `queued` keeps the queue full.
        loops: whether to time CUDA-graph loops.
        tries: how many rebuilt calls to try until the recorded kernels come out.
        batch: calls per profiler session.
        item_seconds: a worker that is silent for longer than this, once it began with items, is killed.
        start_seconds: the same until a worker begins with its first item.
        energy: whether to measure energy, where there is a meter.
        energy_seconds: time for that; calls with least recorded time go without where it is not enough.
        allow_code: whether code that comes with the plan (sources of Triton kernels) may run.
        limit_seconds: the run stops after this time; what is left is marked as skipped. None: no limit.
    """

    device: str = "cuda:0"
    cache: str = "mixed"
    runs: int = 12
    warmup: int = 3
    modules: tuple[str, ...] = ()
    spacing: str = "idle"
    loops: bool = True
    tries: int = 10
    batch: int = 64
    item_seconds: float = 60.0
    start_seconds: float = 300.0
    limit_seconds: float | None = None
    energy: bool = True
    energy_seconds: float = 420.0
    allow_code: bool = False

    @property
    def on_cpu(self) -> bool:
        """Whether calls run on the CPU."""
        return self.device == "cpu"


def to_dict(options: Options) -> dict[str, Any]:
    """The options as JSON-ready values."""
    return dataclasses.asdict(options)


def from_dict(data: Mapping[str, Any]) -> Options:
    """The inverse of `to_dict`."""
    return Options(**{**data, "modules": tuple(data.get("modules", ()))})
