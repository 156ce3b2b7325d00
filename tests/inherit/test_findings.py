"""What a replay learned comes back: tries, found calls, labels, and sums apart from recorded ones."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import queries
from kerneldb.api.planning import Request
from kerneldb.replay.infer.search import attempt_of
from kerneldb.replay.measure.loops import spread
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.journal import Writer
from kerneldb.replay.wire.plan import Item, Plan
from kerneldb.replay.wire.results import OK, Activity, AttemptResult, CallResult, KernelResult, RunFacts

STRIPPED = "decoder-stripped"


def ran(item: Item, *, found: bool = False) -> CallResult:
    """The result of an item of which all kernels came out the same, in twice the time."""
    kernels = tuple(
        KernelResult(
            one.ordinal, one.signature_id, one.name, "L0", share=1 / len(item.kernels),
            replayed=Activity(one.kind, one.name, 0.0), time=spread([2.0 * (one.median_ns or 1)] * 6),
        )
        for one in item.kernels
    )  # fmt: skip
    result = CallResult(item.id, item.route, "mixed", OK, "L0", kernels=kernels)
    if not found:
        return result
    first = item.candidates[0]
    tries = (
        AttemptResult(
            first.spec.call, "a first guess", "L2", 0, "aten::mm", same_name=False, time_ns=5.0, reason="other kernel"
        ),
        AttemptResult(
            first.spec.call, "refined", "L0", None, "aten::mm", same_name=True, same_grid=True, accepted=True
        ),
    )
    return dataclasses.replace(result, trail=tries, found=dataclasses.replace(first, score=0.9))


def replayed(
    database: kerneldb.Database, planned: Plan, results: Iterable[CallResult], folder: Path, run_id: str = "run-f"
) -> str:
    plan.write(planned, folder / "f.plan")
    with Writer(folder / "f.journal") as writer:
        writer.run(RunFacts(run_id, "2026-11-21T12:00:00", "mixed", "cuda:0", gpu="NVIDIA H200"))
        for result in results:
            writer.call(result)
        writer.end(finished=True, remaining=0, wall_s=1.0)
    return database.read_journal(folder / "f.plan", folder / "f.journal")


def rows(database: kerneldb.Database, sql: str) -> list[dict[str, Any]]:
    return [dict(row) for row in database.sql(sql).rows()]


def test_the_journal_keeps_trail_and_found(gemms: Plan, tmp_path: Path) -> None:
    result = ran(gemms.items[0], found=True)
    with Writer(tmp_path / "j") as writer:
        writer.run(RunFacts("r", "2026-11-21T12:00:00", "mixed", "cpu"))
        writer.call(result)
    (read,) = journal.read(tmp_path / "j").calls
    assert read.trail == result.trail
    assert read.found == result.found


def test_inferred_calls_reach_their_launches(lonely: kerneldb.Database, gemms: Plan, tmp_path: Path) -> None:
    inferred = [item for item in gemms.items if item.route == "inferred"]
    run_id = replayed(lonely, gemms, (ran(item, found=True) for item in inferred), tmp_path)
    launches = sum(kernel.launches for item in inferred for kernel in item.kernels)
    (found,) = rows(
        lonely,
        """
        SELECT count(*) AS n, min(confidence) AS c, count(DISTINCT item_id) AS items
        FROM inferred_calls WHERE run_id = 'run-f'
        """,
    )
    assert found == {"n": launches, "c": 0.9, "items": len(inferred)}
    (shown,) = rows(
        lonely,
        """
        SELECT count(*) AS n, count(op) AS ops, count(replay_ns) AS replayed
        FROM kernels WHERE inferred_by = 'inferred' AND category = 'GEMM'
        """,
    )
    assert shown["n"] == shown["ops"] == shown["replayed"] > 0
    sizes = rows(lonely, "SELECT count(*) AS n FROM kernels WHERE dims_source = 'inferred' AND gemm_m IS NOT NULL")
    assert sizes[0]["n"] > 0
    tries = rows(
        lonely,
        "SELECT attempt_index, candidate, accepted, reason FROM replay_attempts "
        "ORDER BY item_id, attempt_index LIMIT 2",
    )
    assert tries == [
        {"attempt_index": 0, "candidate": 0, "accepted": False, "reason": "other kernel"},
        {"attempt_index": 1, "candidate": None, "accepted": True, "reason": None},
    ]
    totals = {row["category"]: row for row in lonely.replay_results(run_id).rows()}
    assert totals["TOTAL"]["predicted_ns"] is None
    assert totals["TOTAL"]["l0_time_pct"] == 0
    assert totals["TOTAL inferred"]["error_pct"] == pytest.approx(100, abs=15)
    assert totals["TOTAL inferred"]["l0_launches_pct"] == 100


def test_inherited_results_have_a_total_of_their_own(fresh: kerneldb.Database, tmp_path: Path) -> None:
    planned = fresh.plan_replay(Request(where="category = 'GEMM'"))
    fresh.keep_found(planned)
    run_id = replayed(fresh, planned.plan, map(ran, planned.plan.items), tmp_path)
    totals = {row["category"]: row for row in fresh.replay_results(run_id).rows()}
    assert totals["TOTAL"]["predicted_ns"] == pytest.approx(totals["TOTAL inherited"]["predicted_ns"], rel=0.05)
    assert totals["TOTAL"]["l0_time_pct"] == pytest.approx(50, abs=3)
    assert totals["TOTAL inherited"]["l0_time_pct"] == pytest.approx(100)
    labels = rows(
        fresh, "SELECT dims_source, count(*) AS n, count(inferred_id) AS found FROM replays GROUP BY 1 ORDER BY 1"
    )
    assert [row["dims_source"] for row in labels] == ["inherited", "op"]
    assert [row["found"] for row in labels] == [labels[0]["n"], 0]
    (stored,) = rows(
        fresh, "SELECT count(*) AS n, count(confidence) AS c FROM replay_calls WHERE dims_source = 'inherited'"
    )
    assert stored["n"] == stored["c"] > 0


@pytest.fixture(scope="module")
def doubled(both: Path, tmp_path_factory: pytest.TempPathFactory) -> kerneldb.Database:
    """The copy inherited its calls, and every one of them came out in twice its time."""
    folder = tmp_path_factory.mktemp("doubled")
    database = kerneldb.open(shutil.copy(both, folder / "k.duckdb"))
    planned = database.plan_replay(Request(traces=(STRIPPED,)))
    database.keep_found(planned)
    replayed(database, planned.plan, map(ran, planned.plan.items), folder)
    return database


@pytest.mark.thorough
def test_replays_of_several_calls_of_one_launch_are_told_apart(doubled: kerneldb.Database) -> None:
    """A launch signature that several calls share shows for each launch the replay of its own call."""
    (mixed,) = rows(
        doubled,
        f"""
        SELECT count(*) AS n FROM (
            SELECT signature_id FROM kernels WHERE trace = '{STRIPPED}' AND kind = 'kernel'
            GROUP BY signature_id HAVING count(DISTINCT inferred_id) > 1 AND count(DISTINCT replay_ns) > 1
        )
        """,
    )
    assert mixed["n"] > 0


@pytest.mark.thorough
def test_an_operator_told_by_a_name_is_no_call_to_try(lonely: kerneldb.Database) -> None:
    before = lonely.plan_replay(Request()).plan.items
    lonely.inherit()
    told = rows(lonely, "SELECT count(*) AS n FROM inferred_calls WHERE method = 'operator by grammar'")
    assert told[0]["n"] > 0
    after = lonely.plan_replay(Request()).plan.items
    assert {one.id: one.candidates for one in after} == {one.id: one.candidates for one in before}


def test_inherit_keeps_the_calls_that_a_replay_found(lonely: kerneldb.Database, tmp_path: Path) -> None:
    lonely.inherit()
    planned = lonely.plan_replay(Request(where="inferred_by = 'inferred'")).plan
    inferred = [item for item in planned.items if item.route == "inferred"]
    launches = {index for item in inferred for index in next(iter((item.kernels[-1].places or {}).values()))}
    replayed(lonely, planned, (ran(item, found=True) for item in inferred), tmp_path)
    count = "SELECT launch_index FROM inferred_calls WHERE run_id = 'run-f' AND call_kernels IS NOT NULL"
    assert {row["launch_index"] for row in rows(lonely, count)} >= launches > set()
    lonely.inherit()
    assert {row["launch_index"] for row in rows(lonely, count)} >= launches
    repeated = "SELECT launch_index FROM inferred_calls GROUP BY trace_id, launch_index HAVING count(*) > 1"
    assert rows(lonely, repeated) == []


@pytest.mark.thorough
def test_a_later_plan_tries_first_what_was_found_in_the_way_in_which_it_ran(
    lonely: kerneldb.Database, gemms: Plan, tmp_path: Path
) -> None:
    item = next(one for one in gemms.items if one.route == "inferred" and len(one.candidates) > 1)
    varied = dataclasses.replace(item.candidates[1], why="up: 1×2×3; cache:cold", score=0.8)
    replayed(lonely, gemms, [dataclasses.replace(ran(item, found=True), found=varied)], tmp_path)
    for run in ("run-f", "run-g"):
        planned = lonely.plan_replay(Request(where="category = 'GEMM'")).plan
        again = {one.id: one for one in planned.items}[item.id].candidates[0]
        assert again.spec.call == item.candidates[1].spec.call
        assert again.why == f"found by the replay {run}: up: 1×2×3; cache:cold"
        assert attempt_of(again, 0).cache == "cold"
        (tmp_path / "f.journal").unlink()
        result = dataclasses.replace(ran(item, found=True), found=again)
        replayed(lonely, gemms, [result], tmp_path, run_id="run-g")


@pytest.mark.thorough
def test_the_donor_of_a_call_that_a_replay_confirmed_is_kept(fresh: kerneldb.Database, tmp_path: Path) -> None:
    planned = fresh.plan_replay(Request(where="category = 'GEMM'")).plan
    item = next(one for one in planned.items if one.route == "inherited")
    unsure = dataclasses.replace(item, route="inferred", spec=None)
    with_unsure = dataclasses.replace(planned, items=(unsure,))
    replayed(fresh, with_unsure, [ran(unsure, found=True)], tmp_path)
    stored = rows(fresh, "SELECT DISTINCT inferred_by, donor_trace_id, donor_launch_index FROM inferred_calls")
    donor = item.candidates[0].donor
    assert donor is not None
    assert stored == [
        {"inferred_by": "inherited", "donor_trace_id": donor.trace_id, "donor_launch_index": donor.launch_index}
    ]


def test_the_report_compares_each_call_with_its_own_launches(doubled: kerneldb.Database) -> None:
    """Every call came out in twice its time, so that each difference is about 100 %."""
    with doubled.warehouse.connection() as con:
        found = queries.rows(con, "report_replayed_kernels", {"trace": STRIPPED})
    assert len(found) == 20
    assert max(abs(row["delta_pct"] - 100) for row in found) < 25
