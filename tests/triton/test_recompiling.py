"""Lost sources: the operators in a kernel's name, put together again."""

from __future__ import annotations

import pytest

from kerneldb.replay.errors import UnresolvedCallError
from kerneldb.replay.triton import loading

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("name", "operators", "number"),
    [
        ("triton_poi_fused_add_mul_1", ["add", "mul"], 1),
        ("triton_poi_fused__to_copy_0", ["_to_copy"], 0),
        ("triton_poi_fused__to_copy_relu_12", ["_to_copy", "relu"], 12),
    ],
)
def test_operators_of_a_name(name: str, operators: list[str], number: int) -> None:
    assert loading.operators(name) == (operators, number)


@pytest.mark.parametrize(
    "name",
    [
        "triton_red_fused_add_mean_0",
        "triton_poi_fused_add_embedding_0",
        "triton_tem_fused_mm_0",
        "triton_poi_fused_add_cos_exp_sin_3",
    ],
)
def test_names_that_cannot_be_compiled_again(name: str) -> None:
    with pytest.raises(UnresolvedCallError, match="lost"):
        loading.operators(name)


def test_chains_take_one_input_per_binary_operator() -> None:
    chain = loading._chain(("add", "relu", "mul", "_to_copy"), torch.float64)
    found = chain(torch.tensor([-3.0, 1.0]), torch.tensor([1.0, 1.0]), torch.tensor([2.0, 2.0]))
    assert found.tolist() == [0.0, 4.0]
    assert found.dtype == torch.float64


def test_inputs_that_do_not_fit_the_operators() -> None:
    with pytest.raises(UnresolvedCallError, match="as many inputs"):
        next(loading.attempts("triton_poi_fused_add_mul_1", [torch.ones(2)]))
