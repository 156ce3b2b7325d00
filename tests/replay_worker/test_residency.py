from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldb.replay.measure.inputs import Role, roles
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall

L2 = 50 << 20


@dataclass(frozen=True)
class Argument:
    name: str
    bytes: int
    tensor: Any
    place: tuple[int, int] | None = None


def argument(name: str, *shape: int, size: int = 1 << 20, place: tuple[int, int] | None = None) -> Argument:
    return Argument(name, size, SimpleNamespace(shape=shape), place)


def given(op: str, *arguments: Argument, cache: str = "mixed") -> list[str]:
    item = Item("i", "aten", CallSpec(OpCall(op)))
    return [role.value for role in roles(item, arguments, cache, L2)]


@pytest.mark.parametrize(
    ("op", "arguments", "expected"),
    [
        ("aten::addmm", [("self", 8), ("mat1", 4, 8), ("mat2", 8, 8)], ["cold", "fresh", "cold"]),
        ("aten::mm", [("self", 4, 8), ("mat2", 8, 8)], ["fresh", "cold"]),
        ("aten::bmm", [("self", 2, 4, 8), ("mat2", 2, 8, 8)], ["fresh", "fresh"]),
        ("aten::native_layer_norm", [("input", 4, 8), ("weight", 8), ("bias", 8)], ["fresh", "cold", "cold"]),
        ("aten::embedding", [("weight", 99, 8), ("indices", 4)], ["cold", "fresh"]),
        ("aten::add", [("self", 4, 8), ("other", 4, 8)], ["fresh", "fresh"]),
        ("aten::gelu_backward", [("grad_output", 4), ("self", 4)], ["fresh", "cold"]),
        ("aten::cat", [("tensors[0]", 4), ("tensors[1]", 4)], ["fresh", "fresh"]),
    ],
)
def test_mixed_goes_by_the_meaning_of_arguments(op: str, arguments: list[Any], expected: list[str]) -> None:
    assert given(op, *(argument(name, *shape) for name, *shape in arguments)) == expected


def test_optimizer_lists_are_cold_unless_all_fit_into_half_of_the_cache() -> None:
    lists = [argument("self[0]", 9, size=20 << 20), argument("grads[0]", 9, size=20 << 20)]
    assert given("aten::_fused_adamw_", *lists) == ["cold", "cold"]
    assert given("aten::_fused_adamw_", *lists[:1]) == ["fresh"]


@pytest.mark.parametrize(("cache", "role"), [("cold", Role.COLD), ("warm", Role.WARM)])
def test_cold_and_warm_are_one_for_all(cache: str, role: Role) -> None:
    assert given("aten::mm", argument("self", 4, 8), argument("mat2", 8, 8), cache=cache) == [role.value] * 2


NEAR, FAR = L2 // 2, L2


Distances = tuple[tuple[int, ...], ...]


def by_distance(reuse: Distances, dims: str, *arguments: Argument, op: str = "aten::add") -> list[str]:
    item = Item("i", "aten", CallSpec(OpCall(op, input_dims=dims)), reuse=reuse)
    return [role.value for role in roles(item, arguments, "mixed", L2)]


def test_distances_of_the_recording_go_before_the_meaning() -> None:
    left, right = argument("self", 4, 8, place=(0, 0)), argument("other", 4, 8, place=(1, 0))
    assert by_distance(((NEAR,), (FAR,)), "[[4, 8], [4, 8]]", left, right) == ["fresh", "cold"]
    weight = argument("mat2", 4, 8, place=(1, 0))
    assert by_distance(((FAR,), (NEAR,)), "[[4, 8], [4, 8]]", left, weight, op="aten::mm") == ["cold", "fresh"]


def test_launches_of_triton_go_by_distances_too() -> None:
    call = OpCall("triton_poi_fused_add_0", input_dims="[[4, 8], [4, 8], []]")
    item = Item("i", "triton", CallSpec(call), reuse=((FAR,), (NEAR,), ()))
    listed = [argument("in_ptr0", 4, 8, place=(0, 0)), argument("out_ptr0", 4, 8, place=(1, 0))]
    assert [role.value for role in roles(item, listed, "mixed", L2)] == ["cold", "fresh"]


TWO = "[[4, 8], [4, 8]]"


@pytest.mark.parametrize(
    ("reuse", "dims"),
    [
        (((FAR,), (-1,)), TWO),
        (((FAR,),), TWO),
        ((), TWO),
        (((FAR,), (NEAR,)), "[[4, 8], [8, 4]]"),
        (((FAR,), (NEAR,)), "[[4, 8]]"),
    ],
)
def test_where_no_distance_is_known_the_meaning_counts(reuse: Distances, dims: str) -> None:
    left, weight = argument("self", 4, 8, place=(0, 0)), argument("mat2", 4, 8, place=(1, 0))
    assert by_distance(reuse, dims, left, weight, op="aten::mm")[1] == "cold"


def test_entries_of_lists_have_distances_of_their_own() -> None:
    entries = [argument(f"tensors[{entry}]", 4, place=(0, entry)) for entry in range(2)]
    assert by_distance(((FAR, NEAR),), "[[[4], [4]]]", *entries, op="aten::cat") == ["cold", "fresh"]
    assert by_distance(((FAR, NEAR),), "[[[4]]]", *entries, op="aten::cat") == ["cold", "fresh"]
