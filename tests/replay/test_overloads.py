"""A sample of the suite of overloads: recorded, read into a database, rebuilt from that, and called again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).parents[2]
SAMPLE = (
    "add.Tensor", "add.Scalar", "add.out", "add_.Tensor", "mm", "addmm", "baddbmm.out", "bmm", "linalg_qr", "cholesky",
    "linalg_lu_factor_ex", "linalg_solve_triangular", "lu_solve", "bernoulli.p", "bernoulli_.Tensor", "poisson",
    "multinomial", "rand", "randint_like", "index.Tensor", "index_put_", "_index_put_impl_", "index_select",
    "index_add", "gather", "scatter.reduce", "index_reduce", "embedding", "_embedding_bag", "one_hot", "nonzero",
    "masked_select", "masked_scatter", "unique_dim", "_unique2", "topk", "sort", "quantile", "searchsorted.Tensor",
    "to_sparse", "_to_sparse", "_foreach_add_.Scalar", "_foreach_addcdiv_.Scalar", "_foreach_mul.List",
    "_foreach_sqrt", "_foreach_norm.Scalar", "cat", "stack", "column_stack", "meshgrid.indexing", "conj", "_conj_copy",
    "view_as_real_copy", "empty.memory_format", "clone", "_to_copy", "full", "arange", "linspace", "where.self",
    "native_layer_norm", "convolution", "max_pool2d", "_softmax", "nll_loss", "quantize_per_tensor", "matrix_exp",
    "nested_tensor_from_mask", "is_vulkan_available", "repeat_interleave.Tensor", "multilabel_margin_loss",
)  # fmt: skip
DRAWN = 55 / 71
"""Such a share of them gets inputs without the samples of PyTorch's tests, which take long to import."""


@pytest.mark.parametrize(
    ("name", "given", "plain"),
    [
        ("aten::tensor_split.sections", (torch.ones(5, 5), torch.tensor(2), 0), 2),
        ("aten::tensor_split.indices", (torch.ones(5, 5), [torch.tensor(1), torch.tensor(3)], 0), [1, 3]),
        ("aten::tensor_split.indices", (torch.ones(5, 5), torch.tensor([1, 3]), 0), [1, 3]),
        ("aten::normal.Tensor_float", (torch.ones(3), torch.tensor(0.5)), 0.5),
    ],
)
def test_tensors_are_not_passed_for_numbers(name: str, given: tuple[Any, ...], plain: Any) -> None:
    """PyTorch would read them before the call: a copy from the device that is none of the call's."""
    from benchmarks.gpu import overload_inputs

    made, _ = overload_inputs.with_numbers(overload_inputs.function_of(name), (given, {}))
    assert made[0] is given[0]
    assert made[1] == plain
    assert not torch.is_tensor(made[1])


@pytest.mark.thorough
@pytest.mark.parametrize("sample", [SAMPLE[::3], pytest.param(SAMPLE, marks=pytest.mark.volume)], ids=["third", "all"])
def test_calls_of_many_kinds_are_rebuilt_from_their_recordings(tmp_path: Path, sample: tuple[str, ...]) -> None:
    program = "benchmarks.gpu.replay_overloads"
    only = ["--only", *(f"aten::{name}" for name in sample)]
    command = [sys.executable, "-m", program, "--drawn", "--out", str(tmp_path), *only]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert found["not rebuilt or other"] == {}
    assert found["killed a worker"] == found["no result"] == []
    assert found["replayed"]["overloads"]["L0"] >= int(DRAWN * len(sample))
