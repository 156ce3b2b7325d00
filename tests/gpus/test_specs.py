"""The figures of GPUs agree with each other and with the limits of occupancy, and SQL finds the same GPU as Python."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from kerneldb import derive
from kerneldb.api.ingestion import derived
from kerneldb.batch import Manifest
from kerneldb.gpus import Gpu, find, find_device, known, limits
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse
from tests.gpus.test_gpus import NAMES, OTHER_PRODUCTS

PEAKS = {row["dtype"]: row["fact"] for row in loader.reference_rows("peak_types")}
"""Element type → the figure of a GPU that is its peak."""


def of_nvidia(sm: limits.NvidiaLimits) -> dict[str, int]:
    return {
        "warps_per_multiprocessor": sm.warps,
        "blocks_per_multiprocessor": sm.blocks,
        "warp_size": sm.warp_size,
        "registers_per_multiprocessor": sm.registers,
        "registers_per_thread": sm.registers_per_thread,
        "register_unit_per_warp": sm.register_unit,
        "shared_bytes_per_multiprocessor": sm.shared_bytes,
        "shared_bytes_per_block": sm.shared_bytes - sm.shared_reserved,
        "shared_unit": sm.shared_unit,
        "shared_reserved_per_block": sm.shared_reserved,
    }


def of_amd(cu: limits.AmdLimits) -> dict[str, int]:
    return {
        "simds_per_multiprocessor": cu.simds,
        "waves_per_simd": cu.waves_per_simd,
        "blocks_per_multiprocessor": cu.blocks,
        **{f"registers_per_simd_wave{size}": total for size, total in cu.registers.items()},
        **{f"register_unit_wave{size}": unit for size, unit in cu.register_unit.items()},
        "registers_per_thread": cu.registers_per_wave,
        "shared_bytes_per_multiprocessor": cu.shared_bytes,
        "shared_bytes_per_block": cu.shared_per_block,
        "shared_unit": cu.shared_unit,
    }


def test_rows_of_architectures_are_the_limits_of_occupancy() -> None:
    expected = {arch: of_nvidia(sm) for arch, sm in limits.NVIDIA.items()}
    expected |= {arch: of_amd(cu) for arch, cu in limits.AMD.items()}
    found: dict[str, dict[str, int]] = {}
    for row in loader.reference_rows("gpu_specs"):
        if row["name"] == row["arch"]:
            found.setdefault(row["arch"], {})[row["fact"]] = int(row["value"])
    assert found == expected


def test_figures_have_their_units() -> None:
    units = {"tflops": "TFLOP/s", "tops": "TOP/s", "gbs": "GB/s", "gib": "GiB", "bytes": "byte"}
    for row in loader.reference_rows("gpu_specs"):
        end = row["fact"].rpartition("_")[2]
        assert row["unit"] == units.get(end, row["unit"]), row
        assert bool(row["unit"]) == (row["fact"] != "multiprocessors"), row


def test_every_figure_has_a_source(root: Path) -> None:
    with (root / "schemas" / "reference" / "gpu_specs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row for row in rows if not row["source"] or "unverified" in row["source"]] == []
    assert [row for row in rows if row["value"] and not float(row["value"]) >= 0] == []
    assert [row for row in rows if bool(row["value"]) == row["source"].startswith("none: ")] == []
    assert [row for row in rows if row["fact"] == "bandwidth_gbs" and "FLOP" in row["source"]] == []
    keys = [(row["name"], row["fact"]) for row in rows]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_nvidia_limits_are_those_of_the_boards(arch: str) -> None:
    found = limits.NVIDIA[arch]
    boards = [gpu for gpu in known() if gpu.arch == arch]
    assert boards
    for board in boards:
        assert board.figures["max_threads_per_multiprocessor"] == found.warps * found.warp_size
        assert board.figures["registers_per_multiprocessor"] == found.registers
        assert board.figures["shared_bytes_per_multiprocessor"] == found.shared_bytes


@pytest.mark.parametrize("arch", ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1201"])
def test_amd_limits_are_those_of_the_boards(arch: str) -> None:
    """Registers of a compute unit: per SIMD and lane, times lanes and SIMDs (ROCm prints the file in KiB)."""
    found = limits.AMD[arch]
    boards = [gpu for gpu in known() if gpu.arch == arch]
    assert boards
    size = found.wave_size
    for board in boards:
        assert board.figures["shared_bytes_per_multiprocessor"] == found.shared_bytes
        if "registers_per_multiprocessor" in board.figures:
            assert board.figures["registers_per_multiprocessor"] == found.registers[size] * size * found.simds


# FLOP per clock and compute unit: ROCm's pages on MI100, MI250 and MI300, white papers of CDNA 2 and CDNA 4, GPUOpen.
PER_CLOCK: dict[str, dict[str, int]] = {
    "gfx908": {"fp64": 64, "fp32": 256, "fp16": 1024, "bf16": 512, "int8": 1024},
    "gfx90a": {"fp64": 256, "fp32": 256, "fp16": 1024, "bf16": 1024, "int8": 1024},
    "gfx942": {"fp64": 256, "fp32": 256, "tf32": 1024, "fp16": 2048, "bf16": 2048, "fp8": 4096, "int8": 4096},
    "gfx950": {"fp64": 128, "fp32": 256, "fp16": 4096, "bf16": 4096, "fp8": 8192, "int8": 8192, "fp4": 16384},
    "gfx1030": {"fp32": 128, "fp16": 256, "int8": 512},
    "gfx1100": {"fp32": 256, "fp16": 512, "bf16": 512, "int8": 512},
    "gfx1151": {"fp32": 256, "fp16": 512, "bf16": 512, "int8": 512},
    "gfx1201": {"fp32": 256, "fp16": 1024, "bf16": 1024, "fp8": 2048, "int8": 2048},
}
CLOCK_GHZ = {
    **{"MI100": 1.502, "MI210": 1.7, "MI250": 1.7, "MI250X": 1.7, "MI300X": 2.1, "MI325X": 2.1, "MI300A": 2.1},
    **{"MI350X": 2.2, "MI355X": 2.4, "RX 6800 XT": 2.25, "RX 6900 XT": 2.25, "RX 7900 XTX": 2.5},
    **{"Radeon 8050S": 2.8, "Radeon 8060S": 2.9, "RX 9070": 2.52, "RX 9070 XT": 2.97},
}
DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")


@pytest.mark.parametrize("gpu", [gpu for gpu in known() if gpu.vendor == "AMD"], ids=lambda gpu: gpu.name)
def test_amd_peaks_are_units_times_clock_times_rate(gpu: Gpu) -> None:
    """To the digits that are printed: half a percent where AMD rounds to a tenth of a small figure."""
    units = gpu.figures["multiprocessors"]
    assert units is not None
    rates = PER_CLOCK[gpu.arch]
    for dtype in DTYPES:
        peak = gpu.figures.get(PEAKS[dtype])
        assert (peak is None) == (dtype not in rates), dtype
        if peak is not None:
            computed = units * CLOCK_GHZ[gpu.name] * rates[dtype] / 1e3
            assert peak == pytest.approx(computed, rel=2e-3, abs=0.06), dtype


@pytest.mark.parametrize("name", ["B200", "GB200"])
def test_blackwell_peaks_double_with_every_halving_of_the_type(name: str) -> None:
    (gpu,) = (gpu for gpu in known() if gpu.name == name)
    tf32, fp16, bf16, fp8, fp4, int8 = (gpu.figures[PEAKS[dtype]] for dtype in DTYPES[2:])
    assert (fp16, fp8) == (bf16, int8)
    assert fp8 is not None
    assert (fp16, fp4) == (fp8 / 2, fp8 * 2)
    assert tf32 == pytest.approx(fp8 / 4, rel=0.03)  # printed with two digits


NAMELESS: dict[tuple[str | None, str | None, int | None], str | None] = {
    ("AMD Radeon Graphics", "gfx1151", 40): "Radeon 8060S",
    ("AMD Radeon Graphics", "gfx1151", 32): "Radeon 8050S",
    ("gfx1151", "gfx1151", 40): "Radeon 8060S",
    (None, "gfx908", 120): "MI100",
    ("AMD Radeon Graphics", "gfx1151", 16): None,
    ("AMD Radeon Graphics", "gfx1100", 96): None,  # W7900 or RX 7900 XTX
    ("AMD Radeon Graphics", "gfx1151", None): None,
    ("NVIDIA H200", "sm_80", 132): None,
    ("NVIDIA H200", None, None): "H200 SXM",
}


def test_devices_without_a_name() -> None:
    """Architecture and compute units tell where one product alone has them, and an architecture denies a name."""
    found = {told: find_device(*told) for told in NAMELESS}
    assert {told: gpu.name if gpu else None for told, gpu in found.items()} == NAMELESS


DISAGREEING: list[dict[str, Any]] = [
    {"device": 0, "name": "NVIDIA H200", "arch": None},
    {"device": 0, "name": None, "arch": "sm_90"},
    {"device": 1, "name": "NVIDIA H200", "arch": "sm_90"},
    {"device": 1, "name": "Tesla T4", "arch": "sm_75"},
]
"""Of two processes, which number their devices on their own."""
AGREED: dict[int, str | None] = {0: "H200 SXM", 1: None}


def test_a_device_is_what_all_processes_say_of_it() -> None:
    found = derive.derive_devices(pl.DataFrame(DISAGREEING))
    assert dict(found.select("device", "gpu").iter_rows()) == AGREED


def test_parts_of_a_trace_may_lack_what_others_know(tmp_path: Path) -> None:
    """A process that told no name of its devices leaves a column without a type."""
    frames = [pl.DataFrame({"device": [0], "name": [None]}), pl.DataFrame({"device": [1], "name": ["NVIDIA H200"]})]
    parts = [tmp_path / f"{number}.parquet" for number in range(len(frames))]
    for frame, part in zip(frames, parts, strict=True):
        frame.write_parquet(part)
    found = derived(Manifest("t", "t", tmp_path, {}, {"devices": parts}, {"devices": 2}))
    named = pl.read_parquet(found.parts["devices"])
    assert dict(named.select("device", "gpu").iter_rows()) == {0: None, 1: "H200 SXM"}
    assert found.rows == {"devices": 2}


@pytest.mark.thorough
def test_stored_devices_are_named_anew_with_the_objects(tmp_path: Path) -> None:
    """As when a version knows a GPU that the one before did not: the peaks in SQL are those of Python."""
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    sql = """
        INSERT INTO devices BY NAME
        SELECT 't' AS trace_id, unnest(range(len($names))) AS device, unnest($names::VARCHAR[]) AS name
    """
    warehouse.query(sql, {"names": [*NAMES, *OTHER_PRODUCTS]}, write=True)
    warehouse.query("UPDATE schema_info SET value = 'of another version' WHERE key = 'objects_hash'", write=True)
    rows = Warehouse.create_or_open(tmp_path / "k.duckdb").query("FROM device_peaks").to_pylist()
    assert len(rows) == len({*NAMES, *OTHER_PRODUCTS})
    for row in rows:
        expected = find(row["device_name"])
        assert row["gpu"] == (expected.name if expected else None)
        assert row["bandwidth_gbs"] == (expected.figures["bandwidth_gbs"] if expected else None)
        for dtype, peak in row["peaks"] or []:
            assert expected is not None
            assert expected.figures[PEAKS[dtype]] == peak


LAUNCHED: Final = """
    INSERT INTO traces BY NAME SELECT 't' AS trace_id, 't' AS name, 'torch' AS kind, 'pytorch' AS source;
    INSERT INTO devices BY NAME SELECT 't' AS trace_id, 0 AS device, 'B200' AS gpu;
    INSERT INTO kernel_names BY NAME SELECT dtype AS name_id, dtype AS name, dtype, 'kernel' AS kind FROM peak_types;
    INSERT INTO signatures BY NAME
    SELECT dtype AS signature_id, dtype AS name_id, 'kernel' AS kind, 'name' AS level, 1e12 AS flops, dtype
    FROM peak_types;
    INSERT INTO launches BY NAME
    SELECT
        't' AS trace_id, rowid AS launch_index, dtype AS signature_id, 'kernel' AS kind, 'timeline' AS timing,
        'ok' AS launch_status, 'none' AS link_method,
        0 AS device, 1e9 AS duration_ns
    FROM peak_types
"""
"""A launch of one second per element type, on a GPU that has a peak for each."""


def test_the_peak_of_a_launch_is_that_of_its_type(tmp_path: Path) -> None:
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    for part in LAUNCHED.split(";"):
        warehouse.query(part, write=True)
    (gpu,) = (gpu for gpu in known() if gpu.name == "B200")
    found = warehouse.query("SELECT dtype, pct_peak_flops FROM all_launches").to_pylist()
    assert len(found) == len(PEAKS)
    for row in found:
        assert row["pct_peak_flops"] == pytest.approx(100 / (gpu.figures[PEAKS[row["dtype"]]] or math.nan)), row


def test_the_bandwidth_of_strix_halo_is_256_gb_per_second() -> None:
    found = find("AMD Radeon(TM) 8060S Graphics")
    assert found is not None
    assert (found.figures["bandwidth_gbs"], found.figures["fp16_tflops"]) == (256.0, 59.4)
