"""Hidden calls of recorded traces are found again."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.warehouse import Warehouse

ROOT = Path(__file__).parents[2]


def study() -> Any:
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("inherit_study", ROOT / "benchmarks" / "inherit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hidden_calls_of_the_example_are_found(both: Path) -> None:
    module = study()
    known = module.launches(Warehouse.open(both), "decoder-h200")
    result = module.folds(known)
    assert result["hidden"] == 2458
    assert result["found"] <= result["hidden"]
    for one in (result, module.second_half(known)):
        assert one["right"] / one["possible"] >= 0.998


@pytest.mark.slow
@pytest.mark.thorough
def test_hidden_calls_of_a_real_trace_are_found(shared_data: Path, tmp_path: Path) -> None:
    trace = "tracelens-mi300-qwen1.5-0.5b"
    kerneldb.open(tmp_path / "k.duckdb").ingest(shared_data / "pytorch" / f"{trace}.json.gz")
    module = study()
    known = module.launches(Warehouse.open(tmp_path / "k.duckdb"), trace)
    for result in (module.folds(known), module.second_half(known)):
        assert result["right"] / result["possible"] >= 0.998
