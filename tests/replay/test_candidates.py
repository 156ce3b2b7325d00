from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kerneldb.replay import resolve
from kerneldb.replay.resolve import CallFailedError, Reason, UnresolvedCallError, candidates
from kerneldb.replay.routes.aten import AtenRoute
from kerneldb.replay.wire.plan import CallSpec, Item, PlannedKernel
from tests.replay.specs import ABSENT, Recorded, numbers, op_call, scalar, spec, tensor, tensors

torch = pytest.importorskip("torch", reason="torch is not installed")

A = tensor([2, 3])
HALF = "c10::Half"
DROPPED: Recorded = ([], [], "TensorList", "")
ATTENTION = tensor([2, 4, 16, 8], "c10::BFloat16")
PACKED = tensor([2, 16, 4, 8], "c10::BFloat16")


def first(call: CallSpec, device: str = "cpu") -> resolve.BuiltCall:
    return next(iter(candidates(call, device)))


def test_call_runs_with_the_recorded_layout() -> None:
    built = first(spec("aten::mm", tensor([2, 3], strides=[1, 2]), tensor([3, 4])))
    assert built.call().shape == (2, 4)
    assert built.args[0].stride() == (1, 2)
    assert [(one.name, one.bytes) for one in built.inputs] == [("self", 24), ("mat2", 48)]
    assert (built.overload, built.notes) == ("aten::mm.default", ())


def test_keywords_and_enums() -> None:
    built = first(spec("aten::_to_copy", A, scalar(5), scalar(0), ABSENT, ABSENT, scalar("False"), scalar(1)))
    assert built.call().dtype is torch.float16
    assert built.kwargs["memory_format"] is torch.preserve_format


def test_python_number_comes_before_a_tensor() -> None:
    call = spec("aten::mul", tensor([2], HALF), tensor([], "double"))
    plain = list(candidates(call, "cpu", hidden=False))
    assert [type(built.args[1]) for built in plain] == [float, torch.Tensor]
    assert "wrapped-number" in plain[0].notes
    assert plain[0].call().dtype is torch.float16


def test_wrapped_number_takes_the_value_of_the_call_around() -> None:
    around = op_call("aten::div", tensor([2], HALF), scalar("8."))
    assert first(spec("aten::div", tensor([2], HALF), tensor([], "double"), parent=around)).args[1] == 8.0


@pytest.mark.parametrize(("op", "number"), [("mul", 0.5), ("mul_", 0.5), ("div", 8.0), ("add", 1e-5), ("sub", 1.5)])
def test_unknown_numbers_do_not_make_values_grow(op: str, number: float) -> None:
    alpha = [scalar(1)] if op in {"add", "sub"} else []
    assert first(spec(f"aten::{op}", tensor([2], HALF), tensor([], "double"), *alpha)).args[1] == number


def test_texts_are_enumerated() -> None:
    built = list(candidates(spec("aten::gelu", A, ABSENT), "cpu", hidden=False))
    assert [one.kwargs["approximate"] for one in built] == ["none", "tanh"]
    assert built[1].notes == ("string=tanh",)


def test_a_decomposition_has_modes_of_its_own() -> None:
    built = list(candidates(spec("aten::linalg_qr", A, ABSENT), "cpu", hidden=False))
    assert [one.args[1] for one in built] == ["reduced", "complete", "r"]


def test_parent_settles_a_text() -> None:
    around = op_call("aten::floor_divide", A, A)
    assert first(spec("aten::div", A, A, ABSENT, parent=around)).kwargs["rounding_mode"] == "floor"


@pytest.mark.parametrize(
    ("op", "below", "mode", "norm"),
    [
        ("fft_fft", "_fft_c2c", 0, None),
        ("fft_fft", "_fft_c2c", 1, "ortho"),
        ("fft_hfft", "_fft_c2r", 2, "forward"),
        ("fft_rfft", "_fft_r2c", 1, "ortho"),
        ("fft_ifft", "_fft_c2c", 2, None),
        ("fft_ihfft", "_fft_r2c", 0, "forward"),
    ],
)
def test_norm_of_a_transform_from_the_mode_that_it_passes_on(op: str, below: str, mode: int, norm: str | None) -> None:
    complex_ = tensor([4, 6], "float" if below == "_fft_r2c" else "c10::complex<float>")
    inner = op_call(f"aten::{below}", complex_, numbers("[1]"), scalar(mode), scalar("True"))
    built = list(candidates(spec(f"aten::{op}", complex_, ABSENT, scalar(-1), ABSENT, below=[inner]), "cpu"))
    assert built[0].kwargs.get("norm", built[0].args[-1]) == norm
    assert [f"string={one}" in built[0].notes for one in (norm, "backward")] == [True, False]


def test_norms_are_tried_where_nothing_tells() -> None:
    built = list(candidates(spec("aten::fft_rfft", A, ABSENT, scalar(-1), ABSENT), "cpu", hidden=False))
    assert [one.args[-1] for one in built] == [None, "ortho", "forward"]


def test_equation_of_an_einsum_from_its_permutes() -> None:
    """ibh,hnd->ibnd: places i b n d h; each operand is widened to five dims and permuted to them."""
    permutes = [
        op_call("aten::permute", tensor([9, 2, 32, 1, 1]), numbers("[0, 1, 3, 4, 2]")),
        op_call("aten::permute", tensor([32, 4, 8, 1, 1]), numbers("[3, 4, 1, 2, 0]")),
    ]
    call = spec("aten::einsum", ABSENT, tensors([9, 2, 32], [32, 4, 8]), ABSENT, below=permutes)
    built = first(call)
    assert built.args[0] == "abe,ecd->abcd"
    assert built.call().shape == (9, 2, 4, 8)


def test_unknown_text_is_a_reason() -> None:
    with pytest.raises(UnresolvedCallError) as caught:
        first(spec("aten::einsum", ABSENT, tensors([2, 3], [3, 4]), ABSENT))
    assert caught.value.reason is Reason.TEXT


def test_refused_call_quotes_torch() -> None:
    built = first(spec("aten::mm", tensor([2, 3]), tensor([4, 5])))
    with pytest.raises(CallFailedError, match=r"aten::mm.default: RuntimeError"):
        built.call()


def test_undefined_tensor_for_a_required_argument() -> None:
    mean = tensor([2, 1])
    call = spec("aten::native_layer_norm_backward", A, A, numbers("[3]"), mean, mean, ABSENT, ABSENT,
                numbers("[True, False, False]"))  # fmt: skip
    assert first(call).call()[0].shape == (2, 3)


def test_as_strided_sees_past_its_input() -> None:
    call = spec("aten::as_strided", tensor([4]), numbers("[3, 4]"), numbers("[10, 1]"), scalar(5))
    built = first(call)
    assert built.call().shape == (3, 4)
    assert not built.args[0]._is_view()


def test_storage_argument() -> None:
    call = spec("aten::set_", tensor([0]), ABSENT, scalar(2), numbers("[3]"), numbers("[1]"))
    built = first(call)
    assert built.overload == "aten::set_.source_Storage_storage_offset"
    assert built.call().shape == (3,)


def test_factories_run_on_the_device() -> None:
    call = spec("aten::full", numbers("[2, 3]"), scalar("1."), ABSENT, ABSENT, ABSENT, ABSENT)
    built = list(candidates(call, "meta", hidden=False))
    assert built[0].call().device.type == "meta"
    assert built[1].kwargs["device"] is None


def test_lost_scalars_of_old_traces() -> None:
    built = first(spec("aten::softmax", A, scalar(""), ABSENT))
    assert "scalar-unknown" in built.notes


def test_long_split_from_its_pieces() -> None:
    piece = op_call("aten::as_strided", tensor([4, 2]), numbers("[2, 2]"), numbers("[2, 1]"), scalar(0))
    call = spec("aten::split_with_sizes", tensor([4, 2]), ABSENT, scalar(0), below=[resolve.ChildCall(piece, 1, 2)])
    assert [len(part) for part in first(call).call()] == [2, 2]


def test_long_scalar_list_beside_tensors() -> None:
    call = spec("aten::_foreach_mul_", tensors([2], [3]), ABSENT)
    built = next(one for one in candidates(call, "cpu") if one.overload.endswith("ScalarList"))
    assert built.args[1] == [1.0, 1.0]


def test_fresh_and_refilled_inputs() -> None:
    built = first(spec("aten::mul_", A, A))
    before = built.args[0].clone()
    other = built.resolved.build("cpu", seed=1)
    assert not torch.equal(before, other.args[0])
    built.call()
    built.refill(seed=0)
    assert torch.equal(before, built.args[0])


def index_spec(dims: list[int], argument: Recorded, reshaped: str, sizes: str, steps: str) -> CallSpec:
    children = [
        op_call("aten::as_strided", tensor(dims), numbers(sizes), numbers(steps), ABSENT),
        op_call("aten::reshape", argument, numbers(reshaped)),
    ]
    return spec("aten::index", tensor(dims), ABSENT, below=children)


@pytest.mark.parametrize(
    ("call", "position", "shape"),
    [
        (index_spec([5, 4], tensor([3], "long int"), "[3, 1]", "[3, 4]", "[0, 1]"), 0, (3, 4)),
        (index_spec([5, 4], tensor([3], "long int"), "[1, 3]", "[5, 3]", "[4, 0]"), 1, (5, 3)),
    ],
)
def test_index_lists_from_children(call: CallSpec, position: int, shape: tuple[int, ...]) -> None:
    built = first(call)
    assert [one is not None for one in built.args[1]] == [False] * position + [True]
    assert built.call().shape == shape


def test_mask_index_selects_as_many_as_recorded() -> None:
    children = [
        op_call("aten::nonzero", tensor([4, 5], "bool")),
        *[op_call("aten::reshape", tensor([7], "long int"), numbers("[7]"))] * 2,
    ]
    call = spec("aten::index", tensor([4, 5]), ABSENT, below=[resolve.ChildCall(one) for one in children])
    assert first(call).call().shape == (7,)


def test_broadcast_indices_keep_their_own_dims() -> None:
    wide = tensor([2, 3], "long int", [1, 0]), tensor([2, 3], "long int", [0, 1])
    narrow = tensor([2, 1], "long int"), tensor([1, 3], "long int")
    children = [
        *(op_call("aten::expand", one, numbers("[2, 3]"), scalar("False")) for one in narrow),
        op_call("aten::as_strided", tensor([4, 5]), numbers("[2, 3]"), numbers("[0, 0]"), ABSENT),
        *(op_call("aten::reshape", one, numbers("[2, 3]")) for one in wide),
    ]
    built = first(spec("aten::index", tensor([4, 5]), ABSENT, below=children))
    assert [tuple(one.shape) for one in built.args[1]] == [(2, 1), (1, 3)]
    assert built.call().shape == (2, 3)


def test_index_without_evidence() -> None:
    with pytest.raises(UnresolvedCallError) as caught:
        first(spec("aten::index", A, ABSENT))
    assert caught.value.reason is Reason.INDICES


def hidden(call: CallSpec, device: str = "cpu") -> dict[str, resolve.ResolvedCall]:
    return {
        note: resolved
        for resolved in resolve.resolved_calls(call, device)
        for note in resolved.notes
        if note.startswith("hidden:")
    }


def test_hidden_offsets() -> None:
    found = hidden(spec("aten::mm", tensor([2, 3]), tensor([3, 4])))
    built = found["hidden:misaligned(mat2)"].build("cpu")
    assert [one.storage_offset() for one in built.args] == [0, 1]
    assert "hidden:offset(all)" in found


def test_hidden_alias_shares_the_tensor() -> None:
    built = hidden(spec("aten::mul", A, A))["hidden:aliased(self,other)"].build("cpu")
    assert built.args[0] is built.args[1]
    assert len(built.inputs) == 1


def test_hidden_places_of_scalars_and_copies() -> None:
    notes = hidden(spec("aten::mul", tensor([2]), tensor([], "double")), "cuda")
    assert "hidden:host-scalar(other)" not in notes  # a Python number is the first choice here
    assert "hidden:host-scalar(other)" in hidden(spec("aten::mul", tensor([2]), tensor([])), "cuda")
    copies = hidden(spec("aten::copy_", A, A, scalar("False")), "cuda")
    assert {"hidden:cpu(src)", "hidden:pinned(self)"} <= set(copies)


def test_sparse_factories_take_no_device_for_the_host() -> None:
    indices, flags = tensor([3], "long int"), (ABSENT, ABSENT, ABSENT, scalar("False"))
    call = spec("aten::sparse_csr_tensor", indices, indices, tensor([3]), numbers("[2, 2]"), *flags)
    on_paper = resolve.resolved_calls(call, "meta", hidden=False)
    assert [one.values[6] for one in on_paper] == [None, torch.device("meta")]


def test_the_size_of_numbers_comes_before_their_place_where_it_decides() -> None:
    made = list(candidates(spec("aten::linalg_matrix_exp", tensor([3, 3])), "cpu"))
    assert [one.notes[-1] for one in made[1:4]] == [f"hidden:deviation={one}(self)" for one in (4, 8, 2)]


def test_what_launched_nothing_may_have_worked_in_host_memory() -> None:
    """AdamW adds one to its steps there, where it runs by `_foreach_` calls."""
    steps = spec("aten::_foreach_add_", tensors([], []), tensor([]), scalar(1), near=[op_call("aten::sqrt", A)])
    kernel = PlannedKernel(0, "s", "some kernel")
    launched, silent = (
        [*AtenRoute().prepare(Item("i", "aten", steps, kernels), "meta")] for kernels in ((kernel,), ())
    )
    assert {one.tensor.device.type for one in launched[0].inputs} == {"meta"}
    there = [one for one in silent if "hidden:on-host" in one.notes]
    assert [{one.tensor.device.type for one in call.inputs} for call in there] == [{"cpu"}]
    assert not any("hidden:on-host" in one.notes for one in launched)


def test_hidden_unread_input() -> None:
    bias = tensor([2, 4])
    found = hidden(spec("aten::addmm", bias, tensor([2, 3]), tensor([3, 4]), scalar("0"), scalar("1")))
    assert found["hidden:uninitialised(self)"].build("cpu").call().shape == (2, 4)
    read = hidden(spec("aten::addmm", bias, tensor([2, 3]), tensor([3, 4]), scalar("1"), scalar("1")))
    assert "hidden:uninitialised(self)" not in read


def test_hidden_index_orders() -> None:
    call = spec(
        "aten::embedding", tensor([9, 4]), tensor([3], "long int"), scalar(-1), scalar("False"), scalar("False")
    )
    ordered = hidden(call)["hidden:range(indices)"].build("cpu")
    assert ordered.args[1].tolist() == [0, 1, 2]


def test_hidden_autograd() -> None:
    child = op_call("aten::t", tensor([4, 3]))
    call = spec("aten::linear", A, tensor([4, 3]), ABSENT, below=[child])
    assert hidden(call)["hidden:autograd"].build("cpu").call().requires_grad


SCALE = (scalar("0."), scalar("True"))
GPU_ONLY: list[tuple[str, tuple[Any, ...]]] = [
    ("aten::cudnn_convolution", (tensor([1, 3, 8, 8]), tensor([4, 3, 3, 3]), numbers("[1, 1]"), numbers("[1, 1]"),
                                 numbers("[1, 1]"), scalar(1), scalar("False"), scalar("False"), scalar("True"))),
    ("aten::miopen_convolution", (tensor([1, 3, 8, 8]), tensor([4, 3, 3, 3]), ABSENT, numbers("[1, 1]"),
                                  numbers("[1, 1]"), numbers("[1, 1]"), scalar(1), scalar("False"), scalar("False"))),
    ("aten::cudnn_batch_norm", (tensor([2, 3, 4, 4]), *[tensor([3])] * 4, scalar("True"), scalar("0.1"),
                                scalar("1e-05"))),
    ("aten::_scaled_dot_product_cudnn_attention_backward",
     (*[ATTENTION] * 5, tensor([2, 4, 16, 1]), *[tensor([], "long int")] * 2, *[ABSENT] * 3, scalar(16), scalar(16),
      *SCALE, scalar("0.125"))),
    ("aten::_scaled_dot_product_flash_attention_backward",
     (*[ATTENTION] * 5, tensor([2, 4, 16]), ABSENT, ABSENT, scalar(16), scalar(16), *SCALE,
      *[tensor([], "long int")] * 2, ABSENT)),
    ("aten::_flash_attention_forward", (*[PACKED] * 3, ABSENT, ABSENT, scalar(16), scalar(16), scalar("0."),
                                        scalar("False"), scalar("False"), scalar("0.125"), ABSENT, ABSENT)),
    ("aten::_efficient_attention_forward",
     (*[tensor([1, 32, 4, 8], HALF)] * 3, ABSENT, *[tensor([3], "int")] * 2, scalar(16), scalar(16), scalar("0."),
      scalar(1), scalar("False"), ABSENT, ABSENT, ABSENT)),
    ("aten::nll_loss_backward", (tensor([]), tensor([6, 11]), tensor([6], "long int"), ABSENT, scalar(1), scalar(-100),
                                 tensor([]))),
    ("aten::embedding_dense_backward", (tensor([2, 5, 8]), tensor([2, 5], "long int"), scalar(50), scalar(-1),
                                        scalar("False"))),
    ("aten::_fused_adamw_", (*[tensors([4, 4], [4])] * 4, DROPPED, tensors([], []), scalar("0.1"), scalar("0.9"),
                             scalar("0.99"), scalar("0."), scalar("1e-08"), scalar("False"), scalar("False"), ABSENT,
                             ABSENT)),
    ("aten::_scaled_mm", (tensor([16, 32], "c10::Float8_e4m3fn"), tensor([32, 16], "c10::Float8_e4m3fn", [1, 32]),
                          tensor([]), tensor([]), ABSENT, ABSENT, scalar(15), scalar("True"))),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arguments"), GPU_ONLY, ids=[op for op, _ in GPU_ONLY])
def test_operators_of_gpus_are_built(op: str, arguments: tuple[Any, ...]) -> None:
    built = first(spec(op, *arguments), "meta")
    assert built.overload == f"{op}.default"
    assert all(one.tensor.device.type == "meta" for one in built.inputs)


CALLABLE: dict[str, Callable[[Any], bool]] = {
    "aten::nll_loss_backward": lambda result: bool(result.shape == (6, 11) and result.isfinite().all()),
    "aten::embedding_dense_backward": lambda result: bool(result.shape == (50, 8)),
    "aten::_fused_adamw_": lambda result: result is None,
}


@pytest.mark.parametrize("op", CALLABLE)
def test_those_with_a_cpu_kernel_run(op: str) -> None:
    built = first(spec(op, *dict(GPU_ONLY)[op]))
    assert CALLABLE[op](built.call())


def test_operators_of_other_libraries() -> None:
    library = torch.library.Library("kerneldb_test", "DEF")
    library.define("attend(Tensor query, Tensor key_cache, Tensor block_table, str kv_cache_dtype) -> Tensor")
    library.impl("attend", lambda query, *_: query * 2, "CPU")
    resolve.load_libraries(["json"])
    cache, table = tensor([7, 16, 2, 8], HALF), tensor([3, 4], "int")
    built = first(spec("kerneldb_test::attend", tensor([3, 16], HALF), cache, table, ABSENT))
    assert built.overload == "kerneldb_test::attend.default"
    assert int(built.args[2].max()) < 7
    assert built.call().shape == (3, 16)
