"""An answer without rows says why on stderr, and nothing on stdout but the header."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import analyze, cli
from kerneldb.cli.analyze import NO_WORK, NOTHING
from kerneldb.warehouse import Warehouse

pytestmark = pytest.mark.again

PAGES = Path(__file__).parents[1] / "ncu" / "data"
ASKED = {
    "idle": (
        "analyze",
        "idle",
    ),
    "idle_gaps": ("analyze", "idle", "--gaps"),
    "critical_path": ("analyze", "critical-path"),
    "modules": ("analyze", "modules"),
    "overlap": (
        "analyze",
        "overlap",
    ),
    "collectives": (
        "analyze",
        "collectives",
    ),
    "collective_waits": ("analyze", "collectives", "--waits"),
    "collective_stragglers": ("analyze", "stragglers"),
    "collective_replays": ("analyze", "collectives", "--replays"),
    "phases": (
        "analyze",
        "phases",
    ),
    "iterations": (
        "analyze",
        "iterations",
    ),
    "launch_overhead": (
        "analyze",
        "overhead",
    ),
    "fusion_candidates": (
        "analyze",
        "fusion",
    ),
    "precision_conversions": (
        "analyze",
        "conversions",
    ),
    "roofline": (
        "analyze",
        "roofline",
    ),
    "work_errors": ("analyze", "work-errors"),
}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Counters only: launches without a place in time."""
    database = kerneldb.open(tmp_path_factory.mktemp("profiled") / "k.duckdb")
    database.ingest(PAGES / "C.raw.csv.gz", name="raw")
    return database


def said(database: Database, *arguments: str) -> str:
    """What an answer with no rows says on stderr."""
    done = CliRunner().invoke(cli, ["--db", str(database.path), *arguments, "--csv"])
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 1), done.output
    return done.stderr


def test_every_analysis_that_is_shown_has_a_reason() -> None:
    shown = re.findall(r"\.show\(\s*((?:\"\w+\"|\w+| if | else )+)", Path(analyze.__file__).read_text(encoding="utf-8"))
    names = {name for text in shown for name in re.findall(r'"(\w+)"', text)}
    assert len(names) >= 9
    assert names - {"phases"} <= NOTHING.keys()


def test_every_analysis_has_its_sentence() -> None:
    assert set(ASKED) - {"phases"} == set(NOTHING)


@pytest.mark.parametrize("name", [name for name in NOTHING if name != "roofline"])
def test_no_rows_have_a_reason(profiled: Database, name: str) -> None:
    assert NOTHING[name] in said(profiled, *ASKED[name])


def test_phases_of_counters_are_told_apart_by_their_timing(profiled: Database) -> None:
    (row,) = profiled.analyze("phases").rows()
    assert (row["timing"], row["phase"], row["n"]) == ("profiled", "decode", 2)


def test_copies_have_no_roofline(compared: Database) -> None:
    assert NOTHING["roofline"] in said(compared, "analyze", "roofline", "--where", "kind <> 'kernel'")


@pytest.mark.parametrize("name", ASKED)
def test_a_condition_that_no_launch_meets_is_the_reason(compared: Database, name: str) -> None:
    text = said(compared, *ASKED[name], "--where", "op = 'zz'")
    assert "no launch meets the condition op = 'zz'" in text
    assert NOTHING.get(name, "no phases") not in text


def test_the_reason_names_the_trace(compared: Database) -> None:
    text = said(compared, "analyze", "idle", "--where", "op = 'zz'", "--trace", "base")
    assert "no launch of base meets the condition op = 'zz'" in text


def test_a_database_without_launches(tmp_path: Path) -> None:
    Warehouse.create_or_open(tmp_path / "k.duckdb")
    assert "no launches in this database" in said(kerneldb.open(tmp_path / "k.duckdb"), "analyze", "overlap")


def test_rows_without_a_rate_have_one_too(compared: Database) -> None:
    unknown = [
        "--db",
        str(compared.path),
        "analyze",
        "roofline",
        "--where",
        "flops IS NULL AND moved_bytes IS NULL",
        "--csv",
    ]
    assert NO_WORK in CliRunner().invoke(cli, unknown).stderr
    known = ["--db", str(compared.path), "analyze", "roofline", "--where", "category = 'GEMM'", "--csv"]
    assert NO_WORK not in CliRunner().invoke(cli, known).stderr
