"""Two recordings of one model, hours apart on two boards of one kind: nothing changed, and nothing is said to have."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from tests.conftest import raw_result

FIRST = ("2026-11-21-h200-energy", "bloom-560m/prefill.pt.trace.json")
SECOND = ("2026-11-21-h200-reconciliation", "board2/bloom-560m-prefill.pt.trace.json")


@pytest.mark.thorough
def test_the_same_model_recorded_twice_has_no_regression(tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    for name, (result, raw) in (("first", FIRST), ("second", SECOND)):
        trace = tmp_path / f"{name}.json"
        trace.write_bytes(raw_result(result, raw))
        database.ingest(trace, name=name)
    for before, after in (("first", "second"), ("second", "first")):
        found = database.diff(before, after)
        assert set(found.by_verdict) <= {"noise", "unchanged"}
        assert abs(found.after_ns / found.before_ns - 1) < 0.01
        gate = ["--db", str(database.path), "diff", before, after, "--fail-on", "3%"]
        assert CliRunner().invoke(cli, gate).exit_code == 0
