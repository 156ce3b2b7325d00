"""The plugin of pytest: a trace that is slower than its baseline fails the test, one that is not passes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
def test_first(kerneldb_gate):
    assert kerneldb_gate("before.json", workload="decode") == "before"

def test_same(kerneldb_gate):
    assert kerneldb_gate("before.json", baseline="before") == "before"

def test_slower(kerneldb_gate):
    kerneldb_gate("after.json", baseline="before", fail_on=5)
"""


def slower(event: dict[str, Any]) -> dict[str, Any]:
    return event | {"dur": event["dur"] * 1.2} if event.get("cat") == "kernel" else event


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    trace = json.loads(gzip.decompress((root / "examples" / "decoder-h200.json.gz").read_bytes()))
    (tmp_path / "before.json").write_text(json.dumps(trace))
    trace["traceEvents"] = [slower(event) for event in trace["traceEvents"]]
    (tmp_path / "after.json").write_text(json.dumps(trace))
    (tmp_path / "test_speed.py").write_text(TESTS)
    return tmp_path


def test_a_slower_trace_fails_its_test_alone(folder: Path) -> None:
    path = os.pathsep.join(sys.path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "kerneldb.gate",
        "-p",
        "no:cacheprovider",
        "--kerneldb-db",
        "k.duckdb",
    ]
    environment = os.environ | {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [*command, "--kerneldb-commit", "abcdef123456", "test_speed.py"],
        cwd=folder, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "test_slower" in done.stdout.partition("short test summary")[2]
    assert "GPU time" in done.stdout
