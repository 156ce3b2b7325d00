"""Facts of the machine that a run is made on, what it must have, and readings of its device.

`Monitor` reads clocks, temperature, power, and why clocks are held down, and changes nothing: NVIDIA through NVML (`pip
install nvidia-ml-py`); on other devices, or without it, every reading is empty.

`loaded` finds shared libraries that PyTorch has loaded into this process, to call what it has no binding for.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import functools
import gc
import os
import platform
from pathlib import Path
from typing import Any, Final

from kerneldb.codec import printable
from kerneldb.gpus import clocks
from kerneldb.replay import processes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.measure.energy.meter import LibraryMeter, thousandth
from kerneldb.replay.options import Options
from kerneldb.replay.wire.messages import Ready, Send
from kerneldb.replay.wire.results import DeviceState

INSTALL: Final = "install it with: pip install 'kerneldb[replay]'"
THERE: Final = "kerneldb replay --write-plan FILE writes the plan for it"
MAPS: Final = Path("/proc/self/maps")


def pytorch() -> Any:
    """The package torch. Raises ReplayError where it is not installed."""
    try:
        with processes.importing():
            import torch
    except ImportError as error:
        raise ReplayError(f"replay and record need PyTorch: {INSTALL}") from error
    return torch


def require(device: str, *, make_current: bool = True, there: str = "") -> None:
    """Make sure that calls can run on `device`, and make it current, which makes a context on it.

    Raises ReplayError, in one line that says what is missing and how to get it: `there` is how a machine with a GPU
    does it for this one.
    """
    torch = pytorch()
    if device == "cpu":
        return
    if not torch.cuda.is_available():
        known = f"no GPU that PyTorch {torch.__version__} can use"
        raise ReplayError(f"{known}: run on a machine with one{there and f' ({there})'}, or with --device cpu")
    number = index(device) or 0
    if number >= torch.cuda.device_count():
        raise ReplayError(f"no device {device}: this machine has {torch.cuda.device_count()}")
    if make_current:
        torch.cuda.set_device(number)


def open_device(options: Options, send: Send) -> Monitor:
    """Make the device current, and report ready. Raises ReplayError."""
    # CUPTI must stay attached: CUDA graphs captured between two profiler sessions break where it is torn down.
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    require(options.device, there=THERE)
    monitor = Monitor(uuid(options.device), index(options.device) or 0)
    send(Ready(gather(options.device, monitor)))
    gc.freeze()
    return monitor


def index(device: str) -> int | None:
    """1 for `cuda:1`, 0 for `cuda`, None for `cpu`."""
    name, _, number = device.partition(":")
    return None if name == "cpu" else int(number or 0)


def uuid(device: str) -> str | None:
    """The UUID that NVML knows the device by, which no CUDA_VISIBLE_DEVICES changes; None where torch has none."""
    number = index(device)
    if number is None:
        return None
    import torch

    found = getattr(torch.cuda.get_device_properties(number), "uuid", None)
    return None if found is None else f"GPU-{found}".replace("GPU-GPU-", "GPU-")


def gather(device: str, monitor: Monitor) -> dict[str, Any]:
    """What `RunFacts` holds beside the options: versions, device, clocks."""
    import torch

    found: dict[str, Any] = {"device": device, "device_index": index(device), "torch": torch.__version__}
    found |= {"host": platform.node(), "python": platform.python_version()}
    if index(device) is not None:
        properties = torch.cuda.get_device_properties(index(device) or 0)
        hip = torch.version.hip
        cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
        found |= {
            "gpu": properties.name,
            "vendor": vendor(),
            "arch": getattr(properties, "gcnArchName", None) if hip else f"sm_{properties.major}{properties.minor}",
            "uuid": uuid(device),
            "cuda": hip or torch.version.cuda,
            "cudnn": None if cudnn is None else str(cudnn),
            "cublas": cublas_version(),
            "l2_bytes": int(getattr(properties, "L2_cache_size", 0)) or None,
            "memory_bytes": int(properties.total_memory),
            "sm_count": int(properties.multi_processor_count),
        }
    return {name: value for name, value in {**found, **monitor.facts()}.items() if value is not None}


def vendor() -> str:
    """Whose GPUs PyTorch works with here: NVIDIA or AMD."""
    import torch

    return "AMD" if torch.version.hip else "NVIDIA"


def foreign(recorded: object, here: str | None) -> str | None:
    """What to say of a plan for GPUs of vendor `recorded` on one of vendor `here`; None where they are the same."""
    if not recorded or here is None or str(recorded).lower() == here.lower():
        return None
    return f"recorded on a GPU of {printable(str(recorded))}, replayed on one of {here}: the same operation at best"


def now() -> str:
    """The time, UTC, ISO 8601."""
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")


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
            throttle=clocks.reasons(self._read("nvmlDeviceGetCurrentClocksEventReasons") or 0),
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
    with contextlib.suppress(ImportError):
        import pynvml

        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            if uuid is not None:
                return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
            return pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)
    return None, None


@functools.cache
def loaded(name: str) -> Any:
    """The loaded library whose file name begins with `name`; None where there is none, or no /proc."""
    lines = MAPS.read_text(encoding="utf-8").splitlines() if MAPS.exists() else []
    paths = sorted({line.split(maxsplit=5)[-1] for line in lines if "/" in line})
    found = next((path for path in paths if Path(path).name.startswith(name)), None)
    return None if found is None else ctypes.CDLL(found)


def memset() -> Any:
    """`cudaMemsetAsync` or `hipMemsetAsync` (address, value, bytes, stream) -> error code; None without either."""
    for library, symbol in (("libcudart.so", "cudaMemsetAsync"), ("libamdhip64.so", "hipMemsetAsync")):
        runtime = loaded(library)
        if runtime is not None:
            function = getattr(runtime, symbol)
            function.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p)
            function.restype = ctypes.c_int
            return function
    return None


def cublas_version() -> str | None:
    """Version of cuBLAS, whose heuristics choose the kernels of matrix products; None where it is not loaded."""
    library = loaded("libcublas.so")
    if library is None:
        return None
    parts = [ctypes.c_int(-1) for _ in range(3)]
    codes = [library.cublasGetProperty(number, ctypes.byref(part)) for number, part in enumerate(parts)]
    return None if any(codes) else ".".join(str(part.value) for part in parts)
