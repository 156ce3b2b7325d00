from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kerneldb.replay import routes
from kerneldb.replay.plan.work import Work
from kerneldb.replay.routes.aten import AtenRoute
from kerneldb.replay.wire.plan import (
    FORMAT,
    VERSION,
    CallSpec,
    ChildCall,
    Item,
    OpCall,
    Plan,
    PlanError,
    PlannedKernel,
    from_lines,
    read,
    to_lines,
    write,
)

CALL = OpCall("aten::mm", "[[2, 3], [3, 4]]", "[[3, 1], [4, 1]]", '["float", "float"]', '["", ""]')
KERNEL = PlannedKernel(0, "ab12", "gemm", grid=(2, 1, 1), block=(128, 1, 1), shared_bytes=0, launches=7, median_ns=1500)
SPEC = CallSpec(CALL, (ChildCall(OpCall("aten::view"), 2, 3),), OpCall("aten::linear"), (ChildCall(CALL),))
PLAN = Plan(
    (Item("c1", "aten", SPEC, (KERNEL,)), Item("m1", "memory", kernels=(PlannedKernel(0, "s", "Memset", bytes=64),))),
    {"trace": "bloom"},
)


def test_plan_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    write(PLAN, path)
    assert read(path) == PLAN


def test_defaults_are_left_out_of_the_file() -> None:
    item = json.loads(list(to_lines(PLAN))[2])
    assert item == {"id": "m1", "route": "memory", "kernels": [{"ordinal": 0, "signature_id": "s", "name": "Memset",
                                                               "bytes": 64}]}  # fmt: skip


def test_unknown_fields_are_ignored() -> None:
    header, line = json.dumps({"format": FORMAT, "version": VERSION}), '{"id": "x", "route": "aten", "later": 1}'
    assert from_lines([header, line]).items == (Item("x", "aten"),)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: not JSON"),
        (["[]"], "line 1: not a replay plan"),
        (["{}"], "not a replay plan"),
        ([json.dumps({"format": FORMAT, "version": VERSION + 1})], "update it"),
        ([json.dumps({"format": FORMAT, "version": VERSION}), '{"route": "aten"}'], "line 2: no .id."),
        ([json.dumps({"format": FORMAT, "version": VERSION}), "{"], "line 2: not JSON"),
    ],
)
def test_other_files_are_refused(lines: list[str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        from_lines(lines)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (Item("c1", "aten", SPEC, (KERNEL,) * 10_001), "line 2: kernels: 10,001 of one call, more than 10,000"),
        (Item("c1", "aten", replace(SPEC, children=(ChildCall(CALL, 1, 2**31 - 1),))), "2,147,483,648 calls below one"),
        (Item("c1", "aten", kernels=(replace(KERNEL, name="é" * 300),)), "a text of 600 bytes, more than KERNELDB_MAX"),
    ],
)
def test_a_call_that_no_program_makes_is_refused(item: Item, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELDB_MAX_NAME", "599")
    with pytest.raises(PlanError, match=said):
        from_lines(to_lines(Plan((item,))))


def test_a_call_with_more_kernels_than_a_plan_has_of_one_is_not_planned() -> None:
    many, few = (Work("w", (KERNEL,) * count, spec=SPEC) for count in (10_001, 10_000))
    refused, planned = routes.decide([many, few], None, among=[AtenRoute()])  # type: ignore[arg-type]
    assert (refused.item, planned.route) == (None, "aten")
    assert refused.reason == "one call with 10,001 kernels: a plan has up to 10,000 of a call"


def test_direct_calls_come_as_often_as_they_were_made() -> None:
    children = (ChildCall(OpCall("a"), 1, 2), ChildCall(OpCall("b"), 2, 5))
    spec = CallSpec(CALL, children)
    assert [call.op for call in spec.direct()] == ["a", "a"]
    assert [call.op for call in spec.below()] == ["a", "b"]
