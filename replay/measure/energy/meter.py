"""Meters: where energy, power, clocks and temperature of a device are read.

    nvml     NVML's total-energy counter of the board (`pip install nvidia-ml-py`)
    amdsmi   AMD SMI's energy accumulator (`pip install amdsmi`)
    rapl     the energy counters of CPU packages in /sys/class/powercap (Linux; readable by root unless opened up)

Further meters are found through the entry-point group `kerneldb.meters` of installed distributions:

    [project.entry-points."kerneldb.meters"]
    rig = "my_rig.meter:open_meter"

The object is a function `open_meter(device: str, uuid: str | None) -> Meter | None`: None where the device is not its
own, NoMeterError where it is but cannot be read. They are asked first, in the order of their names, then the
built-in ones; `register` does the same for a module that is imported by hand (`--import`).

The built-in ones are in `vendors`; here is also what they share: readings with their time, counters that never run
backwards, and access to the libraries of vendors.
"""

from __future__ import annotations

import importlib.metadata
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from kerneldb.errors import KerneldbError

GROUP: Final = "kerneldb.meters"


class NoMeterError(KerneldbError):
    """The energy of the device cannot be read here; the message says why, and what would help."""


class MeterError(KerneldbError):
    """A meter that could be read before cannot be read any more."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A reading. Fields are None where the device does not report them.

    `epoch_ns` is wall-clock time (UTC), `monotonic_ns` that of `time.monotonic_ns`, both of the middle of the reading.
    `energy_mj` counts up from an arbitrary start. `throttle` names the reasons why clocks are held down, separated by
    commas; it is empty where there are none.
    """

    epoch_ns: int
    monotonic_ns: int
    energy_mj: float | None = None
    power_w: float | None = None
    memory_power_w: float | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    temperature_c: float | None = None
    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    throttle: str | None = None


class Meter(Protocol):
    """Reads one device. Reads only: clocks, limits and modes stay as they are."""

    name: str

    def energy_mj(self) -> float:
        """The energy counter in millijoules. Never runs backwards. Raises MeterError where it cannot be read."""
        ...

    def sample(self) -> Sample:
        """Everything there is to read, now. Raises MeterError where the energy counter cannot be read."""
        ...

    def close(self) -> None:
        """Give the library or the files back."""
        ...


Opener = Callable[[str, str | None], Meter | None]

_registered: dict[str, Opener] = {}


def register(name: str, opener: Opener) -> None:
    """Ask `opener` before all other meters (see the module's text). A later one of the same name replaces it."""
    _registered[name] = opener


def unregister(name: str) -> None:
    """Forget the meter registered as `name`, where there is one."""
    _registered.pop(name, None)


def open_meter(device: str, uuid: str | None = None) -> Meter:
    """The meter of a torch device (`cuda:0`, `cpu`), named more surely by the `uuid` of the driver where known.

    Raises NoMeterError, with the reason of the meter that would be responsible.
    """
    openers: list[Opener] = []
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda one: one.name):
        message = f"the meter {entry.name!r} ({entry.value}) cannot be loaded"
        with failing_as(NoMeterError, message, ImportError, AttributeError):
            openers.append(entry.load())
    for opener in (*_registered.values(), *openers):
        found = opener(device, uuid)
        if found is not None:
            return found
    if device == "cpu":
        from kerneldb.replay.measure.energy.vendors import RaplMeter

        return RaplMeter()
    from kerneldb.replay.measure.energy.vendors import AmdMeter, NvidiaMeter

    refused: list[str] = []
    for kind in (NvidiaMeter, AmdMeter):
        try:
            return kind(device, uuid)
        except NoMeterError as error:
            refused.append(str(error))
    raise NoMeterError("; ".join(refused))


def reopened(meter: Meter, device: str, uuid: str | None) -> Meter:
    """The meter of `device` by its UUID, where known: an index may mean another device. Raises NoMeterError."""
    if uuid is None:
        return meter
    meter.close()
    return open_meter(device, uuid)


class Background:
    """Reads a meter again and again in a thread, from `with` to the end of its block.

    Where the meter fails, reading ends and `failure` has the reason.
    """

    def __init__(self, name: str) -> None:
        self.failure: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._read()
        except MeterError as error:
            self.failure = str(error)

    def _read(self) -> None:
        """Read once, and wait until the next reading is due. Raises MeterError."""
        raise NotImplementedError


class Sampler(Background):
    """Samples a meter every `period_s` seconds, until the end of its block or until the meter fails (`failure`).

    `samples` holds pairs of stage and sample; `stage` may be set at any time. Sampling too often disturbs: a reading of
    NVML takes about 4 ms on an H200.
    """

    def __init__(self, meter: Meter, period_s: float = 0.1) -> None:
        super().__init__("kerneldb-power")
        self.samples: list[tuple[str | None, Sample]] = []
        self.stage: str | None = None
        self._meter = meter
        self._period_s = period_s
        self._due = time.monotonic()

    def _read(self) -> None:
        self.samples.append((self.stage, self._meter.sample()))
        self._due = max(self._due + self._period_s, time.monotonic())
        self._stop.wait(self._due - time.monotonic())


def timed(energy_mj: Callable[[], float]) -> tuple[int, int, float]:
    """`epoch_ns` and `monotonic_ns` of the middle of a reading, and what it gave: how a `Sample` begins."""
    epoch, monotonic = time.time_ns(), time.monotonic_ns()
    energy = energy_mj()
    half = (time.monotonic_ns() - monotonic) // 2
    return epoch + half, monotonic + half, energy


@contextmanager
def failing_as(kind: type[KerneldbError], message: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn `errors` of the block into one of `kind`: `message`, and what they say."""
    try:
        yield
    except errors as error:
        text = f"{message}: {error}"
        raise kind(text) from error


class Unwrapped:
    """A counter that starts again at 0 after `size` counts, counted on. Asked at least once per turn."""

    def __init__(self, size: float) -> None:
        self._size = size
        self._last = 0.0
        self._turns = 0

    def __call__(self, raw: float) -> float:
        """The count with all turns so far."""
        self._turns += raw < self._last
        self._last = raw
        return raw + self._turns * self._size


class LibraryMeter:
    """A meter that asks a vendor's library about the device `handle`; `errors` is what the library raises."""

    def __init__(self, library: Any, errors: type[Exception], handle: Any) -> None:
        self._library = library
        self._errors = errors
        self._handle = handle

    def close(self) -> None:
        """Nothing: the library counts its users, and others of this process may still read."""

    def _read(self, function: str, *arguments: Any) -> Any:
        """What the library answers; None where this driver or device cannot."""
        asked = getattr(self._library, function, None)
        if asked is None:
            return None
        try:
            return asked(self._handle, *arguments)
        except self._errors:
            return None


def visible(device: str, *variables: str) -> int | str:
    """What `cuda:N` is outside of this process: a number, or a UUID, by the first variable that lists so many."""
    number = int(device.partition(":")[2] or 0)
    for variable in variables:
        listed = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
        if number < len(listed):
            return int(listed[number]) if listed[number].isdigit() else listed[number]
    return number
