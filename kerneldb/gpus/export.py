"""Writes the reference tables gpu_specs.csv and peak_types.csv: `python -m kerneldb.gpus.export FOLDER`.

A test holds the files in schemas/reference and this package together.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.gpus import GPUS, limits
from kerneldb.gpus.model import PEAKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kerneldb.gpus import Gpu
    from kerneldb.gpus.limits import AmdLimits, NvidiaLimits

SPEC_COLUMNS: Final = ("name", "vendor", "arch", "fact", "value", "unit", "source")
TYPE_COLUMNS: Final = ("dtype", "fact")
UNITS: Final = {
    "multiprocessors": None,
    "memory_gib": "GiB",
    "bandwidth_gbs": "GB/s",
    "fp64_tflops": "TFLOP/s",
    "fp32_tflops": "TFLOP/s",
    "tf32_tflops": "TFLOP/s",
    "fp16_tflops": "TFLOP/s",
    "bf16_tflops": "TFLOP/s",
    "fp8_tflops": "TFLOP/s",
    "fp4_tflops": "TFLOP/s",
    "int8_tops": "TOP/s",
    "l2_bytes": "byte",
    "max_threads_per_multiprocessor": "threads",
    "registers_per_multiprocessor": "registers",
    "shared_bytes_per_multiprocessor": "byte",
}
Spec = dict[str, str | float | None]


def specs() -> Iterator[Spec]:
    """Rows of gpu_specs: the facts of each GPU, then the limits of each architecture, whose name stands in `name`."""
    for gpu in GPUS:
        yield from _of_gpu(gpu)
    for arch, sm in limits.NVIDIA.items():
        yield from _of_arch(arch, "NVIDIA", _nvidia(sm), sm.source)
    for arch, cu in limits.AMD.items():
        yield from _of_arch(arch, "AMD", _amd(cu), cu.source)


def _of_arch(arch: str, vendor: str, facts: Iterable[tuple[str, int, str]], source: str) -> Iterator[Spec]:
    for fact, value, unit in facts:
        yield dict(zip(SPEC_COLUMNS, (arch, vendor, arch, fact, value, unit, source), strict=True))


def _of_gpu(gpu: Gpu) -> Iterator[Spec]:
    """A row per figure, and one without a value for each figure whose absence is explained."""
    for fact, unit in UNITS.items():
        value = getattr(gpu, fact)
        if value is not None or fact in gpu.sources:
            row = (gpu.name, gpu.vendor, gpu.arch, fact, value, unit, gpu.sources.get(fact, gpu.source))
            yield dict(zip(SPEC_COLUMNS, row, strict=True))


def _nvidia(sm: NvidiaLimits) -> Iterator[tuple[str, int, str]]:
    yield "warps_per_multiprocessor", sm.warps, "warps"
    yield "blocks_per_multiprocessor", sm.blocks, "blocks"
    yield "warp_size", sm.warp_size, "threads"
    yield "registers_per_multiprocessor", sm.registers, "registers"
    yield "registers_per_thread", sm.registers_per_thread, "registers"
    yield "register_unit_per_warp", sm.register_unit, "registers"
    yield "shared_bytes_per_multiprocessor", sm.shared_bytes, "byte"
    yield "shared_bytes_per_block", sm.shared_bytes - sm.shared_reserved, "byte"
    yield "shared_unit", sm.shared_unit, "byte"
    yield "shared_reserved_per_block", sm.shared_reserved, "byte"


def _amd(cu: AmdLimits) -> Iterator[tuple[str, int, str]]:
    yield "simds_per_multiprocessor", cu.simds, "SIMDs"
    yield "waves_per_simd", cu.waves_per_simd, "waves"
    yield "blocks_per_multiprocessor", cu.blocks, "blocks"
    for size, total in cu.registers.items():
        yield f"registers_per_simd_wave{size}", total, "registers per lane"
        yield f"register_unit_wave{size}", cu.register_unit[size], "registers per lane"
    yield "registers_per_thread", cu.registers_per_wave, "registers"
    yield "shared_bytes_per_multiprocessor", cu.shared_bytes, "byte"
    yield "shared_bytes_per_block", cu.shared_per_block, "byte"
    yield "shared_unit", cu.shared_unit, "byte"


def types() -> Iterator[Spec]:
    """Rows of peak_types."""
    for dtype, fact in PEAKS.items():
        yield {"dtype": dtype, "fact": fact}


def write(folder: Path) -> None:
    """Write both files into `folder`."""
    tables = {"gpu_specs": (SPEC_COLUMNS, specs()), "peak_types": (TYPE_COLUMNS, types())}
    for table, (columns, rows) in tables.items():
        with (folder / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def main() -> None:
    """Write the files into the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("schemas", "reference"))
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
