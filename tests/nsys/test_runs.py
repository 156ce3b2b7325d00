"""Prints and exports of one capture: which of them answers, and what a user is told of the others."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import IngestOptions
from kerneldb.cli import cli
from kerneldb.cli.ingest import warnings
from kerneldb.warehouse import session
from tests.nsys import exports

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.thorough

TOTAL = sum(one.duration for one in exports.KERNELS)
COUNTED = """
    SELECT origin, sum(n)::BIGINT AS n, sum(total_ns)::BIGINT AS total_ns
    FROM kernel_rollups WHERE kind = 'kernel' GROUP BY origin
"""
FILES = (
    "r23_cuda_gpu_kern_sum.tsv",
    "r23_cuda_gpu_kern_gb_sum.json",
    "r23_cuda_gpu_sum.csv",
    "r23_cuda_gpu_mem_size_sum.json",
    "r23_cuda_gpu_trace.csv",
)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """Prints of one capture, to read."""
    folder = tmp_path_factory.mktemp("capture") / "run"
    folder.mkdir()
    for name in FILES:
        shutil.copyfile(root / "tests" / "fixtures" / "nsys" / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory, capture: Path) -> Path:
    """A database of all prints, to read or to copy."""
    path = tmp_path_factory.mktemp("taken") / "k.duckdb"
    kerneldb.open(path).ingest([capture])
    session.release_all()
    return path


def counted(database: kerneldb.Database) -> list[tuple[str, int, int]]:
    return [tuple(row.values()) for row in database.sql(COUNTED).to_arrow().to_pylist()]


def test_the_best_print_of_a_run_counts(tmp_path: Path, capture: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest([capture / FILES[0]])
    assert counted(database) == [("report", len(exports.KERNELS), TOTAL)]
    database.ingest([capture / FILES[1], capture / FILES[2]])
    assert counted(database) == [("report_grid", len(exports.KERNELS), TOTAL)]
    database.ingest([capture])
    assert counted(database) == [("launches", len(exports.KERNELS), TOTAL)]
    (tmp_path / "run").mkdir()
    database.ingest([exports.build(tmp_path / "run" / "r23.sqlite", "2023.4")])
    assert counted(database) == [("launches", len(exports.KERNELS), TOTAL)]
    runs = database.sql("SELECT DISTINCT run FROM traces WHERE name NOT LIKE '%_mem_size_sum'").to_arrow().to_pylist()
    assert len(runs) == 1


def test_a_capture_with_all_reports_counts_each_kernel_once(tmp_path: Path, root: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest([root / "tests" / "fixtures" / "nsys" / "console_2023.4.csv"])
    assert counted(database) == [("launches", len(exports.KERNELS), TOTAL)]


def test_a_renamed_export_is_told_and_counts_once(tmp_path: Path, root: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    exports.build(tmp_path / "first.sqlite", "2023.4")
    shutil.copyfile(root / "tests" / "fixtures" / "nsys" / "console_2023.4.csv", tmp_path / "terminal.txt")
    (first,) = database.ingest([tmp_path / "first.sqlite"])
    (second,) = database.ingest([tmp_path / "terminal.txt"])
    assert first.linked == ()
    (linked,) = second.linked
    assert (linked.other, linked.relation, linked.run, linked.joined) == ("first", "print", "first", True)
    (line,) = warnings(second, IngestOptions())
    assert line == f"terminal: the same launches as first, summed once ({linked.evidence}; run first)"
    assert counted(database) == [("launches", len(exports.KERNELS), TOTAL)]
    database.set_run(["terminal"], "another")
    database.set_run(["first"], "one")
    assert counted(database) == [("launches", 2 * len(exports.KERNELS), 2 * TOTAL)]


def test_other_work_is_no_news(tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    exports.build(tmp_path / "other.sqlite", "2023.4", kernels=exports.KERNELS[:-1], memory=(), calls=(), ranges=())
    kernels = [dataclasses.replace(one, start=one.start + 11, duration=one.duration + 7) for one in exports.KERNELS]
    exports.build(tmp_path / "r23.sqlite", "2023.4", kernels=kernels, memory=(), calls=(), ranges=())
    outcomes = database.ingest([tmp_path])
    assert [outcome.linked for outcome in outcomes] == [(), ()]


def test_a_named_trace_shows_its_figures_though_another_counts(tmp_path: Path, taken: Path) -> None:
    (tmp_path / "run").mkdir()
    database = kerneldb.open(shutil.copy(taken, tmp_path / "k.duckdb"))
    database.ingest([exports.build(tmp_path / "run" / "r23.sqlite", "2023.4")])
    by_trace = {row["trace"]: row["n"] for row in database.top("trace", where="kind = 'kernel'").rows()}
    (best,) = by_trace
    launches = [row["trace"] for row in database.traces().rows() if row["launches"]]
    (other,) = set(launches) - {best}
    assert by_trace == {best: len(exports.KERNELS)}
    for where, whole in ((None, len(exports.KERNELS) + len(exports.MEMORY)), ("kind = 'kernel'", len(exports.KERNELS))):
        for names in ([best], [other], [best, other], [other, best]):
            (row,) = database.top("trace", where=where, traces=names).rows()
            assert row["trace"] == (best if best in names else other)
            assert row["n"] == whole
    (run,) = {row["run"] for row in database.traces().rows() if row["trace"] in (best, other)}
    assert database.repeated_by([best]) == []
    assert database.repeated_by([other]) == [(other, run, best)]


def test_sums_that_are_named_count_among_themselves(taken: Path) -> None:
    database = kerneldb.open(taken)
    (sums,) = [row["trace"] for row in database.traces().rows() if row["trace"].startswith("r23_cuda_gpu_kern_sum")]
    (grid,) = [row["trace"] for row in database.traces().rows() if row["trace"].startswith("r23_cuda_gpu_kern_gb")]
    (row,) = database.top("kind", traces=[sums]).rows()
    assert (row["n"], row["total_ns"]) == (len(exports.KERNELS), TOTAL)
    for names in ([sums, grid], [grid, sums]):
        (row,) = database.top("trace", traces=names).rows()
        assert (row["trace"], row["total_ns"]) == (grid, TOTAL)
    outcome = CliRunner().invoke(cli, ["--db", str(taken), "top", "--trace", sums, "--csv"])
    assert "void gemm" in outcome.stdout or "gemm" in outcome.stdout
    told = f"{sums} holds the same launches as r23_cuda_gpu_trace (run r23_cuda_gpu_trace)"
    assert told in outcome.stderr


def test_a_condition_says_which_traces_it_leaves_out(tmp_path: Path, capture: Path, taken: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest([capture / FILES[0]])
    (sums,) = [row["trace"] for row in database.traces().rows()]
    asked = ["--db", str(tmp_path / "k.duckdb"), "top", "--csv", "--where"]
    outcome = CliRunner().invoke(cli, [*asked, "kind = 'kernel'"])
    assert len(outcome.stdout.splitlines()) == 1
    assert f"1 trace holds sums by kernel and no launches to select from: {sums};" in outcome.stderr
    outcome = CliRunner().invoke(cli, [*asked, " "])
    assert len(outcome.stdout.splitlines()) > 1
    assert outcome.stderr == ""
    outcome = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "replay", "--dry-run"])
    assert outcome.exit_code == 2
    assert "see what there is with: kerneldb top" in outcome.stderr
    assert f"{sums} holds sums by kernel only" in outcome.stderr
    whole = kerneldb.open(taken)
    assert whole.sums_only() == []
    assert whole.sums_only([sums]) == [sums]
