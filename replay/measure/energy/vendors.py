"""The built-in meters: NVIDIA boards, AMD GPUs, CPU packages.

NVIDIA boards through NVML (`pip install nvidia-ml-py`, imported as pynvml).

`nvmlDeviceGetTotalEnergyConsumption` counts millijoules of the whole board, memory included, since the driver was
loaded (Volta and later; NVML reference, "Device Queries"). On an H200 it moves every 100 ms and one reading takes
about 4 ms (measured).

AMD GPUs through AMD SMI (`pip install amdsmi`, of the release of the ROCm that is installed).

`amdsmi_get_energy_count` gives an accumulator and its resolution in microjoules, 15.3 on the MI200 and MI300 (AMD SMI
reference). Known limits: not readable in guests of virtual machines; frozen within a process on some MI210
(rocm_smi_lib#180) and MI100 (amdsmi#38), which shows as a counter that does not move; on an MI250X only the even dies
report.

CPU packages through RAPL: the powercap files of Linux.

`/sys/class/powercap/intel-rapl:N/energy_uj` counts microjoules of package N (AMD's CPUs too), moves about once per
millisecond, and starts again at 0 after `max_energy_range_uj` (Documentation/power/powercap/powercap.rst). Since
Linux 5.10 only root may read it, unless the administrator opens it up (CVE-2020-8694).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from kerneldb.replay.measure.energy.meter import (
    LibraryMeter,
    MeterError,
    NoMeterError,
    Sample,
    Unwrapped,
    failing_as,
    timed,
    visible,
)

MILLI: Final = 1000.0
NO_PYNVML: Final = "no pynvml: pip install nvidia-ml-py"

CLOCK_REASONS: Final = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The function, and its name before driver 535: without it nothing says that the power cap holds a loop down."""

# nvmlClocksEventReasons* of nvml.h; being idle is not one
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
NO_AMDSMI: Final = "no amdsmi: pip install amdsmi, of the release of this ROCm"
POWERS: Final = ("current_socket_power", "average_socket_power", "socket_power")
FOLDER: Final = Path("/sys/class/powercap")
PACKAGE: Final = re.compile(r"intel-rapl:\d+")
MICRO: Final = 1000.0


def reasons(mask: int) -> tuple[str, ...]:
    """The names of the reasons in a mask of NVML; being idle is not one."""
    return tuple(name for bit, name in REASONS.items() if mask & bit)


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


def _nvml() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NoMeterError(NO_PYNVML) from error
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


def _amd_smi() -> Any:
    try:
        import amdsmi
    except (ImportError, OSError, KeyError) as error:  # its shared library is looked up when it is imported
        raise NoMeterError(NO_AMDSMI) from error
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
            message = f"no RAPL counters in {folder}: not Linux, a virtual machine, or a CPU without them"
            raise NoMeterError(message)
        try:
            # a counter starts again at 0 after `max_energy_range_uj`, which it still shows
            sizes = [float((path / "max_energy_range_uj").read_text()) + 1 for path in packages]
            self._packages = [(path / "energy_uj", Unwrapped(size)) for path, size in zip(packages, sizes, strict=True)]
            self._total()
        except PermissionError as error:
            message = f"{error.filename} may not be read: run as root, or ask the administrator for read permission"
            raise NoMeterError(message) from error
        except (OSError, ValueError) as error:
            message = f"RAPL counters in {folder} cannot be read: {error}"
            raise NoMeterError(message) from error

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
