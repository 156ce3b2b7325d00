"""What a replay learned comes back: tries, found calls, labels, and sums apart from recorded ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api.planning import Request
from kerneldb.replay import journal, plan
from kerneldb.replay.activity import Activity
from kerneldb.replay.journal import CallResult, KernelResult, RunFacts, Try, Writer
from kerneldb.replay.plan import Item, Plan
from kerneldb.replay.timing.spread import spread

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
    result = CallResult(item.id, item.route, "mixed", journal.OK, "L0", kernels=kernels)
    if not found:
        return result
    first = item.candidates[0]
    tries = (
        Try(first.spec.call, "a first guess", "L2", 0, "aten::mm", same_name=False, time_ns=5.0, reason="other kernel"),
        Try(first.spec.call, "refined", "L0", None, "aten::mm", same_name=True, same_grid=True, accepted=True),
    )
    return dataclasses.replace(result, trail=tries, found=dataclasses.replace(first, score=0.9))


def replayed(database: kerneldb.Database, planned: Plan, results: Iterable[CallResult], folder: Path) -> str:
    plan.write(planned, folder / "f.plan")
    with Writer(folder / "f.journal") as writer:
        writer.run(RunFacts("run-f", "2026-11-21T12:00:00", "mixed", "cuda:0", gpu="NVIDIA H200"))
        for result in results:
            writer.call(result)
        writer.end(finished=True, remaining=0, wall_s=1.0)
    return database.read_journal(folder / "f.plan", folder / "f.journal")


def rows(database: kerneldb.Database, sql: str) -> list[dict[str, Any]]:
    return [dict(row) for row in database.sql(sql).rows()]


def test_the_journal_keeps_trail_and_found(lonely: kerneldb.Database, tmp_path: Path) -> None:
    planned = lonely.plan_replay(Request(where="category = 'GEMM'")).plan
    result = ran(planned.items[0], found=True)
    with Writer(tmp_path / "j") as writer:
        writer.run(RunFacts("r", "2026-11-21T12:00:00", "mixed", "cpu"))
        writer.call(result)
    (read,) = journal.read(tmp_path / "j").calls
    assert read.trail == result.trail
    assert read.found == result.found


def test_found_calls_reach_their_launches(lonely: kerneldb.Database, tmp_path: Path) -> None:
    planned = lonely.plan_replay(Request(where="category = 'GEMM'")).plan
    inferred = [item for item in planned.items if item.route == "inferred"]
    run_id = replayed(lonely, planned, (ran(item, found=True) for item in inferred), tmp_path)
    launches = sum(kernel.launches for item in inferred for kernel in item.kernels)
    (found,) = rows(
        lonely,
        """
        SELECT count(*) AS n, min(confidence) AS c, count(DISTINCT item_id) AS items
        FROM found_calls WHERE run_id = 'run-f'
        """,
    )
    assert found == {"n": launches, "c": 0.9, "items": len(inferred)}
    (shown,) = rows(
        lonely,
        """
        SELECT count(*) AS n, count(op) AS ops, count(replay_ns) AS replayed
        FROM kernels WHERE found_by = 'inferred' AND category = 'GEMM'
        """,
    )
    assert shown["n"] == shown["ops"] == shown["replayed"] > 0
    sizes = rows(lonely, "SELECT count(*) AS n FROM kernels WHERE dims_source = 'inferred' AND gemm_m IS NOT NULL")
    assert sizes[0]["n"] > 0
    tries = rows(
        lonely, "SELECT try_index, candidate, accepted, reason FROM replay_tries ORDER BY item_id, try_index LIMIT 2"
    )
    assert tries == [
        {"try_index": 0, "candidate": 0, "accepted": False, "reason": "other kernel"},
        {"try_index": 1, "candidate": None, "accepted": True, "reason": None},
    ]
    totals = {row["category"]: row for row in lonely.replay_results(run_id).rows()}
    assert totals["TOTAL"]["predicted_ns"] is None
    assert totals["TOTAL"]["l0_time_pct"] == 0
    assert totals["TOTAL inferred"]["error_pct"] == pytest.approx(100, abs=15)
    assert totals["TOTAL inferred"]["l0_launches_pct"] == 100


def test_a_later_plan_tries_first_what_was_found(lonely: kerneldb.Database, tmp_path: Path) -> None:
    planned = lonely.plan_replay(Request(where="category = 'GEMM'")).plan
    item = next(one for one in planned.items if one.route == "inferred" and len(one.candidates) > 1)
    second = dataclasses.replace(ran(item, found=True), found=item.candidates[1])
    replayed(lonely, planned, [second], tmp_path)
    again = {one.id: one for one in lonely.plan_replay(Request(where="category = 'GEMM'")).plan.items}[item.id]
    assert again.candidates[0].spec.call == item.candidates[1].spec.call
    assert "run-f" in again.candidates[0].why


def test_inherited_results_have_a_total_of_their_own(fresh: kerneldb.Database, tmp_path: Path) -> None:
    planned = fresh.plan_replay(Request(where="category = 'GEMM'"))
    fresh.keep_found(planned)
    run_id = replayed(fresh, planned.plan, map(ran, planned.plan.items), tmp_path)
    totals = {row["category"]: row for row in fresh.replay_results(run_id).rows()}
    assert totals["TOTAL"]["predicted_ns"] == pytest.approx(totals["TOTAL inherited"]["predicted_ns"], rel=0.05)
    assert totals["TOTAL"]["l0_time_pct"] == pytest.approx(50, abs=3)
    assert totals["TOTAL inherited"]["l0_time_pct"] == pytest.approx(100)
    labels = rows(
        fresh, "SELECT dims_source, count(*) AS n, count(found_id) AS found FROM replays GROUP BY 1 ORDER BY 1"
    )
    assert [row["dims_source"] for row in labels] == ["inherited", "op"]
    assert [row["found"] for row in labels] == [labels[0]["n"], 0]
    (stored,) = rows(
        fresh, "SELECT count(*) AS n, count(confidence) AS c FROM replay_calls WHERE dims_source = 'inherited'"
    )
    assert stored["n"] == stored["c"] > 0


def test_replays_of_several_calls_of_one_launch_are_told_apart(fresh: kerneldb.Database, tmp_path: Path) -> None:
    """A launch signature that several calls share shows for each launch the replay of its own call."""
    planned = fresh.plan_replay(Request(traces=(STRIPPED,)))
    fresh.keep_found(planned)
    replayed(fresh, planned.plan, map(ran, planned.plan.items), tmp_path)
    (mixed,) = rows(
        fresh,
        f"""
        SELECT count(*) AS n FROM (
            SELECT signature_id FROM kernels WHERE trace = '{STRIPPED}' AND kind = 'kernel'
            GROUP BY signature_id HAVING count(DISTINCT found_id) > 1 AND count(DISTINCT replay_ns) > 1
        )
        """,
    )
    assert mixed["n"] > 0
