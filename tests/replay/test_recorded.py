from __future__ import annotations

import math

import pytest

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve import recorded, tensors
from kerneldb.replay.wire.plan import OpCall


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("-12", -12), ("0.", 0.0), ("1e-08", 1e-8), ("0.10000000000000001", 0.1), ("True", True),
     ("-inf", -math.inf), ("(1,-2)", 1 - 2j), ("(0.5,1.)", 0.5 + 1j),
     ("1.+2.j", 1 + 2j), ("-8.5-1.75j", -8.5 - 1.75j)],
)  # fmt: skip
def test_scalars_keep_the_type_they_were_printed_from(text: str, value: complex) -> None:
    found = recorded.number(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", ["", "abc", "cuda:0", "1, 2"])
def test_other_texts_are_no_scalars(text: str) -> None:
    assert recorded.spelling(text) is None
    with pytest.raises(UnresolvedCallError) as caught:
        recorded.number(text)
    assert caught.value.reason is Reason.UNREADABLE


def test_lists() -> None:
    assert recorded.integers("[1, -1]") == (1, -1)
    assert recorded.integers("[]") == ()
    assert recorded.integers("[1.5]") == ()
    assert recorded.split_list("[True, False]") == ["True", "False"]


def test_missing_columns_become_empty() -> None:
    found = recorded.arguments(OpCall("aten::mm", input_dims="[[2, 3], [3, 4]]", input_dtypes='["float", "int"]'))
    assert [(one.kind, one.dims, one.strides, one.text) for one in found] == [
        ("float", (2, 3), (), ""),
        ("int", (3, 4), (), ""),
    ]


def test_nested_dims_of_lists() -> None:
    (found,) = recorded.arguments(OpCall("aten::cat", "[[[2], []]]", "[[[1], []]]", '["TensorList"]', '[""]'))
    assert (found.dims, found.is_tensor) == (((2,), ()), False)


@pytest.mark.parametrize(
    ("dtypes_text", "reason"),
    [(None, Reason.NO_INPUTS), ("{", Reason.UNREADABLE), ("{}", Reason.UNREADABLE)],
)
def test_unreadable_calls_say_why(dtypes_text: str | None, reason: Reason) -> None:
    call = OpCall("aten::mm", input_dtypes=dtypes_text)
    with pytest.raises(UnresolvedCallError) as caught:
        recorded.arguments(call)
    assert caught.value.reason is reason
    assert recorded.or_none(call) == ()


@pytest.mark.parametrize("name", ["long int", "long", "long long", "__int64"])
def test_compilers_spell_dtypes_differently(name: str) -> None:
    assert tensors.torch_name(name) == "int64"


def test_unknown_dtype_is_a_reason() -> None:
    with pytest.raises(UnresolvedCallError, match="c10::Float2"):
        tensors.torch_name("c10::Float2")


def test_every_dtype_and_enum_is_one_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    assert all(isinstance(tensors.torch_dtype(name), torch.dtype) for name in tensors.TORCH_NAMES.values())
    for kind, values in tensors.ENUMS.items():
        assert len({tensors.enum_value(kind, code) for code in values}) == len(values)
    assert tensors.enum_value("ScalarType", 15) is torch.bfloat16


def test_enum_codes_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for code, name in tensors.SCALAR_TYPES.items():
        dtype = getattr(torch, name, None)
        if dtype is not None and not name.startswith("q"):
            assert torch.ops.aten.empty.memory_format([0], dtype=code, device="meta").dtype is dtype
