"""Calls as older versions of torch recorded them: without values, with other names, types and arguments."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.plan.evidence import Trace
from kerneldb.replay.resolve import candidates, overload_name
from kerneldb.replay.wire.plan import CallSpec, ChildCall, OpCall
from tests.replay.gpu_traces import coverage

torch = pytest.importorskip("torch", reason="torch is not installed")

LIST = ("GenericList", [])
INT, FLOAT, BOOL = ("Int", []), ("Double", []), ("Bool", [])


def tensor(*dims: int, kind: str = "float") -> tuple[str, list[int]]:
    return kind, list(dims)


def old(op: str, *arguments: tuple[str, list[Any]]) -> OpCall:
    """A call as torch 1.8 recorded it."""
    return OpCall(
        op,
        input_dims=json.dumps([dims for _, dims in arguments]),
        input_dtypes=json.dumps([kind for kind, _ in arguments]),
    )


def called(call: OpCall, parent: OpCall | None = None, near: tuple[OpCall, ...] = ()) -> Any:
    """The first call that is rebuilt, run on the CPU: its result."""
    spec = CallSpec(call, parent=parent, neighbours=tuple(map(ChildCall, near)))
    return next(iter(candidates(spec, "cpu"))).call()


@pytest.mark.parametrize(
    ("call", "overload", "dims"),
    [
        (old("aten::add", tensor(3, 4), tensor(3, 4), INT), "aten::add.Tensor", (3, 4)),
        (old("aten::add_", tensor(3, 4), tensor(3, 4), FLOAT), "aten::add_.Tensor", (3, 4)),
        (old("aten::threshold_backward", tensor(3, 4), tensor(3, 4), INT), "aten::threshold_backward.default", (3, 4)),
        (old("aten::clamp_min", tensor(3), INT, tensor(3)), "aten::clamp_min.out", (3,)),
        (old("aten::clamp", tensor(3), FLOAT, ("", [])), "aten::clamp.default", (3,)),
        (old("aten::fill_", tensor(3), FLOAT), "aten::fill_.Scalar", (3,)),
        (old("aten::sum", tensor(32, 10), LIST, BOOL, ("", [])), "aten::sum.dim_IntList", (10,)),
        (old("aten::mean", tensor(2, 8, 7, 7), LIST, BOOL, ("", [])), "aten::mean.dim", (2, 8)),
        (old("aten::_softmax", tensor(2, 5), INT, BOOL), "aten::_softmax.default", (2, 5)),
        (old("aten::_log_softmax_backward_data", tensor(2, 5), tensor(2, 5), INT, tensor(2, 5)),
         "aten::_log_softmax_backward_data.default", (2, 5)),
    ],
)  # fmt: skip
def test_elementary_calls_are_rebuilt(call: OpCall, overload: str, dims: tuple[int, ...]) -> None:
    assert overload_name(CallSpec(call)) == overload
    assert called(call).shape == dims


def test_the_type_of_a_scalar_decides() -> None:
    """An integer makes no floats of integers, and is no flag."""
    assert called(old("aten::mul_", tensor(3, kind="long int"), INT)).dtype == torch.int64
    with pytest.raises(UnresolvedCallError) as caught:
        overload_name(CallSpec(old("aten::_softmax", tensor(2, 5), INT, INT)))
    assert caught.value.reason is Reason.NO_OVERLOAD


WINDOWS = [(224, 7, 2, 3), (56, 1, 1, 0), (56, 3, 1, 1), (56, 1, 2, 0), (56, 3, 2, 1), (14, 3, 1, 0), (224, 16, 16, 0)]


@pytest.mark.parametrize(("size", "kernel", "stride", "padding"), WINDOWS)
def test_windows_of_convolutions_follow_from_the_dims(size: int, kernel: int, stride: int, padding: int) -> None:
    """The gradient, and what takes the result, show its dims, whatever else is near."""
    given, weight = torch.empty(2, 6, size, size, device="meta"), torch.empty(8, 3, kernel, kernel, device="meta")
    made = torch.nn.functional.conv2d(given, weight, stride=stride, padding=padding, groups=2).shape
    near = (old("aten::add", INT, INT, INT), old("aten::relu_", tensor(2, 7, 5, 5)), old("aten::relu_", tensor(*made)))
    forward = old("aten::conv2d", tensor(*given.shape), tensor(*weight.shape), ("", []), LIST, LIST, LIST, INT)
    assert called(forward, near=near).shape == made
    found = next(iter(candidates(CallSpec(forward, neighbours=tuple(map(ChildCall, near))), "cpu")))
    assert found.args[3:] == ([stride] * 2, [padding] * 2, [1, 1], 2)


@pytest.mark.parametrize(("name", "place"), [("input", 0), ("weight", 1)])
def test_gradients_of_convolutions_have_another_name_now(name: str, place: int) -> None:
    given, weight, gradient = tensor(2, 4, 9, 9), tensor(6, 4, 3, 3), tensor(2, 6, 5, 5)
    rest = (LIST, LIST, LIST, INT, BOOL, BOOL, BOOL)
    parent = old("aten::cudnn_convolution_backward", given, gradient, weight, *rest, LIST)
    beside = weight if name == "input" else given
    call = old(f"aten::cudnn_convolution_backward_{name}", LIST, gradient, beside, *rest)
    made = called(call, parent)
    assert [one is not None for one in made] == [number == place for number in range(3)]
    assert list(made[place].shape) == (given, weight)[place][1]
    with pytest.raises(UnresolvedCallError) as caught:
        called(call)
    assert caught.value.reason is Reason.NO_OPERATOR


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 2, 0)])
def test_windows_of_pools_follow_from_the_dims(kernel: int, stride: int, padding: int) -> None:
    given = torch.empty(2, 3, 57, 57, device="meta")
    made = torch.nn.functional.max_pool2d(given, kernel, stride, padding).shape
    pool = old("aten::max_pool2d_with_indices", tensor(*given.shape), LIST, LIST, LIST, LIST, BOOL)
    calls = [pool, old("aten::flatten", tensor(*made), INT, INT)]
    spec = Trace(calls, [None, None]).spec(0)
    assert next(iter(candidates(spec, "cpu"))).args[1:4] == ([kernel] * 2, [stride] * 2, [padding] * 2)


def test_no_window_has_an_impossible_size() -> None:
    """Whatever a hostile trace says, no division by zero and no negative padding."""
    for kernel, size in itertools.product((0, 1, 5), (0, 1, 9)):
        call = old("aten::conv2d", tensor(1, 1, size), tensor(1, 1, kernel), ("", []), LIST, LIST, LIST, INT)
        for found in (one.args for one in candidates(CallSpec(call), "meta") if len(one.args) > 4):
            assert found[3][0] > 0
            assert found[4][0] >= 0


def test_lengths_that_torch_2_1_did_not_write() -> None:
    """Symbolic sizes have the type of None there."""
    packed, absent, number = [2, 5, 4, 8], ("", []), ("Scalar", [])
    types = [*(tensor(*packed, kind="c10::BFloat16") for _ in range(3)), *[absent] * 4, *[number] * 4]
    call = OpCall(
        "aten::_flash_attention_forward",
        input_dims=json.dumps([dims for _, dims in types]),
        input_dtypes=json.dumps([kind for kind, _ in types]),
        scalars=json.dumps([""] * 7 + ["0.", "False", "False", "0.25"]),
    )
    found = next(iter(candidates(CallSpec(call), "meta")))
    assert found.args[5:7] == (5, 5)


def test_a_training_step_of_torch_1_8(shared_data: Path) -> None:
    """ResNet-50 on a V100: four steps, every launch of an operator."""
    found = coverage(shared_data / "pytorch" / "kineto-tb-resnet50-workers0.json.gz")
    assert found.linked == found.launches == 9096
    assert found.rebuilt == found.linked, "\n".join(f"{count:6} {miss}" for miss, count in found.misses.most_common())
