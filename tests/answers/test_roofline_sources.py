"""Where the work and the peaks of the roofline come from: counters, shapes, and counters of a match; one GPU or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.warehouse import Warehouse
from tests.answers.plain_traces import Recording
from tests.counters.captures import DURATION, GEMM, MUL_KINETO, MUL_NCU, Captures, Launch

Row = dict[str, Any]

DRAM_CLOCK: Final = "dram__cycles_elapsed.avg.per_second"
COUNTERS: Final = {
    DURATION: 1000,
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 10_000,
    "sm__cycles_elapsed.avg.per_second": 1e9,
    "smsp__cycles_elapsed.avg.per_second": 1e9,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 200,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": 0,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": 400,
    "dram__bytes.sum.peak_sustained": 1000,
    "dram__bytes.sum.per_second": 1e12,
    DRAM_CLOCK: 4.8e9,
}
"""A launch of 1 us with 1,000 operations per cycle of 1 GHz (1 million), and 1 MB; peaks of 20 TFLOP/s and 4.8 TB/s."""

SHAPED: Final = ("aten::mul", [[16], [16]])


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return kerneldb.open(tmp_path / "k.duckdb")


def recorded(database: Database, folder: Path, op: tuple[str, list[list[int]]] | None) -> None:
    """A multiplication of the example's name and launch shape, of the given operator call."""
    recording = Recording()
    recording.kernel(MUL_KINETO, 0, 1000, call=-5000, op=op, grid=[8, 1, 1])
    database.ingest(recording.write(folder / "recorded.json"))


def on_models(database: Database, captures: Captures, models: dict[str, tuple[str | None, float]]) -> None:
    """The same profiled GEMM per trace, on a GPU of that model with that DRAM clock; without a clock, not profiled."""
    warehouse = Warehouse.create_or_open(database.path)
    for number, (trace, (model, clock)) in enumerate(models.items()):
        counters = COUNTERS | {DRAM_CLOCK: clock} if clock else None
        warehouse.commit(captures(trace, (Launch(GEMM, duration=1000 + number, counters=counters),), source="ncu"))
        if model is not None:
            values = {"trace": f"t:{trace}", "model": model}
            warehouse.query(
                "INSERT INTO devices (trace_id, device, name) VALUES ($trace, 0, $model)", values, write=True
            )


def bandwidths(database: Database) -> dict[str, float | None]:
    rows = database.sql("SELECT trace, peak_bytes_per_second AS peak FROM roofline('kernels')").rows()
    return {row["trace"]: None if row["peak"] is None else round(row["peak"] / 1e9) for row in rows}


def of_trace(database: Database, trace: str) -> Row:
    (row,) = database.sql(f"FROM roofline('kernels') WHERE trace = '{trace}'").rows()
    return row


@pytest.mark.thorough
def test_known_shapes_go_before_counters_of_a_match_even_without_work(database: Database, tmp_path: Path) -> None:
    """16 products of two inputs: 16 FLOP and 192 bytes, whatever a launch of the same name and grid did elsewhere."""
    recorded(database, tmp_path, SHAPED)
    warehouse = Warehouse.open(database.path)
    warehouse.commit(Captures(tmp_path / "spools")("ncu", (Launch(MUL_NCU, counters=COUNTERS),)))
    row = of_trace(database, "recorded")
    assert (row["flops"], row["moved_bytes"]) == (16, 192)
    assert "counters" not in row["method"]
    assert of_trace(database, "ncu")["method"] == "counters"
    warehouse.query("UPDATE signatures SET flops = NULL, moved_bytes = NULL", write=True)
    row = of_trace(database, "recorded")
    assert (row["flops"], row["moved_bytes"]) == (None, None)


def test_counters_of_a_match_fill_in_for_an_unknown_call(database: Database, tmp_path: Path) -> None:
    """Not even the grid tells how many elements there are: for most names it does, as an upper bound."""
    recorded(database, tmp_path, None)
    warehouse = Warehouse.open(database.path)
    warehouse.commit(Captures(tmp_path / "spools")("ncu", (Launch(MUL_NCU, counters=COUNTERS),)))
    warehouse.query("UPDATE signatures SET flops = NULL, moved_bytes = NULL, numel = NULL", write=True)
    row = of_trace(database, "recorded")
    assert row["method"] == "counters of a match"
    assert (row["flops"], row["moved_bytes"]) == (pytest.approx(1e6), pytest.approx(1e6))


@pytest.mark.thorough
def test_peaks_are_those_of_the_model_where_there_are_no_counters_too(database: Database, tmp_path: Path) -> None:
    models = {
        "large": ("Big GPU", 4.8e9),
        "small": ("Small GPU", 1.2e9),
        "again": ("Small GPU", 0),
        "third": ("Third GPU", 0),
        "unnamed": (None, 0),
    }
    on_models(database, Captures(tmp_path / "spools"), models)
    assert bandwidths(database) == {"large": 4800, "small": 1200, "again": 1200, "third": None, "unnamed": None}
    assert of_trace(database, "again")["counted_on"] == "Small GPU"
    assert of_trace(database, "third")["counted_on"] == "Big GPU, Small GPU"


@pytest.mark.parametrize(("model", "asked"), [("Big GPU", None), (None, "Big GPU")])
def test_an_unknown_gpu_takes_the_peaks_of_the_only_one(
    database: Database, tmp_path: Path, model: str | None, asked: str | None
) -> None:
    on_models(database, Captures(tmp_path / "spools"), {"counted": (model, 4.8e9), "asked": (asked, 0)})
    assert bandwidths(database) == {"counted": 4800, "asked": 4800}


def test_a_known_gpu_has_the_roof_of_its_memory_for_types_without_a_peak(database: Database, tmp_path: Path) -> None:
    """An H200 moves 4.8 TB/s whatever the type; of int64 its data sheet has no peak of arithmetic."""
    recording = Recording()
    copied = ("aten::copy_", [[1 << 20], [1 << 20]])
    recording.kernel("void at::native::elementwise_kernel<direct_copy_kernel_cuda>()", 0, 10_000, -5_000, op=copied)
    for event in recording.events:
        if event["cat"] == "cpu_op":
            event["args"]["Input type"] = ["long int", "long int"]
    database.ingest(recording.write(tmp_path / "copied.json"))
    (row,) = database.analyze("roofline").rows()
    assert (row["dtype"], row["peak_flops_per_second"], row["peak_bytes_per_second"]) == ("int64", None, 4.8e12)
    assert row["pct_peak_bandwidth"] == pytest.approx(100 * 2 * 8 * (1 << 20) / 10e-6 / 4.8e12)
    said = CliRunner().invoke(cli, ["--db", str(database.path), "analyze", "roofline"]).stderr
    assert "no peak of arithmetic is known for int64 (100.0 % of the time)" in said
    assert "the GPU of" not in said


def test_a_known_gpu_has_peaks_where_the_traffic_is_not_known(database: Database, tmp_path: Path) -> None:
    recorded(database, tmp_path, None)
    (row,) = database.analyze("roofline").rows()
    assert row["bytes_per_second"] is None
    assert row["peak_bytes_per_second"] == 4.8e12
