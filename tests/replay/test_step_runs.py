"""Steps that are run: on the memory of the step, with values that fit, and what is stored of it."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import types
from typing import Any

import pytest

from kerneldb.api import step_source, stepping
from kerneldb.replay.options import Options
from kerneldb.replay.wire.messages import Begin, StepDone
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, PlannedKernel
from kerneldb.replay.wire.results import AttemptResult, Grade, Spread
from kerneldb.replay.wire.step_results import StepKernel, StepResult, Trail
from kerneldb.replay.wire.steps import Step, StepCall, Storage, Tensor

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
from kerneldb.replay.routes.triton import build  # noqa: E402 (torch is needed)
from kerneldb.replay.steps.graphs import _by_itself, aligned  # noqa: E402 (torch is needed)
from kerneldb.replay.steps.player import Player  # noqa: E402
from kerneldb.replay.steps.rehearsal import rehearse  # noqa: E402
from kerneldb.replay.triton.loading import Launchable  # noqa: E402
from kerneldb.replay.wire.results import Activity  # noqa: E402
from kerneldb.replay.worker.steps import AFTER_PROFILER, StepRun, main  # noqa: E402


def item(name: str, op: str, dims: list[Any], types: list[str], scalars: list[str] | None = None) -> Item:
    texts = [json.dumps(dims), None, json.dumps(types), json.dumps(scalars or [""] * len(types))]
    kernel = PlannedKernel(0, f"signature of {name}", name)
    return Item(name, "aten", CallSpec(OpCall(op, *texts)), (kernel,))


ITEMS = {
    one.id: one
    for one in (
        item("mm", "aten::mm", [[4, 4], [4, 4]], ["float", "float"]),
        item("add", "aten::add_", [[4, 4], [4, 4], []], ["float", "float", "Scalar"], ["", "", "1"]),
        item("find", "aten::nonzero", [[8]], ["bool"]),
        item("take", "aten::index_select", [[3, 2], [], [5]], ["float", "Scalar", "long int"], ["", "0", ""]),
        item("none", "aten::no_such_operator", [[4, 4]], ["float"]),
    )
}
SQUARE = ((4, 4), (4, 1))
STORAGES = tuple(
    Storage(size, given=place in {0, 1, 3, 5}) for place, size in enumerate((64, 64, 64, 8, 24, 24, 40, 40))
)


def step(*calls: StepCall) -> Step:
    """Storages 0 and 1 are given, 2 is made; 3 is a mask, 4 what is found, 5 rows, 6 indices, 7 the rows taken."""
    tensors = (
        Tensor(0, *SQUARE), Tensor(1, *SQUARE), Tensor(2, *SQUARE), Tensor(3, (8,), (1,), "bool"),
        Tensor(4, (3, 1), (1, 3), "long int"), Tensor(5, (3, 2), (2, 1)), Tensor(6, (5,), (1,), "long int"),
        Tensor(7, (5, 2), (2, 1)), Tensor(2, (4, 4), (1, 4)),
    )  # fmt: skip
    return Step("s", "trace", "t1", "execution trace", STORAGES, tensors, calls)


def played(made: Step) -> Player:
    player = Player(made, ITEMS, "cpu")
    player.prepare()
    rehearse(player, lambda _: None, lambda: None)
    return player


def test_calls_share_the_memory_of_the_step() -> None:
    multiplied = StepCall("mm", ((0,), (1,)), (2,), recorded_ns=(5,))
    added = StepCall("add", ((2,), (1,), ()), (2,), recorded_ns=(5,))
    player = played(step(multiplied, added))
    player.run()
    assert not player.filled
    assert torch.allclose(player.view(2), player.view(0) @ player.view(1) + player.view(1))
    assert torch.equal(player.view(8), player.view(2).T)
    assert player.view(8).untyped_storage().data_ptr() == player.view(2).untyped_storage().data_ptr()


def test_a_matrix_from_before_the_step_is_what_its_call_asks_for() -> None:
    known = item(
        "factor", "aten::linalg_cholesky_ex", [[4, 4], [], []], ["float", "Scalar", "Scalar"], ["", "False", "False"]
    )
    made = step(StepCall("factor", ((0,), (), ()), (2,)))
    player = Player(made, {"factor": known}, "cpu")
    player.prepare()
    rehearse(player, lambda _: None, lambda: None)
    matrix, factor = player.view(0), player.view(2).mT  # as LAPACK lays it out
    assert not player.filled
    assert torch.allclose(factor @ factor.mT, matrix, atol=1e-5)
    assert matrix.diagonal().min() > 4


def test_what_a_model_has_before_the_step_has_values_as_in_models() -> None:
    """A bias around one moves all that comes after it, and the GPU draws less power for values of one sign."""
    linear = item("linear", "aten::addmm", [[512], [64, 256], [256, 512], [], []], ["float"] * 3 + ["Scalar"] * 2)
    scaled = item("scaled", "aten::mul", [[64, 512], [512]], ["float", "float"])
    image = item("image", "aten::relu", [[4, 3, 8, 8]], ["float"])
    calls = (
        StepCall("linear", ((0,), (1,), (2,), (), ()), (3,), recorded_ns=(5,)),
        StepCall("scaled", ((3,), (4,)), (5,), recorded_ns=(5,)),
        StepCall("image", ((6,),), (7,), recorded_ns=(5,)),
    )
    dims = ((512,), (64, 256), (256, 512), (64, 512), (512,), (64, 512), (4, 3, 8, 8), (4, 3, 8, 8))
    tensors = tuple(
        Tensor(place, one, tuple(math.prod(one[axis + 1 :]) for axis in range(len(one))))
        for place, one in enumerate(dims)
    )
    sizes = tuple(Storage(4 * math.prod(one), given=place in {0, 1, 2, 4, 6}) for place, one in enumerate(dims))
    made = Step("s", "trace", "t1", "execution trace", sizes, tensors, calls)
    player = Player(made, {one.id: one for one in (linear, scaled, image)}, "cpu")
    player.prepare()
    rehearse(player, lambda _: None, lambda: None)
    bias, gain, taken = (player.view(place) for place in (0, 4, 6))
    assert not player.filled
    assert (float(bias.mean()), float(bias.std())) == pytest.approx((0.0, 0.02), abs=0.01)
    assert float(gain.mean()) == pytest.approx(1.0, abs=0.01)
    assert float(taken.std()) == pytest.approx(1.0, abs=0.1)


def test_indices_that_are_copied_twice_are_drawn_as_what_takes_them_asks() -> None:
    """Labels that are shifted and masked become the tokens of a decoder."""
    copied = item("copy", "aten::copy_", [[5], [5], []], ["long int", "long int", "Scalar"], ["", "", "False"])
    taken = item("take", "aten::index_select", [[900, 2], [], [5]], ["float", "Scalar", "long int"], ["", "0", ""])
    calls = (
        StepCall("copy", ((1,), (0,), ()), (1,), recorded_ns=(5,)),
        StepCall("copy", ((2,), (1,), ()), (2,), recorded_ns=(5,)),
        StepCall("take", ((3,), (), (2,)), (4,), recorded_ns=(5,)),
    )
    sizes = (Storage(40, given=True), Storage(40), Storage(40), Storage(7200, given=True), Storage(40))
    tensors = (
        *(Tensor(place, (5,), (1,), "long int") for place in range(3)), Tensor(3, (900, 2), (2, 1)),
        Tensor(4, (5, 2), (2, 1)),
    )  # fmt: skip
    player = Player(
        Step("s", "trace", "t1", "execution trace", sizes, tensors, calls), {"copy": copied, "take": taken}, "cpu"
    )
    player.prepare()
    rehearse(player, lambda _: None, lambda: None)
    assert not player.filled
    assert len(set(player.view(0).tolist())) > 1


def test_the_first_call_that_makes_nan_is_said() -> None:
    """0 / 0, and what is added to it: only the first is named."""
    divided = item("divide", "aten::div", [[4, 4], [4, 4]], ["float", "float"])
    calls = (
        StepCall("divide", ((0,), (1,)), (2,), recorded_ns=(5,)),
        StepCall("add", ((2,), (1,), ()), (2,), recorded_ns=(5,)),
    )
    player = Player(step(*calls), {**ITEMS, "divide": divided}, "cpu")
    player.prepare()
    player.view(0).zero_()
    player.view(1).zero_()
    rehearse(player, lambda _: None, lambda: None)
    assert [note for note in player.notes if "NaN" in note] == [
        "aten::div.Tensor: its result holds NaN, which takes less power than numbers do"
    ]
    player.notes.clear()
    player.view(0)[0, :2] = torch.tensor([1.0, -1.0])
    player.view(0)[player.view(0) == 0] = 1.0  # over zero: infinities of both signs, whose sum is NaN
    rehearse(player, lambda _: None, lambda: None)
    assert not any("div" in note for note in player.notes)


def test_what_is_freed_is_gone_and_nothing_holds_it() -> None:
    player = played(step(StepCall("mm", ((0,), (1,)), (2,), frees=(2,), recorded_ns=(5,))))
    player.run()
    assert set(player._storages) == {0, 1}
    assert all(one.untyped_storage().nbytes() for one in player._live.values())
    assert player.result is None


def test_a_search_finds_as_many_as_were_recorded() -> None:
    player = played(step(StepCall("find", ((3,),), (4,), recorded_ns=(5,))))
    player.run()
    assert tuple(player.view(4).shape) == (3, 1)
    assert any("as many as" in note for note in player.notes)


def test_an_index_out_of_range_is_replaced_before_the_call() -> None:
    given = (*(dataclasses.replace(one, given=True) for one in STORAGES[:7]), STORAGES[7])
    taken = step(StepCall("take", ((5,), (), (6,)), (7,), recorded_ns=(5,)))
    player = Player(dataclasses.replace(taken, storages=given), ITEMS, "cpu")
    player.prepare()
    before = player.before

    def spoiled(call: StepCall) -> None:
        before(call)
        player.view(6).fill_(99)

    player.before = spoiled  # type: ignore[method-assign]
    rehearse(player, lambda _: None, lambda: None)
    player.run()
    assert not player.filled
    assert tuple(player.view(7).shape) == (5, 2)
    assert any("not in range" in note for note in player.notes)


def test_indices_that_no_call_has_written_are_replaced_whatever_the_memory_holds() -> None:
    player = played(step(StepCall("take", ((5,), (), (6,)), (7,), allocates=(6,), recorded_ns=(5,))))
    assert not player.filled
    assert any("no call of the step has written" in note for note in player.notes)
    player._storages[6].fill_(99)
    player.run()


def test_what_a_call_between_two_graphs_returned_stays_for_the_graph_after_it() -> None:
    found = StepCall("find", ((3,),), (4,), frees=(4,), recorded_ns=(5,))
    player, held = played(step(found)), list[Any]()
    player.begin()
    _by_itself(player, 0, held)()
    assert 4 not in player._storages
    assert [one.nbytes() for one in held] == [24]


def test_a_call_that_cannot_be_rebuilt_is_stood_in_for_and_counted() -> None:
    sent: list[Any] = []
    made = step(
        StepCall("none", ((0,),), (2,), recorded_ns=(700,)), StepCall("mm", ((0,), (1,)), (2,), recorded_ns=(5,))
    )
    asked = Options(device="cpu", energy=False, runs=1)
    main([made], ITEMS, asked, sent.append, ())
    result = next(one.result for one in sent if isinstance(one, StepDone))
    assert AFTER_PROFILER not in result.notes
    assert (result.mode, result.calls, result.rebuilt, result.filled) == ("eager", 2, 1, 1)
    lost = next(one for one in result.kernels if one.item == "none")
    assert (lost.grade, lost.time, lost.filled) == (Grade.L4, None, 1)
    assert next(one.quantity for one in result.measured if one.value) == "wall_ns"
    assert Begin("mm", "rehearse") in sent
    StepRun(made, ITEMS, asked, sent.append).run((({}, frozenset(), frozenset()), []))  # as if all were made by a call
    assert AFTER_PROFILER in sent[-1].result.notes
    assert [one for one in sent[-1].result.measured if one.quantity == "wall_ns" and one.value]


def test_a_triton_kernel_runs_on_the_memory_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = item("double", "double", [[4, 4], [4, 4], []], ["float", "float", "Scalar"], ["", "", "16"])
    assert recorded.spec is not None
    call = dataclasses.replace(recorded.spec.call, input_strides="[[4, 1], [4, 1], []]")

    def double(given: Any, out: Any, count: int) -> None:
        out.copy_(given * 2)

    kernel = build(Launchable(double, ("given", "out", "count")), call, "", "cpu")
    monkeypatch.setattr(Player, "_apart", lambda *_: kernel)
    for name in ("triton", "triton.errors"):
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(TritonError=RuntimeError))
    launch = StepCall("double", ((0,), (2,), ()), recorded_ns=(5,))
    made = step(launch, StepCall("mm", ((2,), (1,)), (7,), recorded_ns=(5,)))
    items = {**ITEMS, "double": dataclasses.replace(recorded, route="triton")}
    player = Player(dataclasses.replace(made, tensors=(*made.tensors[:7], Tensor(7, *SQUARE))), items, "cpu")
    player.prepare()
    rehearse(player, lambda _: None, lambda: None)
    player.run()
    assert torch.equal(player.view(2), player.view(0) * 2)
    assert not player.filled
    other = dataclasses.replace(made, tensors=(Tensor(0, (2, 8), (8, 1)), *made.tensors[1:]))
    apart = Player(other, items, "cpu")
    apart.prepare()
    assert [slot for *_, slot, _ in apart._program(launch, apart.prepared[0]).fills] == [2]


def test_a_step_is_made_again_with_the_calls_that_were_chosen() -> None:
    fewer = OpCall("aten::mm", "[[4, 4], [4, 4]]", None, '["float", "float"]', '["", ""]')
    trail = Trail("mm", (AttemptResult(fewer, "another", Grade.L0, accepted=True),))
    result = StepResult("s", "eager", 1, attempts=(("add", 1),), trails=(trail,))
    made = step(StepCall("mm", ((0,), (1,)), (2,), recorded_ns=(5,)))
    player = StepRun(made, ITEMS, Options(device="cpu", energy=False, runs=1), lambda _: None).as_before(result)
    assert player.attempts["add"] == 1
    assert player._standing["mm"].spec == CallSpec(fewer)


def test_the_device_rests_between_runs_as_long_as_in_the_recorded_step(monkeypatch: pytest.MonkeyPatch) -> None:
    rests, asked = list[float](), Options(device="cuda:0")
    clock = types.SimpleNamespace(monotonic=lambda: 0.0, sleep=rests.append)
    monkeypatch.setattr("kerneldb.replay.worker.steps.time", clock)
    monkeypatch.setattr(StepRun, "_check", lambda _: None)
    made = dataclasses.replace(step(), span_ns=10**9)
    run = StepRun(made, ITEMS, dataclasses.replace(asked, device="cpu"), lambda _: None)
    run._options = asked
    run._paced(lambda: None, 2)
    assert rests == [1.0, 1.0]
    run._step = step()
    run._paced(lambda: None, 1)
    assert rests[2:] == [0.0]


def test_kernels_of_a_graph_are_found_by_their_order() -> None:
    launched = [[Activity("kernel", "a")], [Activity("kernel", "b"), Activity("kernel", "a")]]
    came = [Activity("kernel", name, duration_ns=ns) for name, ns in (("a", 1), ("x", 9), ("b", 2), ("a", 3))]
    found = aligned(launched, came * 2, 2)
    assert found is not None
    assert [durations for _, durations in found] == [[[1, 1]], [[2, 2], [3, 3]]]
    assert aligned(launched, came[:3], 2) is None


def row(name: str, index: int, **more: Any) -> dict[str, Any]:
    shape = dict.fromkeys(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), 1)
    return {
        "kind": "kernel",
        "name": name,
        "signature_id": f"s{name}",
        "duration_ns": 5,
        "called_ns": index,
        **shape,
        **more,
    }


def test_a_graph_takes_the_calls_of_the_eager_trace() -> None:
    eager = [step_source.Call(1, 10, (row("a", 10), row("b", 11))), step_source.Call(2, 20, (row("a", 20),))]
    graph = [row(name, place) for place, name in enumerate(("a", "mask", "b", "a"))]
    found = step_source.borrowed(graph, eager)
    assert [(one.op_id, [launch["name"] for launch in one.launches]) for one in found] == [
        (1, ["a", "b"]), (None, ["mask"]), (2, ["a"])
    ]  # fmt: skip
    assert found[0].key != eager[0].key


def test_dropped_lists_come_from_the_execution_trace() -> None:
    from kerneldb.replay.steps.memory import View

    call = OpCall("aten::_foreach_add_", "[[], []]", "[[], []]", '["TensorList", "Scalar"]', '["", "1"]')
    views = [View(0, 0, (2, 3), (3, 1), "float"), View(1, 0, (4,), (1,), "float")]
    found = step_source.completed(call, [views, []])
    assert (found.input_dims, found.input_strides) == ("[[[2, 3], [4]], []]", "[[[3, 1], [1]], []]")


def spread(median: float) -> Spread:
    return Spread(6, median, 0.0, median, median, median, median)


@pytest.mark.parametrize(
    ("recorded", "replayed", "again", "disagrees", "cause"),
    [
        (100_000, 101_000, 100_000, False, None),
        (100_000, 130_000, 100_000, True, "values"),
        (100_000, 130_000, 140_000, True, "recorded iterations"),
        (2_000, 2_900, 2_000, False, None),
    ],
)
def test_what_disagrees_is_said_with_its_cause(
    recorded: int, replayed: float, again: int, disagrees: bool, cause: str | None
) -> None:
    made = dataclasses.replace(step(), again_ns=(("x", again),))
    kernel = StepKernel("x", "mm", 0, 1, Grade.L0, recorded, spread(replayed))
    rows = stepping.step_rows("r", {"s": made}, [StepResult("s", "eager", 1, kernels=(kernel,))], None)
    found = rows["step_kernels"][0]
    assert found["agreement"] == replayed / recorded
    assert found["disagrees"] is disagrees
    assert (found["cause"] is None) == (cause is None)
    assert cause is None or cause in found["cause"]
    assert stepping.step_rows("r", {}, [StepResult("s", "eager", 1)], None)["step_replays"] == []
