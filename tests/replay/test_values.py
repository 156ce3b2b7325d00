from __future__ import annotations

import math
from typing import Any

import pytest

from kerneldb.replay.resolve import values
from kerneldb.replay.resolve.calls import generator
from kerneldb.replay.resolve.recorded import Argument
from kerneldb.replay.resolve.tensors import Fill, TensorSpec, make
from kerneldb.replay.resolve.values import Known, fill_for
from kerneldb.replay.wire.plan import OpCall
from tests.replay.specs import op_call
from tests.replay.specs import tensor as recorded_tensor


def made(dims: tuple[int, ...], strides: tuple[int, ...], dtype: str, fill: Fill) -> Any:
    """The tensor that a fill makes."""
    pytest.importorskip("torch", reason="torch is not installed")
    return make(TensorSpec(dims, strides, dtype, fill), "cpu", generator("cpu", 0))


def tensor(*dims: int, kind: str = "float", strides: tuple[int, ...] = ()) -> Argument:
    return Argument(kind, dims, strides)


def scalar(text: str) -> Argument:
    return Argument("Scalar", text=text)


def high(op: str, name: str, **named: Argument) -> float:
    fill, note = fill_for(Known(op, named), name, "int64")
    assert (fill.kind, fill.low, note) == ("integers", 0, None)
    return fill.high


@pytest.mark.parametrize(
    ("op", "name", "named", "limit"),
    [
        ("embedding", "indices", {"weight": tensor(50, 8)}, 50),
        ("embedding_dense_backward", "indices", {"num_weights": scalar("31")}, 31),
        ("gather", "index", {"self": tensor(4, 7), "dim": scalar("1")}, 7),
        ("index_select", "index", {"self": tensor(4, 7), "dim": scalar("-2")}, 4),
        ("scatter_add_", "index", {"self": tensor(), "dim": scalar("0")}, 1),
        ("nll_loss_forward", "target", {"self": tensor(6, 11)}, 11),
        ("nll_loss_backward", "target", {"self": tensor(11)}, 11),
        ("one_hot", "self", {"num_classes": scalar("9")}, 9),
        ("max_pool2d_with_indices_backward", "indices", {"self": tensor(1, 2, 6, 5)}, 30),
        ("take", "index", {"self": tensor(3, 4)}, 12),
        ("paged_attention", "block_table", {"key_cache": tensor(17, 2, 4)}, 17),
        ("fused_experts", "topk_ids", {"w1": tensor(8, 4, 4)}, 8),
    ],
)
def test_indices_are_in_range(op: str, name: str, named: dict[str, Argument], limit: int) -> None:
    assert high(op, name, **named) == limit


@pytest.mark.parametrize(("name", "constant"), [("other", 1), ("my_index", 0), ("token_ids", 0)])
def test_unknown_integers_are_safe_constants(name: str, constant: int) -> None:
    fill, note = fill_for(Known("custom", {}), name, "int32")
    assert (fill.kind, fill.low, note) == ("constant", constant, "int-default")


@pytest.mark.parametrize(
    ("op", "name", "fill"),
    [
        ("mul", "self", values.ACTIVATION),
        ("linear", "weight", values.WEIGHT),
        ("native_layer_norm", "weight", values.GAIN),
        ("sqrt", "self", values.POSITIVE),
        ("div", "other", values.DIVISOR),
        ("normal", "std", values.POSITIVE),
        ("_fused_adamw_", "exp_avg_sqs", values.NEAR_ONE),
        ("batch_norm", "running_var", values.NEAR_ONE),
    ],
)
def test_floats_by_meaning(op: str, name: str, fill: values.Fill) -> None:
    assert fill_for(Known(op, {}), name, "float32") == (fill, None)


def test_bags_are_equally_long() -> None:
    named = {"indices": tensor(1000, kind="long int"), "offsets": tensor(10, kind="long int")}
    assert fill_for(Known("_embedding_bag", named), "offsets", "int64")[0] == values.Fill("cumulative", 0, 900)
    ended = {**named, "include_last_offset": scalar("True")}
    assert fill_for(Known("_embedding_bag", ended), "offsets", "int64")[0] == values.Fill("cumulative", 0, 1000)


def test_probabilities_are_between_0_and_1() -> None:
    assert fill_for(Known("bernoulli_", {}), "p", "float32")[0] == values.POSITIVE


def test_integer_divisors_are_positive() -> None:
    fill, _ = fill_for(Known("div", {}), "other", "int64")
    assert fill.low >= 1


def test_transposed_second_matrix_is_a_weight() -> None:
    weight = Known("addmm", {"mat2": tensor(4, 8, strides=(1, 4))})
    activation = Known("mm", {"mat2": tensor(4, 8, strides=(8, 1))})
    assert fill_for(weight, "mat2", "float16")[0] == values.WEIGHT
    assert fill_for(activation, "mat2", "float16")[0] == values.ACTIVATION


def test_log_sum_exp_of_unit_scores() -> None:
    known = Known("_scaled_dot_product_flash_attention_backward", {"key": tensor(2, 4, 128, 64)})
    fill, _ = fill_for(known, "logsumexp", "float32")
    assert fill.low == pytest.approx(math.log(128) + 0.5)


def test_sequence_offsets_end_at_the_number_of_tokens() -> None:
    known = Known("_flash_attention_forward", {"query": tensor(96, 4, 64), "cum_seq_q": tensor(4, kind="int")})
    fill, _ = fill_for(known, "cum_seq_q", "int32")
    assert (fill.kind, fill.low, fill.high) == ("cumulative", 0, 96)


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [((36, 8), (4, 8, 6), 36), ((8, 36), (36, 6), 36), ((4, 6, 8), (8, 36), 36)],
)
def test_groups_of_a_grouped_gemm(first: tuple[int, ...], second: tuple[int, ...], total: int) -> None:
    named: dict[str, Any] = {"self": tensor(*first), "mat2": tensor(*second), "offs": tensor(4, kind="int")}
    fill, _ = fill_for(Known("_grouped_mm", named), "offs", "int32")
    assert (fill.low, fill.high) == (total / 4, total)


def test_scatter_mask_takes_as_many_values_as_there_are() -> None:
    known = Known("masked_scatter", {"self": tensor(2, 5, 8), "mask": tensor(2, 5, 1), "source": tensor(3, 8)})
    fill, _ = fill_for(known, "mask", "bool")
    assert (fill.kind, fill.high) == ("count", 3)


def test_repeats_sum_up_to_the_output() -> None:
    known = Known("repeat_interleave", {"repeats": tensor(4, kind="long int"), "output_size": scalar("12")})
    fill, _ = fill_for(known, "repeats", "int64")
    assert made((4,), (1,), "int64", fill).tolist() == [3, 3, 3, 3]


def test_bool_attention_masks_hide_nothing() -> None:
    assert fill_for(Known("scaled_dot_product_attention", {}), "attn_mask", "bool")[0] == values.TRUE


def values_of(op: str, name: str, *, near: tuple[OpCall, ...] = (), dtype: str = "int64", **named: Argument) -> Any:
    """What the argument `name` of a call holds."""
    known = Known(op, named, near=near)
    argument = named[name]
    return made(argument.dims, argument.layout, dtype, fill_for(known, name, dtype)[0])


def test_bags_are_as_long_as_each_other() -> None:
    given = {"weight": tensor(50, 8), "indices": tensor(40, kind="long int"), "offsets": tensor(8, kind="long int")}
    offsets = values_of("_embedding_bag", "offsets", **given)
    assert offsets.tolist() == [0, 5, 10, 15, 20, 25, 30, 35]
    ends = values_of("_embedding_bag", "offsets", **given, include_last_offset=scalar("True"))
    assert (ends[0], ends[-1]) == (0, 40)


def test_a_mask_has_as_many_true_entries_as_the_next_call_takes() -> None:
    mask = tensor(6, 10, kind="bool")
    found = op_call("aten::unbind", recorded_tensor([17, 2], "long int"), ([], [], "Scalar", "1"))
    assert values_of("nonzero", "self", near=(found,), dtype="bool", self=mask).sum() == 17
    taken = op_call("aten::sum", recorded_tensor([23]))
    selected = values_of("masked_select", "mask", near=(taken,), dtype="bool", self=tensor(6, 10), mask=mask)
    assert selected.sum() == 23


@pytest.mark.parametrize("kind", ["long int", "int"])
def test_sorted_numbers_are_different_and_unsorted(kind: str) -> None:
    numbers = values_of("sort", "self", self=tensor(100, kind=kind)).tolist()
    assert sorted(numbers) == list(range(100)) != numbers


def test_unique_finds_as_many_as_the_next_call_takes() -> None:
    taken = op_call("aten::add", recorded_tensor([7], "long int"))
    numbers = values_of("_unique2", "self", near=(taken,), self=tensor(100, kind="long int"))
    assert len(numbers.unique()) == 7


def test_repeats_sum_up_to_what_the_next_call_takes() -> None:
    taken = op_call("aten::index_select", recorded_tensor([30], "long int"))
    repeats = values_of("repeat_interleave", "repeats", near=(taken,), repeats=tensor(8, kind="long int"))
    assert (repeats.sum(), repeats.max() - repeats.min()) == (30, 1)


def test_places_to_add_to_are_written_once_each() -> None:
    index = values_of("index_add_", "index", self=tensor(50, 4), dim=scalar("0"), index=tensor(30, kind="long int"))
    assert len(index.unique()) == 30


MATRICES = {"strides": (512 * 512, 1, 512)}


@pytest.mark.parametrize(("op", "name"), [("linalg_cholesky_ex", "self"), ("_linalg_eigh", "A")])
def test_definite_matrices_have_full_factors(op: str, name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    matrix = values_of(op, name, dtype="float32", **{name: tensor(2, 512, 512, **MATRICES)})
    factor = torch.linalg.cholesky(matrix)
    assert (torch.linalg.cond(matrix) < 10).all()
    assert factor.tril(-1).norm() > factor.diagonal(0, -2, -1).norm() / 4


def test_factors_can_be_solved_by_either_triangle() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    sides = {"linalg_solve_triangular": ("self", {}), "triangular_solve": ("A", {"self": tensor(512, 3)})}
    sides["cholesky_solve"] = ("input2", {"self": tensor(512, 3)})
    sides["lu_solve"] = ("LU_data", {"self": tensor(512, 3)})
    wanted = torch.randn(2, 512, 3, generator=torch.Generator().manual_seed(0))
    for op, (name, right) in sides.items():
        matrix = values_of(op, name, dtype="float32", **{**right, name: tensor(2, 512, 512, **MATRICES)})
        for upper in (False, True):
            for unit in (False, True):
                found = torch.linalg.solve_triangular(matrix, wanted, upper=upper, unitriangular=unit).abs()
                assert 1e-30 < found.min() < found.max() < 100
        for side in right:
            assert fill_for(Known(op, {**right, name: tensor(64, 64)}), side, "float32")[0] == values.ACTIVATION


@pytest.mark.parametrize(("op", "name"), [("linalg_lu_factor_ex", "A"), ("linalg_inv", "self")])
def test_rows_of_full_matrices_are_exchanged(op: str, name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    matrix = values_of(op, name, dtype="float32", **{name: tensor(512, 512)})
    _, pivots = torch.linalg.lu_factor(matrix)
    assert (pivots != torch.arange(1, 513)).float().mean() > 0.9
    assert torch.linalg.inv(matrix).isfinite().all()


def test_pivots_name_rows() -> None:
    given = {"self": tensor(2, 64, 3), "LU_data": tensor(2, 64, 64), "LU_pivots": tensor(2, 64, kind="int")}
    pivots = values_of("lu_solve", "LU_pivots", dtype="int32", **given)
    assert 1 <= pivots.min() < pivots.max() <= 64
    assert (pivots[0] != pivots[1]).any()


@pytest.mark.parametrize(("op", "name"), [("bernoulli_", "p"), ("bernoulli", "self"), ("quantile", "q")])
def test_probabilities_are_some(op: str, name: str) -> None:
    held = values_of(op, name, dtype="float32", self=tensor(9), p=tensor(99), q=tensor(9))
    assert ((held > 0) & (held < 1)).all()


def test_segments_add_up_to_the_data() -> None:
    lengths = values_of("segment_reduce", "lengths", data=tensor(10, 3), lengths=tensor(4, kind="long int"))
    assert lengths.tolist() == [2, 3, 2, 3]


@pytest.mark.parametrize(
    ("op", "name", "named", "expected"),
    [
        ("addmm", "self", {"self": tensor(8)}, values.WEIGHT),  # of a linear layer
        ("addmm", "self", {"self": tensor(4, 8)}, values.ACTIVATION),
        ("mm", "self", {"self": tensor(4, 8)}, values.ACTIVATION),
        ("add", "other", {"self": tensor(4, 8), "other": tensor(8)}, values.WEIGHT),
        ("add_", "other", {"self": tensor(4, 8), "other": tensor(4, 8)}, values.ACTIVATION),
        ("add", "other", {"self": tensor(8), "other": tensor(8)}, values.ACTIVATION),
    ],
)
def test_a_bias_is_as_small_as_weights(op: str, name: str, named: dict[str, Argument], expected: Fill) -> None:
    assert fill_for(Known(op, named), name, "float32") == (expected, None)
