"""A meter for tests: a counter that moves in steps of 10 ms at a known power."""

from __future__ import annotations

import math
import time

from kerneldb.replay.measure.energy.meter import Meter, Sample

NAME = "fake"
STEP_S = 0.01
POWER_W = 50.0


class FakeMeter:
    """Draws 50 W, whatever happens."""

    name = NAME

    def energy_mj(self) -> float:
        return math.floor(time.monotonic() / STEP_S) * STEP_S * POWER_W * 1000

    def sample(self) -> Sample:
        return Sample(time.time_ns(), time.monotonic_ns(), self.energy_mj(), power_w=POWER_W, sm_mhz=1980.0)

    def close(self) -> None:
        """Nothing to give back."""


def open_fake(device: str, uuid: str | None) -> Meter:
    return FakeMeter()
