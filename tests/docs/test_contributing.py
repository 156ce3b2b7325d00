"""The reader, the view, the route and the rewrite that CONTRIBUTING.md shows work as they stand there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kerneldb
from kerneldb.ingest import readers
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


IMPORTS = """
from pathlib import Path
from typing import Final
import polars as pl
from kerneldb.batch import Manifest
from kerneldb.ingest.launches import Signer
from kerneldb.ingest.output import File, Output
from kerneldb.ingest.readers import Head, Options, Progress, Reader, Unit
from kerneldb.ingest.source import Source, text_of
"""


def test_the_reader_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of it are two traces, and what is no launch is counted."""
    toy = types.ModuleType("kerneldb.ingest.toy")
    future = "from __future__ import annotations\n"
    exec(block("python", "Adding a format").replace(future, future + IMPORTS, 1), toy.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, toy.__name__, toy)
    monkeypatch.setattr(readers, "READERS", (*readers.READERS, "toy"))
    database = kerneldb.open(tmp_path / "kernels.duckdb")
    for name, lines in (("one", "a,1,2\nb<int, 4>,5.5,3\nbad,x,1\nshort"), ("two", "a,1,4")):
        (tmp_path / f"{name}.toy").write_text(f"#toy\n{lines}\n", encoding="utf-8")
        database.ingest(tmp_path / f"{name}.toy")
    found = database.sql("SELECT trace, name, duration_ns FROM kernels ORDER BY ALL").rows()
    assert [tuple(row.values()) for row in found] == [
        ("one.toy", "a", 2000),
        ("one.toy", "b<int, 4>", 3000),
        ("two.toy", "a", 4000),
    ]
    (skipped,) = database.sql("SELECT n FROM ingest_reports WHERE outcome = 'skipped'").rows()
    assert skipped["n"] == 2


def test_the_route_claims_what_it_says(folder: Path) -> None:
    launches = {
        row["route"]: row["launches"] for row in replay(folder, "--dry-run") if row["route"] in {"scale", "none"}
    }
    assert launches == {"scale": 3, "none": 1}


@needs_torch
def test_the_rewrite_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from kerneldb.replay import processes, rewrites
    from kerneldb.replay.rewrites.check import check
    from tests.replay.taped import flow_of, inputs_of

    (tmp_path / "silu_rewrite.py").write_text(block("python", "Adding a rewrite"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = rewrites.known()
    processes.import_all(["silu_rewrite"])
    (added,) = set(rewrites.known()) - set(before)
    del rewrites._REWRITES[added.name]
    flow = flow_of(lambda x: torch.mul(x, torch.sigmoid(x)) + 1, torch.randn(4, 8))
    (proposal,) = added.find(flow)
    assert proposal.region is not None
    assert proposal.make is not None
    assert check(proposal.region, proposal.make(), inputs_of(flow, proposal)).refused is None


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
        assert con.execute(header.example).fetchall() == [("toys", "timeline", "OTHER", 4, 0)]
        found = con.execute("FROM short_kernels(below_ns := 10001)")
        assert [column[0] for column in found.description] == ["trace", "timing", "category", "n", "short", "short_ns"]
        assert found.fetchall() == [("toys", "timeline", "OTHER", 4, 4, 40_000)]
        con.execute("CREATE TEMP VIEW one AS FROM kernels WHERE name = 'other_kernel'")
        assert con.execute("SELECT n FROM short_kernels('one')").fetchall() == [(1,)]
