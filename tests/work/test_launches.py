"""What launches alone tell, transfers, damaged records, and the rules against real traces."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldb.work import LaunchShape, OpCall, Problem, problem, supported_ops
from kerneldb.work.tensors import Tensor, broadcast, parse_call, promote

if TYPE_CHECKING:
    from collections.abc import Callable

NO_CALL = OpCall()
TRACES = (
    pytest.param("bloom-560m.json.gz", marks=pytest.mark.thorough),
    "gpt2-train.json.gz",
    "tracelens-h100-bert-small.json.gz",
    pytest.param("tracelens-h100-qwen1.5-0.5b.json.gz", marks=pytest.mark.thorough),
    "tracelens-mi300-qwen1.5-0.5b.json.gz",
)


@pytest.mark.parametrize(
    ("family", "width", "dtype", "threads", "per_block"),
    [
        ("vectorized_elementwise", 4, "fp32", 128, 1024),
        ("vectorized_elementwise", 8, "bf16", 128, 1024),
        ("vectorized_elementwise", 4, "bool", 128, 2048),
        ("vectorized_elementwise", 4, "fp32", 256, 4096),
        ("unrolled_elementwise", None, "fp32", 128, 512),
        ("elementwise", 4, "bf16", 128, 512),
        ("elementwise", 2, "fp32", 128, 256),
        ("elementwise", 1, "fp32", 512, 512),
        ("elementwise_manual_unroll", 8, "bf16", 128, 1024),
    ],
)
def test_bound_from_the_grid(
    family: str, width: int | None, dtype: str, threads: int, per_block: int, make_name: Callable[..., Any]
) -> None:
    name = make_name("ELEMENTWISE", family, dtype=dtype, vector_width=width)
    found = problem(NO_CALL, name, LaunchShape("kernel", (25, 2, 1), (threads, 1, 1)))
    assert (found.numel, found.dims_source) == (50 * per_block, "bound")
    assert (found.flops, found.moved_bytes) == (None, None)
    assert found.work_method is not None
    assert "upper bound" in found.work_method


@pytest.mark.parametrize("category", ["GEMM", "REDUCTION", "INDEXING", "CONCAT", None])
def test_other_families_have_no_bound(category: str | None, make_name: Callable[..., Any]) -> None:
    name = make_name(category, "elementwise", vector_width=4)
    assert problem(NO_CALL, name, LaunchShape("kernel", (25, 1, 1), (128, 1, 1))) == Problem()


def test_no_bound_without_a_grid(make_name: Callable[..., Any]) -> None:
    name = make_name("ELEMENTWISE", "vectorized_elementwise")
    assert problem(NO_CALL, name, LaunchShape("kernel")) == Problem()
    assert problem(NO_CALL, name, LaunchShape("kernel", (0, 1, 1), (128, 1, 1))) == Problem()


@pytest.mark.parametrize(
    ("kind", "operation", "moved"),
    [
        ("memset", None, 1000.0),
        ("memcpy", "DtoD", 2000.0),
        ("memcpy", "device_to_device", 2000.0),
        ("memcpy", "Device to Device", 2000.0),
        ("memcpy", "D2D", 2000.0),
        ("memcpy", "HtoD", 1000.0),
        ("memcpy", "device_to_host", 1000.0),
        ("memcpy", "PtoP", 1000.0),
        ("memcpy", "Device -> Device", 2000.0),
        ("memcpy", "Pageable -> Device", 1000.0),
        ("memcpy", "Device -> Pinned", None),
        ("memcpy", None, None),
    ],
)
def test_transfers(kind: str, operation: str | None, moved: float | None, make_name: Callable[..., Any]) -> None:
    name = make_name(kind.upper(), kind, operation)
    assert problem(NO_CALL, name, LaunchShape(kind, bytes=1000)).moved_bytes == moved
    assert problem(NO_CALL, name, LaunchShape(kind)) == Problem()


def test_a_memset_inside_an_operator_gets_its_own_bytes(make_name: Callable[..., Any]) -> None:
    call = OpCall("aten::mm", "[[4, 4], [4, 4]]", None, '["float", "float"]', None)
    found = problem(call, make_name("MEMSET", "memset"), LaunchShape("memset", bytes=64))
    assert (found.flops, found.gemm_m, found.moved_bytes) == (None, None, 64.0)


def test_old_traces_without_strides_and_scalars(make_name: Callable[..., Any]) -> None:
    shape = LaunchShape("kernel", (1, 1, 1), (128, 1, 1))
    found = problem(OpCall("aten::mm", "[[4, 8], [8, 2]]", None, '["float", "float"]'), make_name("GEMM"), shape)
    assert (found.gemm_m, found.gemm_n, found.gemm_k, found.moved_bytes) == (4, 2, 8, 4 * (32 + 16 + 8))
    untyped = problem(OpCall("aten::mm", "[[4, 8], [8, 2]]"), make_name("GEMM"), shape)
    assert (untyped.gemm_m, untyped.flops, untyped.moved_bytes) == (4, 128.0, None)


@pytest.mark.parametrize("spelling", ["long int", "long", "long long", "__int64"])
def test_spellings_of_64_bit_integers(spelling: str) -> None:
    parsed = parse_call(OpCall("aten::x", "[[3]]", "[[1]]", json.dumps([spelling])))
    assert parsed is not None
    assert parsed.tensors()[0].stored_bytes == 24


def test_distinct_elements() -> None:
    assert Tensor((4, 8), (0, 1), "fp32").stored == 8
    assert Tensor((10, 4), (1, 1), "fp32").stored == 13  # a sliding window over 13 numbers
    assert Tensor((4, 8), (100, 1), "fp32").stored == 32  # rows of a wider matrix
    assert Tensor((0, 8), (8, 1), "fp32").stored == 0
    assert Tensor((), (), "fp64").stored_bytes == 8


def test_broadcast_and_promotion() -> None:
    assert broadcast([(4, 1), (3,)]) == (4, 3)
    assert broadcast([(4, 0), (1,)]) == (4, 0)
    assert broadcast([(4, 2), (3,)]) is None
    assert promote("fp16", "bf16") == "fp32"
    assert promote("int64", "fp16") == "fp16"
    assert promote("uint8", "int8") == "int16"
    assert promote("complex64", "fp64") == "complex128"
    assert promote("fp8_e4m3fn", "fp8_e5m2") is None
    assert promote("fp32", None) is None


BROKEN = [
    "",
    "null",
    "{",
    "[",
    "[[",
    "{}",
    "3",
    '"text"',
    "[1, 2]",
    '["a", {}]',
    "[[-1, 4], [4, -1]]",
    "[[1.5, 2], [2, 3]]",
    "[[true, 2], [2, 3]]",
    "[[NaN]]",
    "[[], []]",
    "[[[]], [[[1]]]]",
    "[[4, [5]], [5]]",
    "[[1000000000000, 1000000000000], [1000000000000, 1000000000000]]",
    "[[99999999999999999999999999, 2], [2, 2]]",
    "[" * 100_000,
    "\ud800",
    "[[2, 2], [2, 2], [2, 2], [2, 2], [2, 2], [2, 2]]",
]
CATEGORIES = ["GEMM", "ATTENTION", "CONVOLUTION", "ELEMENTWISE", "REDUCTION", "NORMALIZATION", "SOFTMAX", "CONCAT"]
CATEGORIES += ["INDEXING", "SCAN_SORT", "FUSED"]


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: ascii(text[:20]))
def test_broken_records_never_raise(text: str, make_name: Callable[..., Any]) -> None:
    launch = LaunchShape("kernel", (1, 1, 1), (32, 1, 1))
    for op in (*sorted(supported_ops()), "triton_poi_fused_0", "aten::unknown", ""):
        for category in CATEGORIES:
            call = OpCall(op, text, text, text, text)
            found = problem(call, make_name(category), launch)
            assert all(size is None or 0 <= size < 2**63 for size in (found.gemm_m, found.numel))


DTYPES = ["float", "c10::Half", "long int", "Scalar", "ScalarList", "TensorList", "", "bool", "nonsense", None, 3]
DIMS = st.recursive(st.lists(st.integers(-2, 6), max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=3)
TEXTS = st.sampled_from(
    ["", "1", "-1", "0", "True", "[0]", "[-9]", "[]", "[1, 1]", "[0, 0]", "nan", "inf", "1e400", "x"]
)
ARGUMENT = st.tuples(DIMS, DIMS, st.sampled_from(DTYPES), TEXTS)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(supported_ops())), st.lists(ARGUMENT, max_size=16))
def test_strange_calls_never_raise(op: str, arguments: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*arguments, strict=True)) or [()] * 4
    call = OpCall(op, *(json.dumps(list(column)) for column in columns))
    for category in CATEGORIES:
        found = problem(call, _Name(category), LaunchShape("kernel"))
        numbers = (found.gemm_m, found.gemm_n, found.gemm_k, found.numel, found.flops, found.moved_bytes)
        assert all(value is None or (value >= 0 and math.isfinite(value)) for value in numbers)


class _Name:
    """A name of one category; Hypothesis forbids fixtures of function scope."""

    family = operation = dtype = None
    vector_width = tile_m = tile_n = tile_k = None

    def __init__(self, category: str) -> None:
        self.category = category


@pytest.mark.parametrize("file", TRACES)
def test_pointwise_sizes_lie_within_the_bound_of_their_grid(file: str, launches_of: Callable[[str], list[Any]]) -> None:
    """`least (blocks - 1) < numel <= bound`; the least per block is 4 elements per thread, or the template's."""
    inside = outside = 0
    for launch in launches_of(file):
        found = problem(launch.call, launch.name, launch.shape)
        bound = problem(NO_CALL, launch.name, launch.shape)
        if (
            launch.name.category != "ELEMENTWISE"
            or found.dims_source != "op"
            or bound.numel is None
            or found.numel is None
        ):
            continue
        blocks = math.prod(launch.shape.grid)
        least = math.prod(launch.shape.block) * (
            launch.name.vector_width or 4 if "vec" not in launch.name.family else 4
        )
        fits = least * (blocks - 1) < found.numel <= bound.numel
        inside, outside = inside + fits, outside + (not fits)
    assert inside >= 10
    assert inside / (inside + outside) >= 0.99


@pytest.mark.parametrize("file", TRACES)
def test_every_gemm_of_a_trace_has_its_sizes(file: str, launches_of: Callable[[str], list[Any]]) -> None:
    ops = {f"aten::{op}" for op in ("mm", "addmm", "bmm", "baddbmm")}
    gemms = [
        launch for launch in launches_of(file) if launch.call.op in ops and launch.name.category in ("GEMM", "GEMV")
    ]
    main = [launch for launch in gemms if "reduce" not in launch.name.family]
    found = [problem(launch.call, launch.name, launch.shape) for launch in main]
    assert len(found) >= 20
    assert all(None not in (each.gemm_m, each.gemm_n, each.gemm_k, each.flops, each.moved_bytes) for each in found)
    helpers = [launch for launch in gemms if "reduce" in launch.name.family]
    assert all(problem(launch.call, launch.name, launch.shape).flops is None for launch in helpers)
