"""The roofline of Nsight Compute, from its own metrics."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kerneldb.api import Database
from kerneldb.warehouse import Warehouse
from tests.counters.captures import DURATION, GEMM, Captures, Launch

Row = dict[str, Any]

CLOCK, DRAM_CLOCK = "sm__cycles_elapsed.avg.per_second", "dram__cycles_elapsed.avg.per_second"
RTX_5090 = {
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 21_760,
    CLOCK: 2.01e9,
    "dram__bytes.sum.peak_sustained": 128,
    DRAM_CLOCK: 13.77e9,
}
"""What ncu prints in the roofline rows of the DeepSeek-OCR report."""

RATES = {
    "smsp__cycles_elapsed.avg.per_second": 1e9,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 100,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": 50,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": 400,
    "dram__bytes.sum.per_second": 1e11,
}
OPERATIONS = {"single": "f", "double": "d", "half": "h"}
LEVELS = {
    "lts__lts2xbar_cycles_active.sum.peak_sustained": 188,
    "lts__lts2xbar_cycles_active.sum.per_second": 1e9,
    "lts__cycles_elapsed.avg.per_second": 1.6e9,
    "l1tex__cycles_elapsed.avg.per_second": 1.8e9,
}


def lines(warehouse: Warehouse, capture: Captures, counters: dict[str, float]) -> dict[tuple[str, str, str], Row]:
    """The rows of the view for a launch with these counters, by precision, operation and level."""
    warehouse.commit(capture("profiled", (Launch(GEMM, counters=counters),), source="ncu"))
    rows = warehouse.query("FROM ncu_roofline").to_pylist()
    return {(row["precision"], row["operation"], row["level"]): row for row in rows}


def test_ridge_of_the_report(warehouse: Warehouse, capture: Captures) -> None:
    row = lines(warehouse, capture, RTX_5090 | RATES)["single", "ffma", "dram"]
    assert row["peak_flops_per_second"] == pytest.approx(87.4752e12)
    assert row["peak_bytes_per_second"] == pytest.approx(1762.56e9)
    assert round(row["ridge"], 1) == 49.6


def test_work_is_adds_and_multiplies_and_twice_the_fused_ones(warehouse: Warehouse, capture: Captures) -> None:
    row = lines(warehouse, capture, RTX_5090 | RATES)["single", "ffma", "dram"]
    assert row["method"] == "section"
    assert row["flops_per_second"] == pytest.approx(950e9)
    assert row["intensity"] == pytest.approx(9.5)
    assert row["attainable_flops_per_second"] == pytest.approx(9.5 * 1762.56e9)
    assert row["peak_pct"] == pytest.approx(100 * 0.95 / 87.4752)
    assert row["bound"] == "memory"


def test_without_the_peak_of_the_memory_nobody_knows_the_roof(warehouse: Warehouse, capture: Captures) -> None:
    known = {name: value for name, value in (RTX_5090 | RATES).items() if name != DRAM_CLOCK}
    row = lines(warehouse, capture, known)["single", "ffma", "dram"]
    assert (row["peak_bytes_per_second"], row["attainable_flops_per_second"]) == (None, None)


@pytest.mark.parametrize(("precision", "letter"), OPERATIONS.items())
def test_precisions(warehouse: Warehouse, capture: Captures, precision: str, letter: str) -> None:
    counters = {name.replace("op_f", f"op_{letter}"): value for name, value in (RTX_5090 | RATES).items()}
    row = lines(warehouse, capture, counters)[precision, f"{letter}fma", "dram"]
    assert row["flops_per_second"] == pytest.approx(950e9)
    assert row["peak_flops_per_second"] == pytest.approx(87.4752e12)


def test_factors_that_ncu_gives_itself_are_its_own(warehouse: Warehouse, capture: Captures) -> None:
    """Since 2025 it counts half additions and multiplications twice, and a half FMA as 4 operations."""
    counters = {name.replace("op_f", "op_h"): value for name, value in (RTX_5090 | RATES).items()}
    own = {
        "derived__sm__sass_thread_inst_executed_op_hfma_pred_on_x4": 4 * 21_760,
        "derived__smsp__sass_thread_inst_executed_op_hadd_pred_on_x2": 200,
        "derived__smsp__sass_thread_inst_executed_op_hmul_pred_on_x2": 100,
        "derived__smsp__sass_thread_inst_executed_op_hfma_pred_on_x4": 1600,
    }
    row = lines(warehouse, capture, counters | own)["half", "hfma", "dram"]
    assert row["peak_flops_per_second"] == pytest.approx(2 * 87.4752e12)
    assert row["flops_per_second"] == pytest.approx(1900e9)


@pytest.mark.parametrize("generation", ["", "_mem_lg", "_mem_lgds"])
def test_cache_levels(warehouse: Warehouse, capture: Captures, generation: str) -> None:
    """L1 has another metric up to compute capability 7.2, up to 8.9, and from 9.0 on."""
    l1 = {
        f"l1tex__lsu_writeback_active{generation}.sum.peak_sustained": 132,
        f"l1tex__lsu_writeback_active{generation}.sum.per_second": 2e9,
    }
    rows = lines(warehouse, capture, RTX_5090 | RATES | LEVELS | l1)
    assert rows["single", "ffma", "l2"]["peak_bytes_per_second"] == pytest.approx(32 * 188 * 1.6e9)
    assert rows["single", "ffma", "l2"]["intensity"] == pytest.approx(950 / 32)
    assert rows["single", "ffma", "l1"]["peak_bytes_per_second"] == pytest.approx(128 * 132 * 1.8e9)
    assert rows["single", "ffma", "l1"]["intensity"] == pytest.approx(950 / 256)


def test_tensor_lines_are_those_with_work(warehouse: Warehouse, capture: Captures) -> None:
    tensor = {
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained": 540_672,
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.per_cycle_elapsed": 100_000,
        "sm__ops_path_tensor_src_fp16.sum.peak_sustained": 540_672,
        "sm__ops_path_tensor_src_fp16.sum.per_cycle_elapsed": 0,
        "dram__bytes.sum.per_second": 1e12,
        CLOCK: 2e9,
    }
    rows = lines(warehouse, capture, tensor)
    assert list(rows) == [("tensor", "src_bf16_dst_fp32", "dram")]
    assert rows["tensor", "src_bf16_dst_fp32", "dram"]["flops_per_second"] == 200e12
    assert rows["tensor", "src_bf16_dst_fp32", "dram"]["peak_flops_per_second"] == 540_672 * 2e9
    assert rows["tensor", "src_bf16_dst_fp32", "dram"]["intensity"] == 200


def test_no_work_has_no_intensity(warehouse: Warehouse, capture: Captures) -> None:
    idle = {name: 0 if "op_f" in name else value for name, value in RATES.items()}
    row = lines(warehouse, capture, RTX_5090 | idle)["single", "ffma", "dram"]
    assert (row["flops_per_second"], row["intensity"], row["bound"]) == (0, None, None)
    assert row["ridge"] is not None


def test_no_traffic_has_no_intensity(warehouse: Warehouse, capture: Captures) -> None:
    row = lines(warehouse, capture, RTX_5090 | RATES | {"dram__bytes.sum.per_second": 0})["single", "ffma", "dram"]
    assert (row["intensity"], row["bound"]) == (None, None)


def test_sums_over_the_duration_where_rates_are_missing(warehouse: Warehouse, capture: Captures) -> None:
    sums = {
        "sm__sass_thread_inst_executed_op_fadd_pred_on.sum": 1000,
        "sm__sass_thread_inst_executed_op_fmul_pred_on.sum": 500,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum": 250,
        "dram__bytes_read.sum": 300,
        "dram__bytes_write.sum": 100,
        DURATION: 1000,
    }
    row = lines(warehouse, capture, sums)["single", "ffma", "dram"]
    assert (row["method"], row["intensity"], row["ridge"]) == ("totals", 5, None)
    assert row["flops_per_second"] == pytest.approx(2e9)


def test_a_call_found_in_two_ways_is_counted_once(warehouse: Warehouse, capture: Captures) -> None:
    launches = tuple(Launch(GEMM, counters=RTX_5090 | RATES | {DURATION: 1000}) for _ in range(4))
    warehouse.commit(capture("profiled", launches, source="ncu"))
    sql = """
        WITH found AS (
            SELECT * REPLACE ('c' AS inferred_id, CASE launch_index WHEN 0 THEN 'inherited' ELSE 'other' END AS
            inferred_by) FROM kernels
        )
        FROM roofline('found')
    """
    assert [(row["n"], row["total_ns"], row["method"]) for row in warehouse.query(sql).to_pylist()] == [
        (3, 3000, "counters"),
        (1, 1000, "counters"),
    ]


def test_why_there_is_no_roofline(warehouse: Warehouse, capture: Captures) -> None:
    launches = (Launch(GEMM, counters={DURATION: 5}), Launch(GEMM, counters=RTX_5090 | RATES))
    warehouse.commit(capture("profiled", launches, source="ncu"))
    rows = warehouse.query("FROM normalized_roofline ORDER BY launch_index").to_pylist()
    assert rows[0]["reason"].startswith("no operations counted")
    assert rows[1]["reason"] is None


INTENSITIES = {
    3: (380.6, 5.444e13),
    5: (716.1, 1.121e14),
    9: (96.5, 6.341e13),
    13: (70.8, 3.245e13),
    16: (717.6, 1.134e14),
}
"""FLOP/byte and FLOP/s of the report's five tensor kernels; its own intensities are 10^6 too large."""


@pytest.mark.parametrize("number", INTENSITIES)
def test_tensor_kernels_of_the_report(samples: Database, number: int) -> None:
    sql = "SELECT intensity, flops_per_second, method FROM ncu_roofline WHERE trace = $trace"
    (row,) = samples.sql(sql, {"trace": f"kernel_{number:04d}.details"})
    intensity, flops = INTENSITIES[number]
    assert round(row["intensity"], 1) == intensity
    assert row["flops_per_second"] == pytest.approx(flops, rel=5e-4)
    assert row["method"] == "totals"


def test_the_other_kernels_of_the_report_have_none(samples: Database) -> None:
    sql = """
        SELECT count(*) AS n
        FROM normalized_roofline
        WHERE trace LIKE 'kernel_%' AND starts_with(reason, 'no operations')
    """
    assert samples.sql(sql).rows() == [{"n": 15}]


def test_decoder_block_on_an_h200(samples: Database) -> None:
    """Launch 4 is a GEMM on the FP32 pipes, launch 20 one in BF16 on the tensor cores."""
    rows = samples.sql("FROM ncu_roofline WHERE trace = 'h200-decoder'").rows()
    lines_of = {(row["launch_index"], row["operation"], row["level"]): row for row in rows}
    single = lines_of[4, "ffma", "dram"]
    assert single["peak_flops_per_second"] == pytest.approx(33_792 * 2.170767e9)
    assert single["peak_bytes_per_second"] == pytest.approx(1504 * 3.1605e9, rel=1e-3)
    assert single["flops_per_second"] == pytest.approx((69.243685 + 4.327730) * 2.170767e9, rel=1e-6)
    tensor = lines_of[20, "op_hgmma_src_bf16_dst_fp32_sparsity_off", "dram"]
    assert tensor["flops_per_second"] == pytest.approx(254_508_737_864_077.69, rel=1e-6)
    assert tensor["ridge"] == pytest.approx(540_672 * 1.803577e9 / (1504 * 3.175162e9))


def test_rates_and_totals_agree(samples: Database) -> None:
    """Operations over time are the rate times the clock: both pages of one capture say the same."""
    sql = """
        SELECT r.flops_per_second, m.value / c.duration_ns * 1e9 AS from_sum
        FROM ncu_roofline AS r
        INNER JOIN metrics AS m ON m.trace_id = r.trace_id AND m.launch_index = r.launch_index
        INNER JOIN launch_counters AS c ON c.trace_id = r.trace_id AND c.launch_index = r.launch_index
        WHERE r.precision = 'tensor' AND r.level = 'dram' AND r.trace = 'h200-decoder'
            AND m.metric = 'sm__ops_path_tensor_' || r.operation || '.sum'
    """
    rows = samples.sql(sql).rows()
    assert len(rows) == 16
    assert all(math.isclose(row["flops_per_second"], row["from_sum"], rel_tol=0.01) for row in rows)
