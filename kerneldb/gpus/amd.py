"""AMD GPUs, and the LLVM target of an AMD product name.

Compute units, memory, L2, LDS and register files: ROCm's table of GPU specifications; RDNA's LDS and register file are
printed there per workgroup processor, of two compute units. Rates of Instinct GPUs: ROCm's pages on their
microarchitecture and AMD's white papers (matrix units, dense). Rates of Radeon GPUs: compute units × boost clock × what
AMD's developer pages give per clock and compute unit, without sparsity. Threads per compute unit are waves per SIMD ×
SIMDs × 64; RDNA depends on the size of a wave and has None. Targets: LLVM's "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kerneldb.gpus.limits import LLVM
from kerneldb.gpus.model import Gpu

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIB = 2**20
_KIB = 2**10

ROCM_SPECS = "ROCm documentation, AMD GPU specifications (rocm.docs.amd.com, reference/gpu-specs)"
_MI100 = "ROCm documentation, AMD Instinct MI100 microarchitecture (rocm.docs.amd.com, gpu-arch/mi100)"
_MI250 = "ROCm documentation, AMD Instinct MI250 microarchitecture (rocm.docs.amd.com, gpu-arch/mi250), one of two dies"
_MI300 = "ROCm documentation, AMD Instinct MI300 series microarchitecture (rocm.docs.amd.com, gpu-arch/mi300)"
_MI350 = (
    "ROCm documentation, AMD Instinct MI350 Series microarchitecture (rocm.docs.amd.com, gpu-arch/mi350); its rates in "
    "PF have two digits, here 256 CUs x {clock} GHz x {rate:,} FLOP per clock and CU (AMD CDNA 4 white paper)"
)
_CDNA2_PAPER = "AMD CDNA 2 white paper, peak rates of MI200 against MI100"
_WMMA = "GPUOpen, How to accelerate AI applications on RDNA 3 using WMMA: FLOP per clock and CU of RDNA 2 and RDNA 3"
_WMMA4 = "GPUOpen, Using the matrix cores of AMD RDNA 4: FLOP per clock and CU"
_NO_FP64 = "none: AMD publishes no fp64 rate of this product"
_NO_TF32 = "none: no TF32 units"

_OF_SPECS = dict.fromkeys(
    (
        "multiprocessors",
        "memory_gib",
        "l2_bytes",
        "registers_per_multiprocessor",
        "shared_bytes_per_multiprocessor",
    ),
    ROCM_SPECS,
) | {"max_threads_per_multiprocessor": LLVM}
"""Facts of every row that do not come from the document of its rates."""

_GCN = {"max_threads_per_multiprocessor": 2560, "shared_bytes_per_multiprocessor": 64 * _KIB}
_CDNA = {"max_threads_per_multiprocessor": 2048, "registers_per_multiprocessor": 131072}
_CDNA2 = {
    **{**_CDNA, "shared_bytes_per_multiprocessor": 64 * _KIB, "memory_gib": 64, "l2_bytes": 8 * _MIB},
    "bandwidth_gbs": 1638.4,
}
_CDNA3 = {
    **{**_CDNA, "shared_bytes_per_multiprocessor": 64 * _KIB, "multiprocessors": 304, "l2_bytes": 32 * _MIB},
    **{"fp64_tflops": 163.4, "fp32_tflops": 163.4, "tf32_tflops": 653.7, "fp16_tflops": 1307.4},
    **{"bf16_tflops": 1307.4, "fp8_tflops": 2614.9, "int8_tops": 2614.9},
}
_CDNA4 = {
    **{**_CDNA, "multiprocessors": 256, "memory_gib": 288, "bandwidth_gbs": 8000.0, "l2_bytes": 32 * _MIB},
    "shared_bytes_per_multiprocessor": 160 * _KIB,
}
_RDNA2 = {"registers_per_multiprocessor": 65536, "shared_bytes_per_multiprocessor": 64 * _KIB}
_RDNA3 = {"registers_per_multiprocessor": 98304, "shared_bytes_per_multiprocessor": 64 * _KIB}
_NAVI21 = {**_RDNA2, "memory_gib": 16, "bandwidth_gbs": 512.0, "l2_bytes": 4 * _MIB}
_STRIX_HALO = {**_RDNA3, "bandwidth_gbs": 256.0, "l2_bytes": 2 * _MIB}
_NAVI48 = {**_RDNA3, "memory_gib": 16, "bandwidth_gbs": 640.0, "l2_bytes": 8 * _MIB}


def _gpu(name: str, arch: str, source: str, sources: Mapping[str, str], *facts: Mapping[str, float]) -> Gpu:
    """A row from groups of facts; later groups win. `sources` stands before `_OF_SPECS`."""
    merged: dict[str, Any] = {}
    for group in facts:
        merged.update(group)
    of_specs = {fact: document for fact, document in _OF_SPECS.items() if fact in merged}
    return Gpu(name=name, vendor="AMD", arch=arch, source=source, sources=of_specs | dict(sources), **merged)


def _mi350(clock: float) -> dict[str, str]:
    """Where the rates of a CDNA 4 board come from, whose boost clock is in GHz."""
    rates = {"fp16_tflops": 4096, "bf16_tflops": 4096, "fp8_tflops": 8192, "int8_tops": 8192, "fp4_tflops": 16384}
    return {fact: _MI350.format(clock=clock, rate=rate) for fact, rate in rates.items()} | {"tf32_tflops": _NO_TF32}


def _radeon(page: str, units: int, clock: float, rates: Mapping[str, int], document: str) -> tuple[str, dict[str, str]]:
    """The product page, and where the rates come from: `rates` per clock and compute unit, of `document`."""
    source = f"AMD product page of the {page} ({units} CUs, {clock} GHz)"
    found = {fact: f"{source} x {rate:,} per clock and CU ({document})" for fact, rate in rates.items()}
    return source, found | {"fp64_tflops": _NO_FP64}


_RDNA2_RATES = {"fp16_tflops": 256, "int8_tops": 512}
_RDNA3_RATES = {"fp16_tflops": 512, "bf16_tflops": 512, "int8_tops": 512}
_RDNA4_RATES = {"fp16_tflops": 1024, "bf16_tflops": 1024, "fp8_tflops": 2048, "int8_tops": 2048}

GPUS: tuple[Gpu, ...] = (
    _gpu(
        "MI100",
        "gfx908",
        _MI100,
        {"int8_tops": _CDNA2_PAPER},
        {**_GCN, "multiprocessors": 120, "memory_gib": 32, "bandwidth_gbs": 1228.8, "l2_bytes": 8 * _MIB},
        {"fp64_tflops": 11.5, "fp32_tflops": 46.1, "fp16_tflops": 184.6, "bf16_tflops": 92.3, "int8_tops": 184.6},
    ),
    _gpu(
        "MI210",
        "gfx90a",
        "AMD Instinct MI210 data sheet (one die of 104 CUs at 1.7 GHz, as each of an MI250)",
        {},
        {**_CDNA2, "multiprocessors": 104, "fp64_tflops": 45.3, "fp32_tflops": 45.3},
        {"fp16_tflops": 181.0, "bf16_tflops": 181.0, "int8_tops": 181.0},
    ),
    _gpu(
        "MI250",
        "gfx90a",
        _MI250,
        {},
        {**_CDNA2, "multiprocessors": 104, "fp64_tflops": 45.25, "fp32_tflops": 45.25},
        {"fp16_tflops": 181.05, "bf16_tflops": 181.05, "int8_tops": 181.05},
    ),
    _gpu(
        "MI250X",
        "gfx90a",
        f"{_CDNA2_PAPER}, one of two dies",
        {},
        {**_CDNA2, "multiprocessors": 110, "fp64_tflops": 47.85, "fp32_tflops": 47.85},
        {"fp16_tflops": 191.5, "bf16_tflops": 191.5, "int8_tops": 191.5},
    ),
    _gpu("MI300X", "gfx942", _MI300, {}, {"memory_gib": 192, "bandwidth_gbs": 5300.0}, _CDNA3),
    _gpu(
        "MI325X",
        "gfx942",
        "AMD Instinct MI325X data sheet (304 CUs at 2.1 GHz, as an MI300X)",
        {},
        {"memory_gib": 256, "bandwidth_gbs": 6000.0},
        _CDNA3,
    ),
    _gpu(
        "MI300A",
        "gfx942",
        f"AMD Instinct MI300A data sheet; equal to 228 CUs x 2.1 GHz x FLOP per clock and CU of the {_MI300}",
        {"bandwidth_gbs": "AMD Instinct MI300A data sheet"},
        _CDNA3,
        {"multiprocessors": 228, "memory_gib": 128, "bandwidth_gbs": 5300.0, "l2_bytes": 24 * _MIB},
        {"fp64_tflops": 122.6, "fp32_tflops": 122.6, "tf32_tflops": 490.3, "fp16_tflops": 980.6, "bf16_tflops": 980.6},
        {"fp8_tflops": 1961.2, "int8_tops": 1961.2},
    ),
    _gpu(
        "MI350X",
        "gfx950",
        _MI350.partition(";")[0],
        _mi350(2.2),
        _CDNA4,
        {"fp64_tflops": 72.1, "fp32_tflops": 144.2, "fp16_tflops": 2306.9, "bf16_tflops": 2306.9},
        {"fp8_tflops": 4613.7, "int8_tops": 4613.7, "fp4_tflops": 9227.5},
    ),
    _gpu(
        "MI355X",
        "gfx950",
        _MI350.partition(";")[0],
        _mi350(2.4),
        _CDNA4,
        {"fp64_tflops": 78.6, "fp32_tflops": 157.3, "fp16_tflops": 2516.6, "bf16_tflops": 2516.6},
        {"fp8_tflops": 5033.2, "int8_tops": 5033.2, "fp4_tflops": 10066.3},
    ),
    _gpu(
        "RX 6800 XT",
        "gfx1030",
        *_radeon("Radeon RX 6800 XT", 72, 2.25, _RDNA2_RATES, _WMMA),
        {**_NAVI21, "multiprocessors": 72, "fp32_tflops": 20.7, "fp16_tflops": 41.5, "int8_tops": 82.9},
    ),
    _gpu(
        "RX 6900 XT",
        "gfx1030",
        *_radeon("Radeon RX 6900 XT", 80, 2.25, _RDNA2_RATES, _WMMA),
        {**_NAVI21, "multiprocessors": 80, "fp32_tflops": 23.0, "fp16_tflops": 46.1, "int8_tops": 92.2},
    ),
    _gpu(
        "RX 7900 XTX",
        "gfx1100",
        *_radeon("Radeon RX 7900 XTX", 96, 2.5, _RDNA3_RATES, _WMMA),
        {**_RDNA3, "multiprocessors": 96, "memory_gib": 24, "bandwidth_gbs": 960.0, "l2_bytes": 6 * _MIB},
        {"fp32_tflops": 61.4, "fp16_tflops": 122.8, "bf16_tflops": 122.8, "int8_tops": 122.8},
    ),
    _gpu(
        "Radeon 8050S",
        "gfx1151",
        *_radeon("Ryzen AI Max 390, 256-bit LPDDR5X-8000", 32, 2.8, _RDNA3_RATES, _WMMA),
        {**_STRIX_HALO, "multiprocessors": 32},
        {"fp32_tflops": 22.9, "fp16_tflops": 45.9, "bf16_tflops": 45.9, "int8_tops": 45.9},
    ),
    _gpu(
        "Radeon 8060S",
        "gfx1151",
        *_radeon("Ryzen AI Max+ 395, 256-bit LPDDR5X-8000", 40, 2.9, _RDNA3_RATES, _WMMA),
        {**_STRIX_HALO, "multiprocessors": 40},
        {"fp32_tflops": 29.7, "fp16_tflops": 59.4, "bf16_tflops": 59.4, "int8_tops": 59.4},
    ),
    _gpu(
        "RX 9070",
        "gfx1201",
        *_radeon("Radeon RX 9070", 56, 2.52, _RDNA4_RATES, _WMMA4),
        {**_NAVI48, "multiprocessors": 56, "fp32_tflops": 36.1, "fp16_tflops": 144.5, "bf16_tflops": 144.5},
        {"fp8_tflops": 289.0, "int8_tops": 289.0},
    ),
    _gpu(
        "RX 9070 XT",
        "gfx1201",
        *_radeon("Radeon RX 9070 XT", 64, 2.97, _RDNA4_RATES, _WMMA4),
        {**_NAVI48, "multiprocessors": 64, "fp32_tflops": 48.7, "fp16_tflops": 194.6, "bf16_tflops": 194.6},
        {"fp8_tflops": 389.3, "int8_tops": 389.3},
    ),
)
"""All AMD rows, oldest architecture first."""

_TARGETS: tuple[tuple[str, str], ...] = (
    (r"mi3(?:00[xac]?|08x|25x)", "gfx942"),
    (r"mi35[05]x", "gfx950"),
    (r"mi2(?:10|50x?)", "gfx90a"),
    (r"mi100", "gfx908"),
    (r"mi(?:50|60)", "gfx906"),
    (r"80[56]0s|strix halo", "gfx1151"),
    (r"890m", "gfx1150"),
    (r"860m", "gfx1152"),
    (r"rx 7900 (?:xtx|xt|gre)|w7[89]00", "gfx1100"),
    (r"rx 7(?:800|700) xt", "gfx1101"),
    (r"rx 7600(?: xt)?", "gfx1102"),
    (r"rx 9070(?: xt| gre)?", "gfx1201"),
    (r"rx 9060(?: xt)?", "gfx1200"),
    (r"rx 6(?:800|800 xt|900 xt|950 xt)", "gfx1030"),
)
_PATTERNS = tuple((re.compile(rf"\b(?:{pattern})\b"), target) for pattern, target in _TARGETS)
_LITERAL = re.compile(r"\bgfx[0-9]{1,2}[0-9a-f]{2}\b")


def target_of(words: str) -> str | None:
    """LLVM target ('gfx942') of a lower-case product name with single spaces; None where the name fits none or several.

    A vague name such as "radeon graphics", which ROCm prints for quite different GPUs, has none.
    """
    literal = _LITERAL.search(words)
    if literal:
        return literal.group()
    found = {target for pattern, target in _PATTERNS if pattern.search(words)}
    return found.pop() if len(found) == 1 else None
