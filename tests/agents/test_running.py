"""What agents may run where the user allows it: counters of chosen kernels, by a program that stands in for ncu."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kerneldb

if TYPE_CHECKING:
    from collections.abc import Callable

FAKE = Path(__file__).parents[1] / "counters" / "fake_ncu.py"
CHOSEN = "op = 'aten::silu'"


@pytest.mark.thorough
def test_counters_that_are_allowed_are_read_and_stored_and_their_query_gives_them_again(
    asked: Path, ask: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
    program = tmp_path / "ncu"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-P", str(FAKE)])} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    path = Path(shutil.copy(asked, tmp_path / "k.duckdb"))
    question = ("counters", {"where": CHOSEN, "device": "cpu", "traces": ["decoder-h200"]})
    (refused,) = ask(path, [question], ["replay", "improve"])
    assert "--allow counters" in refused["cannot_answer"]
    (answer,) = ask(path, [question], ["counters"])
    rows = answer["parts"]["counters"]["rows"]
    stored = kerneldb.open(path).sql("SELECT * FROM signature_counters WHERE method = 'replay'").rows()
    assert {row["metric"] for row in stored} > {"dram__bytes.sum.per_second", "gpu__time_duration.sum"}
    assert len(rows) > 0
    again = answer["parts"]["counters"]
    asking = {"sql": again["query"], "where": again.get("where"), "traces": again.get("traces"), "limit": len(rows)}
    (repeated,) = ask(path, [("query", asking)])
    assert repeated["rows"] == rows
