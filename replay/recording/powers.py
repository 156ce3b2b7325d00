"""What the device draws around the work: at rest without a context, with one, and while it runs empty kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kerneldb.replay.measure.energy.clock import SystemClock
from kerneldb.replay.measure.energy.edges import Beat, Busy, Power, Rest, Watch, edges_of, power
from kerneldb.replay.measure.energy.meter import Meter, MeterError, Sample
from kerneldb.replay.recording.measuring import Z95, Interval
from kerneldb.replay.recording.quantities import Row, row

SETTLE_S: Final = {"idle": 0.0, "context": 1.0, "gap": 0.5}
WINDOW_S: Final = 2.0
EMPTY_KERNELS: Final = 1024
METHODS: Final = {
    "idle": "energy counter, no context on the device",
    "context": "energy counter, a context and nothing queued",
    "gap": "energy counter, a loop of empty kernels",
}


def measure(name: str, meter: Meter, beat: Beat, busy: Busy | None = None) -> tuple[Row, list[Sample]]:
    """A row `idle_power_w`, `context_power_w` or `gap_power_w`, with the samples taken; its reason where it failed."""
    quantity, window = f"{name}_power_w", min(WINDOW_S, 100 * beat.seconds)
    try:
        edges, samples = edges_of(
            busy or Rest(), Watch(meter, SystemClock()), beat, settle_s=min(SETTLE_S[name], window), window_s=window
        )
        drawn = power(edges, beat)
    except MeterError as error:
        return row(quantity, None, "W", reason=str(error)), []
    return row(quantity, _interval(drawn), "W", n=drawn.steps, method=METHODS[name]), samples


def _interval(drawn: Power) -> Interval:
    return Interval(drawn.power_w, drawn.power_w - Z95 * drawn.sd_w, drawn.power_w + Z95 * drawn.sd_w)


def open_context(device: str) -> None:
    """Make the device current, with a context on it and nothing queued."""
    import torch

    torch.cuda.set_device(device)
    torch.ones(1, device=device).add_(1)
    torch.cuda.synchronize()


def empty_kernels() -> Any:
    """A load of empty kernels, one behind the other, in a CUDA graph."""
    import torch

    from kerneldb.replay.measure.energy.loads import GraphLoad

    def nothing() -> None:
        torch.cuda._sleep(0)

    def body() -> None:
        for _ in range(EMPTY_KERNELS):
            nothing()

    return GraphLoad(body, nothing, EMPTY_KERNELS)


def with_load(make: Callable[[], Any], meter: Meter, beat: Beat) -> tuple[Row, list[Sample]]:
    """Gap power, under the load that `make` makes."""
    load = make()
    try:
        return measure("gap", meter, beat, load)
    finally:
        load.close()
