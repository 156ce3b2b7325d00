"""What a multiprocessor holds, by architecture: the limits from which occupancy is computed.

schemas/reference/gpu_specs.csv has them for questions in SQL; a test keeps both equal.

NVIDIA, per SM: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability" (warps, blocks,
threads of a block, registers, registers of a thread, shared memory); units of allocation from the toolkit's
`cuda_occupancy.h` (registers: 256 per warp, four partitions; shared memory: 256 bytes before compute capability 8.0,
then 128). From 8.0 on, 1 KiB per block is kept for the system (Programming Guide, "Shared Memory" of the compute
capability).

AMD, per compute unit: LLVM `AMDGPUBaseInfo.cpp` (`getMaxWavesPerEU`, `getTotalNumVGPRs`, `getVGPRAllocGranule`,
`getLocalMemorySize`, `getLdsDwGranularity`, `getMaxWorkGroupsPerCU`, `getMaxFlatWorkGroupSize`,
`getOccupancyWithNumSGPRs`) with the features of each target in `AMDGPU.td`. "Registers" are vector registers per lane
and SIMD.
"""

from __future__ import annotations

import dataclasses
from typing import Final

_KIB: Final = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaLimits:
    """One SM. Sizes in bytes; `register_unit` registers per warp are handed out at once."""

    warps: int
    blocks: int
    shared_bytes: int
    registers: int = 65536
    register_unit: int = 256
    registers_per_thread: int = 255
    threads_per_block: int = 1024
    partitions: int = 4
    shared_unit: int = 128
    shared_reserved: int = _KIB
    warp_size: int = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AmdLimits:
    """One compute unit. `registers` and `register_unit`: per SIMD and lane, by size of a wave.

    `registers_per_wave` counts what a wave can address. `unified`: accumulation registers lie in the same file.
    `paired`: two compute units form a workgroup processor (WGP), whose LDS a workgroup shares in WGP mode.
    """

    waves_per_simd: int
    simds: int
    registers: dict[int, int]
    register_unit: dict[int, int]
    registers_per_wave: int = 256
    threads_per_block: int = 1024
    shared_bytes: int = 64 * _KIB
    shared_per_block: int = 64 * _KIB
    shared_unit: int = 512
    blocks: int = 16
    unified: bool = False
    paired: bool = False

    @property
    def wave_size(self) -> int:
        """Threads of a wave where a kernel does not say otherwise."""
        return min(self.registers)


_V100 = NvidiaLimits(warps=64, blocks=32, shared_bytes=96 * _KIB, shared_unit=256, shared_reserved=0)
_TURING = NvidiaLimits(warps=32, blocks=16, shared_bytes=64 * _KIB, shared_unit=256, shared_reserved=0)
_A100 = NvidiaLimits(warps=64, blocks=32, shared_bytes=164 * _KIB)
_GA10X = NvidiaLimits(warps=48, blocks=16, shared_bytes=100 * _KIB)
_ORIN = NvidiaLimits(warps=48, blocks=16, shared_bytes=164 * _KIB)
_ADA = NvidiaLimits(warps=48, blocks=24, shared_bytes=100 * _KIB)
_HOPPER = NvidiaLimits(warps=64, blocks=32, shared_bytes=228 * _KIB)
_THOR = NvidiaLimits(warps=48, blocks=24, shared_bytes=228 * _KIB)

NVIDIA: Final[dict[str, NvidiaLimits]] = {
    "sm_70": _V100,
    "sm_72": _V100,
    "sm_75": _TURING,
    "sm_80": _A100,
    "sm_86": _GA10X,
    "sm_87": _ORIN,
    "sm_89": _ADA,
    "sm_90": _HOPPER,
    "sm_100": _HOPPER,
    "sm_103": _HOPPER,
    "sm_110": _THOR,
    "sm_120": _ADA,
    "sm_121": _ADA,
}

_GCN = AmdLimits(waves_per_simd=10, simds=4, registers={64: 256}, register_unit={64: 4})
_CDNA = AmdLimits(
    waves_per_simd=8, simds=4, registers={64: 512}, register_unit={64: 8}, registers_per_wave=512, unified=True
)
_CDNA4 = dataclasses.replace(_CDNA, shared_bytes=160 * _KIB, shared_per_block=160 * _KIB, shared_unit=1280)
_RDNA1 = AmdLimits(waves_per_simd=20, simds=2, registers={32: 1024, 64: 512}, register_unit={32: 8, 64: 4}, paired=True)
_RDNA2 = dataclasses.replace(_RDNA1, waves_per_simd=16, register_unit={32: 16, 64: 8})
_RDNA3 = dataclasses.replace(_RDNA2, registers={32: 1536, 64: 768}, register_unit={32: 24, 64: 12})

AMD: Final[dict[str, AmdLimits]] = {
    **dict.fromkeys(("gfx900", "gfx906", "gfx908"), _GCN),
    **dict.fromkeys(("gfx90a", "gfx940", "gfx941", "gfx942"), _CDNA),
    "gfx950": _CDNA4,
    **dict.fromkeys(("gfx1010", "gfx1011", "gfx1012"), _RDNA1),
    **dict.fromkeys([f"gfx103{step}" for step in range(7)], _RDNA2),
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"), _RDNA3),
    # The small ones keep the 1,024 registers of RDNA 2 (no Feature1_5xVGPRs).
    **dict.fromkeys(("gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153"), _RDNA2),
}

GCN_SCALAR_REGISTERS: Final[tuple[tuple[int, int], ...]] = ((80, 10), (88, 9), (100, 8))
"""Up to so many scalar registers allow so many waves per SIMD on gfx9; more allow `GCN_FEWEST_WAVES`."""
GCN_FEWEST_WAVES: Final = 7


def of(arch: str | None) -> NvidiaLimits | AmdLimits | None:
    """Limits of an architecture as devices carry it ('sm_90', 'sm_90a', 'gfx90a', 'gfx90a:sramecc+:xnack-')."""
    if arch is None:
        return None
    plain = arch.partition(":")[0]
    return NVIDIA.get(plain.rstrip("af") if plain.startswith("sm_") else plain) or AMD.get(plain)
