"""NVIDIA boards through NVML (`pip install nvidia-ml-py`, imported as pynvml).

`nvmlDeviceGetTotalEnergyConsumption` counts millijoules of the whole board, memory included, since the driver was
loaded (Volta and later; NVML reference, "Device Queries"). On an H200 it moves every 100 ms and one reading takes
about 4 ms (measured).
"""

from __future__ import annotations

import os
from typing import Any, Final

from kerneldb.replay.measure.energy.meter import MeterError, NoMeterError, Sample
from kerneldb.replay.measure.energy.readings import Span

MILLI: Final = 1000.0
INSTALL: Final = "no pynvml: pip install nvidia-ml-py"

CLOCK_REASONS: Final = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The function, and its name before driver 535: without it nothing tells that the power cap holds a loop down."""

# nvmlClocksEventReasons* of nvml.h; being idle is none
REASONS: Final = {
    0x0002: "applications clocks",
    0x0004: "software power cap",
    0x0008: "hardware slowdown",
    0x0010: "sync boost",
    0x0020: "software thermal slowdown",
    0x0040: "hardware thermal slowdown",
    0x0080: "hardware power brake",
    0x0100: "display clocks",
}


def reasons(mask: int) -> tuple[str, ...]:
    """The names of the reasons in a mask of NVML; being idle is none."""
    return tuple(name for bit, name in REASONS.items() if mask & bit)


class NvidiaMeter:
    """One board, named by its UUID, or by what `cuda:N` means under CUDA_VISIBLE_DEVICES.

    Raises NoMeterError without pynvml, driver, device or counter.
    """

    def __init__(self, device: str, uuid: str | None = None) -> None:
        self.name = "nvml"
        self._nvml = _library()
        self._handle = _handle(self._nvml, device, uuid)
        try:
            self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        except self._nvml.NVMLError as error:
            message = f"NVML has no energy counter for {device}: {error}"
            raise NoMeterError(message) from error

    def energy_mj(self) -> float:
        """The board's counter. Raises MeterError."""
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        except self._nvml.NVMLError as error:
            message = f"NVML's energy counter cannot be read any more: {error}"
            raise MeterError(message) from error

    def sample(self) -> Sample:
        """The counter with power, clocks, temperature, use and throttle reasons. Raises MeterError."""
        span, nvml = Span(), self._nvml
        energy = self.energy_mj()
        epoch, monotonic = span.middle()
        use = self._read("nvmlDeviceGetUtilizationRates")
        mask = next((found for found in map(self._read, CLOCK_REASONS) if found is not None), None)
        return Sample(
            epoch,
            monotonic,
            energy,
            power_w=_thousandth(self._read("nvmlDeviceGetPowerUsage")),
            memory_power_w=self._memory_power(),
            sm_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            memory_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            temperature_c=self._read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            gpu_util_pct=None if use is None else float(use.gpu),
            memory_util_pct=None if use is None else float(use.memory),
            throttle=None if mask is None else ", ".join(reasons(mask)),
        )

    def close(self) -> None:
        """Nothing: NVML counts its users, and others of this process may still read."""

    def _memory_power(self) -> float | None:
        """Power of the memory (field POWER_AVERAGE, scope MEMORY), where the driver tells: an H100 does."""
        field = getattr(self._nvml, "NVML_FI_DEV_POWER_AVERAGE", None)
        scope = getattr(self._nvml, "NVML_POWER_SCOPE_MEMORY", None)
        if field is None or scope is None:
            return None
        values = self._read("nvmlDeviceGetFieldValues", [(field, scope)])
        if not values or values[0].nvmlReturn != self._nvml.NVML_SUCCESS:
            return None
        return _thousandth(values[0].value.uiVal)

    def _read(self, function: str, *arguments: Any) -> Any:
        """What NVML answers; None where this driver or device cannot."""
        asked = getattr(self._nvml, function, None)
        if asked is None:
            return None
        try:
            return asked(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None


def _thousandth(value: float | None) -> float | None:
    return None if value is None else value / MILLI


def _library() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NoMeterError(INSTALL) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        message = f"NVML does not start: {error}"
        raise NoMeterError(message) from error
    return pynvml


def _handle(nvml: Any, device: str, uuid: str | None) -> Any:
    name = uuid or _visible(int(device.partition(":")[2] or 0))
    try:
        if isinstance(name, str):
            return nvml.nvmlDeviceGetHandleByUUID(name)
        return nvml.nvmlDeviceGetHandleByIndex(name)
    except nvml.NVMLError as error:
        message = f"NVML does not know {device} ({name}): {error}"
        raise NoMeterError(message) from error


def _visible(number: int) -> int | str:
    """What `cuda:number` is outside of this process: a number or a UUID of CUDA_VISIBLE_DEVICES."""
    listed = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    if number >= len(listed):
        return number
    return int(listed[number]) if listed[number].isdigit() else listed[number]
