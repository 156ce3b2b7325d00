"""`diff --metrics`: coverage, class changes and means of counters between two sets, each a run of many files."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.report import changes
from kerneldb.warehouse import Warehouse
from tests.conftest import made_once

pytestmark = pytest.mark.again

DROPPED = ("kernel_0009", "kernel_0016")
"""The two kernels of which the first version of the published report had no metrics."""
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


@pytest.fixture(scope="module")
def versions(shared_data: Path, deepseek_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The 20 kernels as `v2`, and as `v1` without the metrics of two and with every SM throughput 10 points higher."""

    def make(path: Path) -> None:
        folder, database = tmp_path_factory.mktemp("v1"), kerneldb.open(shutil.copy(deepseek_file, path))
        warehouse = Warehouse(path)
        warehouse.set_run(warehouse.traces()["trace"].to_pylist(), "v2")
        for file in sorted((shared_data / "ncu" / "deepseek-ocr-v2").glob("*.csv")):
            (folder / file.name).write_text(altered(file), encoding="utf-8")
        database.ingest(folder, run="v1")

    database = kerneldb.open(made_once(tmp_path_factory, "versions.duckdb", make))
    with Warehouse(database.path).lease():
        yield database


def altered(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    start = text.index('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[start:])))
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        if row["Metric Name"] in {"Compute (SM) Throughput", SM}:
            row["Metric Value"] = f"{float(row['Metric Value']) + 10:.2f}"
        if not file.name.startswith(DROPPED) or "hroughput" not in row["Metric Name"]:
            writer.writerow(row)
    return text[:start] + out.getvalue()


def test_coverage_and_classes(versions: Database) -> None:
    found = versions.diff_counters("v1", "v2", rule="sm_dram")
    assert found.coverage() == {"before": (18, 20), "after": (20, 20)}
    changes = found.changes()
    assert changes["newly known"] == 2
    assert sum(changes.values()) == 20
    rows = [row for row in found.classes.to_pylist() if row["change"] == "newly known"]
    assert {row["verdict_after"] for row in rows} == {"balanced", "compute"}
    assert "18 of 20 kernels before, 20 of 20 kernels after" in found.sentence()


def test_means_are_those_of_the_files(versions: Database) -> None:
    """The mean over all kernels is the one the published report prints; before, ten points more over 18 of them."""
    found = versions.diff_counters("v1", "v2", rule="sm_dram")
    overall = {row["metric"]: row for row in found.metrics.to_pylist() if row["kernel"] is None}
    row = overall[SM]
    assert (row["title"], row["n_before"], row["n_after"]) == ("SM throughput", 18, 20)
    assert row["mean_after"] == pytest.approx(15.75, abs=0.005)
    single = [one for one in found.metrics.to_pylist() if one["kernel"] is not None and one["metric"] == SM]
    both = [one for one in single if one["n_before"]]
    assert len(both) == 18
    assert all(one["delta"] == pytest.approx(-10, abs=1e-6) for one in both)
    assert row["mean_before"] == pytest.approx(sum(one["mean_before"] for one in both) / 18)
    assert overall["lts__t_sector_hit_rate.pct"]["mean_after"] == pytest.approx(39.95, abs=0.005)


def test_a_set_does_not_differ_from_itself(versions: Database) -> None:
    found = versions.diff_counters("v2", "v2")
    assert found.changes() == {"same": 20}
    for row in found.metrics.to_pylist():
        assert row["delta"] == pytest.approx(0, abs=1e-12 * abs(row["mean_after"]))


def test_the_command(versions: Database) -> None:
    base = ["--db", str(versions.path), "diff", "v1", "v2"]
    shown = CliRunner().invoke(cli, [*base, "--metrics", "--no-header"])
    assert shown.exit_code == 0, shown.stderr
    assert [line.split("  ")[0] for line in shown.stdout.splitlines()[:2]] == ["duration", "SM throughput"]
    classes = CliRunner().invoke(cli, [*base, "--classes", "--rule", "sm_dram", "--csv"])
    assert len(classes.stdout.splitlines()) == 21
    alone = CliRunner().invoke(cli, [*base, "--metrics", "--fail-on", "3%"])
    assert alone.exit_code == 2


def test_sides_without_counters_are_named(compared: Database) -> None:
    with pytest.raises(UsageError, match="base holds no hardware counters"):
        compared.diff_counters("base", "slower")
    with pytest.raises(UsageError, match="no trace 'nothing'"):
        compared.diff_counters("nothing", "base")
    with pytest.raises(UsageError, match="no rule 'taste'"):
        compared.diff_counters("base", "slower", rule="taste")


def test_the_comparison_report_has_them(versions: Database) -> None:
    report = changes.comparison(versions, "v1", "v2", 0.03, "sm_dram")
    section = next(section for section in report.sections if section.title == "Counters")
    assert "18 of 20" in section.text
    captions = [block.caption for block in section.blocks]
    assert captions == ["Classes that changed, by the rule sm_dram", "Means of the counters"]
    for block in section.blocks:
        assert versions.sql(block.sql).rows()
