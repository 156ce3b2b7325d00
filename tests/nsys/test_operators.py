"""Operators of PyTorch that `emit_nvtx` pushed as ranges: told apart from other ranges, linked, with their sizes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import kerneldb
from kerneldb.ingest.nsys import marks, ranges
from tests.ingest.conversion import Converted, convert_file
from tests.nsys import exports
from tests.nsys.exports import FIRST, Range

END = 2_000_000
BACKWARD_THREAD = 7
ADDMM = ", seq = 5, op_id = 11, sizes = [[64], [8, 32], [32, 64], [], []], input_op_ids = [(0,-1), (9,0), (10,0)]"
"""Pushed by torch 2.x around the first three calls of the export, on the launching thread, and on that of backward."""
PUSHED = (
    Range(0, END, "prefill, op_id = 1"),
    Range(1_000_010, 1_000_990, f"aten::addmm{ADDMM}"),
    Range(1_000_050, 1_000_450, "aten::t, op_id = 12"),
    Range(1_001_000, 1_001_900, "MulBackward0, seq = 4, op_id = 13"),
    Range(1_001_050, 1_001_800, "aten::mul, op_id = 14, sizes = [[2, 3], []]", thread=BACKWARD_THREAD),
    Range(1_002_000, 1_002_900, "FSDP::pre_forward, op_id = 15"),
    Range(1_003_000, None, "mylib::op, op_id = 16"),
)


def converted(tmp_path: Path, pushed: Any = PUSHED, **changes: Any) -> Converted:
    return convert_file(exports.build(tmp_path / "a.sqlite", ranges=pushed, **changes), tmp_path / "spool")


def named(rows: pl.DataFrame) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows.to_dicts()}


def test_ranges_of_operators_are_operators(tmp_path: Path) -> None:
    found = converted(tmp_path)
    ops, noted = named(found.table("ops")), named(found.table("ranges"))
    assert ops.keys() == {"aten::addmm", "aten::t", "MulBackward0", "aten::mul", "mylib::op"}
    assert noted.keys() == {"prefill", "FSDP::pre_forward"}
    assert json.loads(noted["prefill"]["details"]) == {"record_function_id": 1}
    inner, outer = ops["aten::t"], ops["aten::addmm"]
    assert (inner["parent_id"], inner["depth"], outer["parent_id"], outer["depth"]) == (outer["op_id"], 1, None, 0)
    assert (outer["sequence_number"], outer["record_function_id"]) == (5, 11)
    assert (inner["sequence_number"], inner["record_function_id"]) == (None, 12)
    assert (outer["start_ns"], outer["duration_ns"]) == (1_000_010, 980)
    assert ops["mylib::op"]["duration_ns"] is None
    assert outer["range_id"] == noted["prefill"]["range_id"]
    assert ops["aten::mul"]["range_id"] is None
    assert ops["aten::mul"]["thread"] == str(BACKWARD_THREAD)
    assert found.report("stored")["operator"] == len(ops)
    assert found.report("stored")["NVTX range or mark"] == len(noted)


def test_launches_have_the_innermost_operator_of_their_thread(tmp_path: Path) -> None:
    moved = [
        exports.Call(call.start, call.duration, call.name, call.correlation, call.process, BACKWARD_THREAD)
        if call.correlation == 3
        else call
        for call in exports.CALLS
    ]
    found = converted(tmp_path, calls=moved)
    ops = dict(found.table("ops").select("op_id", "name").iter_rows())
    launches = found.launches.filter(pl.col("process") == str(FIRST)).sort("correlation_id", "start_ns")
    of = {row["correlation_id"]: row for row in launches.to_dicts()}
    assert {number: ops.get(row["op_id"]) for number, row in of.items() if row["op_id"] is not None} == {
        1: "aten::t",
        2: "aten::addmm",
        3: "aten::mul",
        6: "mylib::op",
        **dict.fromkeys((7, 8, 9, 10), "mylib::op"),
    }
    assert {row["launch_status"] for number, row in of.items() if number in (1, 2, 3, 6)} == {"linked"}
    assert [of[number]["launch_status"] for number in (4, 9, 400)] == ["no_op", "graph", "no_launch"]
    assert [of[number]["phase"] for number in (1, 2, 3, 4)] == ["prefill", "prefill", None, "prefill"]
    assert of[1]["range_path"] == "prefill"
    calls = found.table("api_calls").filter(pl.col("process") == str(FIRST))
    assert {row["correlation_id"]: ops.get(row["op_id"]) for row in calls.to_dicts()}[2] == "aten::addmm"
    inside = launches.filter(pl.col("op_id") == of[6]["op_id"]).sort("start_ns")
    assert inside["call_ordinal"].to_list() == list(range(inside.height))


def test_sizes_make_calls_and_problems(tmp_path: Path) -> None:
    pushed = (Range(1_000_010, 1_000_450, f"aten::addmm{ADDMM}"), Range(1_000_500, 1_000_990, "aten::add, op_id = 3"))
    path = exports.build(tmp_path / "a.sqlite", ranges=pushed)
    database = kerneldb.open(tmp_path / "a.duckdb")
    database.ingest([path])
    product, add = database.sql(
        "SELECT op, input_dims, input_dtypes, scalars, level, gemm_m, gemm_n, gemm_k, flops, moved_bytes FROM kernels "
        "WHERE op IS NOT NULL ORDER BY start_ns"
    ).rows()
    assert json.loads(product["input_dims"]) == [[64], [8, 32], [32, 64], [], []]
    assert [product[size] for size in ("gemm_m", "gemm_n", "gemm_k", "flops")] == [8, 64, 32, 2.0 * 8 * 64 * 32]
    assert [product[name] for name in ("input_dtypes", "scalars", "moved_bytes")] == [None, None, None]
    assert product["level"] == "launch"  # nothing that a replay could make
    assert [add[name] for name in ("op", "level", "input_dims")] == ["aten::add", "launch", None]
    assert {one["op"]: one["n"] for one in database.top("op").rows()} == {"aten::addmm": 1, "aten::add": 1, None: 11}
    assert database.sql("SELECT has_shapes FROM traces").rows() == [{"has_shapes": True}]


TOLD = {
    "a range of a program": ("stage::one", False),
    "a text of a program": ("loss, step = 7", False),
    "an annotation": ("optimizer, op_id = 3", False),
    "an operator": ("aten::mm, op_id = 3", True),
    "backward": ("autograd::engine::evaluate_function: MmBackward0, op_id = 3", True),
    "a node of autograd": ("torch::autograd::AccumulateGrad, op_id = 3", True),
    "a function of a program": ("MyFunction, seq = 0, op_id = 3", True),
    "without a namespace": ("record_param_comms, op_id = 3", True),
    "FSDP": ("FSDP::pre_forward (layers.0), op_id = 3", False),
    "an annotation with a colon": ("model::part two, op_id = 3", False),
    "sizes that were cut": ("aten::mm, op_id = 3, sizes = [[2, 3], [3", True),
}


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("case", TOLD)
def test_what_is_an_operator(tmp_path: Path, case: str, registered: bool) -> None:
    text, is_operator = TOLD[case]
    path = exports.build(tmp_path / "a.sqlite", ranges=(Range(0, END, text),))
    if registered:  # as texts that a program registered, and as newer versions write all
        with sqlite3.connect(path) as connection:
            connection.execute("INSERT INTO StringIds VALUES (7, ?)", (text,))
            connection.execute("UPDATE NVTX_EVENTS SET text = NULL, textId = 7 WHERE eventType = 59")
    found = convert_file(path, tmp_path / "spool")
    assert found.table("ops").height == int(is_operator)
    assert found.table("ranges").height == int(not is_operator)
    if is_operator:
        assert found.table("ops")["name"][0] == text.split(", ", 1)[0]
        assert found.table("op_calls")["input_dims"].to_list() == [None]


@pytest.mark.parametrize("change", [{"domain": 3}, {"kind": 60}])
def test_other_domains_and_kinds_have_no_operators(tmp_path: Path, change: dict[str, int]) -> None:
    found = converted(tmp_path, (Range(0, END, "aten::mm, op_id = 3", **change),))
    assert "ops" not in found.manifest.rows
    assert found.manifest.rows["ranges"] == 1


def test_versions_that_numbered_no_calls_wrote_some_names_alone(tmp_path: Path) -> None:
    old = (Range(0, END, "aten::add, seq = 3"), Range(5, END - 5, "aten::empty"), Range(6, END - 6, "step 1"))
    other = Range(0, END, "aten::empty", process=exports.SECOND)
    found = converted(tmp_path, (*old, other))
    assert found.table("ops")["name"].to_list() == ["aten::add", "aten::empty"]
    assert found.table("ranges")["name"].to_list() == ["step 1", "aten::empty"]


def test_operators_in_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [
        Range(start, start + 9, f"aten::{'ab'[start % 20 // 10]}, op_id = {start + 1}, sizes = [[{start % 30}]]")
        for start in range(0, 3_000, 10)
    ]
    whole = converted(tmp_path, (Range(0, END, "stage"), Range(0, END, "aten::all, op_id = 1"), *many)).table("ops")
    assert set(whole["depth"].to_list()[1:]) == {1}
    assert set(whole["parent_id"].to_list()[1:]) == {0}
    monkeypatch.setattr(ranges, "TOGETHER", 7)
    again = convert_file(tmp_path / "a.sqlite", tmp_path / "again").table("ops")
    assert again.equals(whole)
    assert whole["call_id"].n_unique() == 1 + 2 * 3


def test_texts_are_taken_apart() -> None:
    texts = pl.Series([f"aten::addmm{ADDMM}", "aten::relu, seq = 2", "x, op_id = ten", "a, seq = 1, b, op_id = 2"])
    parts = texts.str.extract_groups(marks.EMITTED).struct.unnest()
    assert parts["text"].to_list() == ["aten::addmm", "aten::relu", "x, op_id = ten", "a, seq = 1, b"]
    assert parts["seq"].to_list() == ["5", "2", None, None]
    assert parts["inputs"].str.extract(marks.SIZES).to_list() == ["[[64], [8, 32], [32, 64], [], []]", None, None, None]
