"""Registers as reported and as allocated, and the occupancy that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.rocprof.conversion import converted, launch_rows
from tests.rocprof.databases import TORCH, Kernel, Process, fill, hip_gemm, rocpd, torch_gemm, write_rocpd

if TYPE_CHECKING:
    from pathlib import Path

GEMM = TORCH[1]
CALLS = 23


def launch(path: Path, arch: str, **resources: Any) -> dict[str, Any]:
    """The launch of a kernel with these resources."""
    kernel = Kernel(resources.pop("name", "k"), (256, 1, 1), (128, 1, 1), [10], **resources)
    (row,) = converted(write_rocpd(path / "run.db", [kernel], arch)).launches.to_dicts()
    return row


@pytest.mark.parametrize(
    ("arch", "reported", "allocated"),
    [
        ("gfx1151", (256, 0, 128), (264, None, None)),
        ("gfx1151", (8, 0, 128), (24, None, None)),
        ("gfx942", (120, 0, 100), (120, 0, 112)),
        ("gfx942", (17, 30, 16), (20, 36, 16)),
        ("gfx942", (256, 256, 16), (256, 256, 16)),
    ],
)
def test_allocation(tmp_path: Path, arch: str, reported: tuple[int, ...], allocated: tuple[int | None, ...]) -> None:
    vgpr, agpr, sgpr = reported
    row = launch(tmp_path, arch, vgpr=vgpr, agpr=agpr, sgpr=sgpr)
    assert tuple(row[f"{name}_reported"] for name in ("registers", "agprs", "sgprs")) == reported
    assert tuple(row.get(name) for name in ("registers", "agprs", "sgprs")) == allocated


def test_waves_of_64_on_rdna_take_smaller_steps(tmp_path: Path) -> None:
    row = launch(tmp_path, "gfx1151", vgpr=100, name="Cijk_Ailk_Bljk_SB_MT64x64x8_SN_WS64_WG16_16_1")
    assert row["registers"] == 108


def test_gfx950_reports_half_and_says_so(tmp_path: Path) -> None:
    row = launch(tmp_path, "gfx950", vgpr=128)
    assert (row["registers"], row.get("agprs"), row["quality"]) == (256, None, "gfx950_registers_halved")
    path = tmp_path / "mended.db"
    with rocpd(path) as connection:
        process = Process(connection, arch="gfx950")
        fill(
            process,
            [Kernel("a", (64, 1, 1), (64, 1, 1), [1], vgpr=128), Kernel("b", (64, 1, 1), (64, 1, 1), [1], agpr=8)],
        )
    mended = converted(path).launch("a")
    assert (mended["registers"], mended["quality"]) == (128, None)


def test_the_documents_gemm_has_31_percent_occupancy(tmp_path: Path) -> None:
    gemm = converted(torch_gemm(tmp_path / "torch8192_results.db")).launches.filter(name=GEMM.name)
    assert gemm["theoretical_occupancy"].unique().to_list() == [0.3125]
    assert gemm["theoretical_occupancy_cu"].unique().to_list() == [0.25]
    assert (gemm.height, gemm["duration_ns"].mean(), gemm["duration_ns"].min(), gemm["duration_ns"].max()) == (
        CALLS,
        40_185_627,
        37_657_000,
        41_316_000,
    )


@pytest.mark.parametrize(("matched", "mean", "grid"), [(False, 40_272_000, (64, 64)), (True, 41_082_000, (64, 64))])
def test_the_documents_hip_kernels(tmp_path: Path, matched: bool, mean: int, grid: tuple[int, int]) -> None:
    launches = converted(hip_gemm(tmp_path / "hip_results.db", matched)).launches
    assert launches["duration_ns"].mean() == mean
    assert launches.select("grid_x", "grid_y").unique().rows() == [grid]
    assert launches.select("registers_reported", "shared_bytes").unique().rows() == [(192, 16896)]


def test_dynamic_lds_counts(tmp_path: Path) -> None:
    row = launch(tmp_path, "gfx942", lds=40_000, static_lds=1_000)
    assert (row["shared_bytes"], row["static_shared_bytes"], row["dynamic_shared_bytes"]) == (40_000, 1_000, 39_000)


@pytest.mark.parametrize(
    ("arch", "own"), [("gfx942", (100, 4, 112)), ("gfx950", (100, 4, 112)), ("gfx1151", (120, None, None))]
)
def test_gpus_of_several_families_and_copies_of_none_in_one_file(
    tmp_path: Path, arch: str, own: tuple[int | None, ...]
) -> None:
    """Registers are allocated by the rules of each, whatever stands beside it."""
    kernel = Kernel("k", (256, 1, 1), (128, 1, 1), [10], vgpr=100, agpr=4, sgpr=100)
    path = tmp_path / "run.db"
    with rocpd(path) as connection:
        process = Process(connection, arch=arch)
        process.gpu(2, "gfx1100")
        kernel_id = process.symbol(kernel)
        for number, agent in enumerate((1, 2, 99)):
            process.dispatch(kernel, kernel_id, 1_000 + number, 10, 100 + number, agent_id=agent)
        ends = {"dst_agent_id": 0, "src_agent_id": 0, "name_id": process.text("MEMORY_COPY_HOST_TO_HOST")}
        for start, agent in ((2_000, 0), (2_001, 1)):
            copied = {**ends, "dst_agent_id": agent, "size": 8, "event_id": process.event("MEMORY_COPY", start)}
            process.insert("rocpd_memory_copy", start=start, end=start + 1, **copied, **process.place())
    columns = ("device", "registers", "agprs", "sgprs")
    rows = [tuple(row.values()) for row in launch_rows(converted(path), *columns)]
    assert rows[0] == (0, *own)
    assert rows[1:] == [(1, 120, None, None), (None, 100, 4, 100), (None, None, None, None), (0, None, None, None)]
