"""A meter that any machine has: so many watts for its time, and so many more for the time this process computes.

Its counter moves every 100 ms, as that of an H200 does. A worker that imports this module (`--import`) measures `cpu`
with it.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from kerneldb.replay.measure.energy import meter
from kerneldb.replay.measure.energy.meter import Meter, Sample

STEP_S: Final = 0.1
IDLE_W: Final = 20.0
WORK_W: Final = 100.0


class ProcessMeter:
    """Counts from a thread of its own, at each step."""

    def __init__(self) -> None:
        self.name = "process"
        self._energy_mj = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def energy_mj(self) -> float:
        return self._energy_mj

    def sample(self) -> Sample:
        return Sample(time.time_ns(), time.monotonic_ns(), self._energy_mj, power_w=IDLE_W, temperature_c=40.0)

    def close(self) -> None:
        self._stop.set()

    def _count(self) -> None:
        wall, busy = time.monotonic(), time.process_time()
        due = wall
        while not self._stop.is_set():
            due += STEP_S
            self._stop.wait(max(due - time.monotonic(), 0.0))
            now, spent = time.monotonic(), time.process_time()
            self._energy_mj += 1000 * (IDLE_W * (now - wall) + WORK_W * (spent - busy))
            wall, busy = now, spent


def open_meter(device: str, uuid: str | None) -> Meter | None:
    del uuid
    return ProcessMeter() if device == "cpu" else None


meter.register("process", open_meter)
