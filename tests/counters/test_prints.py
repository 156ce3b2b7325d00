"""One report printed twice, launches and their rows, and kernels of which only sums are known."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.api.counters import Counting
from kerneldb.cli import cli
from kerneldb.errors import SelectionError
from kerneldb.report import gather
from kerneldb.report.model import Table
from kerneldb.warehouse import Warehouse
from tests.counters.captures import DURATION, GEMM, MEMORY, MUL_KINETO, MUL_NSYS, SM, Captures, Launch

PAGES = Path(__file__).parents[1] / "ncu" / "data"
FULL = {SM: 10.0, MEMORY: 20.0, "dram__bytes_read.sum": 100.0, DURATION: 700.0}
SMALL = "void at::native::elementwise_kernel<64, 2, other<float> >(int, other<float>)"


def run(database: Database, *arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(cli, ["--db", str(database.path), *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


@pytest.fixture(scope="module")
def printed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = kerneldb.open(tmp_path_factory.mktemp("printed") / "kernels.duckdb")
    for page in ("details", "raw"):
        database.ingest([PAGES / f"C.{page}.csv.gz"], name=page, run="job")
    return database.path


@pytest.fixture
def printed_twice(printed_file: Path, tmp_path: Path) -> Database:
    """The raw and the details page of one report, ingested one after the other."""
    return kerneldb.open(shutil.copy(printed_file, tmp_path))


@pytest.mark.again
def test_a_report_printed_twice_counts_once(printed_twice: Database) -> None:
    counted = {row["trace"]: row["is_primary"] for row in printed_twice.sql("FROM trace_overview")}
    assert counted == {"raw": True, "details": False}
    rows = printed_twice.sql("SELECT DISTINCT launches FROM signature_counters").rows()
    assert rows == [{"launches": 1}]
    assert [row["launches"] for row in printed_twice.bounds("ncu")][-1] == 2
    assert len(printed_twice.bounds("ncu", kernels=True)) == 2
    assert "in the run: details" in run(printed_twice, "ncu", "bounds")[1]


@pytest.mark.thorough
@pytest.mark.again
def test_reports_and_comparisons_leave_the_other_print_out(printed_twice: Database) -> None:
    blocks = [block for section in gather.single(printed_twice, ["job"]).sections for block in section.blocks]
    (classes,) = (block for block in blocks if isinstance(block, Table) and block.caption.startswith("Classes by"))
    assert [row["n"] for row in classes.rows if row["verdict"] == "all"] == [2]
    found = printed_twice.diff_counters("job", "raw")
    assert set(found.changes()) == {"same"}
    assert {(row["n_before"], row["n_after"]) for row in found.classes.to_pylist()} == {(1, 1)}


def test_the_other_print_answers_with_the_launches_it_shows(printed_twice: Database) -> None:
    """Their metrics stand at the primary launches, each from the print with most digits."""
    rows = printed_twice.bounds("ncu", traces=["details"], kernels=True).rows()
    assert {row["trace"] for row in rows} == {"raw"}
    assert rows == printed_twice.bounds("ncu", traces=["raw"], kernels=True).rows()
    assert len(rows) == 2


@pytest.mark.again
def test_prints_in_other_runs_both_count(printed_twice: Database) -> None:
    printed_twice.ingest([PAGES / "base.raw.csv.gz"], name="again", run="another job")
    counted = {row["trace"]: row["is_primary"] for row in printed_twice.sql("FROM trace_overview")}
    assert counted == {"raw": True, "details": False, "again": True}


def test_captures_with_equal_process_ids_and_other_times_both_count(warehouse: Warehouse, capture: Captures) -> None:
    """In containers every profiled process may have the same id."""
    for name, duration in (("first", 700.0), ("second", 710.0), ("print", 700.0)):
        launches = (Launch(GEMM, counters=FULL | {DURATION: duration}, process="1"),)
        warehouse.commit(capture(name, launches, source="ncu", stated_run="job", era="ncu csv raw"))
    rows = warehouse.query("SELECT trace, is_primary FROM trace_overview").to_pylist()
    counted = {row["trace"]: row["is_primary"] for row in rows}
    assert counted["second"]
    assert sorted((counted["first"], counted["print"])) == [False, True]


def test_launches_are_counted_and_not_their_rows(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("running", (Launch(GEMM, 700),)))
    warehouse.commit(capture("ncu", (Launch(GEMM, counters=FULL), Launch(GEMM, counters=FULL)), source="ncu"))
    warehouse.release()
    with duckdb.connect(str(warehouse.path)) as con:
        con.execute("INSERT INTO metrics BY NAME SELECT * FROM metrics")
    rows = warehouse.query("SELECT DISTINCT launches FROM signature_counters").to_pylist()
    assert rows == [{"launches": 2}]
    assert [row["profiled"] for row in kerneldb.open(warehouse.path).coverage()] == [2]


@pytest.fixture(scope="module")
def sums_file(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sums")
    warehouse, capture = Warehouse(shutil.copy(empty_file, made)), Captures(made / "spools")
    summed = (Launch(GEMM, 700), Launch(MUL_NSYS, 300), Launch(SMALL, 10))
    warehouse.commit(capture("sums", sums={"report": summed}))
    warehouse.commit(capture("ncu", (Launch(GEMM, counters=FULL),), source="ncu"))
    return warehouse.path


@pytest.fixture
def sums(sums_file: Path, tmp_path: Path) -> Database:
    """Sums of three kernels, two of them of one function; the GEMM has counters."""
    return kerneldb.open(shutil.copy(sums_file, tmp_path))


def test_coverage_of_sums(sums: Database) -> None:
    rows = sums.coverage().rows()
    assert [(row["total_ns"], row["covered"]) for row in rows] == [(700, True), (300, False), (10, False)]
    assert sum(row["share_pct"] for row in rows) == pytest.approx(100)
    assert [row["total_ns"] for row in sums.coverage(where="category = 'GEMM'")] == [700]
    assert [row["total_ns"] for row in sums.coverage(top=1)] == [700]
    assert len(sums.sql("FROM counter_coverage()")) == 3


def test_coverage_of_launches_and_sums(sums: Database, capture: Captures) -> None:
    Warehouse(sums.path).commit(capture("running", (Launch(MUL_KINETO, 500),)))
    assert [(row["trace"], row["total_ns"]) for row in sums.coverage()] == [
        ("sums", 700),
        ("running", 500),
        ("sums", 300),
        ("sums", 10),
    ]
    assert [row["trace"] for row in sums.coverage(where="grid_x > 1")] == ["running"]


def test_a_condition_that_sums_cannot_meet(sums: Database) -> None:
    for ask in (lambda: sums.coverage(where="grid_x > 1"), lambda: sums.ncu_command(Counting(where="grid_x > 1"))):
        with pytest.raises(
            SelectionError, match=r"no launches are selected.*'grid_x > 1' may name trace, run, .*grid_x"
        ):
            ask()


def test_line_for_selected_sums(sums: Database) -> None:
    found = sums.ncu_command(Counting(where="category = 'GEMM'"))
    assert [row["total_ns"] for row in found.kernels] == [700]
    assert found.from_sums
    assert "--launch-count 1 " in found.line
    _, said = run(sums, "ncu", "command", "--where", "short_name LIKE 'elementwise%'", "--top", "1")
    assert "sums have no grids and no order" in said


def test_launches_enough_for_the_worst_order(sums: Database) -> None:
    """The other multiplication has the same function name, and may come first in every configuration."""
    found = sums.ncu_command(Counting(where="name LIKE '%MulFunctor%'"))
    assert [row["total_ns"] for row in found.kernels] == [300]
    assert "--launch-count 2 " in found.line


@pytest.mark.again
def test_a_limit_holds_in_every_format(sums: Database) -> None:
    sums.ingest([PAGES / "C.raw.csv.gz"], name="raw")
    for command in (
        ("ncu", "bounds", "--kernels"),
        (
            "ncu",
            "coverage",
        ),
    ):
        out, _ = run(sums, *command, "--limit", "1", "--csv")
        assert len(out.splitlines()) == 2
        out, _ = run(sums, *command, "--limit", "0", "--csv")
        assert len(out.splitlines()) > 2
