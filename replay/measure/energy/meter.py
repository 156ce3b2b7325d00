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

The built-in ones share readings with their time, counters that never run backwards, and access to the libraries of
vendors.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

from kerneldb.errors import KerneldbError
from kerneldb.gpus import clocks
from kerneldb.recordings import Reading

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

    def reading(self, workload: str, mode: str | None = None) -> Reading:
        """The same as files have it, with what ran; `monotonic_ns` is left out."""
        shown = dataclasses.asdict(self)
        del shown["monotonic_ns"]
        return Reading(workload, mode=mode, **shown)


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
        return RaplMeter()

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


MILLI: Final = 1000.0

CLOCK_REASONS: Final = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The function, and its name before driver 535: without it nothing says that the power cap holds a loop down."""

POWERS: Final = ("current_socket_power", "average_socket_power", "socket_power")
FOLDER: Final = Path("/sys/class/powercap")
PACKAGE: Final = re.compile(r"intel-rapl:\d+")
MICRO: Final = 1000.0


class NvidiaMeter(LibraryMeter):
    """One board, named by its UUID, or by what `cuda:N` means under CUDA_VISIBLE_DEVICES.

    Raises NoMeterError without pynvml, driver, device or counter.
    """

    name = "nvml"

    def __init__(self, device: str, uuid: str | None = None) -> None:
        nvml = _nvml()
        name = uuid or visible(device, "CUDA_VISIBLE_DEVICES")
        find = nvml.nvmlDeviceGetHandleByUUID if isinstance(name, str) else nvml.nvmlDeviceGetHandleByIndex
        with failing_as(NoMeterError, f"NVML does not know {device} ({name})", nvml.NVMLError):
            super().__init__(nvml, nvml.NVMLError, find(name))
        with failing_as(NoMeterError, f"NVML has no energy counter for {device}", nvml.NVMLError):
            nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)

    def energy_mj(self) -> float:
        """The board's counter. Raises MeterError."""
        with failing_as(MeterError, "NVML's energy counter cannot be read any more", self._errors):
            return float(self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle))

    def sample(self) -> Sample:
        """The counter with power, clocks, temperature, use and throttle reasons. Raises MeterError."""
        read, nvml = timed(self.energy_mj), self._library
        use = self._read("nvmlDeviceGetUtilizationRates")
        mask = next((found for found in map(self._read, CLOCK_REASONS) if found is not None), None)
        return Sample(
            *read,
            power_w=thousandth(self._read("nvmlDeviceGetPowerUsage")),
            memory_power_w=self._memory_power(),
            sm_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            memory_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            temperature_c=self._read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            gpu_util_pct=None if use is None else float(use.gpu),
            memory_util_pct=None if use is None else float(use.memory),
            throttle=None if mask is None else ", ".join(clocks.reasons(mask)),
        )

    def _memory_power(self) -> float | None:
        """Power of the memory (field POWER_AVERAGE, scope MEMORY), where the driver reports it: an H100's does."""
        field = getattr(self._library, "NVML_FI_DEV_POWER_AVERAGE", None)
        scope = getattr(self._library, "NVML_POWER_SCOPE_MEMORY", None)
        values = None if None in (field, scope) else self._read("nvmlDeviceGetFieldValues", [(field, scope)])
        if not values or values[0].nvmlReturn != self._library.NVML_SUCCESS:
            return None
        return thousandth(values[0].value.uiVal)


def thousandth(value: float | None) -> float | None:
    """NVML's milliwatts in watts; None stays None."""
    return None if value is None else value / MILLI


def _nvml() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NoMeterError("no pynvml: pip install nvidia-ml-py") from error
    with failing_as(NoMeterError, "NVML does not start", pynvml.NVMLError):
        pynvml.nvmlInit()
    return pynvml


class AmdMeter(LibraryMeter):
    """One GPU, by what `cuda:N` means under HIP_VISIBLE_DEVICES. Raises NoMeterError where it cannot be read."""

    name = "amdsmi"

    def __init__(self, device: str, uuid: str | None = None) -> None:
        smi = _amd_smi()
        super().__init__(smi, smi.AmdSmiException, _handle(smi, device, uuid))
        with failing_as(NoMeterError, f"AMD SMI has no energy counter for {device}", smi.AmdSmiException):
            count = smi.amdsmi_get_energy_count(self._handle)
        if not count.get("counter_resolution"):
            raise NoMeterError(f"AMD SMI does not report the resolution of the energy counter of {device}")

    def energy_mj(self) -> float:
        """Accumulator times resolution. Raises MeterError."""
        with failing_as(MeterError, "AMD SMI's energy counter cannot be read any more", self._errors):
            count = self._library.amdsmi_get_energy_count(self._handle)
        total = count.get("energy_accumulator", count.get("power"))  # its name before ROCm 6.1
        return float(total) * float(count["counter_resolution"]) / MICRO

    def sample(self) -> Sample:
        """The counter with power, clocks, temperature and use. Raises MeterError."""
        read, smi = timed(self.energy_mj), self._library
        power = self._read("amdsmi_get_power_info") or {}
        use = self._read("amdsmi_get_gpu_activity") or {}
        hottest, now = smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
        return Sample(
            *read,
            power_w=next((one for one in map(_number, map(power.get, POWERS)) if one), None),
            sm_mhz=self._clock(smi.AmdSmiClkType.GFX),
            memory_mhz=self._clock(smi.AmdSmiClkType.MEM),
            temperature_c=_number(self._read("amdsmi_get_temp_metric", hottest, now)),
            gpu_util_pct=_number(use.get("gfx_activity")),
            memory_util_pct=_number(use.get("umc_activity")),
        )

    def _clock(self, kind: Any) -> float | None:
        found = self._read("amdsmi_get_clock_info", kind) or {}
        return _number(found.get("clk", found.get("cur_clk")))


def _number(value: Any) -> float | None:
    """The value; AMD SMI says "N/A" where there is none."""
    return float(value) if isinstance(value, int | float) else None


def _amd_smi() -> Any:
    try:
        import amdsmi
    except (ImportError, OSError, KeyError) as error:  # its shared library is looked up when it is imported
        raise NoMeterError("no amdsmi: pip install amdsmi, of the release of this ROCm") from error
    with failing_as(NoMeterError, "AMD SMI does not start", amdsmi.AmdSmiException):
        amdsmi.amdsmi_init()
    return amdsmi


def _handle(smi: Any, device: str, uuid: str | None) -> Any:
    with failing_as(NoMeterError, "AMD SMI lists no devices", smi.AmdSmiException):
        handles = list(smi.amdsmi_get_processor_handles())
    number = visible(device, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    if isinstance(number, str) or number >= len(handles):
        message = f"AMD SMI does not know {device}{f' ({uuid})' if uuid else ''}: it lists {len(handles)} devices"
        raise NoMeterError(message)
    return handles[number]


class RaplMeter:
    """All CPU packages of this machine together. Raises NoMeterError where there are none, or none may be read."""

    name = "rapl"

    def __init__(self, folder: Path = FOLDER) -> None:
        packages = sorted(path for path in folder.glob("intel-rapl:*") if PACKAGE.fullmatch(path.name))
        if not packages:
            raise NoMeterError(f"no RAPL counters in {folder}: not Linux, a virtual machine, or a CPU without them")
        try:
            # a counter starts again at 0 after `max_energy_range_uj`, which it still shows
            sizes = [float((path / "max_energy_range_uj").read_text()) + 1 for path in packages]
            self._packages = [(path / "energy_uj", Unwrapped(size)) for path, size in zip(packages, sizes, strict=True)]
            self._total()
        except PermissionError as error:
            message = f"{error.filename} may not be read: run as root, or ask the administrator for read permission"
            raise NoMeterError(message) from error
        except (OSError, ValueError) as error:
            raise NoMeterError(f"RAPL counters in {folder} cannot be read: {error}") from error

    def energy_mj(self) -> float:
        """The sum over packages. Raises MeterError."""
        with failing_as(MeterError, "RAPL counters cannot be read any more", OSError, ValueError):
            return self._total() / MICRO

    def sample(self) -> Sample:
        """The counter; RAPL reports no more. Raises MeterError."""
        return Sample(*timed(self.energy_mj))

    def close(self) -> None:
        """Nothing is held open."""

    def _total(self) -> float:
        return sum(unwrapped(float(path.read_text())) for path, unwrapped in self._packages)
