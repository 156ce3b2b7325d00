"""What changed by operator, cause and other keys: rows that add up, and words that fit the sign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from tests.answers.plain_traces import Recording

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.api import Database


def recorded(folder: Path, name: str, kernels: dict[str, tuple[int, int]]) -> None:
    """A recording of kernels, name → (how many, duration in ns), each 10 µs after the end of the one before."""
    recording, at = Recording(), 0
    for kernel, (count, duration) in kernels.items():
        for _ in range(count):
            recording.kernel(kernel, at, duration, call=at - 5_000)
            at += duration + 10_000
    recording.write(folder / f"{name}.json")


def made(folder: Path) -> Database:
    recorded(
        folder,
        "old",
        {"more": (10, 1_000), "fewer": (9, 4_000), "slow": (5, 2_000), "same": (4, 7_000), "gone": (1, 500)},
    )
    recorded(
        folder,
        "new",
        {"more": (30, 1_000), "fewer": (3, 4_000), "slow": (5, 6_000), "same": (4, 7_010), "come": (2, 700)},
    )
    database = kerneldb.open(folder / "k.duckdb")
    database.ingest(folder)
    return database


def test_a_change_is_other_numbers_and_other_means(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in made(tmp_path).diff_by("old", "new", "kernel")}
    words = {
        "more": "more of them",
        "fewer": "fewer of them",
        "slow": "longer",
        "same": "unchanged",
        "gone": "only before",
    }
    assert {name: row["change"] for name, row in rows.items()} == words | {"come": "only after"}
    assert rows["more"]["count_delta_ns"] == rows["more"]["delta_ns"] == 20_000
    assert rows["slow"]["mean_delta_ns"] == rows["slow"]["delta_ns"] == 20_000
    assert rows["fewer"]["delta_ns"] == -24_000
    sizes = [abs(row["delta_ns"]) for row in rows.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert all(row["count_delta_ns"] + row["mean_delta_ns"] == row["delta_ns"] for row in rows.values())


def test_causes_add_up_to_the_change_of_the_wall_time(tmp_path: Path) -> None:
    database = made(tmp_path)
    spans = {row["trace"]: row["span_ns"] for row in database.sql("SELECT trace, span_ns FROM gpu_time()").rows()}
    rows = database.diff_by("old", "new", "cause").rows()
    assert sum(row["delta_ns"] for row in rows) == spans["new"] - spans["old"]


@pytest.mark.thorough
def test_waiting_for_other_ranks_is_a_row_of_its_own(root: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(root / "tests/fixtures/exchanges-tp2-h200")
    (waits,) = (
        row
        for row in database.diff_by("exchanges-script-rank0", "exchanges-script-rank1", "category")
        if "waiting" in row["name"]
    )
    known = database.sql(
        "SELECT rank, sum(wait_ns)::BIGINT AS ns FROM collective_instances() GROUP BY rank ORDER BY rank"
    ).rows()
    assert [waits["total_before_ns"], waits["total_after_ns"]] == [row["ns"] for row in known]


def filled(folder: Path, name: str, fills: int, duration: int) -> None:
    """Four products of an operator, of which each may first fill memory in 1 µs, as those that split their sums do."""
    recording = Recording()
    for number in range(4):
        at = 100_000 * number
        recording.kernel("gemm", at + 10_000, duration, at - 5_000, op=("aten::mm", [[64, 64], [64, 64]]))
        if number < fills:
            recording.correlation += 1
            linked = {"correlation": recording.correlation, "External id": recording.correlation - 1}
            recording.add("cuda_runtime", "cudaMemsetAsync", (100, 100), (at - 5_400, 300), **linked)
            placed = {"device": 0, "context": 1, "stream": 7, "bytes": 64, **linked}
            recording.add("gpu_memset", "Memset (Device)", (0, 7), (at, 1_000), **placed)
    recording.write(folder / f"{name}.json")


def test_fills_of_an_operator_are_launches_and_no_slower_kernels(tmp_path: Path) -> None:
    """Kernels took 4 × 20 µs and then 4 × 30 µs; four fills of 1 µs are gone."""
    filled(tmp_path, "with", 4, 20_000)
    filled(tmp_path, "without", 0, 30_000)
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path)
    (row,) = database.diff_by("with", "without", "op").rows()
    counted = [database.top("op", traces=[name]).rows()[0]["n"] for name in ("with", "without")]
    assert [row["n_before"], row["n_after"]] == counted == [8, 4]
    assert (row["name"], row["change"]) == ("aten::mm", "longer")
    assert (row["count_delta_ns"], row["mean_delta_ns"], row["delta_ns"]) == (-4_000, 40_000, 36_000)
