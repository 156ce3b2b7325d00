"""Keeps the sources of kernels that were compiled while recording: what TorchInductor wrote, and what Triton did.

The traces name them (`kernel_file`, `kernel_hash`), and without the sources such kernels cannot be run again. Both
compilers are pointed at a cache inside the recording's folder, of which only sources are kept. Kernels that a program
brings itself (`@triton.jit`) are written there too, one file each, when they are launched while a profiler is on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kerneldb.replay.triton import watching

CACHE: Final = ".cache"
KEPT: Final = "triton"
USER: Final = "user"
ENDINGS: Final = frozenset({".py", ".ttir", ".source"})
CACHES: Final = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


def redirect(folder: Path) -> None:
    """Let the compilers of this process write below `folder`. Before torch is imported."""
    for variable, name in CACHES.items():
        os.environ[variable] = str((folder / CACHE / name).resolve())


def watch(folder: Path) -> Callable[[], None]:
    """Let traces tell how kernels of the program itself are launched, and keep their sources below `folder`.

    From now on, until the returned function is called. See `kerneldb.replay.triton.watching`.
    """
    return watching.watch(folder / CACHE / USER)


def keep(folder: Path) -> list[str]:
    """Copy sources that are new into `triton/`; returns the paths of all, relative to `folder`."""
    cache = folder / CACHE
    for source in sorted(path for path in cache.rglob("*") if path.suffix in ENDINGS and path.is_file()):
        target = folder / KEPT / source.relative_to(cache)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    kept = folder / KEPT
    return sorted(path.relative_to(folder).as_posix() for path in kept.rglob("*") if path.is_file())


def clean(folder: Path) -> None:
    """Remove the caches."""
    shutil.rmtree(folder / CACHE, ignore_errors=True)
