"""What Nsight Compute's own rules say: the view, the command and the page of a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from tests.ncu.reading import HEADER, page, row

if TYPE_CHECKING:
    from pathlib import Path


def said(launch: int, rule: str, kind: str, message: str, *speedup: str) -> str:
    cells = [str(launch), "7", "app", "127.0.0.1", "k(int)", "1", "7", "(64, 1, 1)", "(8, 2, 1)", "0", "9.0", "Section"]
    return ",".join(f'"{cell}"' for cell in [*cells, "", "", "", rule, kind, message, *(speedup or ("", ""))])


TEXT = page(
    row("Duration", "us", "6.75"),
    row("Duration", "us", "7.25", launch=1),
    said(0, "SOLBottleneck", "OPT", "too small"),
    said(0, "Occupancy", "OPT", "limited by registers", "global", "12.5"),
    said(1, "Occupancy", "OPT", "limited by shared memory", "global", "25"),
    said(0, "CPIStall", "OPT", "stalled on L1TEX", "local", "80.34"),
    said(0, "Roofline", "INF", "see the guide"),
    said(0, "HighPipe", "WRN", "uncoalesced"),
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> kerneldb.Database:
    folder = tmp_path_factory.mktemp("rules")
    assert HEADER in TEXT
    (folder / "page.csv").write_text(TEXT, encoding="utf-8")
    found = kerneldb.open(folder / "k.duckdb")
    found.ingest(folder / "page.csv")
    return found


def test_view(database: kerneldb.Database) -> None:
    sql = """SELECT launch_index, rule, section, kind, speedup_pct, speedup_kind, message FROM ncu_rules
             ORDER BY launch_index, rule"""
    assert [tuple(found.values()) for found in database.sql(sql)] == [
        (0, "CPIStall", "Section", "OPT", 80.34, "local", "stalled on L1TEX"),
        (0, "HighPipe", "Section", "WRN", None, None, "uncoalesced"),
        (0, "Occupancy", "Section", "OPT", 12.5, "global", "limited by registers"),
        (0, "Roofline", "Section", "INF", None, None, "see the guide"),
        (0, "SOLBottleneck", "Section", "OPT", None, None, "too small"),
        (1, "Occupancy", "Section", "OPT", 25.0, "global", "limited by shared memory"),
    ]


def test_command(database: kerneldb.Database) -> None:
    rows = database.ncu_rules().rows()
    assert [(found["rule"], found["speedup_pct"], found["launches"]) for found in rows] == [
        ("Occupancy", 25.0, 2),
        ("CPIStall", 80.34, 1),
        ("SOLBottleneck", None, 1),
        ("HighPipe", None, 1),
    ]
    assert rows[0]["message"] == "limited by shared memory"
    assert len(database.ncu_rules(everything=True)) == 5
    result = CliRunner().invoke(cli, ["--db", str(database.path), "ncu", "rules", "--csv"], catch_exceptions=False)
    assert result.stdout.splitlines()[1].startswith("k,Occupancy,OPT,25")


def test_page_of_a_kernel(database: kerneldb.Database) -> None:
    assert [found["rule"] for found in database.show("k").tables["rules"]] == [
        "Occupancy",
        "CPIStall",
        "SOLBottleneck",
        "HighPipe",
    ]


@pytest.mark.thorough(alone=True)
def test_rules_of_a_public_page(field: Path, tmp_path: Path) -> None:
    """As plain csv counts them: four rules of each kernel, two of them with a speedup of 67.9 % for the second."""
    with kerneldb.open(tmp_path / "k.duckdb") as found:
        found.ingest(field / "ncu_folder")
        sql = "SELECT count(*) AS n, max(speedup_pct) AS most FROM ncu_rules GROUP BY signature_id ORDER BY most"
        assert list(found.sql(sql)) == [{"n": 4, "most": most} for most in (67.9, 74.0, 80.34)]
