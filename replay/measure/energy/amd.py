"""AMD GPUs through AMD SMI (`pip install amdsmi`, of the release of the ROCm that is installed).

`amdsmi_get_energy_count` gives an accumulator and its resolution in microjoules, 15.3 on the MI200 and MI300 (AMD SMI
reference). Known limits: not readable in guests of virtual machines; frozen within a process on some MI210
(rocm_smi_lib#180) and MI100 (amdsmi#38), which shows as a counter that does not move; on an MI250X only the even dies
report.
"""

from __future__ import annotations

from typing import Any, Final

from kerneldb.replay.measure.energy.meter import MeterError, NoMeterError, Sample
from kerneldb.replay.measure.energy.readings import LibraryMeter, failing_as, timed, visible

MICRO: Final = 1000.0
INSTALL: Final = "no amdsmi: pip install amdsmi, of the release of this ROCm"
POWERS: Final = ("current_socket_power", "average_socket_power", "socket_power")
VISIBLE: Final = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class AmdMeter(LibraryMeter):
    """One GPU, by what `cuda:N` means under HIP_VISIBLE_DEVICES. Raises NoMeterError where it cannot be read."""

    name = "amdsmi"

    def __init__(self, device: str, uuid: str | None = None) -> None:
        smi = _library()
        super().__init__(smi, smi.AmdSmiException, _handle(smi, device, uuid))
        with failing_as(NoMeterError, f"AMD SMI has no energy counter for {device}", smi.AmdSmiException):
            count = smi.amdsmi_get_energy_count(self._handle)
        if not count.get("counter_resolution"):
            message = f"AMD SMI does not report the resolution of the energy counter of {device}"
            raise NoMeterError(message)

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


def _library() -> Any:
    try:
        import amdsmi
    except (ImportError, OSError, KeyError) as error:  # its shared library is looked up when it is imported
        raise NoMeterError(INSTALL) from error
    with failing_as(NoMeterError, "AMD SMI does not start", amdsmi.AmdSmiException):
        amdsmi.amdsmi_init()
    return amdsmi


def _handle(smi: Any, device: str, uuid: str | None) -> Any:
    with failing_as(NoMeterError, "AMD SMI lists no devices", smi.AmdSmiException):
        handles = list(smi.amdsmi_get_processor_handles())
    number = visible(device, *VISIBLE)
    if isinstance(number, str) or number >= len(handles):
        message = f"AMD SMI does not know {device}{f' ({uuid})' if uuid else ''}: it lists {len(handles)} devices"
        raise NoMeterError(message)
    return handles[number]
