"""Tensors of which the profiler records no strides."""

from __future__ import annotations

import pytest

from kerneldb.replay.resolve import candidates, layouts, recorded
from tests.replay.specs import Recorded, op_call, scalar, spec, tensor

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CS. tensor support:UserWarning")


def unstrided(*dims: int) -> Recorded:
    return list(dims), [], "float", ""


@pytest.mark.parametrize(
    ("accessor", "layout"),
    [("crow_indices", "torch.sparse_csr"), ("ccol_indices", "torch.sparse_csc"), ("_indices", "torch.sparse_coo")],
)
def test_the_accessors_below_a_call_tell_its_layout(accessor: str, layout: str) -> None:
    call = spec("aten::add_", unstrided(6, 6), scalar(1), below=[op_call(f"aten::{accessor}", unstrided(6, 6))])
    first = next(candidates(spec("aten::neg", unstrided(6, 6), below=[child.call for child in call.children]), "cpu"))
    assert str(first.args[0].layout) == layout


@pytest.mark.parametrize(
    ("taken", "count"), [(tensor([2, 11], "long int"), 11), (tensor([9], "long int"), 9), (tensor([7], "long int"), 3)]
)
def test_elements_are_counted_where_a_call_takes_them(taken: Recorded, count: int) -> None:
    """Seven are the ends of six rows; nothing told, one in ten is there."""
    call = spec("aten::neg", unstrided(6, 6), below=[op_call("aten::alias", taken)])
    assert layouts.nonzeros(call, recorded.arguments(call.call)[0]) == count
    assert next(candidates(call, "cpu")).args[0]._nnz() == count


def test_a_result_that_is_not_there_yet_counts_no_elements() -> None:
    """`nonzero` makes [0], and then room for what it found."""
    taken = [op_call("aten::resize_", tensor([0], "long int")), op_call("aten::select", tensor([5, 2], "long int"))]
    call = spec("aten::_to_sparse_csr", tensor([3, 3]), scalar(1), unstrided(3, 3), below=[*taken, op_call(
        "aten::select", tensor([2, 9], "long int"))])  # fmt: skip
    assert layouts.nonzeros(call, recorded.arguments(call.call)[2]) == 9


def test_a_name_with_onednn_takes_its_tensors() -> None:
    call = spec("aten::mkldnn_linear", unstrided(4, 8), tensor([6, 8]), tensor([6]))
    assert next(candidates(call, "cpu")).args[0].is_mkldnn


def test_traces_without_strides_are_of_strided_tensors() -> None:
    old = op_call("aten::neg", unstrided(6, 6))
    argument = recorded.arguments(type(old)(old.op, old.input_dims, None, old.input_dtypes, old.scalars))[0]
    assert not argument.unstrided
    assert not recorded.arguments(op_call("aten::neg", tensor([])))[0].unstrided
