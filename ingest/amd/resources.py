"""Registers: what the profiler reports, and what the hardware sets aside.

rocprofv3 reads counts from the kernel descriptor (rocprofiler-sdk, code_object.cpp): vector registers in steps of the
encoding, not of the allocation; 128 scalar registers on every RDNA, which limit nothing. Steps of the allocation are
LLVM's (AMDGPUBaseInfo.cpp, `getVGPRAllocGranule`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import polars as pl

UNIFIED: Final = ("gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
LARGE_RDNA: Final = ("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201")
"""RDNA with 1,536 vector registers per lane: allocated in steps of 24 (wave32) or 12 (wave64)."""
RDNA: Final = re.compile(r"gfx1[0-2]\d\d")
RDNA1: Final = re.compile(r"gfx101\d")
WAVE64: Final = r"_WS64(?:_|$)"
"""Tensile says in a kernel's name that it runs in waves of 64."""
UNIFIED_STEP: Final = 8
SCALAR_STEP: Final = 16

HALVED: Final = "gfx950_registers_halved"
AGPRS_UNKNOWN: Final = "gfx908_agprs_not_recorded"
AS_REPORTED: Final = "registers_as_reported"


def is_rdna(arch: str | None) -> bool:
    """Whether the architecture is one of RDNA, where scalar registers are fixed."""
    return arch is not None and RDNA.fullmatch(arch) is not None


def is_halved(arch: str | None, agprs: int | None) -> bool:
    """Whether register counts are half of the truth.

    rocprofiler-sdk took gfx950 for a chip without accumulation registers: it reports half of all as vector registers
    and no accumulation registers. `agprs` is the highest count that the trace reports; above zero, the fault is mended.
    """
    return arch == "gfx950" and not agprs


def allocated(frame: pl.DataFrame, archs: Mapping[int, str | None], halved: bool = False) -> pl.DataFrame:
    """Add `registers`, `agprs`, `sgprs` as allocated and extend `quality`.

    Needs columns `name`, `device`, `registers_reported`, `agprs_reported`, `sgprs_reported` and `quality`.
    """
    parts = [
        _of_arch(part, archs.get(device) if device is not None else None, halved)
        for (device,), part in frame.with_row_index("row").partition_by("device", as_dict=True).items()
    ]
    # Each kind of architecture adds its columns in an order of its own.
    whole = pl.concat(part.select(parts[0].columns) for part in parts)
    return whole.sort("row").drop("row") if len(parts) != 1 else whole.drop("row")


def _of_arch(frame: pl.DataFrame, arch: str | None, halved: bool) -> pl.DataFrame:
    vector, scalar = pl.col("registers_reported"), pl.col("sgprs_reported")
    if arch is None or not arch.startswith("gfx"):
        return _noted(frame.with_columns(registers=vector, agprs="agprs_reported", sgprs=scalar), AS_REPORTED)
    if is_rdna(arch):
        none = pl.lit(None, dtype=pl.Int32)
        return frame.with_columns(registers=_up(vector, _rdna_step(arch)), agprs=none, sgprs=none)
    frame = frame.with_columns(sgprs=_up(scalar, SCALAR_STEP))
    if arch in UNIFIED:
        return _halved(frame) if halved and is_halved(arch, 0) else _unified(frame)
    own = _up(vector, 4)
    if arch == "gfx908":
        return _noted(frame.with_columns(registers=own, agprs=pl.lit(None, dtype=pl.Int32)), AGPRS_UNKNOWN)
    return frame.with_columns(registers=own, agprs=pl.lit(None, dtype=pl.Int32))


def _up(value: pl.Expr, step: int | pl.Expr) -> pl.Expr:
    return (((value + step - 1) // step) * step).cast(pl.Int32)


def _rdna_step(arch: str) -> pl.Expr:
    narrow, wide = (24, 12) if arch in LARGE_RDNA else (8, 4) if RDNA1.fullmatch(arch) else (16, 8)
    return pl.when(pl.col("name").str.contains(WAVE64)).then(wide).otherwise(narrow)


def _unified(frame: pl.DataFrame) -> pl.DataFrame:
    """Vector and accumulation registers share one file: the first are aligned to 4, the sum to 8."""
    vector, accumulation = pl.col("registers_reported"), pl.col("agprs_reported")
    alone = accumulation.fill_null(0) == 0
    aligned = _up(vector, 4)
    return frame.with_columns(
        registers=pl.when(alone).then(_up(vector, UNIFIED_STEP)).otherwise(aligned),
        agprs=pl.when(alone).then(accumulation).otherwise(_up(aligned + accumulation, UNIFIED_STEP) - aligned),
    )


def _halved(frame: pl.DataFrame) -> pl.DataFrame:
    """The sum of both kinds is twice what is reported; how it is divided, nobody recorded."""
    whole = _up(2 * pl.col("registers_reported"), UNIFIED_STEP)
    return _noted(frame.with_columns(registers=whole, agprs=pl.lit(None, dtype=pl.Int32)), HALVED)


def _noted(frame: pl.DataFrame, remark: str) -> pl.DataFrame:
    known = pl.col("registers_reported").is_not_null()
    return frame.with_columns(quality=pl.when(known).then(_joined(remark)).otherwise("quality"))


def _joined(remark: str) -> pl.Expr:
    return pl.concat_str(pl.col("quality"), pl.lit(remark), separator=",", ignore_nulls=True)
