"""Code of a plan is shown before it runs, and runs only where that was allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneldb.ids import code_hash
from kerneldb.replay import __main__ as command
from kerneldb.replay.errors import UnresolvedCallError
from kerneldb.replay.routes.triton import TritonRoute
from kerneldb.replay.triton import code, loading
from kerneldb.replay.triton.code import Code
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.plan import CallSpec, Candidate, Item, OpCall, Plan, PlannedKernel

TEXT = "import pathlib\npathlib.Path(MARK).touch()\n\ndef kernel():\n    pass\n"


def planned(text: str) -> Plan:
    call = OpCall(
        "triton_poi_fused_add_0", "[[4]]", "[[1]]", '["float"]', '[""]', json.dumps({"kernel_hash": code_hash(text)})
    )
    kernel = PlannedKernel(0, "s", "triton_poi_fused_add_0", grid=(1, 1, 1))
    sources = {code_hash(text): code.to_source(Code(code_hash(text), "kernel", text, file="there.py"))}
    return Plan((Item("i", "triton", CallSpec(call), (kernel,)),), sources=sources)


def test_nothing_runs_unless_allowed(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    whole = planned(TEXT.replace("MARK", repr(str(mark))))
    route = TritonRoute()
    route.provide(whole.sources, allowed=False)
    with pytest.raises(UnresolvedCallError, match="--allow-code"):
        list(route.prepare(whole.items[0], "cuda:0"))
    assert not mark.exists()


def test_loading_runs_it_once(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    held = next(code.codes(planned(TEXT.replace("MARK", repr(str(mark)))).sources))
    module = loading.load(held)
    assert mark.exists()
    assert module is loading.load(held)


def test_source_that_raises_is_refused() -> None:
    with pytest.raises(UnresolvedCallError, match="NameError"):
        loading.load(Code("cbroken", "kernel", "kernel = undefined\n"))


def test_a_source_without_the_function_is_refused() -> None:
    held = Code("cempty", "kernel", "other = 1\n")
    with pytest.raises(UnresolvedCallError, match="no function kernel"):
        next(loading.launchables(held, code.Constants("cempty"), None, "cuda:0"))


def test_what_runs_is_shown() -> None:
    whole = planned("import triton\n\ndef kernel():\n    pass\n")
    refused, allowed = code.shown(whole, allowed=False), code.shown(whole, allowed=True)
    assert len(refused) == 1
    assert "not run without --allow-code" in refused[0]
    assert "kernel  inductor  c" in allowed[1]
    assert allowed[1].endswith("4 lines  there.py")
    assert code.shown(Plan(), allowed=True) == []


def test_the_plan_file_keeps_sources(tmp_path: Path) -> None:
    whole = planned(TEXT)
    plan.write(whole, tmp_path / "a.plan")
    assert list(code.codes(plan.read(tmp_path / "a.plan").sources)) == list(code.codes(whole.sources))


@pytest.mark.thorough
def test_the_worker_runs_nothing_of_a_plan_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    mark = tmp_path / "ran"
    plan.write(planned(TEXT.replace("MARK", repr(str(mark)))), tmp_path / "a.plan")
    arguments = [str(tmp_path / "a.plan"), "--journal", str(tmp_path / "a.journal"), "--device", "cpu", "--no-energy"]
    assert command.main(arguments) == 0
    assert "1 source of Triton kernels" in capsys.readouterr().err
    assert "needs a GPU" in (tmp_path / "a.journal").read_text(encoding="utf-8")
    assert not mark.exists()


def test_sources_of_inherited_calls_are_shown_too() -> None:
    whole = planned("import triton\n\ndef kernel():\n    pass\n")
    item = whole.items[0]
    assert item.spec is not None
    other = CallSpec(OpCall("aten::mul", "[[4], [4]]", "[[1], [1]]", '["float", "float"]', '["", ""]'))
    inherited = Item("i", "inherited", other, item.kernels, (Candidate(other, "near"), Candidate(item.spec, "far")))
    shown = code.shown(Plan((inherited,), sources=whole.sources), allowed=True)
    assert len(shown) == 2
    assert "kernel  inductor  c" in shown[1]


def test_a_source_goes_by_the_hash_of_its_text(tmp_path: Path) -> None:
    whole = planned("def kernel():\n    pass\n")
    ((name, held),) = whole.sources.items()
    outside = tmp_path / "outside"
    forged = {name: {**held, "text": "raise SystemExit\n"}, str(outside): {**held, "hash": str(outside)}}
    assert {one.hash for one in code.codes(forged)} == {code_hash("raise SystemExit\n"), name}
    assert code.matching(_call(whole), code.held(forged))[0].text == held["text"]
    assert code.matching(_call(whole), code.held({name: forged[name]})) == []


def test_a_file_name_moves_no_cursor() -> None:
    held = Code("c", "kernel", "a = 1\n", file="a.py\n\x1b[2Aharmless.py")
    assert held.shown().endswith(r"1 lines  a.py\n\x1b[2Aharmless.py")


def _call(whole: Plan) -> OpCall:
    spec = whole.items[0].spec
    assert spec is not None
    return spec.call


def test_recorded_constants_choose_among_sources_of_one_name_by_whole_numbers() -> None:
    texts = [f"def kernel():\n    pass\n\nMADE = dict(num_warps={warps}, num_stages=3)\n" for warps in (16, 1)]
    sources = {code_hash(text): code.to_source(Code(code_hash(text), "kernel", text)) for text in texts}
    launched = {"kernel_backend": "triton", "num_warps": "1", "num_stages": "3"}
    call = OpCall("kernel", "[[4]]", "[[1]]", '["float"]', '[""]', json.dumps(launched))
    found = code.matching(call, code.held(sources))
    assert [one.text for one in found] == [texts[1]]
