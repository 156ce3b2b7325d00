"""The answers of the gfx1151 document, each from one command or query. Figures: its sections on steady-state timing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from tests.rocprof import databases

Row = dict[str, Any]


def compared(database: Database, *traces: str, **options: Any) -> dict[tuple[str, str], Row]:
    rows = database.compare(traces, **options).rows()
    return {(row["kernel"], row["trace"]): row for row in rows}


def test_three_kernels_with_calls_and_mean_min_max(noted: Database) -> None:
    rows = compared(noted, "torch")
    gemm, cast, epilogue = (rows[name, "torch"] for name in ("gemm", databases.CAST, databases.EPILOGUE))
    assert (gemm["n"], gemm["mean_ns"], gemm["min_ns"], gemm["max_ns"]) == (23, 40_185_627, 37_657_000, 41_316_000)
    assert (cast["n"], cast["mean_ns"]) == (23, 951_516)
    assert (epilogue["n"], epilogue["mean_ns"]) == (23, 1_039_385)


def test_one_iteration_takes_42_18_ms(noted: Database) -> None:
    total = compared(noted, "torch")["one iteration", "torch"]
    assert (total["n"], total["iterations"]) == (23, 23)
    assert total["iteration_ns"] / 1e6 == pytest.approx(42.1765, abs=5e-5)


def test_the_gemm_reaches_27_36_tflops_and_the_pipeline_26_07(noted: Database) -> None:
    rows = compared(noted, "torch")
    assert rows["gemm", "torch"]["tflops"] == pytest.approx(27.361, abs=5e-4)
    assert rows["one iteration", "torch"]["tflops"] == pytest.approx(26.069, abs=5e-4)


def test_the_gemm_is_at_46_percent_of_the_peak_for_fp16(noted: Database) -> None:
    assert compared(noted, "torch")["gemm", "torch"]["pct_peak_flops"] == pytest.approx(46.1, abs=0.05)


def test_pointwise_kernels_move_211_6_and_258_3_gb_per_second(noted: Database) -> None:
    """258.3 GB/s is over the nominal 256 GB/s of the part: caches serve some of it, and it is shown as it is."""
    rows = compared(noted, "torch")
    cast, epilogue = rows[databases.CAST, "torch"], rows[databases.EPILOGUE, "torch"]
    assert cast["gbs"] == pytest.approx(211.6, abs=0.05)
    assert epilogue["gbs"] == pytest.approx(258.3, abs=0.05)
    assert cast["pct_peak_bandwidth"] == pytest.approx(82.7, abs=0.05)
    assert epilogue["pct_peak_bandwidth"] == pytest.approx(100.9, abs=0.05)


def test_resources_of_the_gemm(noted: Database) -> None:
    gemm = compared(noted, "torch")["gemm", "torch"]
    assert (gemm["registers"], gemm["shared_bytes"]) == (256, 17408)
    assert (gemm["grid"], gemm["work_items"], gemm["block"]) == ("64x64x1", "8192x64x1", "128x1x1")
    assert (gemm["theoretical_occupancy"], gemm["theoretical_occupancy_cu"]) == (0.3125, 0.25)


def test_limiter_and_allocation_stand_beside_it(noted: Database) -> None:
    sql = """
        SELECT DISTINCT theoretical_limiter, registers, registers_reported, sgprs, sgprs_reported, dtype, arch
        FROM kernels WHERE name LIKE 'Cijk%'
    """
    assert noted.sql(sql).rows() == [
        {
            "theoretical_limiter": "registers",
            "registers": 264,
            "registers_reported": 256,
            "sgprs": None,
            "sgprs_reported": 128,
            "dtype": "fp16",
            "arch": "gfx1151",
        }
    ]


def test_the_symbol_is_decoded(noted: Database) -> None:
    (row,) = noted.sql("FROM tensile_kernels").rows()
    expected = {
        "layout": "nn",
        "data_types": "HHS",
        "macro_tile_m": 128,
        "macro_tile_n": 128,
        "depth_u": 32,
        "matrix_instruction": "16x16x16x1",
        "workgroup": "32_4_1",
        "threads": 128,
        "wave_size": 32,
        "prefetch_global": 1,
        "prefetch_local": 0,
        "schedule": 3,
        "single_lds_buffer": True,
        "lds_bytes": 17408,
        "stagger_u": 32,
        "stagger_stride_bytes": 256,
        "split_u": 1,
        "split_algorithm": "SB",
        "isa": "gfx1151",
    }
    assert {name: row[name] for name in expected} == expected


def test_lds_from_the_name_is_that_of_the_launch(noted: Database) -> None:
    sql = "SELECT DISTINCT t.lds_bytes, k.shared_bytes FROM tensile_kernels AS t JOIN kernels AS k USING (name_id)"
    assert noted.sql(sql).rows() == [{"lds_bytes": 17408, "shared_bytes": 17408}]


def test_the_grid_bounds_m_and_n(noted: Database) -> None:
    (row,) = noted.sql("SELECT tiles_m, tiles_n, m_min, m_max, n_min, n_max FROM gemm_bounds").rows()
    assert row == {"tiles_m": 64, "tiles_n": 64, "m_min": 8065, "m_max": 8192, "n_min": 8065, "n_max": 8192}


HIP = {
    ("gemm", "torch"): (40.186, 256, 17408, "8192x64x1", "128x1x1"),
    ("gemm", "hip"): (40.272, 192, 16896, "4096x128x1", "64x2x1"),
    ("gemm", "hip_matched"): (41.082, 192, 16896, "8192x64x1", "128x1x1"),
}


def test_torch_against_hip_by_role(noted: Database) -> None:
    rows = compared(noted, "torch", "hip", "hip_matched")
    found = {
        key: (round(row["mean_ns"] / 1e6, 3), row["registers"], row["shared_bytes"], row["work_items"], row["block"])
        for key, row in rows.items()
        if key[0] == "gemm"
    }
    assert found == HIP
    assert rows["gemm", "hip_matched"]["ratio"] == pytest.approx(41.082 / 40.185627)


def test_with_and_without_cast_and_epilogue(noted: Database) -> None:
    rows = compared(noted, "torch", "hip", "hip_matched")
    times = {key: row["iteration_ns"] for key, row in rows.items() if key[0].startswith("one iteration")}
    without, whole = "one iteration, matched kernels", "one iteration"
    assert times == {
        (without, "torch"): 40_185_627,
        (without, "hip"): 40_272_000,
        (without, "hip_matched"): 41_082_000,
        (whole, "torch"): 42_176_528,
        (whole, "hip"): 40_272_000,
        (whole, "hip_matched"): 41_082_000,
    }


def test_nearby_kernels_of_the_code_object(shared_data: Path, tmp_path: Path) -> None:
    """The document lists variants with EPS0, GLVWA4 and 1LDSB0 that were loaded and not chosen."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "rocprof" / "synthetic_gfx1151.db")
    (gemm,) = database.sql("SELECT DISTINCT signature_id FROM kernels WHERE name LIKE 'Cijk%'").rows()
    rows = database.same_code(gemm["signature_id"][:8]).rows()
    tensile = [(row["launches"], row["differences"]) for row in rows if row["n_differences"] is not None]
    assert tensile == [(23, None), (0, "1LDSB 1 > 0"), (0, "EPS 1 > 0"), (0, "GLVWA 8 > 4")]
    chosen = rows[0]
    assert (chosen["registers_reported"], chosen["static_shared_bytes"]) == (256, 17408)


TORCH = {"Cijk%": (924_269_421, 23), databases.EPILOGUE: (23_905_855, 23), databases.CAST: (21_884_868, 23)}


@pytest.mark.parametrize(
    "name",
    [
        "synthetic_gfx1151_full.db",
        pytest.param("synthetic_gfx1151.db", marks=pytest.mark.thorough),
        pytest.param("synthetic_gfx1151_schema410.db", marks=pytest.mark.volume),
    ],
)
def test_figures_of_the_collection_in_sql(shared_data: Path, tmp_path: Path, name: str) -> None:
    """Sums of the three kernels in expected-rocprof.tsv, and what the document makes of them."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "rocprof" / name, name="torch")
    for pattern, expected in TORCH.items():
        sql = "SELECT sum(duration_ns)::BIGINT AS ns, count(*) AS n FROM kernels WHERE name LIKE $name"
        (row,) = database.sql(sql, {"name": pattern}).rows()
        assert (row["ns"], row["n"]) == expected
    database.annotate("name LIKE 'Cijk%'", {"flops": "2*8192^3"})
    (row,) = database.sql(
        "SELECT sum(flops) / sum(duration_ns) / 1e3 AS tflops, avg(pct_peak_flops) AS pct FROM kernels WHERE flops > 0"
    ).rows()
    assert row["tflops"] == pytest.approx(27.361, abs=5e-4)
    assert 40 < row["pct"] < 50


def test_two_processes_of_a_merged_file_are_compared_as_one(shared_data: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "rocprof" / "synthetic_merged_2proc.db", name="merged")
    rows = database.compare(["merged"]).rows()
    totals = {row["n"]: row["mean_ns"] * row["n"] for row in rows if row["row_kind"] == "kernel"}
    assert set(totals) == {46}
    sums = sorted((round(row["mean_ns"] * row["n"]) for row in rows if row["row_kind"] == "kernel"), reverse=True)
    assert sums == [1_894_752_304, 49_006_993, 44_863_973]


def test_bounds_of_the_rpd_gemm(shared_data: Path, tmp_path: Path) -> None:
    """Work-items 1792 x 782 of an MI2xx: 7 x 782 tiles of 128 x 64."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "rocprof" / "rpd_matmul_result.rpd", name="rpd")
    (row,) = database.sql("SELECT m_min, m_max, n_min, n_max FROM gemm_bounds").rows()
    assert row == {"m_min": 769, "m_max": 896, "n_min": 49985, "n_max": 50048}
    (kernel,) = database.sql("SELECT lds_bytes, threads, isa FROM tensile_kernels").rows()
    assert kernel == {"lds_bytes": 12800, "threads": 256, "isa": "gfx90a"}
