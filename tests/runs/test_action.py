"""The steps of the GitHub action, as its shell runs them: what is slower fails, after the page is made."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.thorough


def script() -> str:
    """What the last step of the action runs."""
    return textwrap.dedent((ROOT / "action.yml").read_text(encoding="utf-8").rpartition("run: |\n")[2])


def traced(folder: Path, name: str, factor: float) -> None:
    with gzip.open(ROOT / "tests" / "fixtures" / "stacks-memory-h200.json.gz", "rt", encoding="utf-8") as file:
        trace = json.load(file)
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] = round(event["dur"] * factor, 3)
    (folder / f"{name}.json").write_text(json.dumps(trace), encoding="utf-8")


def ran(folder: Path, commit: str, **inputs: str) -> int:
    asked = {"FAIL_ON": "3%", "WORKLOAD": "decode", "KERNELDB_DB": str(folder / "k.duckdb"), "PAGE": "page.html"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    job = {"GITHUB_ACTIONS": "true", "GITHUB_SHA": commit * 40, "GITHUB_REF_NAME": "main", "PATH": path}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB", "KERNELDB"))}
    return subprocess.run(
        ["bash", "-c", script()], cwd=folder, env={**kept, **job, **asked, **inputs}, check=False
    ).returncode


def test_a_slower_trace_fails_the_job_after_its_page_is_made(tmp_path: Path) -> None:
    for name, factor in (("before", 1.0), ("same", 1.0001), ("after", 1.1)):
        traced(tmp_path, name, factor)
    assert ran(tmp_path, "1", TRACES="before.json", BASELINE="", PAGE="") == 0
    assert ran(tmp_path, "2", TRACES="same.json", BASELINE="before", PAGE="") == 0
    assert not (tmp_path / "page.html").exists()
    assert ran(tmp_path, "3", TRACES="after.json", BASELINE="before") == 5
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
