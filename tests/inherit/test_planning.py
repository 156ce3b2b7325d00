"""Plans for launches without a recorded call: routes, candidates, the plan file, the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.api import planning, unrecorded
from kerneldb.api.planning import Request
from kerneldb.cli import cli
from kerneldb.replay import routes
from kerneldb.replay.plan.work import Work
from kerneldb.replay.routes.base import Route
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.plan import Plan

STRIPPED = "decoder-stripped"
LAUNCHES = 2458
GEMMS = ("--where", "category = 'GEMM'")


class Idle(Route):
    name = "idle"


class Cats(Route):
    name = "cats"

    def claims(self, work: Work) -> bool:
        return all("CatArray" in kernel.name for kernel in work.kernels)


def run(database: kerneldb.Database, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(database.path), "replay", *arguments])


@pytest.fixture(scope="module")
def planned(inherited: kerneldb.Database) -> planning.Planned:
    return inherited.plan_replay(Request(traces=(STRIPPED,)))


def test_every_launch_is_planned_once(planned: planning.Planned) -> None:
    assert sum(kernel.launches for item in planned.plan.items for kernel in item.kernels) == LAUNCHES
    assert len({item.id for item in planned.plan.items}) == len(planned.plan.items)
    places = [
        (trace_id, index)
        for item in planned.plan.items
        for kernel in item.kernels
        for trace_id, indices in (kernel.places or {}).items()
        for index in indices
    ]
    assert len(places) == len(set(places))


def test_inherited_items_are_those_of_the_donor(inherited: kerneldb.Database, planned: planning.Planned) -> None:
    recorded = inherited.plan_replay(Request(traces=("decoder-h200",))).plan.items
    calls = {(item.spec.call, len(item.kernels)) for item in recorded if item.spec is not None}
    mine = [item for item in planned.plan.items if item.route == "inherited"]
    assert {(item.spec.call, len(item.kernels)) for item in mine if item.spec is not None} == calls
    by_call = {item.spec.call: item.spec for item in recorded if item.spec is not None}
    assert all(item.spec is not None and item.spec.call in by_call for item in mine)
    assert all(item.candidates[0].donor is not None and item.candidates[0].score is not None for item in mine)


def test_feasibility_sums_inherited_calls_apart(planned: planning.Planned) -> None:
    lines = {line["category"]: line for line in planning.feasibility(planned.routes)}
    assert lines["TOTAL"]["launches"] == LAUNCHES
    assert lines["TOTAL"]["replayable_pct"] == lines["TOTAL inherited"]["replayable_pct"] > 99
    assert list(lines)[-2:] == ["TOTAL inherited", "TOTAL"]
    assert "TOTAL inferred" not in lines


def test_feasibility_says_how_much_has_which_call() -> None:
    rows = [("aten", None, 50), ("inherited", None, 20), ("inferred", None, 10), ("none", "why not", 20)]
    table = pa.Table.from_pylist(
        [
            {"category": "GEMM", "route": route, "reason": reason, "signature_id": route, "n": 2, "total_ns": ns}
            for route, reason, ns in rows
        ]
    )
    totals = [line for line in planning.feasibility(table) if line["category"].startswith("TOTAL")]
    assert [(line["category"], line["launches"], line["share_pct"], line["replayable_pct"]) for line in totals] == [
        ("TOTAL recorded", 2, 50, 50),
        ("TOTAL inherited", 2, 20, 20),
        ("TOTAL inferred", 2, 10, 10),
        ("TOTAL not replayable", 2, 20, 0),
        ("TOTAL", 8, 100, 80),
    ]


def test_what_lacks_its_source_is_in_the_sums_that_add_up() -> None:
    rows = [("aten", None, 90), ("triton", "no source of it", 10)]
    table = pa.Table.from_pylist(
        [
            {"category": "FUSED", "route": route, "reason": reason, "signature_id": route, "n": 1, "total_ns": ns}
            for route, reason, ns in rows
        ]
    )
    totals = [line for line in planning.feasibility(table) if line["category"].startswith("TOTAL")]
    assert [(line["category"], line["route"], line["share_pct"], line["replayable_pct"]) for line in totals] == [
        ("TOTAL recorded", "recorded", 90, 90),
        ("TOTAL not replayable", "", 10, 0),
        ("TOTAL", "", 100, 90),
    ]
    rows_only = planning.feasibility(table, totals=False)
    assert sum(line["launches"] for line in rows_only) == len(rows), "a program sums each launch once"


def test_calls_count_each_launch_once(lonely: kerneldb.Database) -> None:
    found = lonely.plan_replay(Request())
    rows = list(planning.calls(found.plan))
    alternatives = [row for row in rows if row["rank"] > 1]
    assert alternatives
    assert {(row["launches"], row["total_ns"]) for row in alternatives} == {(None, None)}
    sums = {line["category"]: line for line in planning.feasibility(found.routes)}
    able = ("launches", "total_ns")
    expected = [sums["TOTAL"][name] - sums["TOTAL not replayable"][name] for name in able]
    assert [sum(row[name] or 0 for row in rows) for name in able] == expected


def test_a_route_of_a_user_that_claims_nothing_changes_nothing(
    inherited: kerneldb.Database, planned: planning.Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_ROUTES", {**{one.name: one for one in reversed(routes.known())}, "idle": Idle()})
    again = inherited.plan_replay(Request(traces=(STRIPPED,)))
    assert again.plan == planned.plan
    assert again.routes.sort_by("signature_id") == planned.routes.sort_by("signature_id")


def test_a_route_of_a_user_is_asked_before_others_inherit(
    inherited: kerneldb.Database, planned: planning.Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_ROUTES", {**{one.name: one for one in reversed(routes.known())}, "cats": Cats()})
    again = inherited.plan_replay(Request(traces=(STRIPPED,)))
    mine = [item for item in again.plan.items if item.route == "cats"]
    cats = [one for item in planned.plan.items for one in item.kernels if "CatArray" in one.name]
    assert sum(kernel.launches for item in mine for kernel in item.kernels) == sum(one.launches for one in cats) > 0
    assert sum(kernel.launches for item in again.plan.items for kernel in item.kernels) == LAUNCHES


def test_the_plan_file_keeps_candidates_and_places(planned: planning.Planned, tmp_path: Path) -> None:
    path = tmp_path / "p.plan"
    plan.write(planned.plan, path)
    read = plan.read(path)
    assert read.items == planned.plan.items
    assert any(item.candidates for item in read.items)


def test_sources_stand_in_lines_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "p.plan"
    made = plan.Plan((plan.Item("i", "memory"),), {"a": 1}, {"c123": {"text": "@triton.jit"}})
    plan.write(made, path)
    assert plan.read(path) == made
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[1]) == {
        "source": "c123",
        "value": {"text": "@triton.jit"},
    }


def test_without_donors_calls_are_proposed(lonely: kerneldb.Database) -> None:
    found = lonely.plan_replay(Request(where="category = 'GEMM'"))
    lines = {line["category"]: line for line in planning.feasibility(found.routes)}
    assert lines["TOTAL"]["launches"] > 0
    assert "TOTAL recorded" not in lines
    assert lines["TOTAL"]["replayable_pct"] == lines["TOTAL inferred"]["replayable_pct"] > 50
    inferred = [item for item in found.plan.items if item.route == "inferred"]
    assert all(item.spec is None and item.candidates for item in inferred)
    assert all(one.source == "inferred" and one.why for item in inferred for one in item.candidates)


def test_launches_that_no_proposal_reaches_say_so(lonely: kerneldb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = 300
    monkeypatch.setattr(unrecorded, "MOST", reached)
    lines = planning.feasibility(lonely.plan_replay(Request()).routes)
    left = [line for line in lines if "not among the 300 launches" in (line["reason"] or "")]
    (kernels,) = lonely.sql("SELECT count(*) AS n FROM kernels WHERE kind = 'kernel'").rows()
    (total,) = [line["launches"] for line in lines if line["category"] == "TOTAL"]
    assert total == LAUNCHES
    assert kernels["n"] - reached <= sum(line["launches"] for line in left) <= LAUNCHES - reached
    assert {line["route"] for line in left} == {"none"}


def test_the_config_of_the_model_reaches_the_proposals(lonely: kerneldb.Database, gemms: Plan, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"hidden_size": 4096, "vocab_size": 77_777}), encoding="utf-8")
    rows = json.loads(run(lonely, *GEMMS, "--model-config", str(path), "--calls", "--json").stdout)
    assert any("77777" in (row["input_dims"] or "") for row in rows)
    plain = [one.spec.call.input_dims for item in gemms.items for one in item.candidates]
    assert plain
    assert not any("77777" in (dims or "") for dims in plain)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "no hidden size (hidden_size, n_embd"),
        ({"text_config": {"n_embd": 64, "n_head": [1, 2]}}, "n_head = [1, 2]"),
        ({"hidden_size": 7, "num_attention_heads": 100}, "config.json: "),
    ],
)
def test_a_config_without_sizes_is_refused(
    alone: Path, tmp_path: Path, config: dict[str, object], problem: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    result = run(kerneldb.open(alone), "--model-config", str(path), "--dry-run")
    assert result.exit_code == 2
    assert problem in result.stderr


@pytest.mark.parametrize("text", ["not json", "[1, 2]", "[" * 100_000])
def test_what_is_no_config_is_refused(alone: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    result = run(kerneldb.open(alone), "--model-config", str(path), "--dry-run")
    assert result.exit_code == 2
    assert "config.json" in result.stderr


def test_a_dry_run_shows_candidates_and_stores_nothing(fresh: kerneldb.Database) -> None:
    result = run(fresh, "--trace", STRIPPED, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "TOTAL inherited" in result.stdout
    assert "calls to run, those with most time first" in result.stdout
    assert "as decoder-h200 #" in result.stdout
    assert fresh.sql("SELECT count(*) AS n FROM inferred_calls").rows()[0]["n"] == 0


def test_alternatives_of_a_call_are_marked_in_a_dry_run(lonely: kerneldb.Database) -> None:
    result = run(lonely, *GEMMS, "--dry-run")
    calls = result.stdout.partition("calls to run")[2].splitlines()
    marked = [line for line in calls if line.startswith("  or aten::")]
    assert marked
    assert all(re.search(r"\]  +–  +–  ", line) for line in marked)
    assert "calls after `or` are alternatives" in result.stderr
    assert "of them alternatives" in result.stderr


def test_a_written_plan_stores_what_is_inherited(fresh: kerneldb.Database, tmp_path: Path) -> None:
    path = tmp_path / "p.plan"
    assert run(fresh, "--trace", STRIPPED, "--write-plan", str(path)).exit_code == 0
    assert fresh.sql("SELECT count(*) AS n FROM inferred_calls").rows()[0]["n"] == LAUNCHES
