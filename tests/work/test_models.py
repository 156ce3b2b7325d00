"""Problems of real operator calls, computed by hand.

The calls are from traces of BLOOM-560M, GPT-2 and Qwen1.5-0.5B on H100 and H200; expected numbers are written out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.work import LaunchShape, OpCall, Problem, problem, supported_ops

if TYPE_CHECKING:
    from collections.abc import Callable

KERNEL = LaunchShape("kernel", (1, 1, 1), (32, 4, 1))
HALF, BF16, LONG, SCALAR = "c10::Half", "c10::BFloat16", "long int", "Scalar"


def call(op: str, *args: tuple[Any, ...]) -> OpCall:
    """A call from (dims, strides, dtype) tensors and (dtype, text) scalars."""
    full = [(*arg, "") if len(arg) == 3 else ([], [], *arg) for arg in args]
    dims, strides, dtypes, scalars = (json.dumps(list(column)) for column in zip(*full, strict=True))
    return OpCall(op, dims, strides, dtypes, scalars)


def dense(dtype: str, *dims: int) -> tuple[list[int], list[int], str]:
    """A contiguous tensor."""
    strides, step = [0] * len(dims), 1
    for axis in reversed(range(len(dims))):
        strides[axis], step = step, step * dims[axis]
    return list(dims), strides, dtype


def sized(found: Problem) -> tuple[int | None, int | None, int | None, int | None]:
    return found.gemm_batch, found.gemm_m, found.gemm_n, found.gemm_k


FUSED = (
    "bf16[512,2,384] x bf16[2,384,256] -> f32[2,512,256], lhs_contracting_dims={2}, rhs_contracting_dims={1}, "
    "lhs_batch_dims={1}, rhs_batch_dims={0}"
)
ONE, ZERO = (SCALAR, "1"), (SCALAR, "0.")
QKV = ([1024], [1], HALF), ([64, 1024], [1024, 1], HALF), ([1024, 3072], [1, 1024], HALF)
ADDMM = call("aten::addmm", *QKV[:0], ([3072], [1], HALF), *QKV[1:], ONE, ONE)
BADDBMM = call(
    "aten::baddbmm",
    *(dense(HALF, 16, 1, 65), ([16, 1, 64], [192, 64, 1], HALF), ([16, 64, 65], [4160, 1, 64], HALF)),
    *((SCALAR, "1."), (SCALAR, "0.125")),
)

GEMMS = {
    "bloom qkv projection": (ADDMM, (1, 64, 3072, 1024), 2 * (3072 + 64 * 1024 + 1024 * 3072 + 64 * 3072)),
    "bloom decode scores": (BADDBMM, (16, 1, 65, 64), 2 * (16 * 65 + 16 * 64 + 16 * 64 * 65 + 16 * 65)),
    "gpt2 logits": (
        call("aten::mm", dense(BF16, 4096, 768), ([768, 50257], [1, 768], BF16)),
        *((1, 4096, 50257, 768), 2 * (4096 * 768 + 768 * 50257 + 4096 * 50257)),
    ),
    "compiled mm with out=": (
        call("aten::mm", *[dense(HALF, 8192, 8192)] * 3),
        *((1, 8192, 8192, 8192), 2 * 3 * 8192**2),
    ),
    "bloom decode values": (
        call("aten::bmm", dense(HALF, 16, 1, 65), dense(HALF, 16, 65, 64)),
        *((16, 1, 64, 65), 2 * 16 * (65 + 65 * 64 + 64)),
    ),
    "rotary frequencies with an expanded factor": (
        call("aten::bmm", ([3, 32, 1], [0, 1, 1], "float"), dense("float", 3, 1, 559)),
        *((3, 32, 559, 1), 4 * (32 + 3 * 559 + 3 * 32 * 559)),
    ),
    "linear on a batch": (
        call("aten::linear", dense(BF16, 2, 7, 16), dense(BF16, 5, 16), dense(BF16, 5)),
        *((1, 14, 5, 16), 2 * (14 * 16 + 5 * 16 + 5 + 14 * 5)),
    ),
    "matmul of a stack and a matrix": (
        call("aten::matmul", dense("float", 2, 7, 16), dense("float", 16, 5)),
        *((1, 14, 5, 16), 4 * (14 * 16 + 16 * 5 + 14 * 5)),
    ),
    "mv": (call("aten::mv", dense("double", 6, 4), dense("double", 4)), (1, 6, 1, 4), 8 * (24 + 4 + 6)),
    "dot": (call("aten::dot", dense("float", 100), dense("float", 100)), (1, 1, 1, 100), 4 * 201),
    "int8": (
        call("aten::_int_mm", dense("signed char", 32, 64), dense("signed char", 64, 16)),
        *((1, 32, 16, 64), 32 * 64 + 64 * 16 + 4 * 32 * 16),
    ),
    "fp8 to bf16": (
        call(
            "aten::_scaled_mm",
            *(dense("c10::Float8_e4m3fn", 32, 64), ([64, 16], [1, 64], "c10::Float8_e4m3fn")),
            *(dense("float"), dense("float"), ("", ""), ("", ""), (SCALAR, "15"), (SCALAR, "True")),
        ),
        *((1, 32, 16, 64), 32 * 64 + 64 * 16 + 2 * 32 * 16),
    ),
    "a fused product of XLA": (
        call("hlo::dot", *(dense(BF16, 512, 2, 384), dense(BF16, 384), dense(BF16, 2, 384, 256)), ("", FUSED)),
        *((2, 512, 256, 384), 2 * (512 * 2 * 384 + 384 + 2 * 384 * 256) + 4 * 2 * 512 * 256),
    ),
    "experts on rows": (
        call("aten::_grouped_mm", dense(BF16, 100, 64), dense(BF16, 4, 64, 32), dense("int", 4), ("", ""), ("", "")),
        *((1, 100, 32, 64), 2 * (100 * 64 + 4 * 64 * 32 + 100 * 32)),
    ),
    "int4 weights": (
        call(
            "aten::_weight_int4pack_mm",
            *(dense(BF16, 3, 256), dense("int", 4, 2, 32, 4), (SCALAR, "128"), dense(BF16, 2, 32, 2)),
        ),
        *((1, 3, 32, 256), 2 * 3 * 256 + 4 * 4 * 2 * 32 * 4 + 2 * 2 * 32 * 2 + 2 * 3 * 32),
    ),
}


@pytest.mark.parametrize(("op_call", "sizes", "moved"), GEMMS.values(), ids=GEMMS)
def test_gemm(op_call: OpCall, sizes: tuple[int, int, int, int], moved: int, make_name: Callable[..., Any]) -> None:
    found = problem(op_call, make_name("GEMM", "nvjet"), KERNEL)
    batch, m, n, k = sizes
    assert sized(found) == sizes
    assert found.flops == 2 * batch * m * n * k
    assert found.moved_bytes == moved
    assert (found.dims_source, found.numel) == ("op", batch * m * n)


def test_beta_zero_leaves_the_addend_alone(make_name: Callable[..., Any]) -> None:
    shapes = dense("float", 4, 8), dense("float", 4, 2), dense("float", 2, 8)
    read = problem(call("aten::addmm", *shapes, ONE, ONE), make_name("GEMM"), KERNEL)
    ignored = problem(call("aten::addmm", *shapes, ZERO, ONE), make_name("GEMM"), KERNEL)
    assert read.moved_bytes is not None
    assert ignored.moved_bytes == read.moved_bytes - 4 * 4 * 8


@pytest.mark.parametrize(
    ("category", "family"),
    [("GEMM", "splitKreduce"), ("GEMM", "cublasLt_epilogue"), ("REDUCTION", "reduce"), ("OTHER", None), (None, None)],
)
def test_helpers_of_a_gemm_get_none_of_its_work(
    category: str | None, family: str | None, make_name: Callable[..., Any]
) -> None:
    assert problem(ADDMM, make_name(category, family), KERNEL) == Problem()


@pytest.mark.parametrize(
    "said",
    [
        FUSED.replace("lhs_contracting_dims={2}", "lhs_contracting_dims={1}"),
        FUSED.replace("rhs_batch_dims={0}", "rhs_batch_dims={7}"),
        FUSED.replace("f32[2,512,256]", "f32[2,512]"),
        FUSED.split(",", maxsplit=1)[0],
        "",
    ],
)
def test_a_product_of_xla_that_does_not_fit_gives_nothing(said: str, make_name: Callable[..., Any]) -> None:
    call_ = call("hlo::dot", dense(BF16, 512, 2, 384), dense(BF16, 2, 384, 256), ("", said))
    assert problem(call_, make_name("GEMM"), KERNEL).flops is None


def test_shapes_that_do_not_fit_give_nothing(make_name: Callable[..., Any]) -> None:
    for op in ("mm", "matmul", "linear", "_scaled_mm", "_int_mm"):
        found = problem(call(f"aten::{op}", dense("float", 3, 4), dense("float", 5, 6)), make_name("GEMM"), KERNEL)
        assert found == Problem(), op


POINTWISE = {
    # BLOOM: the Python factor is recorded as a zero-dimensional double and travels as a kernel argument.
    "times a number": (
        call("aten::mul", dense(HALF, 1, 64, 4096), ([], [], "double")),
        *(64 * 4096, 64 * 4096, 2 * 2 * 64 * 4096),
    ),
    "expanded mask": (
        call("aten::add", dense(HALF, 1, 16, 64, 64), dense(HALF, 1, 1, 64, 64), ONE),
        *(16 * 64 * 64, 16 * 64 * 64, 2 * (2 * 16 * 64 * 64 + 64 * 64)),
    ),
    # Qwen: a row of weights times a batch.
    "weights of a norm": (
        call("aten::mul", dense(BF16, 1024), dense(BF16, 16, 559, 1024)),
        *(16 * 559 * 1024, 16 * 559 * 1024, 2 * (1024 + 2 * 16 * 559 * 1024)),
    ),
    "mixed dtypes": (
        call("aten::add", dense(BF16, 8, 512, 768), dense("float", 8, 512, 768), ONE),
        *(8 * 512 * 768, 8 * 512 * 768, (2 + 4 + 4) * 8 * 512 * 768),
    ),
    "in place": (
        call("aten::add_", dense(BF16, 8, 3), dense("float", 8, 3), ONE),
        *(24, 24, (2 + 4 + 2) * 24),
    ),
    "outer comparison of integers": (
        call("aten::le", dense(LONG, 1, 1, 1, 64), dense(LONG, 1, 1, 64, 1)),
        *(64 * 64, None, 8 * 128 + 64 * 64),
    ),
    "with out=": (
        call("aten::mul", dense(BF16, 5), dense(BF16, 5), dense("float", 5)),
        *(5, 5, 2 * 2 * 5 + 4 * 5),
    ),
    "unary with out=": (call("aten::exp", dense(BF16, 5), dense("float", 5)), 5, 5, 2 * 5 + 4 * 5),
    "square root of integers": (call("aten::sqrt", dense(LONG, 9)), 9, None, None),
    "integers plus an integer": (call("aten::add", dense(LONG, 9), (SCALAR, "2"), ONE), 9, None, 2 * 8 * 9),
    "integers plus a fraction": (call("aten::add", dense(LONG, 9), (SCALAR, "0.5"), ONE), 9, None, None),
    "dropout": (
        call("aten::native_dropout", dense(BF16, 8, 512), (SCALAR, "0.1"), (SCALAR, "True")),
        *(4096, 4096, (2 + 2 + 1) * 4096),
    ),
    "select": (
        call("aten::where", dense("bool", 4, 4), ([], [], HALF), ([], [], HALF)),
        *(16, None, 16 + 2 * 16),
    ),
    "copy of an expanded row": (
        call("aten::copy_", dense(HALF, 16, 64, 64), ([16, 64, 64], [64, 0, 1], HALF), (SCALAR, "False")),
        *(16 * 64 * 64, None, 2 * (16 * 64 + 16 * 64 * 64)),
    ),
    "cast": (
        call("aten::copy_", dense(BF16, 768, 2304), dense("float", 768, 2304), (SCALAR, "False")),
        *(768 * 2304, None, 6 * 768 * 2304),
    ),
    "fill": (call("aten::fill_", dense(LONG, 8, 513), (SCALAR, "-100.")), 8 * 513, None, 8 * 8 * 513),
    "arange": (
        call("aten::arange", (SCALAR, "1"), (SCALAR, "17"), (SCALAR, "1"), ([0], [1], "int")),
        *(16, None, 4 * 16),
    ),
}


@pytest.mark.parametrize(("op_call", "numel", "flops", "moved"), POINTWISE.values(), ids=POINTWISE)
def test_pointwise(
    op_call: OpCall, numel: int, flops: int | None, moved: int | None, make_name: Callable[..., Any]
) -> None:
    found = problem(op_call, make_name("ELEMENTWISE", "elementwise"), KERNEL)
    assert (found.numel, found.flops, found.moved_bytes) == (numel, flops, moved)
    assert found.dims_source == "op"


OTHERS = {
    # Qwen, bf16 [16, 559, 1024] averaged over the last axis.
    "mean of rows": (
        call("aten::mean", dense("float", 16, 559, 1024), ("ScalarList", "[-1]"), (SCALAR, "True"), ("", "")),
        *("REDUCTION", 16 * 559 * 1024, 16 * 559 * 1024, 4 * (16 * 559 * 1024 + 16 * 559)),
    ),
    "gradient of a bias": (
        call("aten::sum", dense(BF16, 4096, 768), ("ScalarList", "[0]"), (SCALAR, "True"), ("", "")),
        *("REDUCTION", 4096 * 768, 4096 * 768, 2 * (4096 * 768 + 768)),
    ),
    "next token": (
        call("aten::argmax", ([1, 1, 250880], [16056320, 250880, 1], HALF), (SCALAR, "-1"), (SCALAR, "False")),
        *("REDUCTION", 250880, 250880, 2 * 250880 + 8),
    ),
    "all of a mask": (call("aten::all", dense("bool", 16, 559)), "REDUCTION", 8944, None, 8945),
    "maximum with its index": (
        call("aten::max", dense("float", 3, 5), (SCALAR, "1"), (SCALAR, "False")),
        *("REDUCTION", 15, 15, 4 * 15 + 4 * 3 + 8 * 3),
    ),
    "softmax to fp32": (
        call("aten::_softmax", dense(HALF, 1, 16, 1, 65), (SCALAR, "-1"), (SCALAR, "True")),
        *("SOFTMAX", 1040, None, (2 + 4) * 1040),
    ),
    "softmax backward": (
        call("aten::_log_softmax_backward_data", *[dense("float", 4096, 50257)] * 2, (SCALAR, "1"), (SCALAR, "6")),
        *("SOFTMAX", 4096 * 50257, None, 3 * 4 * 4096 * 50257),
    ),
    "layer norm": (
        call(
            "aten::native_layer_norm",
            *(
                dense(HALF, 1, 64, 1024),
                ("ScalarList", "[1024]"),
                dense(HALF, 1024),
                dense(HALF, 1024),
                (SCALAR, "1e-05"),
            ),
        ),
        *("NORMALIZATION", 64 * 1024, None, 2 * (2 * 64 * 1024 + 2 * 1024) + 2 * 4 * 64),
    ),
    "layer norm backward takes two kernels": (
        call("aten::native_layer_norm_backward", dense("float", 8, 512, 768), dense("float", 8, 512, 768)),
        *("NORMALIZATION", 8 * 512 * 768, None, None),
    ),
    "embedding of a prompt": (
        call("aten::index_select", dense(BF16, 151936, 1024), (SCALAR, "0"), dense(LONG, 8944)),
        *("INDEXING", 8944 * 1024, None, 8 * 8944 + 2 * 2 * 8944 * 1024),
    ),
    "gather through an expanded index": (
        call(
            "aten::gather",
            *(dense("float", 50257, 768), (SCALAR, "0"), ([4096, 768], [1, 0], LONG), (SCALAR, "False")),
            dense("float", 4096, 768),
        ),
        *("INDEXING", 4096 * 768, None, 8 * 4096 + 2 * 4 * 4096 * 768),
    ),
}


@pytest.mark.parametrize(("op_call", "category", "numel", "flops", "moved"), OTHERS.values(), ids=OTHERS)
def test_reductions_norms_and_indexing(
    op_call: OpCall, category: str, numel: int, flops: int | None, moved: int | None, make_name: Callable[..., Any]
) -> None:
    found = problem(op_call, make_name(category), KERNEL)
    assert (found.numel, found.flops, found.moved_bytes) == (numel, flops, moved)


def test_concatenation_takes_its_dtype_from_the_name(make_name: Callable[..., Any]) -> None:
    parts = OpCall(
        "aten::cat",
        "[[[0], [1, 16, 64, 64]], []]",
        "[[[1], [196608, 192, 3072, 1]], []]",
        '["TensorList", "Scalar"]',
        '["", "-2"]',
    )
    known = problem(parts, make_name("CONCAT", dtype="fp16"), KERNEL)
    assert (known.numel, known.moved_bytes) == (16 * 64 * 64, 2 * 2 * 16 * 64 * 64)
    assert problem(parts, make_name("CONCAT"), KERNEL).moved_bytes is None
    opaque = problem(parts, make_name("CONCAT", details={"element_bytes": 4}), KERNEL)
    assert opaque.moved_bytes == 2 * 4 * 16 * 64 * 64


QWEN_QKV = [dense(BF16, 16, 559, 16, 64)] * 3
NOTHING = ("", "")


def flash(causal: str, window: str = "") -> OpCall:
    """`_flash_attention_forward` as torch 2.6 records it on Qwen."""
    numbers = [(SCALAR, text) for text in ("559", "559", "0.", causal, "False", "0.125")]
    return call(
        "aten::_flash_attention_forward", *QWEN_QKV, NOTHING, NOTHING, *numbers, ("", window), NOTHING, NOTHING, NOTHING
    )


def test_flash_attention(make_name: Callable[..., Any]) -> None:
    full = 4 * 16 * 16 * 559 * 559 * 64
    name = make_name("ATTENTION", "flash_fwd")
    causal, dense_mask = problem(flash("True"), name, KERNEL), problem(flash("False"), name, KERNEL)
    assert (causal.flops, dense_mask.flops) == (full / 2, full)
    assert causal.moved_bytes == 4 * 2 * 16 * 559 * 16 * 64
    assert causal.work_method == "attention 4bhsd, causal /2"
    assert problem(flash("True"), make_name("ATTENTION", "flash_fwd_splitkv_combine"), KERNEL) == Problem()


def test_attention_flops_are_dropped_where_the_mask_is_not_known(make_name: Callable[..., Any]) -> None:
    name = make_name("ATTENTION", "flash_fwd")
    assert problem(flash("False", window="128"), name, KERNEL).flops is None
    decode = [dense(BF16, 1, 1, 16, 64), *[dense(BF16, 1, 500, 16, 64)] * 2]
    call_with = [*decode, NOTHING, NOTHING, *[(SCALAR, text) for text in ("1", "500", "0.", "True", "False", "0.125")]]
    found = problem(call("aten::_flash_attention_forward", *call_with), name, KERNEL)
    assert found.flops is None
    assert found.moved_bytes == 2 * (2 * 16 * 64 + 2 * 500 * 16 * 64)


def test_attention_backward_is_two_and_a_half_times_the_forward(make_name: Callable[..., Any]) -> None:
    heads = dense(BF16, 8, 12, 512, 64)
    numbers = [(SCALAR, text) for text in ("512", "512", "0.1", "True", "0.125")]
    seeds = [dense(LONG), dense(LONG)]
    tensors = [*[heads] * 5, dense("float", 8, 12, 512, 1), *seeds]
    backward = call("aten::_cudnn_attention_backward", *tensors, NOTHING, NOTHING, NOTHING, *numbers)
    found = problem(backward, make_name("ATTENTION", "cudnn_sdpa"), KERNEL)
    assert found.flops == 2.5 * (4 * 8 * 12 * 512 * 512 * 64) / 2
    assert found.moved_bytes == 8 * 2 * 8 * 12 * 512 * 64
    assert problem(backward, make_name("ATTENTION", "compute_dot_do_o"), KERNEL) == Problem()


def test_convolution(make_name: Callable[..., Any]) -> None:
    # The first layer of ResNet-50: 7x7, stride 2, padding 3, 224 -> 112.
    lists = [("ScalarList", text) for text in ("[3, 3]", "[2, 2]", "[1, 1]")]
    first = call("aten::cudnn_convolution", dense("float", 32, 3, 224, 224), dense("float", 64, 3, 7, 7), *lists, ONE)
    found = problem(first, make_name("CONVOLUTION", "cudnn_conv"), KERNEL)
    out = 32 * 64 * 112 * 112
    assert (found.numel, found.flops) == (out, 2 * out * 3 * 49)
    assert found.moved_bytes == 4 * (32 * 3 * 224 * 224 + 64 * 3 * 49 + out)
    assert problem(first, make_name("CONVOLUTION", "cudnn_layout"), KERNEL) == Problem()


def test_grouped_and_transposed_convolution(make_name: Callable[..., Any]) -> None:
    name = make_name("CONVOLUTION")
    both = [("ScalarList", "[2]"), ("ScalarList", "[1]"), ("ScalarList", "[1]")]
    shapes = dense("float", 4, 8, 10), dense("float", 8, 2, 3), NOTHING
    direct = call("aten::convolution", *shapes, *both, (SCALAR, "False"), ("ScalarList", "[0]"), (SCALAR, "4"))
    assert problem(direct, name, KERNEL).flops == 2 * (4 * 8 * 5) * 2 * 3
    transposed = call("aten::convolution", *shapes, *both, (SCALAR, "True"), ("ScalarList", "[1]"), (SCALAR, "4"))
    found = problem(transposed, name, KERNEL)
    assert found.numel == 4 * (2 * 4) * ((10 - 1) * 2 - 2 + 2 + 1 + 1)
    assert found.flops == 2 * (4 * 8 * 10) * 2 * 3


def test_convolution_backward(make_name: Callable[..., Any]) -> None:
    shapes = dense("float", 4, 8, 5), dense("float", 4, 8, 10), dense("float", 8, 8, 3), NOTHING
    lists = [("ScalarList", "[2]"), ("ScalarList", "[1]"), ("ScalarList", "[1]")]
    found = problem(
        call("aten::convolution_backward", *shapes, *lists, (SCALAR, "False")), make_name("CONVOLUTION"), KERNEL
    )
    assert (found.flops, found.moved_bytes) == (2 * (4 * 8 * 5) * 8 * 3, None)


def test_inductor_size(make_name: Callable[..., Any]) -> None:
    args = dense(HALF, 8192, 8192), dense(HALF), dense(HALF, 8192)
    fused = call("triton_poi_fused_add_mul_1", *args, (SCALAR, "67108864"))
    found = problem(fused, make_name("FUSED", "triton_poi"), KERNEL)
    assert (found.numel, found.flops, found.moved_bytes) == (8192 * 8192, None, None)
    dynamic = call("triton_poi_fused_add_mul_1", *args, (SCALAR, "77"), (SCALAR, "67108864"))
    assert problem(dynamic, make_name("FUSED", "triton_poi"), KERNEL).numel is None


def test_sizes_that_no_float_holds_are_unknown(make_name: Callable[..., Any]) -> None:
    absurd = call("aten::mm", dense(HALF, 10**310, 8), dense(HALF, 8, 2))
    assert problem(absurd, make_name("GEMM"), KERNEL) == Problem()


def test_supported_operators_have_a_namespace() -> None:
    assert {"aten::mm", "aten::_flash_attention_forward", "aten::cudnn_convolution", "aten::cat"} <= supported_ops()
    assert all("::" in op for op in supported_ops())
