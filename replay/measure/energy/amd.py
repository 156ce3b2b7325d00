"""AMD GPUs through AMD SMI (`pip install amdsmi`, of the release of the ROCm that is installed).

`amdsmi_get_energy_count` gives an accumulator and its resolution in microjoules, 15.3 on the MI200 and MI300 (AMD SMI
reference). Known limits: not readable in guests of virtual machines; frozen within a process on some MI210
(rocm_smi_lib#180) and MI100 (amdsmi#38), which shows as a counter that does not move; on an MI250X only the even dies
report.
"""

from __future__ import annotations

import os
from typing import Any, Final

from kerneldb.replay.measure.energy.meter import MeterError, NoMeterError, Sample
from kerneldb.replay.measure.energy.readings import Span

MICRO: Final = 1000.0
INSTALL: Final = "no amdsmi: pip install amdsmi, of the release of this ROCm"
POWERS: Final = ("current_socket_power", "average_socket_power", "socket_power")
VISIBLE: Final = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class AmdMeter:
    """One GPU, by what `cuda:N` means under HIP_VISIBLE_DEVICES. Raises NoMeterError where it cannot be read."""

    def __init__(self, device: str, uuid: str | None = None) -> None:
        self.name = "amdsmi"
        self._smi = _library()
        self._handle = _handle(self._smi, device, uuid)
        try:
            count = self._smi.amdsmi_get_energy_count(self._handle)
        except self._smi.AmdSmiException as error:
            message = f"AMD SMI has no energy counter for {device}: {error}"
            raise NoMeterError(message) from error
        if not count.get("counter_resolution"):
            message = f"AMD SMI does not tell the resolution of the energy counter of {device}"
            raise NoMeterError(message)

    def energy_mj(self) -> float:
        """Accumulator times resolution. Raises MeterError."""
        try:
            count = self._smi.amdsmi_get_energy_count(self._handle)
        except self._smi.AmdSmiException as error:
            message = f"AMD SMI's energy counter cannot be read any more: {error}"
            raise MeterError(message) from error
        total = count.get("energy_accumulator", count.get("power"))  # its name before ROCm 6.1
        return float(total) * float(count["counter_resolution"]) / MICRO

    def sample(self) -> Sample:
        """The counter with power, clocks, temperature and use. Raises MeterError."""
        span, smi = Span(), self._smi
        energy = self.energy_mj()
        epoch, monotonic = span.middle()
        power = self._read("amdsmi_get_power_info") or {}
        use = self._read("amdsmi_get_gpu_activity") or {}
        hottest, now = smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
        return Sample(
            epoch,
            monotonic,
            energy,
            power_w=next((one for one in map(_number, map(power.get, POWERS)) if one), None),
            sm_mhz=self._clock(smi.AmdSmiClkType.GFX),
            memory_mhz=self._clock(smi.AmdSmiClkType.MEM),
            temperature_c=_number(self._read("amdsmi_get_temp_metric", hottest, now)),
            gpu_util_pct=_number(use.get("gfx_activity")),
            memory_util_pct=_number(use.get("umc_activity")),
        )

    def close(self) -> None:
        """Nothing: others of this process may still read."""

    def _clock(self, kind: Any) -> float | None:
        found = self._read("amdsmi_get_clock_info", kind) or {}
        return _number(found.get("clk", found.get("cur_clk")))

    def _read(self, function: str, *arguments: Any) -> Any:
        asked = getattr(self._smi, function, None)
        if asked is None:
            return None
        try:
            return asked(self._handle, *arguments)
        except self._smi.AmdSmiException:
            return None


def _number(value: Any) -> float | None:
    """The value; AMD SMI says "N/A" where there is none."""
    return float(value) if isinstance(value, int | float) else None


def _library() -> Any:
    try:
        import amdsmi
    except (ImportError, OSError, KeyError) as error:  # its shared library is looked up when it is imported
        raise NoMeterError(INSTALL) from error
    try:
        amdsmi.amdsmi_init()
    except amdsmi.AmdSmiException as error:
        message = f"AMD SMI does not start: {error}"
        raise NoMeterError(message) from error
    return amdsmi


def _handle(smi: Any, device: str, uuid: str | None) -> Any:
    try:
        handles = list(smi.amdsmi_get_processor_handles())
    except smi.AmdSmiException as error:
        message = f"AMD SMI lists no devices: {error}"
        raise NoMeterError(message) from error
    number = _visible(int(device.partition(":")[2] or 0))
    if number is None or number >= len(handles):
        message = f"AMD SMI does not know {device}{f' ({uuid})' if uuid else ''}: it lists {len(handles)} devices"
        raise NoMeterError(message)
    return handles[number]


def _visible(number: int) -> int | None:
    """The number of `cuda:number` outside of this process; None where it is named by a UUID."""
    for variable in VISIBLE:
        listed = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
        if number < len(listed):
            return int(listed[number]) if listed[number].isdigit() else None
    return number
