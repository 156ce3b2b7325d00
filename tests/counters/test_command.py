"""The Nsight Compute line, and what its result covers."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.api.counters import Counting, function_name, kernel_filter
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.gpus.counting import SECTIONS
from kerneldb.warehouse import Warehouse
from tests.counters.captures import GEMM, MEMORY, MUL_KINETO, MUL_NCU, MUL_NSYS, SM, Captures, Launch

SMALL = "void at::native::elementwise_kernel<64, 2, other<float> >(int, other<float>)"
RUNNING = (
    Launch(GEMM, 500, start=0, phase="prefill"),
    Launch(SMALL, 10, start=600, phase="prefill"),
    Launch(MUL_KINETO, 300, start=700, phase="decode"),
    Launch(GEMM, 900, start=1200, phase="decode", grid=9),
    Launch("Memcpy HtoD (Pinned -> Device)", 9000, start=3000, kind="memcpy"),
)


@pytest.fixture(scope="module")
def database(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A trace with two phases; two kernels of one function, grid and block. To read only."""
    made = tmp_path_factory.mktemp("running")
    warehouse, capture = Warehouse(shutil.copy(empty_file, made)), Captures(made / "spools")
    warehouse.commit(capture("running", RUNNING, source="pytorch"))
    return kerneldb.open(warehouse.path)


@pytest.fixture
def further(database: Database, tmp_path: Path) -> Database:
    """A copy of it, to write."""
    return kerneldb.open(shutil.copy(database.path, tmp_path))


def options(arguments: tuple[str, ...]) -> dict[str, str]:
    """Options with one value, by name."""
    return {name: value for name, value in itertools.pairwise(arguments) if name.startswith("--")}


def test_line_for_all_kernels(database: Database) -> None:
    found = database.ncu_command(Counting(program=("python", "run it.py", "--steps", "2")))
    given = options(found.arguments)
    assert found.arguments[0] == "ncu"
    assert given["--kernel-name-base"] == "function"
    assert given["--kernel-name"] == f"regex:^(elementwise_kernel|{GEMM})$"
    assert (given["--csv"], given["--page"], given["--log-file"]) == ("--page", "raw", "ncu-raw.csv")
    assert [value for name, value in itertools.pairwise(found.arguments) if name == "--section"] == list(SECTIONS)
    assert found.arguments[-4:] == ("python", "run it.py", "--steps", "2")
    assert "--nvtx" not in found.arguments
    assert [row["total_ns"] for row in found.kernels] == [900, 500, 300, 10]
    assert found.share_pct == pytest.approx(100)


def test_enough_launches_of_each_configuration(database: Database) -> None:
    """The multiplication is the third launch of its grid and block that passes the filter, behind GEMM and SMALL."""
    found = database.ncu_command(Counting())
    assert options(found.arguments)["--launch-count"] == "3"
    assert found.profiled == 4
    gemms = database.ncu_command(Counting(top=2))
    assert options(gemms.arguments)["--launch-count"] == "1"
    assert (gemms.profiled, len(gemms.kernels)) == (2, 2)


def test_phase_filters_kernels_and_ranges(database: Database) -> None:
    found = database.ncu_command(Counting(phase="decode"))
    assert [row["total_ns"] for row in found.kernels] == [900, 300]
    assert options(found.arguments)["--nvtx-include"] == "decode/"


@pytest.mark.again
def test_nvtx_expression(warehouse: Warehouse, capture: Captures) -> None:
    launches = tuple(Launch(GEMM, start=place, phase=phase) for place, phase in enumerate(("a/b [1]", "decode")))
    warehouse.commit(capture("running", launches))
    for wanted, expression in (
        (Counting(phase="a/b [1]"), r"a\/b \[1\]/"),
        (Counting(nvtx="domain@range"), "domain@range"),
        (Counting(phase="decode", nvtx="regex:dec.*/"), "regex:dec.*/"),
    ):
        given = options(kerneldb.open(warehouse.path).ncu_command(wanted).arguments)
        assert given["--nvtx-include"] == expression


def test_where_and_top(database: Database) -> None:
    found = database.ncu_command(Counting(where="phase = 'prefill'", top=1))
    assert [(row["total_ns"], round(row["share_pct"], 2)) for row in found.kernels] == [(500, 98.04)]


def test_line_survives_a_shell(database: Database) -> None:
    found = database.ncu_command(Counting(program=("sh", "-c", "echo 'a b' $HOME")))
    assert tuple(shlex.split(found.line)) == found.arguments
    assert "'regex:^(" in found.line


def test_kernels_known_by_sums_only(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("sums", sums={"report": (Launch(GEMM, 700), Launch(MUL_NSYS, 300))}))
    found = kerneldb.open(warehouse.path).ncu_command(Counting(top=1))
    assert [row["total_ns"] for row in found.kernels] == [700]
    assert (options(found.arguments)["--launch-count"], found.profiled) == ("1", 0)


def test_nothing_selected(database: Database) -> None:
    with pytest.raises(UsageError, match="no kernels with times"):
        database.ncu_command(Counting(where="name = 'x'"))


@pytest.mark.parametrize("name", [MUL_KINETO, MUL_NSYS, MUL_NCU, SMALL])
def test_function_name(name: str) -> None:
    assert function_name(name) == "elementwise_kernel"


@pytest.mark.parametrize("function", ["kernel", "a$b", "odd name"])
def test_filter_matches_whole_function_names(function: str) -> None:
    pattern = re.compile(kernel_filter(["other", function]).removeprefix("regex:"))
    assert pattern.search(function)
    assert not pattern.search(function + "_2")
    assert not pattern.search("my_" + function)


def test_function_names_of_the_samples_are_words(samples: Database) -> None:
    names = {row["name"] for row in samples.sql("SELECT name FROM kernel_names WHERE kind = 'kernel'")}
    odd = {function_name(name) for name in names if not re.fullmatch(r"[\w$]+", function_name(name))}
    assert len(names) > 150
    assert odd == set()


def coverage(database: Database, **options: Any) -> dict[str, tuple[bool, str | None, int]]:
    rows = database.coverage(**options).rows()
    return {
        f"{row['short_name'][:10]} {row['total_ns']}": (row["covered"], row["method"], row["candidates"])
        for row in rows
    }


@pytest.mark.again
def test_coverage_after_the_ingest_of_the_result(further: Database, capture: Captures) -> None:
    database, warehouse = further, Warehouse(further.path)
    assert {covered for covered, _, _ in coverage(database).values()} == {False}
    full = {SM: 10.0, MEMORY: 20.0, "dram__bytes_read.sum": 100.0}
    profiled = (Launch(GEMM, counters=full), Launch(MUL_NCU, counters={SM: 10.0}))
    warehouse.commit(capture("ncu", profiled, source="ncu"))
    assert coverage(database) == {
        "nvjet_sm90 900": (True, "match_name", 1),
        "nvjet_sm90 500": (True, "own", 1),
        "elementwis 300": (False, "launch_key", 1),
        "elementwis 10": (False, None, 0),
    }
    assert len(database.coverage(top=2)) == 2
    assert len(database.coverage(where="phase = 'decode'")) == 2


def run(database: Database, *arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(cli, ["--db", str(Path(database.path)), *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_command_prints_the_line_alone(database: Database) -> None:
    printed, notes = run(database, "ncu", "command", "--top", "2", "--log-file", "out.csv", "--", "python", "run.py")
    assert printed.count("\n") == 1
    assert printed.endswith("--log-file out.csv python run.py\n")
    assert "kerneldb ingest out.csv" in notes
    assert "append your program to the line" not in notes


def test_command_coverage(database: Database) -> None:
    printed, notes = run(database, "ncu", "coverage", "--csv")
    assert printed.splitlines()[0].startswith("trace,timing,signature_id,short_name,")
    assert "0 of 4 kernels covered, 0.0 % of their time\n" in notes


@pytest.mark.again
def test_counters_that_cover_nothing_are_counted_beside(further: Database, capture: Captures) -> None:
    """Those of rocprofv3 are what was asked for, without throughput."""
    Warehouse(further.path).commit(capture("pmc", (Launch(GEMM, counters={"SQ_WAVES": 10.0}),), source="rocprofv3"))
    _, notes = run(further, "ncu", "coverage", "--csv")
    assert "of their time; 2 with other counters, without throughput or bytes of DRAM\n" in notes


@pytest.mark.again
def test_command_bounds(further: Database, capture: Captures) -> None:
    database, warehouse = further, Warehouse(further.path)
    _, notes = run(database, "ncu", "bounds")
    assert "no launches with counters" in notes
    warehouse.commit(capture("ncu", (Launch(GEMM, counters={SM: 10.0, MEMORY: 90.0}),), source="ncu"))
    printed, _ = run(database, "ncu", "bounds", "--csv")
    assert [line.split(",")[:2] for line in printed.splitlines()] == [
        ["verdict", "launches"],
        ["high", "1"],
        ["(all)", "1"],
    ]
    printed, _ = run(database, "ncu", "bounds", "--kernels", "--json")
    assert '"verdict":"high"' in printed.replace(" ", "")
    printed, _ = run(database, "ncu", "bounds", "--rules", "--csv")
    assert "sm_dram,1,margin,5,%" in printed
