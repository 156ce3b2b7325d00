"""Theoretical occupancy against cases computed by hand, and against what Nsight Compute printed."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import polars as pl
import pytest

from kerneldb.gpus import limits
from kerneldb.gpus.occupancy import occupancy
from kerneldb.ingest.launches import FILLED, with_occupancy

# (architecture, threads, registers, shared bytes) -> (occupancy, limiter), each computed by hand.
NVIDIA = {
    # 32 * 32 = 1024 registers per warp, 64 warps; nothing binds before the 64 slots.
    ("sm_90", 256, 32, 0): (1.0, "warps,registers"),
    # 33 registers: 1056 -> 1280 per warp, 12 per partition, 48 of 64 warps in 6 blocks of 8.
    ("sm_90", 256, 33, 0): (0.75, "registers"),
    # 168 registers: 5376 per warp, 3 per partition, 12 warps: one block of 12.
    ("sm_90", 384, 168, 200_000): (0.1875, "registers,shared_memory"),
    # 100,000 + 1,024 -> 101,120: two of them in 228 KiB.
    ("sm_90", 128, 32, 100_000): (0.125, "shared_memory"),
    # 32 threads: 32 blocks of one warp each.
    ("sm_90", 32, 16, 0): (0.5, "blocks"),
    ("sm_80", 1024, 64, 0): (0.5, "registers"),
    # No system share before 8.0: 3 x 32 KiB fit 96 KiB exactly.
    ("sm_70", 128, 32, 32 * 1024): (12 / 64, "shared_memory"),
    ("sm_75", 1024, 64, 0): (1.0, "warps,registers"),
    # 16 slots for blocks on 8.6, 24 on 8.9 and 12.0.
    ("sm_86", 64, 32, 0): (32 / 48, "blocks"),
    ("sm_89", 64, 32, 0): (1.0, "warps,blocks"),
    ("sm_120", 64, 32, 0): (1.0, "warps,blocks"),
    ("sm_120", 1024, 32, 0): (32 / 48, "warps"),
    # 99 KiB + 1 KiB fill an SM of 100 KiB.
    ("sm_120", 256, 32, 99 * 1024): (8 / 48, "shared_memory"),
    ("sm_100", 384, 168, 0): (12 / 64, "registers"),
}
AMD = {
    # 128 + 384 registers in one file of 512: one wave per SIMD.
    ("gfx942", 256, 128, 0): (0.5, "registers"),
    ("gfx90a", 256, 64, 0): (1.0, "warps,registers"),
    ("gfx90a", 256, 65, 0): (7 / 8, "registers"),
    ("gfx908", 256, 64, 0): (0.4, "registers"),
    ("gfx908", 64, 24, 0): (1.0, "warps,registers"),
    # Three of 17,408 B in 64 KiB; nine of them (17,920 as allocated) in 160 KiB.
    ("gfx942", 256, 32, 17408): (12 / 32, "shared_memory"),
    ("gfx950", 256, 32, 17408): (1.0, "warps"),
    ("gfx950", 256, 32, 20_000): (1.0, "warps,shared_memory"),
    ("gfx950", 64, 32, 40_000): (4 / 32, "shared_memory"),
}


@pytest.mark.parametrize(("launch", "expected"), NVIDIA.items(), ids=str)
def test_nvidia(launch: tuple[str, int, int, int], expected: tuple[float, str]) -> None:
    arch, threads, registers, shared = launch
    found = occupancy(arch, threads_per_block=threads, registers=registers, shared_bytes=shared)
    assert found is not None
    assert (found.theoretical, found.limiter, found.cu) == (pytest.approx(expected[0]), expected[1], None)


@pytest.mark.parametrize(("launch", "expected"), AMD.items(), ids=str)
def test_cdna(launch: tuple[str, int, int, int], expected: tuple[float, str]) -> None:
    arch, threads, registers, shared = launch
    found = occupancy(arch, threads_per_block=threads, registers=registers, shared_bytes=shared)
    assert found is not None
    assert (found.theoretical, found.limiter, found.cu) == (pytest.approx(expected[0]), expected[1], None)


def test_a_block_of_one_wave_takes_no_slot_for_blocks() -> None:
    found = occupancy("gfx908", threads_per_block=64, registers=24, shared_bytes=0)
    assert found is not None
    assert (found.theoretical, found.blocks) == (1.0, 40)


def test_accumulation_registers_share_the_file_from_cdna2_on() -> None:
    unified = occupancy("gfx942", threads_per_block=256, registers=128, agprs=384, shared_bytes=0)
    apart = occupancy("gfx908", threads_per_block=256, registers=128, agprs=128, shared_bytes=0)
    assert unified is not None
    assert apart is not None
    assert (unified.theoretical, unified.limiter) == (0.125, "registers")
    assert apart.theoretical == pytest.approx(0.2)


def test_scalar_registers_bind_on_gfx9_only() -> None:
    many = occupancy("gfx90a", threads_per_block=256, registers=24, shared_bytes=0, scalar_registers=112)
    few = occupancy("gfx90a", threads_per_block=256, registers=24, shared_bytes=0, scalar_registers=96)
    rdna = occupancy("gfx1151", threads_per_block=256, registers=24, shared_bytes=0, scalar_registers=128)
    assert many is not None
    assert few is not None
    assert rdna is not None
    assert (many.theoretical, many.limiter) == (7 / 8, "scalar_registers")
    assert few.theoretical == rdna.theoretical == 1.0


def test_the_gemm_of_gfx1151_is_at_5_of_16_waves_in_wgp_mode_and_4_of_16_in_cu_mode() -> None:
    """256 registers are handed out as 264 (steps of 24): 5 waves per SIMD, not the 6 of 1536 / 256 (37.5 %)."""
    found = occupancy("gfx1151", threads_per_block=128, registers=256, shared_bytes=17408)
    assert found is not None
    assert (found.theoretical, found.cu, found.limiter) == (0.3125, 0.25, "registers")
    assert (found.blocks, found.warps, found.max_warps, found.warp_size) == (5, 20, 64, 32)
    assert found.blocks_by["shared_memory"] == 7
    allocated = occupancy("gfx1151", threads_per_block=128, registers=264, shared_bytes=17408)
    assert allocated == found


RDNA_WAVES = {
    "gfx1151": {96: 16, 120: 12, 144: 10, 168: 9, 192: 8, 240: 6, 256: 5},
    "gfx1201": {96: 16, 192: 8, 256: 5},
    "gfx1030": {64: 16, 96: 10, 128: 8, 168: 5, 192: 5, 256: 4},
    "gfx1150": {64: 16, 256: 4},
}


@pytest.mark.parametrize("arch", RDNA_WAVES)
def test_waves_per_simd_of_rdna(arch: str) -> None:
    for registers, waves in RDNA_WAVES[arch].items():
        found = occupancy(arch, threads_per_block=32, registers=registers, shared_bytes=0)
        assert found is not None
        assert found.theoretical == found.cu == waves / 16


def test_wave64_has_half_the_registers_and_half_the_step() -> None:
    found = occupancy("gfx1100", threads_per_block=128, registers=100, shared_bytes=0, warp_size=64)
    assert found is not None
    # 108 as allocated: 7 waves on each of 4 SIMDs, 28 in 14 blocks of two.
    assert (found.warp_size, found.theoretical, found.blocks) == (64, 28 / 64, 14)
    ignored = occupancy("gfx942", threads_per_block=128, registers=100, shared_bytes=0, warp_size=32)
    assert ignored is not None
    assert ignored.warp_size == 64


def test_lds_of_a_workgroup_processor_is_shared_by_two_compute_units() -> None:
    found = occupancy("gfx1100", threads_per_block=256, registers=32, shared_bytes=40 * 1024)
    assert found is not None
    assert (found.theoretical, found.cu, found.limiter) == (24 / 64, 8 / 32, "shared_memory")


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared"),
    [
        (None, 128, 32, 0),
        ("sm_35", 128, 32, 0),
        ("gfx803", 128, 32, 0),
        ("sm_90", 128, None, 0),
        ("sm_90", 128, 32, None),
        ("sm_90", 0, 32, 0),
        ("sm_90", 1024, 128, 0),  # 131,072 registers in one block
        ("sm_86", 128, 32, 100 * 1024),  # with the system's share more than an SM has
        ("gfx942", 128, 32, 65537),
        ("gfx1151", 128, 288, 0),
        ("gfx908", 128, 257, 0),
        ("sm_90", 2048, 32, 0),
        ("sm_90", 1056, 32, 0),
        ("sm_90", 128, 300, 0),
        ("sm_90", 32, 257, 0),
        ("gfx942", 2048, 32, 0),
        ("gfx1151", 2048, 32, 0),
    ],
)
def test_what_cannot_be_is_unknown(arch: str | None, threads: int, registers: int | None, shared: int | None) -> None:
    assert occupancy(arch, threads_per_block=threads, registers=registers, shared_bytes=shared) is None


@pytest.mark.parametrize(("arch", "registers"), [("sm_90", 255), ("sm_90", 256), ("gfx1151", 264), ("gfx942", 512)])
def test_the_most_that_can_be_is_known(arch: str, registers: int) -> None:
    """255 registers of a thread are allocated as 256."""
    found = occupancy(arch, threads_per_block=128, registers=registers, shared_bytes=0)
    assert found is not None
    assert found.limiter == "registers"
    assert occupancy(arch, threads_per_block=1024, registers=32, shared_bytes=0) is not None


def test_spellings_of_one_architecture() -> None:
    assert limits.of("sm_90a") is limits.of("sm_90")
    assert limits.of("sm_100f") is limits.of("sm_100")
    assert limits.of("gfx90a:sramecc+:xnack-") is limits.of("gfx90a")


def test_frames_keep_their_rows() -> None:
    launches = pl.DataFrame(
        {
            "name": ["gemm", "Cijk_WS64_WG32_4_1", "gemm", "copy"],
            "device": [0, 0, 7, None],
            "block_x": [128, 128, 128, None],
            "block_y": [1, 1, 1, None],
            "block_z": [1, 1, 1, None],
            "registers": [264, 256, 256, None],
            "shared_bytes": [17408, 17408, 17408, None],
        }
    )
    filled = with_occupancy(launches, {0: "gfx1151", 7: None})
    assert filled.select(launches.columns).equals(launches)
    assert filled["theoretical_occupancy"].to_list() == [0.3125, 0.125, None, None]
    assert filled["theoretical_occupancy_cu"].to_list() == [0.25, 0.125, None, None]
    assert filled["theoretical_limiter"].to_list() == ["registers", "registers", None, None]


def test_products_stand_in_for_blocks() -> None:
    launches = pl.DataFrame({"device": [0], "threads_per_block": [128], "registers": [32], "shared_bytes": [0]})
    assert with_occupancy(launches, {0: "gfx942"})["theoretical_occupancy"].to_list() == [1.0]
    empty = with_occupancy(launches.clear(), {0: "gfx942"})
    assert empty.height == 0
    assert list(empty.schema)[-3:] == list(FILLED)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_launches_without_any_resource_have_none(number: int) -> None:
    filled = with_occupancy(pl.DataFrame({"kind": ["kernel"] * number}, schema={"kind": pl.String}), {0: "gfx942"})
    assert filled["theoretical_occupancy"].to_list() == [None] * number


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_all_launches_of_an_ncu_report_agree(shared_data: Path) -> None:
    """60 launches on an H200: `sm__maximum_warps_per_active_cycle_pct` is theoretical occupancy."""
    with gzip.open(shared_data / "ncu" / "h200-decoder-raw.csv.gz", "rt", encoding="utf-8") as file:
        header, units, *rows = csv.reader(file)
    column = {name: index for index, name in enumerate(header)}

    def size(row: list[str], name: str) -> int:
        scale = 1000 if units[column[name]].startswith("K") else 1
        return round(number(row[column[name]]) * scale)

    assert len(rows) == 60
    for row in rows:
        shared = [size(row, f"launch__shared_mem_per_block_{kind}") for kind in ("static", "dynamic")]
        found = occupancy(
            "sm_90",
            threads_per_block=size(row, "launch__block_size"),
            registers=size(row, "launch__registers_per_thread"),
            shared_bytes=sum(shared),
        )
        assert found is not None
        printed = number(row[column["sm__maximum_warps_per_active_cycle_pct"]])
        assert found.theoretical * 100 == pytest.approx(printed, abs=0.01)


@pytest.mark.parametrize("arch", ["sm_90", "gfx942", "gfx1151"])
@pytest.mark.parametrize("odd", ["registers", "shared_bytes", "agprs", "scalar_registers"])
def test_less_than_none_is_unknown(arch: str, odd: str) -> None:
    given = {"registers": 32, "shared_bytes": 0, "agprs": 0, "scalar_registers": 16}
    for value in (-1, -512, -4096):
        assert occupancy(arch, threads_per_block=128, **{**given, odd: value}) is None
