"""The roofline of the details page equals that of the raw page: an excerpt of one report of ncu 2025.3 on an H200."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import kerneldb
from kerneldb.ingest.ncu.kernels import canonical
from tests.ncu.reading import DATA, convert_units, differing, values

TENSOR = "GPU Speed Of Light Hierarchical Roofline Chart (Tensor Core)"
HALF = "GPU Speed Of Light Hierarchical Roofline Chart (Half Precision)"
PAGES = [DATA / f"h200-roofline.{page}.csv.gz" for page in ("raw", "details")]
LAST_DIGIT = 0.02
"""Products of three numbers with two decimals, of which the least that these launches print is 1.47."""

COLUMNS = '"ID","Process ID","Kernel Name","Section Name","Body Item Label","Metric Name","Metric Unit","Metric Value"'
Line = dict[str, Any]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[tuple[int, str, str, str], Line]]:
    """Rooflines of the two pages by launch, precision, operation and level."""
    database = kerneldb.open(tmp_path_factory.mktemp("roofline") / "kernels.duckdb")
    for page, path in zip(("raw", "details"), PAGES, strict=True):
        database.ingest([path], name=page, run=page)
    sql = "SELECT * FROM ncu_roofline WHERE trace = $trace"
    found = [database.sql(sql, {"trace": page}).rows() for page in ("raw", "details")]
    keys = ("launch_index", "precision", "operation", "level")
    return [{tuple(line[name] for name in keys): line for line in page} for page in found]


def test_that_both_pages_have_the_same_lines(lines: list[dict[tuple[int, str, str, str], Line]]) -> None:
    raw, details = lines
    assert raw.keys() == details.keys()
    assert {key[1:2] + key[3:] for key in raw} == {
        (precision, level) for precision in ("single", "double", "half", "tensor") for level in ("dram", "l2", "l1")
    }
    assert {key[2] for key in raw if key[1] == "tensor"} == {
        "src_bf16_dst_fp32",
        "op_hgmma_src_bf16_dst_fp32_sparsity_off",
    }


@pytest.mark.parametrize("precision", ["single", "double", "half", "tensor"])
def test_that_rooflines_are_equal(precision: str, lines: list[dict[tuple[int, str, str, str], Line]]) -> None:
    raw, details = lines
    compared = 0
    for key, line in raw.items():
        if key[1] != precision:
            continue
        for name in ("peak_flops_per_second", "peak_bytes_per_second", "bytes_per_second", "flops_per_second"):
            compared += 1
            ours, theirs = line[name], details[key][name]
            coarse = name == "flops_per_second" and ours < LAST_DIGIT * 2e9
            assert coarse or math.isclose(ours, theirs, rel_tol=LAST_DIGIT), (key, name)
    assert compared >= 12


def test_that_metrics_agree_within_their_digits(tmp_path: Path) -> None:
    raw, details = (values(convert_units([path], tmp_path / path.name)[0]) for path in PAGES)
    assert len(raw.keys() & details.keys()) > 300
    assert differing(raw, details) == {}


def test_one_row_per_launch_and_metric(tmp_path: Path) -> None:
    (one,) = convert_units([PAGES[1]], tmp_path)
    metrics = one.table("metrics").filter(pl.col("instance").is_null())
    assert metrics.select("launch_index", "metric").is_duplicated().sum() == 0


@pytest.mark.parametrize(
    ("item", "metric"),
    [
        ("DRAM Roofline (Op:hgmma Src:bf16 Dst:fp32 Sparsity:off)", "op_hgmma_src_bf16_dst_fp32_sparsity_off"),
        ("L1/TEX Cache Roofline (Op:bmma Src:int1)", "op_bmma_src_int1"),
        ("L2 Cache Roofline (Src:fp8 Sparsity:on)", "src_fp8_sparsity_on"),
        ("DRAM Roofline (Src:bf16 Dst:fp32)", "src_bf16_dst_fp32"),
    ],
)
def test_types_of_tensor_operations(item: str, metric: str) -> None:
    label = "Theoretical Tensor Operations"
    assert canonical(label, TENSOR, item, "9.0") == f"sm__ops_path_tensor_{metric}.sum.peak_sustained"
    assert canonical("SM Frequency", TENSOR, item, "9.0") == "sm__cycles_elapsed.avg.per_second"


def test_half_operations_by_what_the_page_counts(tmp_path: Path) -> None:
    """A page made by hand: 4 operations per instruction since 2025, 2 before, under one label."""
    for factor in (2, 4):
        section = [
            ("", "Theoretical Predicated-On HFMA Thread Instructions Executed", "16896"),
            ("DRAM Roofline", "Theoretical Predicated-On HFMA Operations", str(16896 * factor)),
        ]
        text = [COLUMNS]
        text += [f'"0","7","k","{HALF}","{item}","{label}","","{value}"' for item, label, value in section]
        path = tmp_path / f"half-{factor}.csv"
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
        (one,) = convert_units([path], tmp_path / str(factor))
        names = set(one.table("metrics")["metric"])
        assert f"derived__sm__sass_thread_inst_executed_op_hfma_pred_on_x{factor}" in names
