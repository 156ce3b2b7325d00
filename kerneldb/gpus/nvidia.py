"""NVIDIA GPUs. Peaks and memory: data sheet of the product; SMs and L2: white paper of its architecture.

Limits per SM: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability" (threads, 32-bit
registers, shared memory per multiprocessor). Data sheets that print rates "with sparsity" are halved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kerneldb.gpus.limits import CUDA_GUIDE
from kerneldb.gpus.model import Gpu

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIB = 2**20
_KIB = 2**10
_REGISTERS = 65536


def _limits(threads: int, shared_kib: int) -> dict[str, int]:
    return {
        "max_threads_per_multiprocessor": threads,
        "registers_per_multiprocessor": _REGISTERS,
        "shared_bytes_per_multiprocessor": shared_kib * _KIB,
    }


_SM = {
    "sm_70": _limits(2048, 96),
    "sm_75": _limits(1024, 64),
    "sm_80": _limits(2048, 164),
    "sm_86": _limits(1536, 100),
    "sm_89": _limits(1536, 100),
    "sm_90": _limits(2048, 228),
    "sm_100": _limits(2048, 228),
    "sm_120": _limits(1536, 100),
}


class Sheet(NamedTuple):
    """The documents of a product: of its rates and memory; of its SMs and L2; and of single facts."""

    rates: str
    chip: str
    facts: Mapping[str, str] = {}

    def of(self) -> dict[str, str]:
        """Fact → document, for those that are not of `rates`."""
        limits = dict.fromkeys(_limits(0, 0), CUDA_GUIDE)
        return limits | {"multiprocessors": self.chip, "l2_bytes": self.chip} | dict(self.facts)


def _gpu(name: str, arch: str, sheet: Sheet, *facts: Mapping[str, float]) -> Gpu:
    """A row from groups of facts; later groups win."""
    merged: dict[str, Any] = dict(_SM[arch])
    for group in facts:
        merged.update(group)
    sources = {fact: source for fact, source in sheet.of().items() if fact in merged or fact in sheet.facts}
    return Gpu(name=name, vendor="NVIDIA", arch=arch, source=sheet.rates, sources=sources, **merged)


def _half(rate: float) -> dict[str, float]:
    """The same rate for both 16-bit types."""
    return {"fp16_tflops": rate, "bf16_tflops": rate}


def _eight(rate: float) -> dict[str, float]:
    """The same rate for fp8 and int8."""
    return {"fp8_tflops": rate, "int8_tops": rate}


_V100 = {"multiprocessors": 80, "bandwidth_gbs": 900.0, "l2_bytes": 6 * _MIB}
_V100_SXM2 = {**_V100, "fp64_tflops": 7.8, "fp32_tflops": 15.7, "fp16_tflops": 125.0}
_DGXS_RATES = {"fp64_tflops": 7.8, "fp32_tflops": 15.6, "fp16_tflops": 125.0}
_V100_PCIE = {**_V100, "fp64_tflops": 7.0, "fp32_tflops": 14.0, "fp16_tflops": 112.0}
_A100 = {
    **{"multiprocessors": 108, "l2_bytes": 40 * _MIB, "int8_tops": 624.0},
    **{"fp64_tflops": 19.5, "fp32_tflops": 19.5, "tf32_tflops": 156.0, **_half(312.0)},
}
_H100_SXM = {
    **{"multiprocessors": 132, "fp64_tflops": 66.9, "fp32_tflops": 66.9, "tf32_tflops": 494.7},
    **_half(989.4),
    **_eight(1978.9),
}
_H100_NVL = {
    **{"multiprocessors": 132, "fp64_tflops": 60.0, "fp32_tflops": 60.0, "tf32_tflops": 417.5},
    **_half(835.5),
    **_eight(1671.0),
}
_VOLTA = "NVIDIA Tesla V100 architecture white paper"
_AMPERE = "NVIDIA Ampere GA102 white paper"
_HOPPER = "NVIDIA H100 architecture white paper v1.04"
_ADA = "NVIDIA Ada GPU architecture white paper"
_RTX50 = "NVIDIA RTX Blackwell GPU architecture white paper"
_TURING = "NVIDIA Turing architecture white paper"
_PROPERTIES = "device properties, printed in github.com/pytorch/ao/pull/4002"
_BLACKWELL = "NVIDIA Blackwell Datasheet 4204213 (October 2025), {}; rates with sparsity halved"

_V100_SHEET = Sheet("NVIDIA V100 datasheet", _VOLTA)
_DGXS_RATE = (
    "1/{} of the tensor rate of the NVIDIA DGX Station datasheet (NVIDIA Tesla V100 architecture white paper: {} FMA "
    "per clock and SM against 512 of the tensor cores)"
)
_DGXS_SHEET = Sheet(
    "NVIDIA DGX Station datasheet",
    _VOLTA,
    {
        "bandwidth_gbs": "NVIDIA V100 datasheet",
        "fp32_tflops": _DGXS_RATE.format(8, 64),
        "fp64_tflops": _DGXS_RATE.format(16, 32),
    },
)
_A100_SHEET = Sheet("NVIDIA A100 datasheet", "NVIDIA A100 architecture white paper")
_H100_SHEET = Sheet("NVIDIA H100 datasheet and H100 architecture white paper v1.04", _HOPPER)
_H200_RATES = "NVIDIA H200 datasheet (rates with the digits of the H100 architecture white paper: same SMs)"
_H200_SHEET = Sheet(_H200_RATES, _HOPPER, {"l2_bytes": "cudaDeviceProp of the SXM board"})
_H200_NVL = Sheet("NVIDIA H200 datasheet", _HOPPER, {"l2_bytes": "none: no board of this kind was asked"})
_GH200_RATES = "NVIDIA GH200 datasheet (rates with the digits of the H100 architecture white paper: same SMs)"
_GH200_SHEET = Sheet(_GH200_RATES, _HOPPER, {"l2_bytes": "none: not in the datasheet"})
_RTX50_SHEET = Sheet(_RTX50, _RTX50)
_B200_SHEET = Sheet(
    _BLACKWELL.format("HGX B200, individual GPU"),
    _PROPERTIES,
    {"bandwidth_gbs": f"{_PROPERTIES}: 7,680 bits at 3,996 MHz (the datasheet rounds to 7.7 TB/s)"},
)
_GB200_SHEET = Sheet(
    _BLACKWELL.format("GB200 NVL72, individual GPU"),
    "",
    {"multiprocessors": "none: not in the datasheet", "l2_bytes": "none: not in the datasheet"},
)

GPUS: tuple[Gpu, ...] = (
    _gpu("V100-SXM2-16GB", "sm_70", _V100_SHEET, {"memory_gib": 16}, _V100_SXM2),
    _gpu("V100-SXM2-32GB", "sm_70", _V100_SHEET, {"memory_gib": 32}, _V100_SXM2),
    _gpu("V100-PCIE-16GB", "sm_70", _V100_SHEET, {"memory_gib": 16}, _V100_PCIE),
    _gpu("V100-PCIE-32GB", "sm_70", _V100_SHEET, {"memory_gib": 32}, _V100_PCIE),
    _gpu("V100-DGXS-16GB", "sm_70", _DGXS_SHEET, {"memory_gib": 16, **_DGXS_RATES}, _V100),
    _gpu("V100-DGXS-32GB", "sm_70", _DGXS_SHEET, {"memory_gib": 32, **_DGXS_RATES}, _V100),
    _gpu(
        "T4",
        "sm_75",
        Sheet("NVIDIA T4 datasheet", _TURING),
        {"multiprocessors": 40, "memory_gib": 16, "bandwidth_gbs": 320.0, "l2_bytes": 4 * _MIB},
        {"fp32_tflops": 8.1, "fp16_tflops": 65.0, "int8_tops": 130.0},
    ),
    _gpu(
        "RTX 2080 Ti",
        "sm_75",
        Sheet(f"{_TURING} (reference clocks)", _TURING),
        {"multiprocessors": 68, "memory_gib": 11, "bandwidth_gbs": 616.0, "l2_bytes": 5632 * _KIB},
        {"fp32_tflops": 13.4, "fp16_tflops": 53.8, "int8_tops": 215.2},
    ),
    _gpu("A100-SXM4-40GB", "sm_80", _A100_SHEET, {"memory_gib": 40, "bandwidth_gbs": 1555.0}, _A100),
    _gpu("A100-SXM4-80GB", "sm_80", _A100_SHEET, {"memory_gib": 80, "bandwidth_gbs": 2039.0}, _A100),
    _gpu("A100-PCIE-40GB", "sm_80", _A100_SHEET, {"memory_gib": 40, "bandwidth_gbs": 1555.0}, _A100),
    _gpu("A100 80GB PCIe", "sm_80", _A100_SHEET, {"memory_gib": 80, "bandwidth_gbs": 1935.0}, _A100),
    _gpu(
        "A10",
        "sm_86",
        Sheet("NVIDIA A10 datasheet", _AMPERE),
        {"multiprocessors": 72, "memory_gib": 24, "bandwidth_gbs": 600.0, "l2_bytes": 6 * _MIB},
        {"fp32_tflops": 31.2, "tf32_tflops": 62.5, **_half(125.0), "int8_tops": 250.0},
    ),
    _gpu(
        "A40",
        "sm_86",
        Sheet("NVIDIA A40 datasheet", _AMPERE),
        {"multiprocessors": 84, "memory_gib": 48, "bandwidth_gbs": 696.0, "l2_bytes": 6 * _MIB},
        {"fp32_tflops": 37.4, "tf32_tflops": 74.8, **_half(149.7), "int8_tops": 299.3},
    ),
    _gpu(
        "RTX 3090",
        "sm_86",
        Sheet(_AMPERE, _AMPERE),
        {"multiprocessors": 82, "memory_gib": 24, "bandwidth_gbs": 936.0, "l2_bytes": 6 * _MIB},
        {"fp32_tflops": 35.6, "tf32_tflops": 35.6, **_half(71.0), "int8_tops": 284.0},
    ),
    _gpu(
        "L4",
        "sm_89",
        Sheet("NVIDIA L4 datasheet", _ADA),
        {"multiprocessors": 58, "memory_gib": 24, "bandwidth_gbs": 300.0, "l2_bytes": 48 * _MIB},
        {"fp32_tflops": 30.3, "tf32_tflops": 60.0, **_half(121.0), **_eight(242.5)},
    ),
    _gpu(
        "L40S",
        "sm_89",
        Sheet("NVIDIA L40S datasheet", _ADA),
        {"multiprocessors": 142, "memory_gib": 48, "bandwidth_gbs": 864.0, "l2_bytes": 96 * _MIB},
        {"fp32_tflops": 91.6, "tf32_tflops": 183.0, **_half(362.05), **_eight(733.0)},
    ),
    _gpu(
        "RTX 4090",
        "sm_89",
        Sheet(_ADA, _ADA),
        {"multiprocessors": 128, "memory_gib": 24, "bandwidth_gbs": 1008.0, "l2_bytes": 72 * _MIB},
        {"fp32_tflops": 82.6, "tf32_tflops": 82.6, **_half(165.2), "fp8_tflops": 330.3, "int8_tops": 660.6},
    ),
    _gpu(
        "RTX 5090",
        "sm_120",
        _RTX50_SHEET,
        {"multiprocessors": 170, "memory_gib": 32, "bandwidth_gbs": 1792.0, "l2_bytes": 96 * _MIB},
        {"fp32_tflops": 104.8, "tf32_tflops": 104.8, **_half(209.5), "fp8_tflops": 419.0, "int8_tops": 838.0},
        {"fp4_tflops": 1676.0},
    ),
    _gpu(
        "RTX 5070",
        "sm_120",
        _RTX50_SHEET,
        {"multiprocessors": 48, "memory_gib": 12, "bandwidth_gbs": 672.0, "l2_bytes": 48 * _MIB},
        {"fp32_tflops": 30.9, "tf32_tflops": 30.9, **_half(61.7), "fp8_tflops": 123.5, "int8_tops": 246.9},
        {"fp4_tflops": 493.9},
    ),
    _gpu(
        "H100 SXM", "sm_90", _H100_SHEET, {"memory_gib": 80, "bandwidth_gbs": 3350.0, "l2_bytes": 50 * _MIB}, _H100_SXM
    ),
    _gpu(
        "H100 NVL", "sm_90", _H100_SHEET, {"memory_gib": 94, "bandwidth_gbs": 3938.0, "l2_bytes": 50 * _MIB}, _H100_NVL
    ),
    _gpu(
        "H100 PCIe",
        "sm_90",
        _H100_SHEET,
        {"multiprocessors": 114, "memory_gib": 80, "bandwidth_gbs": 2000.0, "l2_bytes": 50 * _MIB},
        {"fp64_tflops": 51.2, "fp32_tflops": 51.2, "tf32_tflops": 378.0, **_half(756.0), **_eight(1513.0)},
    ),
    _gpu(
        "H200 SXM", "sm_90", _H200_SHEET, {"memory_gib": 141, "bandwidth_gbs": 4800.0, "l2_bytes": 60 * _MIB}, _H100_SXM
    ),
    _gpu("H200 NVL", "sm_90", _H200_NVL, {"memory_gib": 141, "bandwidth_gbs": 4800.0}, _H100_NVL),
    _gpu("GH200 480GB", "sm_90", _GH200_SHEET, {"memory_gib": 96, "bandwidth_gbs": 4000.0}, _H100_SXM),
    _gpu("GH200 144G HBM3e", "sm_90", _GH200_SHEET, {"memory_gib": 144, "bandwidth_gbs": 4900.0}, _H100_SXM),
    _gpu(
        "B200",
        "sm_100",
        _B200_SHEET,
        {"multiprocessors": 148, "memory_gib": 180, "bandwidth_gbs": 7672.0, "l2_bytes": 253 * _MIB // 2},
        {"fp64_tflops": 37.0, "fp32_tflops": 75.0, "tf32_tflops": 1100.0, **_half(2250.0), **_eight(4500.0)},
        {"fp4_tflops": 9000.0},
    ),
    _gpu(
        "GB200",
        "sm_100",
        _GB200_SHEET,
        {"memory_gib": 186, "bandwidth_gbs": 8000.0, "fp64_tflops": 40.0, "fp32_tflops": 80.0},
        {"tf32_tflops": 1250.0, **_half(2500.0), **_eight(5000.0), "fp4_tflops": 10000.0},
    ),
)
"""All NVIDIA rows, oldest architecture first."""
