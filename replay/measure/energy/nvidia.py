"""NVIDIA boards through NVML (`pip install nvidia-ml-py`, imported as pynvml).

`nvmlDeviceGetTotalEnergyConsumption` counts millijoules of the whole board, memory included, since the driver was
loaded (Volta and later; NVML reference, "Device Queries"). On an H200 it moves every 100 ms and one reading takes
about 4 ms (measured).
"""

from __future__ import annotations

from typing import Any, Final

from kerneldb.replay.measure.energy.meter import MeterError, NoMeterError, Sample
from kerneldb.replay.measure.energy.readings import LibraryMeter, failing_as, timed, visible

MILLI: Final = 1000.0
INSTALL: Final = "no pynvml: pip install nvidia-ml-py"

CLOCK_REASONS: Final = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The function, and its name before driver 535: without it nothing says that the power cap holds a loop down."""

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


class NvidiaMeter(LibraryMeter):
    """One board, named by its UUID, or by what `cuda:N` means under CUDA_VISIBLE_DEVICES.

    Raises NoMeterError without pynvml, driver, device or counter.
    """

    name = "nvml"

    def __init__(self, device: str, uuid: str | None = None) -> None:
        nvml = _library()
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
            throttle=None if mask is None else ", ".join(reasons(mask)),
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


def _library() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NoMeterError(INSTALL) from error
    with failing_as(NoMeterError, "NVML does not start", pynvml.NVMLError):
        pynvml.nvmlInit()
    return pynvml
