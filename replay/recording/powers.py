"""What the device draws around the work: at rest without a context, with one, and while it runs empty kernels."""

from __future__ import annotations

import functools
from typing import Any, Final

from kerneldb.recordings import Measurement
from kerneldb.replay.measure.energy.meter import Meter, MeterError, Sample
from kerneldb.replay.measure.energy.steps import Clock, CounterPeriod, Load, Watch, power, steps_of
from kerneldb.replay.recording.measuring import Z95, Interval
from kerneldb.replay.recording.quantities import row

WINDOW_S: Final = 2.0
EMPTY_KERNELS: Final = 1024
METHODS: Final = {
    "idle": (0.0, "energy counter, no context on the device"),
    "context": (1.0, "energy counter, a context and nothing queued"),
    "gap": (0.5, "energy counter, a loop of empty kernels"),
}
"""Seconds to settle, and how it is measured."""


def measure(name: str, meter: Meter, beat: CounterPeriod, load: Load) -> tuple[Measurement, list[Sample]]:
    """A row `idle_power_w`, `context_power_w` or `gap_power_w`, with the samples taken; its reason where it failed."""
    quantity, window, (settle, method) = f"{name}_power_w", min(WINDOW_S, 100 * beat.seconds), METHODS[name]
    try:
        edges, samples = steps_of(load, Watch(meter, Clock()), beat, settle_s=min(settle, window), window_s=window)
        drawn = power(edges, beat)
    except MeterError as error:
        return row(quantity, None, "W", reason=str(error)), []
    half = Z95 * drawn.sd_w
    found = Interval(drawn.power_w, drawn.power_w - half, drawn.power_w + half)
    return row(quantity, found, "W", n=drawn.steps, method=method), samples


def context(device: str) -> Load:
    """Make the device current, with a context on it and nothing queued."""
    import torch

    torch.cuda.set_device(device)
    torch.ones(1, device=device).add_(1)
    torch.cuda.synchronize()
    return Load()


def empty_kernels() -> Any:
    """A load of empty kernels, one behind the other, in a CUDA graph."""
    import torch

    from kerneldb.replay.measure.energy.loads import GraphLoad

    nothing = functools.partial(torch.cuda._sleep, 0)

    def body() -> None:
        for _ in range(EMPTY_KERNELS):
            nothing()

    return GraphLoad(body, nothing, EMPTY_KERNELS)
