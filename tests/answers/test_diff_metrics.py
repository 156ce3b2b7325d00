"""`diff --metrics`: coverage, class changes and means of counters between two sets, each a run of many files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.report import changes
from kerneldb.warehouse import Warehouse
from tests.counters import captures

pytestmark = pytest.mark.again

FULL = {captures.SM: 10.0, captures.DRAM: 30.0, captures.DURATION: 700.0}


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Four kernels as `v2`; as `v1` one has no throughput, and the SM throughput of the others is 10 points higher."""
    folder = tmp_path_factory.mktemp("versions")
    warehouse, capture = Warehouse.create_or_open(folder / "k.duckdb"), captures.Captures(folder / "spools")
    for number in range(4):
        higher = {**FULL, captures.SM: 20.0} if number else {captures.DURATION: 700.0}
        for run, counters in (("v1", higher), ("v2", FULL)):
            launch = captures.Launch(captures.GEMM, grid=8 + number, counters=counters)
            warehouse.commit(capture(f"{run} {number}", (launch,), source="ncu", stated_run=run))
    with warehouse.connection():
        yield kerneldb.open(warehouse.path)
    warehouse.release()


def test_coverage_and_classes(versions: Database) -> None:
    found = versions.diff_counters("v1", "v2", rule="sm_dram")
    assert found.coverage() == {"before": (3, 4), "after": (4, 4)}
    assert found.changes() == {"newly known": 1, "same": 3}
    (row,) = (row for row in found.classes.to_pylist() if row["change"] == "newly known")
    assert row["verdict_after"] == "memory"
    assert "3 of 4 kernels before, 4 of 4 kernels after" in found.sentence()


def test_means_are_those_of_the_kernels(versions: Database) -> None:
    rows = versions.diff_counters("v1", "v2", rule="sm_dram").metrics.to_pylist()
    (overall,) = (row for row in rows if row["kernel"] is None and row["metric"] == captures.SM)
    assert (overall["title"], overall["n_before"], overall["n_after"]) == ("SM throughput", 3, 4)
    assert (overall["mean_before"], overall["mean_after"]) == (20, 10)
    both = [row for row in rows if row["kernel"] is not None and row["metric"] == captures.SM and row["n_before"]]
    assert [row["delta"] for row in both] == [-10] * 3


def test_a_set_does_not_differ_from_itself(versions: Database) -> None:
    found = versions.diff_counters("v2", "v2")
    assert found.changes() == {"same": 4}
    for row in found.metrics.to_pylist():
        assert row["delta"] == pytest.approx(0, abs=1e-12 * abs(row["mean_after"]))


def test_the_command(versions: Database) -> None:
    base = ["--db", str(versions.path), "diff", "v1", "v2"]
    shown = CliRunner().invoke(cli, [*base, "--metrics", "--no-header"])
    assert shown.exit_code == 0, shown.stderr
    assert [line.split("  ")[0] for line in shown.stdout.splitlines()[:2]] == ["duration", "SM throughput"]
    classes = CliRunner().invoke(cli, [*base, "--classes", "--rule", "sm_dram", "--csv"])
    assert len(classes.stdout.splitlines()) == 5
    alone = CliRunner().invoke(cli, [*base, "--metrics", "--fail-on", "3%"])
    assert alone.exit_code == 2


def test_sides_without_counters_are_named(compared: Database) -> None:
    with pytest.raises(UsageError, match="base has no hardware counters"):
        compared.diff_counters("base", "slower")
    with pytest.raises(UsageError, match="no trace 'nothing'"):
        compared.diff_counters("nothing", "base")
    with pytest.raises(UsageError, match="no rule 'taste'"):
        compared.diff_counters("base", "slower", rule="taste")


def test_the_comparison_report_has_them(versions: Database) -> None:
    report = changes.comparison(versions, "v1", "v2", 0.03, "sm_dram")
    section = next(section for section in report.sections if section.title == "Counters")
    assert "3 of 4" in section.text
    captions = [block.caption for block in section.blocks]
    assert captions == ["Classes that changed, by the rule sm_dram", "Means of the counters"]
    for block in section.blocks:
        assert versions.sql(block.sql).rows()
