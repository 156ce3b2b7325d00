"""The view and the route that CONTRIBUTING.md shows work as they stand there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kerneldb
from kerneldb.schemas import headers
from tests.replay_host.test_route_of_a_package import trace_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def block(language: str, section: str) -> str:
    """The first block of code in a language in a section."""
    part = TEXT[TEXT.index(f"\n## {section}\n") :]
    found = re.search(rf"^```{language}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the route as a module, and a database with three launches for it and one that is not."""
    made = tmp_path_factory.mktemp("contributing")
    (made / "scale_route.py").write_text(block("python", "Adding a route"), encoding="utf-8")
    (made / "toys.json").write_text(trace_of("scale_1024", "scale_1024", "scale_4096", "other_kernel"))
    kerneldb.open(made / "kernels.duckdb").ingest(made / "toys.json")
    return made


def replay(folder: Path, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kerneldb", "replay", "--import", "scale_route", "--json", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERNELDB_DB": "kernels.duckdb"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_the_route_claims_what_it_says(folder: Path) -> None:
    launches = {
        row["route"]: row["launches"] for row in replay(folder, "--dry-run") if row["route"] in {"scale", "none"}
    }
    assert launches == {"scale": 3, "none": 1}


@pytest.mark.thorough
@needs_torch
def test_the_route_runs_and_grades(folder: Path) -> None:
    found = {
        row["route"]: row["l0_launches_pct"] for row in replay(folder, "--device", "cpu", "--no-energy", "--runs", "3")
    }
    assert (found["scale"], found["none"]) == (100, 0)


def test_the_macro_answers_as_its_header_says(folder: Path) -> None:
    sql = block("sql", "Adding a view or a macro")
    header = headers.read(sql, "time")
    assert header.example is not None
    with duckdb.connect(str(folder / "kernels.duckdb"), read_only=True) as con:
        con.execute(sql.replace("REPLACE MACRO", "REPLACE TEMP MACRO"))
        assert con.execute(header.example).fetchall() == [("toys", "OTHER", 4, 0)]
        found = con.execute("FROM short_kernels(below_ns := 10001)")
        assert [column[0] for column in found.description] == ["trace", "category", "n", "short", "short_ns"]
        assert found.fetchall() == [("toys", "OTHER", 4, 4, 40_000)]
        con.execute("CREATE TEMP VIEW one AS FROM kernels WHERE name = 'other_kernel'")
        assert con.execute("SELECT n FROM short_kernels('one')").fetchall() == [(1,)]
