from __future__ import annotations

from collections.abc import Sequence

import pytest

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.plan.evidence import GRADIENT
from kerneldb.replay.resolve import candidates, lists, recorded
from kerneldb.replay.wire.plan import ChildCall, OpCall
from tests.replay.specs import ABSENT, Recorded, numbers, op_call, scalar, spec, tensor, tensors

DROPPED: Recorded = ([], [], "TensorList", "")
HALF = "c10::Half"


def found(
    call: lists.CallSpec, name: str = "tensors", place: int = 0, kernels: Sequence[str] = ()
) -> list[lists.TensorList]:
    return lists.variants(call, recorded.arguments(call.call)[place], name, kernels)


def many(functor: str, operation: str) -> str:
    """What a `_foreach_` call launches, as an H200 recorded it (torch 2.11)."""
    space = "at::native::(anonymous namespace)::"
    lists_of = f"{space}TensorListMetadata<2>, {space}{functor}, {operation}"
    return f"void {space}multi_tensor_apply_kernel<{lists_of} >({lists_of})"


def result(dims: Sequence[int], code: int) -> OpCall:
    return op_call("aten::empty_strided", numbers(str([*dims])), numbers(str([1] * len(dims))), scalar(code), scalar(0))


def shapes(one: lists.TensorList) -> list[tuple[tuple[int, ...], str | None]]:
    return [(entry.dims, entry.dtype) for entry in one.entries]


def test_dtype_of_a_child_with_the_same_dims() -> None:
    call = spec("aten::_foreach_neg", tensors([2, 3], [4]), below=[op_call("aten::neg", tensor([4], HALF))])
    assert shapes(found(call)[0]) == [((2, 3), "float16"), ((4,), "float16")]


def test_dtype_of_the_nearest_call_with_the_same_dims_and_strides() -> None:
    transposed, plain = tensor([2, 3], "double", [1, 2]), tensor([2, 3], HALF)
    call = spec(
        "aten::cat", tensors([2, 3]), scalar(0), near=[op_call("aten::mul", transposed), op_call("aten::mul", plain)]
    )
    assert shapes(found(call)[0]) == [((2, 3), "float16")]


def test_concatenation_has_one_dtype() -> None:
    near = [op_call("aten::mul", tensor([2], HALF)), op_call("aten::mul", tensor([3], HALF)), op_call("a", tensor([4]))]
    call = spec("aten::cat", tensors([2], [3], [4], [0]), scalar(0), near=near)
    assert {entry.dtype for entry in found(call)[0].entries} == {"float16"}


def test_neighbours_may_mislead_so_other_dtypes_follow() -> None:
    options = found(spec("aten::cat", tensors([2]), scalar(0), near=[op_call("aten::mul", tensor([2], HALF))]))
    assert [one.entries[0].dtype for one in options] == ["float16", "float32", "bfloat16", "int64", "bool"]
    assert [bool(one.notes) for one in options] == [False, True, True, True, True]


def test_without_evidence_each_guess_is_tried() -> None:
    options = found(spec("aten::cat", tensors([2], [3]), scalar(0)))
    assert [one.entries[0].dtype for one in options] == list(lists.GUESSES)
    assert all("list-dtype-guess" in one.notes for one in options)


def test_the_call_around_is_weak_evidence() -> None:
    around = op_call("aten::repeat", tensor([1, 5], "long int"), scalar(1))
    assert found(spec("aten::cat", tensors([2]), scalar(0), parent=around))[0].entries[0].dtype == "int64"


def test_long_stack_from_its_children() -> None:
    entry = ChildCall(op_call("aten::unsqueeze", tensor([2, 3], HALF), scalar(0)), times=31)
    (option,) = found(spec("aten::stack", DROPPED, scalar(0), below=[entry]))
    assert shapes(option) == [((2, 3), "float16")] * 31


def test_long_concatenation_inside_a_stack() -> None:
    near = [op_call("aten::unsqueeze", tensor([2, 3], HALF), scalar(axis)) for axis in (0, 1, 2, -1)]
    around = op_call("aten::stack", DROPPED, scalar(0))
    (option,) = found(spec("aten::cat", DROPPED, scalar(0), near=near, parent=around))
    assert [(one.dims, one.strides) for one in option.entries] == [
        ((1, 2, 3), (6, 3, 1)),
        ((2, 1, 3), (3, 3, 1)),
        ((2, 3, 1), (3, 1, 1)),
        ((2, 3, 1), (3, 1, 1)),
    ]


def test_long_foreach_list_from_its_slow_path() -> None:
    step = ChildCall(op_call("aten::add_", tensor([]), scalar(1), scalar(1)), times=40)
    (option,) = found(spec("aten::_foreach_add_", DROPPED, scalar(1), below=[step]))
    assert shapes(option) == [((), "float32")] * 40


def test_long_foreach_list_from_the_gradients() -> None:
    near = [op_call(GRADIENT, tensor(dims)) for dims in ([4, 4], [4], [2, 4])]
    options = found(spec("aten::_foreach_mul_", DROPPED, scalar("0.9"), near=near))
    assert [[entry.dims for entry in one.entries] for one in options] == [
        [(4, 4), (4,), (2, 4)],
        [(4, 4), (2, 4)],
        [(4,)],
    ]


def test_fused_optimizer_lists() -> None:
    near = [op_call(GRADIENT, tensor([4, 4], "c10::BFloat16"))]
    rates = (
        scalar("0.1"),
        scalar("0.9"),
        scalar("0.99"),
        scalar("0."),
        scalar("1e-8"),
        scalar("False"),
        scalar("False"),
    )
    call = spec("aten::_fused_adamw_", *[DROPPED] * 6, *rates, ABSENT, ABSENT, near=near)
    assert shapes(found(call, "grads")[0]) == [((4, 4), "bfloat16")]
    assert found(call, "max_exp_avg_sqs")[0].entries == ()
    assert shapes(found(call, "state_steps")[0]) == [((), "float32")]


MISLEADING = [op_call("aten::mul", tensor([3, 3], "c10::BFloat16")), op_call("aten::mul", tensor([2, 2], HALF))]


@pytest.mark.parametrize(
    ("functor", "operation", "dtype"),
    [
        ("UnaryOpFunctor<long, 2, 1, 1>", "at::native::Abs<long>", "int64"),
        ("UnaryOpFunctor<c10::complex<float>, 2, 1, 1>", "std::negate<c10::complex<float> >", "complex64"),
        ("BinaryOpScalarFunctor<c10::BFloat16, 2, 1, 1>", "std::plus<float>, float", "bfloat16"),
        ("BinaryOpListAlphaFunctor<bool, 3, 2, 2>", "std::multiplies<bool>, bool", "bool"),
        ("LpMaxFunctor<int, 1, 1, 0>", "int*, int", "int32"),
    ],
)
def test_the_kernel_of_all_tensors_tells_their_dtype(functor: str, operation: str, dtype: str) -> None:
    call = spec("aten::_foreach_abs_", tensors([3, 3], [2, 2]), near=MISLEADING)
    (option,) = found(call, "self", kernels=["Memset (Device)", many(functor, operation)])
    assert shapes(option) == [((3, 3), dtype), ((2, 2), dtype)]
    assert option.notes == ()


def test_a_copy_between_dtypes_has_that_of_either_list() -> None:
    kernels = [many("CopyFunctor<float, c10::Half, 2, 1, 1>", "Copy<float, c10::Half>")]
    call = spec("aten::_foreach_copy_", tensors([3, 3]), tensors([3, 3]), scalar("False"))
    assert shapes(found(call, "self", kernels=kernels)[0]) == [((3, 3), "float32")]
    assert shapes(found(call, "src", 1, kernels)[0]) == [((3, 3), "float16")]


def test_the_dtype_of_lists_chooses_the_call() -> None:
    """A complex alpha is refused where the lists are taken for floats."""
    lists_of = tensors([3, 3], [2, 2])
    call = spec("aten::_foreach_add", lists_of, lists_of, scalar("3.+3.j"), near=MISLEADING)
    kernel = many("BinaryOpListAlphaFunctor<c10::complex<float>, 3, 2, 2>", "std::plus<c10::complex<float> >")
    built = next(iter(candidates(call, "cpu", kernels=[kernel])))
    assert {str(one.dtype) for one in built.call()} == {"torch.complex64"}


def test_results_have_the_dtype_of_the_lists() -> None:
    below = [result([3, 3], 4), result([2, 2], 4)]
    (option,) = found(spec("aten::_foreach_abs", tensors([3, 3], [2, 2]), below=below, near=MISLEADING))
    assert shapes(option) == [((3, 3), "int64"), ((2, 2), "int64")]


def test_results_beside_other_calls_may_have_another_dtype() -> None:
    """`_foreach_abs` of complex numbers makes real ones, one tensor at a time."""
    below = [op_call("aten::abs", tensor([3, 3], "c10::complex<float>")), result([3, 3], 6)]
    (option,) = found(spec("aten::_foreach_abs", tensors([3, 3]), below=below))
    assert shapes(option) == [((3, 3), "complex64")]


def test_long_foreach_list_from_its_results() -> None:
    below = [ChildCall(result([4, 2], 15), times=30), ChildCall(result([], 15))]
    (option,) = found(spec("aten::_foreach_sqrt", DROPPED, below=below))
    assert shapes(option) == [((4, 2), "bfloat16")] * 30 + [((), "bfloat16")]
    assert option.notes == ("list-from-children",)


def test_gradients_have_the_order_of_results_that_are_counted_together() -> None:
    below = [ChildCall(result([4, 2], 15), times=2), ChildCall(result([2], 15), times=30)]
    order = [[4, 2], *[[2]] * 15, [4, 2], *[[2]] * 15]
    near = [op_call(GRADIENT, tensor(dims)) for dims in order]
    (option,) = found(spec("aten::_foreach_sqrt", DROPPED, below=below, near=near))
    assert shapes(option) == [(tuple(dims), "bfloat16") for dims in order]
    (other,) = found(spec("aten::_foreach_sqrt", DROPPED, below=below, near=near[1:]))
    assert shapes(other) == [((4, 2), "bfloat16")] * 2 + [((2,), "bfloat16")] * 30


def test_steps_of_an_optimizer_are_float32() -> None:
    near = [op_call("aten::mul", tensor([], "c10::BFloat16"))]
    assert shapes(found(spec("aten::_fused_adamw_", tensors([], []), near=near), "state_steps")[0]) == [
        ((), "float32"),
        ((), "float32"),
    ]


def test_steps_of_an_optimizer_on_a_host_are_of_any_dtype() -> None:
    below = [op_call("aten::item", tensor([], "double"))]
    assert shapes(found(spec("aten::_fused_adam_", tensors([]), below=below), "state_steps")[0]) == [((), "float64")]


def test_lists_all_the_way_down_tell_no_dtype() -> None:
    """`column_stack` calls `hstack`, which calls `cat`: lists, of which no dtype is recorded."""
    pieces = tensors([5, 2], [5, 3])
    below = [op_call("aten::hstack", pieces), ChildCall(op_call("aten::cat", pieces, scalar(1)), depth=2)]
    options = found(spec("aten::column_stack", pieces, below=below, near=[op_call("aten::mul", tensor([5, 2], HALF))]))
    assert [one.entries[1].dtype for one in options] == ["float16", "float32", "bfloat16", "int64", "bool"]


def test_long_list_without_evidence() -> None:
    with pytest.raises(UnresolvedCallError) as caught:
        found(spec("aten::cat", DROPPED, scalar(0)))
    assert caught.value.reason is Reason.LIST_DROPPED


def test_index_tensors_of_a_sum_into_places_on_a_gpu() -> None:
    """What makeLinearIndex of aten/src/ATen/native/cuda/Indexing.cu calls: two tensors, broadcast to each other."""
    rows, columns = tensor([3, 1], "long int"), tensor([4], "long int")
    wide = tensor([3, 4], "long int", [1, 0]), tensor([3, 4], "long int", [0, 1])
    below = [
        op_call("aten::expand", rows, numbers("[3, 4]"), scalar("False")),
        op_call("aten::expand", columns, numbers("[3, 4]"), scalar("False")),
        *(op_call("aten::remainder", one, scalar(size)) for one, size in zip(wide, (8, 6), strict=True)),
        op_call("aten::mul", tensor([3, 4], "long int"), scalar(30)),
        op_call("aten::mul", tensor([3, 4], "long int"), scalar(5)),
        op_call("aten::add", tensor([3, 4], "long int"), tensor([3, 4], "long int"), scalar(1)),
    ]
    flags = (scalar("True"), scalar("True"))
    call = spec("aten::_index_put_impl_", tensor([8, 6, 5]), ABSENT, tensor([5]), *flags, below=below)
    listed = lists.indices(call, (8, 6, 5))
    assert [(one.dims, one.fill.high) for one in listed if one is not None] == [((3, 1), 8), ((4,), 6)]
    (built, *_) = candidates(call, "cpu")
    built.call()


def test_a_linear_index_that_is_flattened_is_no_index_of_the_first_dim() -> None:
    rows, columns = tensor([7], "long int"), tensor([7], "long int")
    below = [op_call("aten::remainder", one, scalar(size)) for one, size in ((rows, 8), (columns, 5))]
    below += [op_call("aten::mul", rows, scalar(5)), op_call("aten::mul", columns, scalar(1))]
    below += [op_call("aten::reshape", tensor([7], "long int"), numbers("[-1]"))]
    call = spec("aten::_index_put_impl_", tensor([9, 8, 5]), ABSENT, tensor([9, 7]), below=below)
    listed = lists.indices(call, (9, 8, 5))
    assert [one and (one.dims, one.fill.high) for one in listed] == [None, ((7,), 8), ((7,), 5)]


def test_the_second_dim_alone_is_listed_by_its_stride() -> None:
    index = tensor([7], "long int")
    below = [op_call("aten::remainder", index, scalar(8)), op_call("aten::mul", index, scalar(5))]
    call = spec("aten::_index_put_impl_", tensor([8, 8, 5]), ABSENT, tensor([8, 7, 5]), below=below)
    listed = lists.indices(call, (8, 8, 5))
    assert [None if one is None else one.dims for one in listed] == [None, (7,)]
