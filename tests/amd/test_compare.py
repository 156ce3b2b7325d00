"""Comparison of traces: pairing, sums of an iteration, and what is left unknown."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from kerneldb.api import Database
from kerneldb.api.counters import Counting
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from tests.rocprof import databases


def kinds(rows: list[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    return [(row["row_kind"], row["trace"], row["matched"]) for row in rows]


def test_names_that_differ_do_not_match_by_themselves(read: Database) -> None:
    rows = read.compare(["torch", "hip"]).rows()
    assert kinds(rows) == [
        ("kernel", "hip", False),
        ("kernel", "torch", False),
        ("kernel", "torch", False),
        ("kernel", "torch", False),
        ("iteration", "torch", False),
        ("iteration", "hip", False),
    ]


def test_match_pairs_names(read: Database) -> None:
    rows = read.compare(["torch", "hip"], matches=["Cijk_=scaled_mm"]).rows()
    assert kinds(rows)[:2] == [("kernel", "torch", True), ("kernel", "hip", True)]
    assert {row["kernel"] for row in rows[:2]} == {"Cijk_"}
    assert [row["short_name"] for row in rows[:2]] == [
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1",
        "scaled_mm_kernel<128, 128, 32>",
    ]
    assert rows[1]["ratio"] == pytest.approx(40_272_000 / 40_185_627)
    assert [row["row_kind"] for row in rows[4:]] == ["matched", "matched", "iteration", "iteration"]


def test_the_same_kernel_in_two_traces_matches_by_name(read: Database) -> None:
    rows = read.compare(["hip", "hip_matched"]).rows()
    assert kinds(rows) == [
        ("kernel", "hip", True),
        ("kernel", "hip_matched", True),
        ("iteration", "hip", False),
        ("iteration", "hip_matched", False),
    ]


def test_order_is_that_of_the_traces_given(read: Database) -> None:
    rows = read.compare(["hip_matched", "hip"]).rows()
    assert [row["trace"] for row in rows] == ["hip_matched", "hip"] * 2
    assert rows[1]["ratio"] < 1


def test_where_leaves_kernels_out(read: Database) -> None:
    rows = read.compare(["torch"], where="name NOT LIKE 'Cijk%'").rows()
    assert rows[-1]["iteration_ns"] == 951_516 + 1_039_385


def test_iterations_may_be_told(read: Database) -> None:
    (row,) = [row for row in read.compare(["hip"], iterations=1).rows() if row["row_kind"] == "iteration"]
    assert (row["iterations"], row["iteration_ns"]) == (1, 23 * 40_272_000)


def test_iterations_are_the_common_divisor_of_launches(database: Database, tmp_path: Any) -> None:
    twice = databases.Kernel("twice", (256, 1, 1), (64, 1, 1), [100] * 6)
    once = databases.Kernel("once", (256, 1, 1), (64, 1, 1), [50] * 3)
    database.ingest(databases.write_rocpd(tmp_path / "loop.db", [twice, once]), name="loop")
    rows = database.compare(["loop"]).rows()
    assert [(row["kernel"], row["iteration_ns"]) for row in rows] == [
        ("twice", 200),
        ("once", 50),
        ("one iteration", 250),
    ]


def test_resources_that_differ_between_launches_are_unknown(database: Database, tmp_path: Any) -> None:
    small, large = (databases.Kernel("k", (size, 1, 1), (64, 1, 1), [100], lds=size) for size in (256, 512))
    database.ingest(databases.write_rocpd(tmp_path / "two.db", [small, large]), name="two")
    (row,) = [row for row in database.compare(["two"]).rows() if row["row_kind"] == "kernel"]
    assert (row["n"], row["grid"], row["shared_bytes"], row["block"]) == (2, None, None, "64x1x1")


def test_unknown_work_is_no_zero(read: Database) -> None:
    rows = read.compare(["torch"]).rows()
    assert [row["tflops"] for row in rows] == [None] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"matches": ["Cijk_=nothing like it"]}, "no selected kernel has 'nothing like it' in its name"),
        ({"matches": ["Cijk_"]}, "is not A=B"),
        ({"matches": ["=x"]}, "is not A=B"),
    ],
)
def test_pairs_must_be_there(read: Database, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read.compare(["torch", "hip"], **options)


def test_unknown_traces_are_refused(read: Database) -> None:
    with pytest.raises(UsageError, match="no trace 'tor'; near: torch"):
        read.compare(["tor"])


def test_commands(read: Database) -> None:
    runner = CliRunner()
    call = ["--db", str(read.path), "analyze", "compare", "torch", "hip", "--match", "Cijk_=scaled_mm"]
    table = runner.invoke(cli, call).stdout
    assert "one iteration, matched kernels" in table
    assert "tflops" not in table
    assert "row_kind" in runner.invoke(cli, [*call, "--csv"]).stdout
    assert runner.invoke(cli, [*call, "--csv", "--limit", "2"]).stdout.count("\n") == 3
    signature = next(iter(read.sql("SELECT signature_id FROM kernels WHERE name LIKE 'Cijk%'")))["signature_id"]
    shown = runner.invoke(cli, ["--db", str(read.path), "analyze", "same-code", signature[:10]])
    assert shown.exit_code == 0
    assert shown.stdout.count("triton_poi_fused__to_copy") == 2
    assert "n_differences" in shown.stdout


def test_where_nsight_compute_cannot_count_the_line_of_rocprofv3_is_given(read: Database) -> None:
    with pytest.raises(UsageError, match=r"rocprofv3 --pmc COUNTERS --kernel-include-regex Cijk_\w+ --output"):
        read.ncu_command(Counting(where=f"name = '{databases.TENSILE_GEMM}'"))


@pytest.mark.thorough
def test_a_stray_kernel_says_nothing_of_iterations(database: Database, tmp_path: Any) -> None:
    twice = databases.Kernel("twice", (256, 1, 1), (64, 1, 1), [100] * 6)
    once = databases.Kernel("once", (256, 1, 1), (64, 1, 1), [50] * 3)
    stray = databases.Kernel("stray", (256, 1, 1), (64, 1, 1), [30])
    database.ingest(databases.write_rocpd(tmp_path / "loop.db", [twice, once]), name="loop")
    database.ingest(databases.write_rocpd(tmp_path / "stray.db", [twice, once, stray]), name="stray")
    rows = database.compare(["loop", "stray"]).rows()
    sums = {(row["row_kind"], row["trace"]): (row["iterations"], row["iteration_ns"]) for row in rows}
    assert sums["matched", "loop"] == sums["matched", "stray"] == (3, 250)
    assert sums["iteration", "stray"] == (3, 260)


def test_there_is_no_ratio_to_nothing(database: Database, tmp_path: Any) -> None:
    for calls, name in enumerate(("one", "two"), start=1):
        kernel = databases.Kernel("k", (256, 1, 1), (64, 1, 1), [0] * calls)
        database.ingest(databases.write_rocpd(tmp_path / f"{name}.db", [kernel]), name=name)
    assert {row["ratio"] for row in database.compare(["one", "two"]).rows()} == {None}


def test_same_code_of_several_traces_say_which(database: Database, tmp_path: Any) -> None:
    call = ["--db", str(database.path), "analyze", "same-code", "{}", "--limit", "0"]
    (first,) = database.sql("SELECT signature_id FROM kernels WHERE name LIKE 'Cijk%' LIMIT 1").rows()
    call[4] = first["signature_id"]
    assert "trace" not in CliRunner().invoke(cli, call).stdout.splitlines()[0]
    database.ingest(databases.write_rocpd(tmp_path / "again.db", databases.TORCH[:2]), name="again")
    header, _, *rows = CliRunner().invoke(cli, call).stdout.splitlines()
    assert "trace" in header.split()
    assert sorted(row.split()[0] for row in rows) == ["again", "again", "torch", "torch", "torch"]
