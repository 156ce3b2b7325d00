"""The inputs of a launch, and the one configuration that a kernel gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kerneldb.replay.errors import UnresolvedCallError
from kerneldb.replay.measure.inputs import written
from kerneldb.replay.routes import triton as route
from kerneldb.replay.triton import loading
from kerneldb.replay.triton.code import Constants
from kerneldb.replay.triton.loading import Launchable
from kerneldb.replay.wire.plan import OpCall

torch = pytest.importorskip("torch")

TEXT = 'tl.device_assert((0 <= tmp4) & (tmp4 < 7), "index out of bounds: 0 <= tmp4 < 7")'


@dataclass
class Config:
    kwargs: dict[str, int]
    num_warps: int = 4
    num_stages: int = 1
    others: list[int] = field(default_factory=list)


def launchable(*names: str, changed: tuple[str, ...] = ()) -> tuple[Launchable, list[tuple[Any, ...]]]:
    seen: list[tuple[Any, ...]] = []
    return Launchable(lambda *given: seen.append(given), names, frozenset(changed)), seen


def call(dtypes: str, dims: str, strides: str, scalars: str) -> OpCall:
    return OpCall("triton_poi_fused_0", dims, strides, dtypes, scalars, '{"kernel_hash": "c"}')


def test_arguments_come_in_order_with_their_shapes() -> None:
    recorded = call(
        '["c10::Half", "long int", "Scalar", ""]',
        "[[4, 6], [100], [], []]",
        "[[1, 4], [1], [], []]",
        '["", "", "24", ""]',
    )
    kernel, _ = launchable("in_out_ptr0", "in_ptr1", "xnumel", changed=("in_out_ptr0",))
    built = route.build(kernel, recorded, TEXT, "cpu")
    first, second, number, nothing = built.arguments
    assert (first.shape, first.stride(), first.dtype) == ((4, 6), (1, 4), torch.float16)
    assert first.abs().sum() > 0
    assert 0 <= int(second.min()) <= int(second.max()) < 7
    assert (number, nothing) == (24, None)
    assert written(built) == {"in_out_ptr0"}
    assert built.notes == ()


def test_integers_without_a_bound_stay_below_every_size() -> None:
    kernel, _ = launchable("in_ptr0", "in_ptr1")
    built = route.build(
        kernel, call('["long int", "float"]', "[[1000], [5, 9]]", "[[1], [9, 1]]", '["", ""]'), "", "cpu"
    )
    assert int(built.arguments[0].max()) < 5
    assert built.notes == ("int-default",)


def test_workspaces_begin_as_zeros() -> None:
    kernel, _ = launchable("in_ptr0", "ws_ptr")
    built = route.build(kernel, call('["float", "unsigned char"]', "[[64], [64]]", "[[1], [1]]", '["", ""]'), "", "cpu")
    assert int(built.arguments[1].max()) == 0
    built.refill(1)
    assert int(built.arguments[1].max()) == 0


def test_lists_are_refused() -> None:
    kernel, _ = launchable("in_ptr0")
    with pytest.raises(UnresolvedCallError):
        route.build(kernel, call('["TensorList"]', "[[[2]]]", "[[[1]]]", '[""]'), "", "cpu")


def test_the_recorded_configuration_is_the_only_one() -> None:
    known = [Config({"XBLOCK": 128}), Config({"XBLOCK": 256}), Config({"XBLOCK": 256}, num_warps=8)]
    constants = Constants("c", {"XBLOCK": "256"}, num_warps=8, num_stages=1)
    assert loading.configurations(known, constants) == [known[2]]


def test_without_recorded_constants_all_that_agree_are_tried() -> None:
    known = [Config({}), Config({}, num_warps=8)]
    assert loading.configurations(known, Constants(None, num_warps=8)) == [known[1]]
    assert loading.configurations(known, Constants("c")) == known
