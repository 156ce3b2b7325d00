from __future__ import annotations

from typing import Any

import pytest

from kerneldb.replay import resolve
from kerneldb.replay.resolve import Reason, UnresolvedCallError, schema
from kerneldb.replay.wire.plan import OpCall
from tests.replay.specs import ABSENT, numbers, op_call, scalar, spec, tensor, tensors

pytest.importorskip("torch", reason="torch is not installed")

A = tensor([2, 3])
NO_NO = (scalar("False"), scalar("False"))
DROPPED = ([], [], "TensorList", "")


@pytest.mark.parametrize(
    ("op", "arguments", "name"),
    [
        ("aten::add", (A, A, scalar(1)), "aten::add.Tensor"),
        ("aten::add", (A, scalar("2."), scalar(1)), "aten::add.Scalar"),
        ("aten::add", (A, A, scalar(1), A), "aten::add.out"),
        ("aten::sum", (A, ABSENT), "aten::sum.default"),
        ("aten::sum", (A, numbers("[1]"), scalar("True"), ABSENT), "aten::sum.dim_IntList"),
        ("aten::std", (A, scalar("True")), "aten::std.default"),
        ("aten::pow", (A, scalar("2")), "aten::pow.Tensor_Scalar"),
        ("aten::pow", (scalar("2"), A), "aten::pow.Scalar"),
        ("aten::to", (A, scalar(5), scalar(0), ABSENT, ABSENT, *NO_NO, ABSENT), "aten::to.dtype_layout"),
        ("aten::to", (A, scalar(5), *NO_NO, ABSENT), "aten::to.dtype"),
        ("aten::div", (A, A, ABSENT), "aten::div.Tensor_mode"),
        ("aten::_foreach_div_", (DROPPED, ABSENT), "aten::_foreach_div_.ScalarList"),
        ("aten::_foreach_add_", (tensors([2], [3]), tensors([2], [3]), scalar(1)), "aten::_foreach_add_.List"),
        ("aten::where", (tensor([2, 3], "bool"), A, A), "aten::where.self"),
        ("aten::max", (A, scalar(1), scalar("False")), "aten::max.dim"),
        ("aten::split", (A, scalar(1), scalar(0)), "aten::split.Tensor"),
        ("aten::index", (A, ABSENT), "aten::index.Tensor"),
        ("detach", (A,), "aten::detach.default"),
    ],
)
def test_overload_by_types_and_spelling(op: str, arguments: tuple[Any, ...], name: str) -> None:
    assert resolve.overload_name(spec(op, *arguments)) == name


def test_fewer_arguments_of_an_older_torch() -> None:
    """torch 2.6 recorded 13 arguments of _flash_attention_forward; later versions append optional ones."""
    packed = tensor([2, 4, 1, 8], "c10::BFloat16")
    rest = (scalar(4), scalar(4), scalar("0."), scalar("False"), scalar("False"), scalar("0.5"), ABSENT, ABSENT)
    call = spec("aten::_flash_attention_forward", packed, packed, packed, ABSENT, ABSENT, *rest)
    assert resolve.overload_name(call) == "aten::_flash_attention_forward.default"


def test_surplus_arguments_of_a_newer_torch() -> None:
    assert resolve.overload_name(spec("aten::relu", A, ABSENT, scalar(1))) == "aten::relu.default"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (op_call("aten::no_such_operator", A), Reason.NO_OPERATOR),
        (op_call("AddmmBackward0", A), Reason.NO_OPERATOR),
        (op_call("torch::autograd::AccumulateGrad", A), Reason.NO_OPERATOR),
        (op_call("aten::mm", A), Reason.NO_OVERLOAD),
        (op_call("aten::mm", tensor([2], "c10::Unheard"), A), Reason.NO_OVERLOAD),
        (OpCall("aten::mm"), Reason.NO_INPUTS),
    ],
)
def test_reasons(call: OpCall, reason: Reason) -> None:
    with pytest.raises(UnresolvedCallError) as caught:
        next(resolve.candidates(resolve.CallSpec(call), "meta"))
    assert caught.value.reason is reason


def test_module_that_is_not_there() -> None:
    with pytest.raises(UnresolvedCallError, match="no_such_module_of_operators"):
        resolve.load_libraries(["no_such_module_of_operators"])


def test_written_and_out_parameters() -> None:
    named = {one.name: one for one in schema.overloads("aten::add_")}
    first = named["aten::add_.Tensor"].parameters
    assert [one.written for one in first] == [True, False, False]
    out = next(one for one in schema.overloads("aten::add") if one.name == "aten::add.out")
    assert out.has_out
    assert out.parameters[-1].out
