"""What an operator says of its kernels where their names do not, and where it is not asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

import kerneldb
from kerneldb.names import CATEGORIES, decode, settle
from kerneldb.names.operators import operator_category
from kerneldb.names.tables import rows_of

if TYPE_CHECKING:
    from pathlib import Path

HALVES, FLOATS, BF16 = ["c10::Half"] * 2, ["float"] * 2, ["c10::BFloat16"] * 2
GROUPED = (
    "_ZN7cutlass13device_kernelIN2at4cuda6detail27enable_3x_kernel_for_sm90INS_4gemm6kernel13GemmUniversalINS5_17"
    "GroupProblemShapeIN4cute5tupleIJiiiEEEEENS_10bfloat16_tEvvEEEEvNT_6ParamsEQ3_broken"
)
CUT = "_ZN2ck51kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffleINS_62GridwiseGemmMultipleABD_xdl_cshuffleIas"
MUL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, "
    "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int)"
)
OPERATORS = {
    "aten::mm": "GEMM",
    "aten::linear": "GEMM",
    "aten::_scaled_mm": "GEMM",
    "aten::_grouped_mm": "GEMM",
    "aten::convolution_backward": "CONVOLUTION",
    "aten::miopen_convolution": "CONVOLUTION",
    "aten::_scaled_dot_product_flash_attention": "ATTENTION",
    "vllm::unified_attention_with_output": "ATTENTION",
    "aten::native_layer_norm_backward": "NORMALIZATION",
    "_C::fused_add_rms_norm": "NORMALIZATION",
    "aten::_log_softmax": "SOFTMAX",
    "aten::copy_": "COPY",
    "aten::sum.dim_IntList": "REDUCTION",
    "aten::embedding_dense_backward": "INDEXING",
    "aten::add_": "ELEMENTWISE",
    "aten::_foreach_mul_": "ELEMENTWISE",
    "aten::_fused_adamw_": "OPTIMIZER",
    "nccl:all_reduce": "COMMUNICATION",
    "c10d::broadcast_": "COMMUNICATION",
    "record_param_comms": "COMMUNICATION",
    "jit(step)/transpose(jvp)/dot_general": "GEMM",
    "BatchMatMulV2": "GEMM",
    # Names that hold a word of another category, and operators that do several kinds of work.
    "aten::linalg_vector_norm": "REDUCTION",
    "aten::normal_": "RANDOM",
    "aten::cross_entropy_loss": "REDUCTION",
    "aten::convert_element_type": "COPY",
    "_C_cache_ops::reshape_and_cache_flash": "INDEXING",
    "_C::topk_softmax": "INDEXING",
    "vllm::moe_forward": None,
    "aten::linear_to_gray": None,
    "RopeLoraFlashAttnVarlenFuncBackward": None,
    "Conveyor": None,
}
SETTLED: dict[str, tuple[str, str, list[str], tuple[str | None, ...]]] = {
    "unknown name": ("mtia_kernel_17", "aten::mm", HALVES, ("GEMM", "operator", "fp16", "inputs")),
    "unknown both": ("mtia_kernel_17", "mylib::step", HALVES, ("OTHER", None, None, None)),
    "known name": (MUL, "aten::mm", HALVES, ("ELEMENTWISE", "name", "fp32", "name")),
    "a helper has no type of the inputs": (
        "void at::native::index_kernel_impl(int)",
        "aten::mm",
        HALVES,
        ("INDEXING", "name", None, None),
    ),
    "mangled, right": (GROUPED, "aten::_grouped_mm", BF16, ("GEMM", "name", "bf16", "name")),
    "mangled, cut": (CUT, "aten::miopen_convolution", BF16, ("CONVOLUTION", "name", "bf16", "inputs")),
    "mangled, against the operator": (GROUPED, "aten::convolution", BF16, ("CONVOLUTION", "operator", "bf16", "name")),
    "mangled, against the inputs": (GROUPED, "aten::_grouped_mm", FLOATS, ("GEMM", "name", "fp32", "inputs")),
    "words of a user's name": ("my_gemm_kernel", "aten::sum", FLOATS, ("REDUCTION", "operator", "fp32", "inputs")),
    "integers from floats": (
        "_w8a8_matmul_int8",
        "aten::mm",
        HALVES,
        ("GEMM", "name", "fp16", "inputs"),
    ),
    "a convolution as a product": (
        "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_tn",
        "aten::convolution",
        HALVES,
        ("GEMM", "name", "fp16", "name"),
    ),
    "never a convolution for a product": (
        "im2col_conv2d_kernel",
        "aten::mm",
        HALVES,
        ("GEMM", "operator", "fp16", "inputs"),
    ),
    "attention": (
        "attn_fwd",
        "aten::_flash_attention_forward",
        [*BF16, "float"],
        ("ATTENTION", "name", "bf16", "inputs"),
    ),
    "inputs that disagree": ("x1", "aten::add", ["float", "c10::Half"], ("ELEMENTWISE", "operator", None, None)),
    "indices aside": ("x2", "aten::index", ["c10::Half", "long int"], ("INDEXING", "operator", "fp16", "inputs")),
}


@pytest.mark.parametrize(("op", "category"), OPERATORS.items())
def test_an_operator_has_the_category_of_its_work(op: str, category: str | None) -> None:
    assert operator_category(op) == category


@pytest.mark.parametrize("file", ["rules.csv", "operators.csv"])
def test_tables_use_the_agreed_categories(file: str) -> None:
    assert {row["category"] for row in rows_of(file)} <= set(CATEGORIES)


@pytest.mark.parametrize(("name", "op", "inputs", "expected"), SETTLED.values(), ids=SETTLED.keys())
def test_name_operator_and_inputs_together(name: str, op: str, inputs: list[str], expected: tuple[Any, ...]) -> None:
    assert settle(decode(name), op, inputs) == expected


def trace(folder: Path, name: str, op: str, dims: list[list[int]], types: list[str]) -> Path:
    """A trace of one operator and its kernel of 5 µs."""
    call = {"External id": 1, "Input Dims": dims, "Input type": types}
    common = {"ph": "X", "pid": 1, "tid": 1}
    events = [
        common | {"cat": "cpu_op", "name": op, "ts": 10, "dur": 9, "args": call},
        common
        | {
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": 12,
            "dur": 2,
            "args": {"correlation": 7, "External id": 1},
        },
        {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": name, "ts": 30, "dur": 5}
        | {"args": {"correlation": 7, "External id": 1, "device": 0, "stream": 7}},
    ]
    file = folder / "trace.json"
    file.write_bytes(orjson.dumps({"schemaVersion": 1, "traceEvents": events}))
    return file


def values(database: kerneldb.Database, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in database.sql(query).rows()]


def test_every_sum_has_the_category_of_the_operator(tmp_path: Path) -> None:
    file = trace(tmp_path, "mtia_kernel_17", "aten::mm", [[8, 4], [4, 2]], ["c10::Half", "c10::Half"])
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(file)
    columns = "category, category_source, dtype, dtype_source"
    assert values(database, f"SELECT {columns} FROM kernels") == [("GEMM", "operator", "fp16", "inputs")]
    for relation in ("kernel_rollups", "all_rollups", "time_by('category, dtype')", "top_kernels()"):
        dtype = "" if relation == "top_kernels()" else ", dtype"
        found = values(database, f"SELECT category{dtype} FROM {relation}")
        assert found == [("GEMM", "fp16")[: 1 + bool(dtype)]], relation
    assert [row["category"] for row in database.top("category").rows()] == ["GEMM"]


def test_a_number_beside_a_tensor_is_no_type_of_the_work(tmp_path: Path) -> None:
    file = trace(tmp_path, "mtia_kernel_18", "aten::mul", [[8, 4], []], ["c10::Half", "double"])
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(file)
    assert values(database, "SELECT dtype, dtype_source FROM kernels") == [("fp16", "inputs")]
