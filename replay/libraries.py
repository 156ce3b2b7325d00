"""Shared libraries that PyTorch has loaded into this process, to call what it has no binding for."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any, Final

MAPS: Final = Path("/proc/self/maps")
VERSION_PARTS: Final = 3


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
    parts = [ctypes.c_int(-1) for _ in range(VERSION_PARTS)]
    codes = [library.cublasGetProperty(number, ctypes.byref(part)) for number, part in enumerate(parts)]
    return None if any(codes) else ".".join(str(part.value) for part in parts)
