"""What `diff` tells apart: a slower kernel, a shift of all, noise; and that its sums are those of the traces."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.cli.diff import summary
from kerneldb.errors import GateError, UsageError
from tests.warehouse.conftest import MIXED, Traces

CHANGED = ("slower", "faster")


def totals(database: Database) -> dict[str, int]:
    rows = database.sql("SELECT trace, sum(total_ns)::BIGINT AS ns FROM kernel_rollups GROUP BY trace")
    return {row["trace"]: row["ns"] for row in rows}


def test_a_change_is_of_counts_and_of_means(compared: Database) -> None:
    rows = compared.diff("base", "slower").table.to_pylist()
    for row in rows:
        assert row["count_delta_ns"] + row["mean_delta_ns"] == row["delta_ns"]
        assert row["count_delta_ns"] == 0 or row["n_before"] != row["n_after"]
    fewer = compared.sql(
        "WITH s AS (FROM all_launches WHERE trace = 'base' OR (trace = 'slower' AND launch_index % 2 = 0)) "
        "FROM diff('base', 'slower', 's') ORDER BY abs(delta_ns) DESC LIMIT 1"
    ).rows()
    assert fewer[0]["count_delta_ns"] < 0
    assert fewer[0]["count_delta_ns"] + fewer[0]["mean_delta_ns"] == fewer[0]["delta_ns"]


def test_a_trace_does_not_differ_from_itself(compared: Database) -> None:
    found = compared.diff("base", "base")
    assert set(found.by_verdict) == {"unchanged"}
    assert found.before_ns == found.after_ns == totals(compared)["base"]
    assert found.table["delta_ns"].to_pylist() == [0] * found.table.num_rows


def test_the_one_slower_kernel_is_found(compared: Database, slowed_name: str) -> None:
    found = compared.diff("base", "slower")
    rows = [row for row in found.table.to_pylist() if row["verdict"] in CHANGED]
    names = compared.sql(
        "SELECT DISTINCT name FROM kernels WHERE list_contains($ids, signature_id)",
        {"ids": [row["signature_after"] for row in rows]},
    )
    assert [row["name"] for row in names] == [slowed_name]
    assert {row["verdict"] for row in rows} == {"slower"}
    assert all(4 < row["own_delta_pct"] < 6 and row["effect"] > 0.5 for row in rows)
    assert found.common_shift_pct == pytest.approx(0, abs=1e-9)


def test_a_shift_of_all_is_told_once(compared: Database) -> None:
    found = compared.diff("base", "clocks")
    assert found.common_shift_pct == pytest.approx(4, abs=0.1)
    assert not set(found.by_verdict) & set(CHANGED)
    assert found.delta_pct == pytest.approx(4, abs=0.1)


def test_noise_is_called_noise(compared: Database) -> None:
    found = compared.diff("base", "noisy")
    assert not set(found.by_verdict) & set(CHANGED)
    assert found.by_verdict["unchanged"] > 10


@pytest.mark.parametrize(("after", "where"), [("slower", None), ("noisy", "category = 'GEMM'")])
def test_sums_are_those_of_the_traces(compared: Database, after: str, where: str | None) -> None:
    found = compared.diff("base", after, where=where)
    sql = "SELECT trace, sum(duration_ns)::BIGINT AS ns FROM selection GROUP BY trace"
    expected = {row["trace"]: row["ns"] for row in compared.sql(sql, where=where or "true")}
    assert (found.before_ns, found.after_ns) == (expected["base"], expected[after])
    assert sum(found.table["delta_ns"].to_pylist()) == expected[after] - expected["base"]


@pytest.mark.parametrize("where", [None, "category = 'GEMM'"])
def test_a_relation_of_launches_is_compared(compared: Database, where: str | None) -> None:
    """Called like a step inside of the macro, too."""
    asked = f"""
        WITH sides AS (FROM kernels WHERE {where or "true"})
        SELECT kernel, n_before, n_after, delta_ns, verdict FROM diff('base', 'slower', source := 'sides')
    """
    told = compared.diff("base", "slower", where=where).table.select(
        ["kernel", "n_before", "n_after", "delta_ns", "verdict"]
    )
    assert list(compared.sql(asked)) == told.to_pylist()
    if where is None:
        assert list(compared.sql(asked.replace("'sides'", "'kernels'"))) == told.to_pylist()


def test_p_values_agree_with_a_plain_computation(compared: Database) -> None:
    """Mann-Whitney with midranks and the correction for ties, by the definition, for one signature."""
    found = compared.diff("base", "slower", threshold=0.0001)
    row = max(found.table.to_pylist(), key=lambda one: one["n_before"] if one["p_value"] is not None else 0)
    sides = [
        [
            one["duration_ns"]
            for one in compared.sql(
                "SELECT duration_ns FROM kernels WHERE trace = $trace AND signature_id = $id",
                {"trace": trace, "id": row["signature_after"]},
            )
        ]
        for trace in ("base", "slower")
    ]
    u, z = mann_whitney(*sides)
    compared_rows = sum(1 for one in found.table.to_pylist() if one["mean_delta_pct"] is not None)
    assert row["effect"] == pytest.approx(u / (len(sides[0]) * len(sides[1])), rel=1e-9)
    single = math.erfc(z / math.sqrt(2))
    assert single <= row["p_value"] <= single * compared_rows * 1.001


def mann_whitney(before: list[int], after: list[int]) -> tuple[float, float]:
    u = sum((b > a) + 0.5 * (b == a) for a in before for b in after)
    n, m = len(before), len(after)
    pooled = before + after
    ties = sum(pooled.count(value) ** 3 - pooled.count(value) for value in set(pooled))
    sigma = math.sqrt(n * m / 12 * ((n + m + 1) - ties / ((n + m) * (n + m - 1))))
    return u, abs(u - n * m / 2) / sigma


@pytest.mark.again
def test_the_gate(compared: Database) -> None:
    compared.diff("base", "noisy").check(3)
    with pytest.raises(GateError, match=r"over the limit of 3 %.*a launch"):
        compared.diff("base", "slower").check(3)
    with pytest.raises(GateError, match=r"GPU time: \+4\.0 %"):
        compared.diff("base", "clocks").check(3)
    compared.diff("base", "clocks").check(5)
    nothing = dataclasses.replace(compared.diff("base", "base"), after_ns=0)
    with pytest.raises(UsageError, match="--fail-on has nothing to check"):
        nothing.check(3)


def test_the_command(compared: Database) -> None:
    run = CliRunner().invoke(cli, ["--db", str(compared.path), "diff", "base", "slower", "--fail-on", "3%", "--csv"])
    assert run.exit_code == 5
    assert run.stdout.splitlines()[0].startswith("kernel,category,op,matched_by,n_before")
    assert "base -> slower: GPU time" in run.stderr
    assert "Error: over the limit of 3 %" in run.stderr


def test_a_side_without_a_timeline_is_named(compared: Database) -> None:
    found = compared.diff("base", "slower")
    one = summary("base", "counters", dataclasses.replace(found, after_ns=0))
    assert one.endswith("no launches of a timeline in counters: --metrics compares counters")
    none = summary("a", "b", dataclasses.replace(found, before_ns=0, after_ns=0))
    assert none == "a -> b: no launches of a timeline in a and b: --metrics compares counters"


def test_unknown_traces_are_named(compared: Database) -> None:
    with pytest.raises(UsageError, match="no trace 'bas'; near: base"):
        compared.diff("bas", "base")


@pytest.mark.thorough
def test_each_side_counts_by_itself(tmp_path: Path) -> None:
    """Of a run whose work counts once, each trace that a side names is summed as it is where it is named alone."""
    import kerneldb
    from kerneldb.warehouse import Warehouse

    warehouse, make_trace = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path / "spools")
    facts: dict[str, Any] = {"stated_run": "job", "source": "nsys", "base_ns": 1000}
    report = {"origin": "report", "signature_id": "s:gemm:1:", "timing": "timeline", "n": 3, "total_ns": 300}
    phases = report | {"origin": "report_phase", "phase": "decode"}
    warehouse.commit(make_trace("whole", **facts))
    warehouse.commit(make_trace("again", MIXED[1:], **facts))
    warehouse.commit(make_trace("sums", (), kind="summary", reports=(report, phases), **facts))
    database = kerneldb.open(warehouse.path)
    for where, names in ((None, ("whole", "again", "sums")), ("true", ("whole", "again"))):
        found = {name: database.top("kind", where=where, traces=[name]) for name in names}
        alone = {name: sum(row["total_ns"] for row in rows) for name, rows in found.items()}
        assert all(alone.values())
        for before, after in zip(names, (*names[1:], names[0]), strict=True):
            compared = database.diff(before, after, where=where)
            assert (compared.before_ns, compared.after_ns) == (alone[before], alone[after])
        assert database.diff("job", "job", where=where).before_ns == alone["whole"]


@pytest.mark.thorough
def test_vendors_meet_by_operator(shared_data: Path, tmp_path: Path) -> None:
    import kerneldb

    database = kerneldb.open(tmp_path / "k.duckdb")
    for vendor in ("h100", "mi300"):
        database.ingest(shared_data / "pytorch" / f"tracelens-{vendor}-qwen1.5-0.5b.json.gz", name=vendor)
    found = database.diff("h100", "mi300")
    matched = {row["matched_by"] for row in found.table.to_pylist()}
    assert {"name", "op", "only before", "only after"} <= matched
    assert (found.before_ns, found.after_ns) == (totals(database)["h100"], totals(database)["mi300"])


@pytest.mark.again
def test_reports_that_hold_sums_only_compare_too(shared_data: Path, tmp_path: Path) -> None:
    """nsys printed totals and deviations per name: Welch's test takes the place of the one over launches."""
    import kerneldb

    database = kerneldb.open(tmp_path / "k.duckdb")
    names = [f"dsocr_{stage}_cuda_gpu_kern_sum" for stage in ("all-stage", "decode")]
    database.ingest([shared_data / "nsys" / f"{name}.csv" for name in names])
    found = database.diff(*names)
    rows = found.table.to_pylist()
    assert (found.before_ns, found.after_ns) == tuple(totals(database)[name] for name in names)
    assert {row["test"] for row in rows if row["p_value"] is not None} == {"Welch"}
    assert sum(row["matched_by"] == "signature" for row in rows) > 10
