"""Facts of the machine that a run is made on, and what it must have."""

from __future__ import annotations

import datetime
import gc
import os
import platform
import uuid as uuids
from typing import Any, Final

from kerneldb.codec import printable
from kerneldb.replay import libraries
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.monitor import Monitor
from kerneldb.replay.options import Options
from kerneldb.replay.wire.messages import Ready, Send

INSTALL: Final = "install it with: pip install 'kerneldb[replay]'"


def pytorch() -> Any:
    """The package torch. Raises ReplayError where it is not installed."""
    try:
        import torch
    except ImportError as error:
        msg = f"replay needs PyTorch: {INSTALL}"
        raise ReplayError(msg) from error
    return torch


def require(device: str) -> None:
    """Make sure that calls can run on `device`, and make it current.

    Raises ReplayError, in one line that says what is missing and how to get it.
    """
    torch = pytorch()
    if device == "cpu":
        return
    if not torch.cuda.is_available():
        msg = f"no GPU that PyTorch {torch.__version__} can use: run on a machine with one, or with --device cpu"
        raise ReplayError(msg)
    number = index(device) or 0
    if number >= torch.cuda.device_count():
        msg = f"no device {device}: this machine has {torch.cuda.device_count()}"
        raise ReplayError(msg)
    torch.cuda.set_device(number)


def open_device(options: Options, send: Send) -> Monitor:
    """Make the device current, and report ready. Raises ReplayError."""
    # CUPTI must stay attached: CUDA graphs captured between two profiler sessions break where it is torn down.
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    require(options.device)
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
        found |= _gpu(torch, device)
    return {name: value for name, value in {**found, **monitor.facts()}.items() if value is not None}


def _gpu(torch: Any, device: str) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index(device) or 0)
    hip = torch.version.hip
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    return {
        "gpu": properties.name,
        "vendor": vendor(),
        "arch": getattr(properties, "gcnArchName", None) if hip else f"sm_{properties.major}{properties.minor}",
        "uuid": uuid(device),
        "cuda": hip or torch.version.cuda,
        "cudnn": None if cudnn is None else str(cudnn),
        "cublas": libraries.cublas_version(),
        "l2_bytes": int(getattr(properties, "L2_cache_size", 0)) or None,
        "memory_bytes": int(properties.total_memory),
        "sm_count": int(properties.multi_processor_count),
    }


def vendor() -> str:
    """Whose GPUs PyTorch works with here: NVIDIA or AMD."""
    import torch

    return "AMD" if torch.version.hip else "NVIDIA"


def foreign(recorded: object, here: str | None) -> str | None:
    """What to say of a plan for GPUs of vendor `recorded` on one of vendor `here`; None where they are the same."""
    if not recorded or here is None or str(recorded).lower() == here.lower():
        return None
    return f"recorded on a GPU of {printable(str(recorded))}, replayed on one of {here}: the same operation at best"


def new_run_id() -> str:
    """16 hex digits that no other run has."""
    return uuids.uuid4().hex[:16]


def now() -> str:
    """The time, UTC, ISO 8601."""
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
