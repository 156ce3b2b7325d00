from __future__ import annotations

import math
from typing import Any

import pytest

from kerneldb.replay.resolve import values
from kerneldb.replay.resolve.recorded import Argument
from kerneldb.replay.resolve.values import Known, fill_for


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
    assert (fill.kind, fill.low) == ("constant", 3)


def test_bool_attention_masks_hide_nothing() -> None:
    assert fill_for(Known("scaled_dot_product_attention", {}), "attn_mask", "bool")[0] == values.TRUE
