"""Theoretical occupancy: how many warps (waves) of a launch a multiprocessor holds at once, over the most it can hold.

Blocks per multiprocessor are bounded by five resources, each alone: slots for warps, slots for blocks, vector
registers, scalar registers (AMD gfx9) and shared memory (LDS). The smallest bound wins and names the limiter. NVIDIA's
arithmetic is that of `cuda_occupancy.h` with the largest configuration of shared memory; AMD's is LLVM's (see
`kerneldb.gpus.limits`). It says nothing of grids too small to fill the GPU, nor of what was reached at run time.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Final

from kerneldb.gpus import limits
from kerneldb.gpus.limits import AmdLimits, NvidiaLimits

LIMITERS: Final = ("warps", "blocks", "registers", "scalar_registers", "shared_memory")
"""Names of limiters, in the order in which several are listed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy of one launch.

    Attributes:
        theoretical: resident warps over the most that fit, 0 to 1; RDNA: in WGP mode, the default of HIP.
        cu: the same in CU mode; None on anything but RDNA.
        limiter: the resource that bounds it; several that bound it alike are joined with commas.
        blocks: resident blocks per SM, compute unit or (RDNA) workgroup processor.
        warps: resident warps or waves of those blocks.
        max_warps: the most warps that fit.
        warp_size: threads of a warp or wave, as assumed.
        blocks_by: blocks that each resource would allow by itself.
    """

    theoretical: float
    cu: float | None
    limiter: str
    blocks: int
    warps: int
    max_warps: int
    warp_size: int
    blocks_by: dict[str, int] = dataclasses.field(hash=False)


@functools.lru_cache(maxsize=8192)
def occupancy(
    arch: str | None,
    *,
    threads_per_block: int,
    registers: int | None,
    shared_bytes: int | None,
    agprs: int | None = None,
    scalar_registers: int | None = None,
    warp_size: int | None = None,
) -> Occupancy | None:
    """Theoretical occupancy of a launch, or None where it cannot be known.

    None: unknown architecture, registers or shared memory not recorded, or values that no launch can have (more threads
    or shared memory than a block may use, more registers than a thread may, less than none). `shared_bytes` is static
    and dynamic together, without what the system reserves; `registers` per thread may be as compiled, as encoded or as
    allocated: rounding up again changes nothing. `agprs`: accumulation registers of CDNA. `warp_size`: 32 or 64 where
    an RDNA kernel says it; else 32 there.
    """
    known = limits.of(arch)
    if known is None or registers is None or shared_bytes is None:
        return None
    if not 0 < threads_per_block <= known.threads_per_block:
        return None
    if min(registers, shared_bytes, agprs or 0, scalar_registers or 0) < 0:
        return None
    if isinstance(known, NvidiaLimits):
        return _nvidia(known, threads_per_block, registers, shared_bytes)
    size = warp_size if warp_size in known.registers else known.wave_size
    waves = math.ceil(threads_per_block / size)
    vector = _vector_registers(known, registers, agprs or 0)
    found = _amd(known, size, waves, vector, scalar_registers, shared_bytes, units=2 if known.paired else 1)
    if not known.paired or found is None:
        return found
    single = _amd(known, size, waves, vector, scalar_registers, shared_bytes, units=1)
    return dataclasses.replace(found, cu=single.theoretical if single else None)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _nvidia(sm: NvidiaLimits, threads: int, registers: int, shared: int) -> Occupancy | None:
    warps = math.ceil(threads / sm.warp_size)
    per_warp = _up(registers * sm.warp_size, sm.register_unit)
    if per_warp > _up(sm.registers_per_thread * sm.warp_size, sm.register_unit):
        return None
    per_partition = sm.registers // sm.partitions // max(per_warp, sm.register_unit)
    allocated = _up(shared + sm.shared_reserved, sm.shared_unit)
    blocks_by = {
        "warps": sm.warps // warps,
        "blocks": sm.blocks,
        "registers": per_partition * sm.partitions // warps,
    }
    if allocated:
        blocks_by["shared_memory"] = sm.shared_bytes // allocated
    # The register file must also hold a block whose warps fill up whole rounds of partitions.
    if per_warp * _up(warps, sm.partitions) > sm.registers:
        blocks_by["registers"] = 0
    return _bounded(blocks_by, warps, sm.warps, sm.warp_size)


def _vector_registers(cu: AmdLimits, registers: int, agprs: int) -> int:
    """Registers that a wave takes from one file: both kinds together where the file is one, else the larger kind."""
    if cu.unified:
        return _up(registers, 4) + agprs if agprs else registers
    return max(registers, agprs)


def _amd(
    cu: AmdLimits, size: int, waves: int, vector: int, scalar: int | None, shared: int, *, units: int
) -> Occupancy | None:
    """Occupancy of `units` compute units that share their LDS (2: WGP mode)."""
    unit = cu.register_unit[size]
    if vector > _up(cu.registers_per_wave, unit) or shared > cu.shared_per_block:
        return None
    simds = cu.simds * units
    slots = cu.waves_per_simd * simds
    blocks_by = {"warps": slots // waves, "registers": cu.registers[size] // _up(max(vector, 1), unit) * simds // waves}
    if waves > 1:  # A block of one wave needs no barrier, and the slots for blocks are those of barriers.
        blocks_by["blocks"] = cu.blocks * units
    if shared:
        blocks_by["shared_memory"] = cu.shared_bytes * units // _up(shared, cu.shared_unit)
    if scalar and not cu.paired:
        blocks_by["scalar_registers"] = _waves_by_scalar(scalar) * simds // waves
    return _bounded(blocks_by, waves, slots, size)


def _waves_by_scalar(scalar: int) -> int:
    return next((waves for most, waves in limits.GCN_SCALAR_REGISTERS if scalar <= most), limits.GCN_FEWEST_WAVES)


def _bounded(blocks_by: dict[str, int], warps: int, most: int, size: int) -> Occupancy | None:
    blocks = min(blocks_by.values())
    if blocks == 0:
        return None
    limiter = ",".join(name for name in LIMITERS if blocks_by.get(name) == blocks)
    return Occupancy(blocks * warps / most, None, limiter, blocks, blocks * warps, most, size, blocks_by)
