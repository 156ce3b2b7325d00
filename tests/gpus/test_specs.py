"""The reference tables are those of kerneldb.gpus, and SQL finds the same GPU as Python."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kerneldb.gpus import export, find, limits
from kerneldb.warehouse import Warehouse
from tests.gpus.test_gpus import NAMES, OTHER_PRODUCTS


def test_files_are_those_of_the_package(root: Path, tmp_path: Path) -> None:
    export.write(tmp_path)
    for name in ("gpu_specs.csv", "gpu_names.csv"):
        kept = (root / "schemas" / "reference" / name).read_text(encoding="utf-8")
        assert kept == (tmp_path / name).read_text(encoding="utf-8"), f"python -m kerneldb.gpus.export renews {name}"


def test_every_figure_has_a_source(root: Path) -> None:
    with (root / "schemas" / "reference" / "gpu_specs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row for row in rows if not row["source"] or not float(row["value"]) >= 0] == []
    keys = [(row["name"], row["fact"]) for row in rows]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_nvidia_limits_are_those_of_the_boards(arch: str) -> None:
    found = limits.NVIDIA[arch]
    boards = [gpu for gpu in export.GPUS if gpu.arch == arch]
    assert boards
    for board in boards:
        assert board.max_threads_per_multiprocessor == found.threads
        assert board.registers_per_multiprocessor == found.registers
        assert board.shared_bytes_per_multiprocessor == found.shared_bytes


@pytest.mark.parametrize("arch", ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1201"])
def test_amd_limits_are_those_of_the_boards(arch: str) -> None:
    """Registers of a compute unit: per SIMD and lane, times lanes and SIMDs (ROCm prints the file in KiB)."""
    found = limits.AMD[arch]
    boards = [gpu for gpu in export.GPUS if gpu.arch == arch]
    assert boards
    size = found.wave_size
    for board in boards:
        assert board.shared_bytes_per_multiprocessor == found.shared_bytes
        if board.registers_per_multiprocessor is not None:
            assert board.registers_per_multiprocessor == found.registers[size] * size * found.simds


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse.create_or_open(tmp_path_factory.mktemp("specs") / "k.duckdb")
    sql = """
        INSERT INTO devices BY NAME
        SELECT 't' AS trace_id, unnest(range(len($names))) AS device, unnest($names::VARCHAR[]) AS name
    """
    warehouse.query(sql, {"names": [*NAMES, *OTHER_PRODUCTS]}, write=True)
    return warehouse


def test_sql_finds_what_python_finds(devices: Warehouse) -> None:
    rows = devices.query("SELECT device_name, gpu, bandwidth_gbs FROM device_peaks").to_pylist()
    assert len(rows) == len({*NAMES, *OTHER_PRODUCTS})
    for row in rows:
        expected = find(row["device_name"])
        assert row["gpu"] == (expected.name if expected else None)
        assert row["bandwidth_gbs"] == (expected.bandwidth_gbs if expected else None)


@pytest.mark.parametrize(
    ("name", "arch", "units", "expected"),
    [
        ("AMD Radeon Graphics", "gfx1151", 40, "Radeon 8060S"),
        ("AMD Radeon Graphics", "gfx1151", 32, "Radeon 8050S"),
        ("gfx1151", "gfx1151", 40, "Radeon 8060S"),
        (None, "gfx908", 120, "MI100"),
        ("AMD Radeon Graphics", "gfx1151", 16, None),
        ("AMD Radeon Graphics", "gfx1100", 96, None),  # W7900 or RX 7900 XTX
        ("AMD Radeon Graphics", "gfx1151", None, None),
        ("NVIDIA H200", "sm_80", 132, None),
        ("NVIDIA H200", None, None, "H200 SXM"),
    ],
)
def test_devices_without_a_name(
    tmp_path: Path, name: str | None, arch: str | None, units: int | None, expected: str | None
) -> None:
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    sql = """
        INSERT INTO devices BY NAME
        SELECT 't' AS trace_id, 0 AS device, $name AS name, $arch AS arch, $units::INTEGER AS multiprocessors
    """
    warehouse.query(sql, {"name": name, "arch": arch, "units": units}, write=True)
    assert warehouse.query("SELECT gpu FROM device_peaks")["gpu"].to_pylist() == [expected]


def test_the_bandwidth_of_strix_halo_is_256_gb_per_second() -> None:
    found = find("AMD Radeon(TM) 8060S Graphics")
    assert found is not None
    assert (found.bandwidth_gbs, found.fp16_tflops) == (256.0, 59.4)
