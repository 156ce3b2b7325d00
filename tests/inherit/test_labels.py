"""Results of calls that were not recorded belong to the launches they were found for, and are called what they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import kerneldb
from kerneldb.replay.wire.plan import Plan
from tests.inherit.test_findings import ran, replayed, rows


@pytest.fixture(scope="module")
def half_accepted(
    alone: Path, gemms: Plan, tmp_path_factory: pytest.TempPathFactory
) -> tuple[kerneldb.Database, str, int, float]:
    """All inferred items came out as the same kernels, every other one is accepted: launches and time of these."""
    folder = tmp_path_factory.mktemp("accepted")
    database = kerneldb.open(shutil.copy(alone, folder / "k.duckdb"))
    items = [item for item in gemms.items if item.route == "inferred"]
    accepted = {item.id for item in items[::2]}
    assert 0 < len(accepted) < len(items)
    run_id = replayed(database, gemms, (ran(item, found=item.id in accepted) for item in items), folder)
    kernels = [kernel for item in items if item.id in accepted for kernel in item.kernels]
    predicted = sum(2.0 * (kernel.median_ns or 1) * kernel.launches for kernel in kernels)
    return database, run_id, sum(kernel.launches for kernel in kernels), predicted


def test_launches_outside_the_accepted_items_have_no_replay(
    half_accepted: tuple[kerneldb.Database, str, int, float],
) -> None:
    database, _, launches, _ = half_accepted
    sql = "SELECT replay_grade, inferred_by, count(*) AS n FROM kernels WHERE category = 'GEMM' GROUP BY ALL ORDER BY 1"
    assert rows(database, sql) == [
        {"replay_grade": "L0", "inferred_by": "inferred", "n": launches},
        {"replay_grade": None, "inferred_by": None, "n": 462 - launches},
    ]
    stats = "SELECT count(replay_ns) AS n FROM signature_stats() WHERE category = 'GEMM'"
    assert rows(database, stats) == [{"n": 0}]


def test_calls_that_are_not_accepted_predict_nothing(
    half_accepted: tuple[kerneldb.Database, str, int, float],
) -> None:
    database, run_id, _, predicted = half_accepted
    totals = {row["category"]: row for row in database.replay_results(run_id).rows()}
    assert totals["TOTAL inferred"]["predicted_ns"] == pytest.approx(predicted, rel=1e-6)
    assert totals["TOTAL inferred"]["l0_l1_time_pct"] < 100
    assert "L0: no call was found that fits" in totals["TOTAL inferred"]["reasons"]


def test_operators_that_were_found_are_labelled_in_exports_and_comparisons(
    inherited: kerneldb.Database, tmp_path: Path
) -> None:
    target = tmp_path / "t.json"
    inherited.export_timeline(target, traces=("decoder-stripped",))
    events = json.loads(target.read_text())["traceEvents"]
    found = [event["args"] for event in events if event.get("args", {}).get("op")]
    assert found
    assert {one["inferred_by"] for one in found} == {"inherited"}
    sides = inherited.diff("decoder-stripped", "decoder-stripped").table.to_pylist()
    operators = {row["op"] for row in sides if row["op"]}
    assert operators
    assert all(op.endswith(" (inherited)") for op in operators)
