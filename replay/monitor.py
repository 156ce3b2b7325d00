"""Readings of the device: clocks, temperature, power, and why clocks are held down. Reads only, changes nothing.

NVIDIA through NVML (`pip install nvidia-ml-py`); on other devices, or without it, every reading is empty.
"""

from __future__ import annotations

from typing import Any

from kerneldb.replay.measure.energy.nvidia import reasons, thousandth
from kerneldb.replay.measure.energy.readings import LibraryMeter
from kerneldb.replay.wire.results import DeviceState


class Monitor(LibraryMeter):
    """Reads one NVIDIA device, named by its UUID (or index where there is none)."""

    def __init__(self, uuid: str | None, index: int) -> None:
        nvml, handle = _open(uuid, index)
        super().__init__(nvml, Exception if nvml is None else nvml.NVMLError, handle)

    def state(self) -> DeviceState | None:
        """The device now; None where it cannot be read. Takes about a millisecond."""
        nvml = self._library
        if nvml is None:
            return None
        return DeviceState(
            sm_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            memory_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            temperature_c=self._read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_w=thousandth(self._read("nvmlDeviceGetPowerUsage")),
            throttle=reasons(self._read("nvmlDeviceGetCurrentClocksEventReasons") or 0),
        )

    def facts(self) -> dict[str, Any]:
        """Driver version, highest clocks (MHz) and power limit (W): the fields of `RunFacts` that NVML knows."""
        nvml = self._library
        if nvml is None:
            return {}
        try:
            driver = nvml.nvmlSystemGetDriverVersion()
        except nvml.NVMLError:
            driver = None
        return {
            "driver": driver.decode() if isinstance(driver, bytes) else driver,
            "max_sm_mhz": self._read("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            "max_memory_mhz": self._read("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
            "power_limit_w": thousandth(self._read("nvmlDeviceGetPowerManagementLimit")),
        }


def _open(uuid: str | None, index: int) -> tuple[Any, Any]:
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
        if uuid is not None:
            return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError:
        return None, None
