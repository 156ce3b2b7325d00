"""Operators that other launches tell of a kernel: by majority, told as such, and only where they are sure enough."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import kerneldb
from kerneldb.api import inheriting

MIXED, MOSTLY, OTHER = "mixed_kernel(float*)", "mostly_kernel(float*)", "other_kernel(float*)"
PRODUCT = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{}x128x64_execute_kernel__5x_cublas"
Launch = tuple[str, str | None]


def launched(number: int, name: str, op: str | None, blocks: int, start: float) -> list[dict[str, object]]:
    """The events of a launch of a trace that begins at `start` (µs), with its operator unless that is None."""
    shape = {"grid": [blocks, 1, 1], "block": [128, 1, 1], "device": 0, "stream": 7, "correlation": number}
    at = start + 10 * number
    call = {"ph": "X", "cat": "cpu_op", "name": op, "pid": 1, "tid": 1, "ts": at, "dur": 5.0}
    kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at + 2, "dur": 3.0}
    if op is None:
        return [{**kernel, "args": shape}]
    linked = {"External id": number}
    runtime = {**call, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 1, "dur": 1.0}
    return [
        {**call, "args": {**linked, "Input Dims": [[number]]}},
        {**runtime, "args": {**linked, "correlation": number}},
        {**kernel, "args": {**shape, **linked}},
    ]


def ingest(database: kerneldb.Database, folder: Path, name: str, launches: Sequence[Launch], blocks: int) -> None:
    """A trace of these launches, with so many blocks each: traces of other numbers of blocks share no launch.

    Each begins when the earlier ones are over.
    """
    start = 1000.0 * (1 + len(list(folder.glob("*.json"))))
    events = [
        event
        for number, (kernel, op) in enumerate(launches, 1)
        for event in launched(number, kernel, op, blocks, start)
    ]
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    database.ingest(path, name=name)


@pytest.fixture
def database(tmp_path: Path) -> kerneldb.Database:
    """A trace that tells the operators of some kernels, more or less clearly."""
    made = kerneldb.open(tmp_path / "k.duckdb")
    mixed = [(MIXED, op) for op in ("aten::a", "aten::b", "aten::c", "aten::c")]
    mostly = [(MOSTLY, op) for op in ("aten::a", "aten::b", "aten::b", "aten::b")]
    ingest(made, tmp_path, "known", [*mixed, *mostly], 8)
    return made


def told(database: kerneldb.Database) -> dict[str, tuple[str | None, float | None, str | None]]:
    """Operator, confidence and evidence by kernel of the trace `poor`."""
    database.inherit(("poor",))
    rows = database.sql(
        """
        SELECT DISTINCT k.name, k.op, f.confidence, f.evidence
        FROM kernels AS k LEFT JOIN inferred_calls AS f USING (trace_id, launch_index) WHERE k.trace = 'poor'
        """
    ).rows()
    return {row["name"]: (row["op"], row["confidence"], row["evidence"]) for row in rows}


def test_a_majority_tells_an_operator_says_so_and_half_of_the_launches_do_not(
    database: kerneldb.Database, tmp_path: Path
) -> None:
    ingest(database, tmp_path, "poor", [(MIXED, None), (MOSTLY, None)], 4)
    found = told(database)
    assert found[MIXED] == (None, None, None)
    op, confidence, evidence = found[MOSTLY]
    assert (op, confidence) == ("aten::b", pytest.approx(0.95 * 0.75))
    assert evidence == "3 of 4 launches of this kernel in traces with most of these kernels; no sizes"
    sure = [confidence for _, confidence, _ in found.values() if confidence is not None]
    assert min(sure) >= inheriting.SURE, "as sure as calls are"


@pytest.mark.thorough
def test_products_are_not_told_from_convolutions(tmp_path: Path) -> None:
    """Kernels of one operation, launched by many operators: none has the majority."""
    made = kerneldb.open(tmp_path / "k.duckdb")
    operators = ("aten::cudnn_convolution", "aten::cudnn_convolution_backward_weight", "aten::mm", "aten::addmm")
    ingest(made, tmp_path, "known", [(PRODUCT.format(64), op) for op in operators], 8)
    ingest(made, tmp_path, "poor", [(PRODUCT.format(128), None)], 4)
    assert told(made)[PRODUCT.format(128)] == (None, None, None)
    ingest(made, tmp_path, "more", [(PRODUCT.format(64), "aten::mm")] * 16, 8)
    op, confidence, evidence = told(made)[PRODUCT.format(128)]
    assert (op, confidence) == ("aten::mm", pytest.approx(0.85 * 0.85))
    assert (evidence or "").startswith("17 of 20 launches of cuBLAS's")


@pytest.mark.thorough
def test_traces_of_the_same_model_are_asked_before_others(database: kerneldb.Database, tmp_path: Path) -> None:
    ingest(database, tmp_path, "stranger", [(OTHER, "aten::x")] * 50, 8)
    ingest(database, tmp_path, "kin", [(OTHER, "aten::y"), (MOSTLY, "aten::b"), (MIXED, "aten::c")], 16)
    ingest(database, tmp_path, "poor", [(OTHER, None), (MOSTLY, None), (MIXED, None)], 4)
    op, confidence, evidence = told(database)[OTHER]
    assert (op, confidence) == ("aten::y", pytest.approx(0.95))
    assert (evidence or "").startswith("1 of 1 launches of this kernel in traces with most")
