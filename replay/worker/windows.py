"""Energy of a program's step: windows of runs in a row, beside which a thread reads the meter's counter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kerneldb.errors import KerneldbError
from kerneldb.replay import facts
from kerneldb.replay.measure.energy.meter import Meter, MeterError, open_meter
from kerneldb.replay.measure.energy.steps import CounterPeriod, power
from kerneldb.replay.recording.measuring import StepWatch, learn_period
from kerneldb.replay.recording.settings import Settings

if TYPE_CHECKING:
    from kerneldb.replay.worker.verifying import Timed

WINDOWS: Final = 2
WINDOW_S: Final = 1.0
SETTLE_S: Final = 0.2
"""Of runs before the counter is read: another process had the device until then."""
TOO_SHORT: Final = f"the program ended before a window of {WINDOW_S:g} s was over: let it run more steps"
Turn = Callable[[], bool]
"""Waits until it is this process's turn; False where nobody asks any more."""


class Windows:
    """Asks for a turn, measures so many runs of the step as take a window, and so on; adds to the energy of `timed`."""

    def __init__(self, timed: Timed, settings: Settings, turn: Turn) -> None:
        self._timed = timed
        self._settings = settings
        self._turn = turn
        self._meter: Meter | None = None
        self._period: CounterPeriod | None = None
        self._watch: StepWatch | None = None
        self._begun: float | None = None
        self._runs = 0
        self.over = False

    def before(self) -> None:
        """Wait for a turn where a window begins with this run."""
        if self.over or self._begun is not None:
            return
        try:
            if self._meter is None:
                self._meter = open_meter(self._settings.device, facts.uuid(self._settings.device))
            self.over = not self._turn()
            if self._period is None and not self.over:
                self._period = learn_period(self._meter)
        except KerneldbError as error:
            self._ended(str(error))
        self._begun = None if self.over else time.monotonic()

    def after(self) -> None:
        """Count a run; where it was the last of a window, work out the energy."""
        if self._begun is None:
            return
        self._runs += 1
        taken = time.monotonic() - self._begun
        if self._watch is None and taken > SETTLE_S:
            self._read()
        elif self._watch is not None and taken > WINDOW_S:
            self._worked_out(self._watch)

    def close(self) -> None:
        """Stop reading: the program has ended."""
        if self._watch is not None:
            self._watch.__exit__()
        if self._meter is not None:
            self._meter.close()

    def _now(self) -> float:
        """When all that was begun has ended."""
        if self._settings.on_gpu:
            import torch

            torch.cuda.synchronize()
        return time.monotonic()

    def _read(self) -> None:
        assert self._meter is not None and self._period is not None  # noqa: S101, PT018 (a window has begun)
        self._begun, self._runs = self._now(), 0
        self._watch = StepWatch(self._meter, self._period)
        self._watch.__enter__()

    def _worked_out(self, watch: StepWatch) -> None:
        assert self._begun is not None and self._period is not None  # noqa: S101, PT018 (a window has begun)
        begun, ended = self._begun, self._now()
        watch.__exit__()
        self._watch = self._begun = None
        if watch.failure is not None:
            self._ended(watch.failure)
            return
        try:
            drawn = power([step for step in watch.steps if begun <= step.at <= ended], self._period)
        except MeterError as error:
            self._ended(str(error))
            return
        self._timed.energy_mj.append(1000 * drawn.power_w * (ended - begun) / self._runs)
        self._timed.energy_reason = None
        self.over = len(self._timed.energy_mj) >= WINDOWS

    def _ended(self, reason: str) -> None:
        self._timed.energy_reason, self.over = reason, True
