"""Which GPU a device name means, and that the table is consistent."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kerneldb.gpus import Gpu, arch_of, find, known, vendor_of

NAMES = {
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "H100-SXM5-80GB": "H100 SXM",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA GH200 480GB": "GH200 480GB",
    "NVIDIA B200": "B200",
    "NVIDIA GB200": "GB200",
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA A100 80GB PCIe": "A100 80GB PCIe",
    "A100-PCIE-40GB": "A100-PCIE-40GB",
    "A100 SXM 80 GB": "A100-SXM4-80GB",
    "Tesla V100-SXM2-16GB": "V100-SXM2-16GB",
    "Tesla V100-DGXS-32GB": "V100-DGXS-32GB",
    "Tesla T4": "T4",
    "NVIDIA A10": "A10",
    "NVIDIA A40": "A40",
    "NVIDIA L4": "L4",
    "NVIDIA L40S": "L40S",
    "NVIDIA GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "GeForce RTX 3090": "RTX 3090",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "nvidia geforce rtx 5090": "RTX 5090",
    "NVIDIA GeForce RTX 5070": "RTX 5070",
    "AMD Instinct MI100": "MI100",
    "AMD Instinct MI210": "MI210",
    "AMD Instinct MI250X": "MI250X",
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct MI300X VF": "MI300X",
    "AMD_Instinct_MI300X_OAM": "MI300X",
    "AMD Instinct MI325X": "MI325X",
    "AMD Instinct MI355X": "MI355X",
    "AMD Radeon RX 7900 XTX": "RX 7900 XTX",
    "AMD Radeon(TM) 8060S Graphics": "Radeon 8060S",
    "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S": "Radeon 8060S",
}
OTHER_PRODUCTS = [
    *("NVIDIA A10G", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 5070 Ti"),
    *(
        "NVIDIA A100-PG509-200",
        "A100",
        "H100",
        "NVIDIA PG509-210",
        "AMD Radeon Graphics",
        "AMD Radeon RX 7900 XT",
        "",
        "GPU",
    ),
]


@pytest.mark.parametrize(("printed", "expected"), NAMES.items(), ids=list(NAMES))
def test_find(printed: str, expected: str) -> None:
    found = find(printed)
    assert found is not None
    assert found.name == expected


@pytest.mark.parametrize("printed", OTHER_PRODUCTS)
def test_other_products_are_not_taken_for_known_ones(printed: str) -> None:
    assert find(printed) is None


def test_the_compute_capability_must_agree() -> None:
    assert find("NVIDIA H200", 9, 0) is not None
    assert find("NVIDIA H200", 9) is not None
    assert find("NVIDIA H200", 8, 0) is None
    assert find("AMD Instinct MI300X", 9, 4) is not None
    assert find("AMD Instinct MI300X", 9, 0) is None
    assert find("AMD Radeon 8060S", 11, 5) is not None
    assert find("NVIDIA B200", 10, 0) is not None


@pytest.mark.parametrize(
    ("vendor", "printed", "capability", "expected"),
    [
        ("NVIDIA", "NVIDIA A100-PG509-200", (8, 0), "sm_80"),
        ("NVIDIA", "any", (12, 0), "sm_120"),
        ("NVIDIA", "NVIDIA H200", (None, None), "sm_90"),
        ("NVIDIA", "unheard of", (None, None), None),
        ("AMD", "AMD Instinct MI300X", (9, 4), "gfx942"),
        ("AMD", "AMD Instinct MI300A", (9, 4), "gfx942"),
        ("AMD", "AMD Instinct MI250", (9, 0), "gfx90a"),
        ("AMD", "AMD Instinct MI250X/MI250", (9, 0), "gfx90a"),
        ("AMD", "AMD Instinct MI210", (9, 0), "gfx90a"),
        ("AMD", "AMD Instinct MI100", (9, 0), "gfx908"),
        ("AMD", "AMD Instinct MI355X", (9, 5), "gfx950"),
        ("AMD", "Strix Halo [Radeon Graphics / Radeon 8050S Graphics / Radeon 8060S Graphics]", (11, 5), "gfx1151"),
        ("AMD", "Radeon RX 7900 XTX", (11, 0), "gfx1100"),
        ("AMD", "gfx90a:sramecc+:xnack-", (None, None), "gfx90a"),
        ("AMD", "AMD Radeon Graphics", (9, 4), None),
        (None, "AMD Instinct MI300X", (9, 4), "gfx942"),
        (None, "NVIDIA A10G", (8, 6), "sm_86"),
        (None, "", (9, 4), None),
        ("Intel", "Intel(R) Data Center GPU Max 1550", (None, None), None),
    ],
)
def test_arch(
    vendor: str | None, printed: str, capability: tuple[int | None, int | None], expected: str | None
) -> None:
    assert arch_of(vendor, printed, *capability) == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"name": "Tesla V100-SXM2-32GB", "computeMajor": 7}, "NVIDIA"),
        ({"name": "NVIDIA PG509-210"}, "NVIDIA"),
        ({"name": "AMD Radeon Graphics", "warpSize": 64}, "AMD"),
        ({"name": "", "warpSize": 64, "computeMajor": 9}, "AMD"),
        ({"name": "", "warpSize": 32, "maxSharedMemoryPerMultiProcessor": 65536}, "AMD"),
        ({"name": "", "warpSize": 32, "sharedMemPerBlockOptin": 232448}, "NVIDIA"),
        ({"name": "Intel(R) Data Center GPU Max 1550", "vendor": "Intel(R) Corporation"}, "Intel"),
        ({"name": "", "maxComputeUnits": 512}, "Intel"),
        ({"name": None}, None),
        ({}, None),
    ],
)
def test_vendor(properties: dict[str, Any], expected: str | None) -> None:
    assert vendor_of(properties) == expected


@pytest.mark.parametrize("gpu", known(), ids=lambda gpu: gpu.name)
def test_a_row_finds_itself(gpu: Gpu) -> None:
    assert find(gpu.name) is gpu
    assert re.fullmatch(r"sm_\d+|gfx[0-9a-f]+", gpu.arch)
    assert arch_of(gpu.vendor, gpu.name) == gpu.arch
    assert len(gpu.figures) > 5
    assert all(value is None or value > 0 for value in gpu.figures.values())


def increasing(*values: float | None) -> bool:
    known = [value for value in values if value is not None]
    return known == sorted(known)


@pytest.mark.parametrize("gpu", known(), ids=lambda gpu: gpu.name)
def test_narrower_types_are_not_slower(gpu: Gpu) -> None:
    for types in (
        ("fp64_tflops", "fp32_tflops", "fp16_tflops", "fp8_tflops"),
        ("tf32_tflops", "fp16_tflops", "int8_tops"),
    ):
        assert increasing(*map(gpu.figures.get, types))


@pytest.mark.parametrize(
    "gpu", [gpu for gpu in known() if gpu.name[:2] in ("H1", "A1", "V1", "RT")], ids=lambda gpu: gpu.name
)
def test_fp32_peak_is_cores_times_clock(gpu: Gpu) -> None:
    """2 operations per core and clock; boost clocks lie between 1.3 and 2.6 GHz, so a wrong SM count or peak shows."""
    cores = {"sm_70": 64, "sm_75": 64, "sm_80": 64}.get(gpu.arch, 128)
    peak, units = gpu.figures["fp32_tflops"], gpu.figures["multiprocessors"]
    if peak is not None and units is not None:
        assert 1.3e9 < peak * 1e12 / (2 * cores * units) < 2.6e9


def test_figures_of_a_data_sheet() -> None:
    """The H200 datasheet: 141 GB, 4.8 TB/s; bf16 with the digits of the H100 white paper."""
    h200 = find("NVIDIA H200")
    assert h200 is not None
    assert (h200.figures["memory_gib"], h200.figures["bandwidth_gbs"], h200.figures["bf16_tflops"]) == (
        141,
        4800,
        989.4,
    )
