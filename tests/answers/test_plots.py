"""`--plot`: files of the kind that their names say, drawn from the rows, and errors that say what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneldb import report
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.errors import KerneldbError, UsageError
from kerneldb.report import charts

pytestmark = pytest.mark.slow

DRAWN = (
    "analyze roofline",
    "diff base slower",
    *(pytest.param(command, marks=pytest.mark.thorough) for command in ("analyze idle", "analyze idle --gaps")),
)
STARTS = {".svg": b"<svg", ".png": b"\x89PNG\r\n\x1a\n", ".html": b"<!DOCTYPE html>"}


def run(database: Database, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["--db", str(database.path), *words])
    return done.exit_code, done.stderr


@pytest.mark.parametrize("command", DRAWN)
def test_commands_draw(compared: Database, tmp_path: Path, command: str) -> None:
    path = tmp_path / "plot.svg"
    code, said = run(compared, *command.split(), "--plot", str(path))
    assert (code, f"drew {path}" in said) == (0, True)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<svg")
    marks = len(re.findall(r"aria-roledescription=\"(?:bar|circle|text mark|line mark)", text))
    assert marks >= 2


@pytest.mark.parametrize("ending", charts.ENDINGS)
def test_the_ending_names_the_format(compared: Database, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"phases{ending}"
    code, said = run(compared, "analyze", "phases", "--plot", str(path))
    assert (code, f"drew {path}" in said) == (0, True)
    assert path.read_bytes().lstrip().startswith(STARTS[ending])
    if ending == ".html":
        page = re.sub(r"<script.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"(?:src|href)=.https?:", page)


def test_bars_are_as_long_as_the_phases(compared: Database) -> None:
    rows = [row for row in compared.analyze("phases").rows() if row["trace"] == "base"]
    spec = charts.DRAWINGS["phases"](rows)
    assert spec is not None
    values = spec["data"]["values"]
    assert [(one["phase"], one["total_ms"]) for one in values] == [
        (row["phase"], row["total_ns"] / 1e6) for row in rows
    ]


def test_collectives_are_dots_of_size_and_bandwidth() -> None:
    row = {"operation": "allreduce", "dtype": "float", "bytes": 4096, "median_bus_gbs": 3.5}
    spec = charts.DRAWINGS["collectives"]([row, {**row, "bytes": None}])
    assert spec is not None
    assert [(one["bytes"], one["median_bus_gbs"]) for one in spec["data"]["values"]] == [(4096, 3.5)]


def test_waits_are_told_from_transfers() -> None:
    row = {"run": "job", "rank": 1, "transfer_ns": 2_000_000, "wait_ns": 5_000_000}
    spec = charts.DRAWINGS["collective_waits"]([row])
    assert spec is not None
    assert {one["part"]: one["ms"] for one in spec["data"]["values"]} == {"transfer": 2.0, "wait": 5.0}


def test_unknown_endings_are_refused_before_anything_is_asked(compared: Database, tmp_path: Path) -> None:
    code, said = run(compared, "analyze", "phases", "--plot", str(tmp_path / "phases.pdf"))
    assert (code, "the name of a plot ends in .svg, .png or .html" in said) == (2, True)


def test_an_unknown_analysis_is_told_by_name(compared: Database) -> None:
    with pytest.raises(UsageError, match="no analysis 'rooflines'; near: roofline"):
        compared.analyze("rooflines")
    there = "roofline, idle, idle_gaps, collectives, collective_waits, phases"
    for name, lead in (("top", "no such chart"), ("diff", "kerneldb diff --plot")):
        with pytest.raises(UsageError) as told:
            compared.chart(name)
        assert lead in str(told.value)
        assert str(told.value).endswith(f"there are {there}")
    assert not compared.analyze("collectives").rows()


def test_nothing_to_draw_is_said(compared: Database, tmp_path: Path) -> None:
    code, said = run(compared, "analyze", "collectives", "--plot", str(tmp_path / "c.svg"))
    assert (code, "nothing to draw" in said) == (1, True)
    assert not (tmp_path / "c.svg").exists()


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(KerneldbError, match=r"plots need altair, vl_convert: pip install 'kerneldb\[report\]'"):
        charts.check(Path("a.svg"))
    with pytest.raises(KerneldbError, match=r"reports need altair, vl_convert, jinja2"):
        report.require()
