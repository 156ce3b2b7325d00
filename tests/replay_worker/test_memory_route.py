from __future__ import annotations

from typing import Any

import pytest

from kerneldb.replay.errors import UnresolvedCallError
from kerneldb.replay.routes.memory import MemoryRoute, copy_direction
from kerneldb.replay.wire.plan import PlannedKernel
from tests.replay_worker.plans import copy, item, kernel


@pytest.mark.parametrize(
    ("name", "kind", "direction"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "HtoD"),
        ("Memcpy DtoH (Device -> Pinned)", None, "DtoH"),
        ("[CUDA memcpy DtoD]", None, "DtoD"),
        ("CopyDeviceToHost", None, "DtoH"),
    ],
)
def test_direction_comes_from_the_kind_or_the_name(name: str, kind: str | None, direction: str) -> None:
    assert copy_direction(copy(name=name, kind=kind)) == direction


@pytest.mark.parametrize(
    ("planned", "part"),
    [
        ([kernel()], "bytes"),
        ([copy(), copy()], "one copy"),
        ([copy(name="Memcpy PtoP (Device -> Device)", kind="PtoP")], "two devices"),
        ([copy(name="Memcpy", kind=None)], "no direction"),
    ],
)
def test_what_cannot_be_copied_says_why(planned: list[PlannedKernel], part: str) -> None:
    with pytest.raises(UnresolvedCallError, match=part):
        next(MemoryRoute().prepare(item("i", "memory", None, *planned), "cpu"))


def made(*planned: PlannedKernel) -> Any:
    pytest.importorskip("torch", reason="torch is not installed")
    return next(MemoryRoute().prepare(item("i", "memory", None, *planned), "cpu"))


def test_a_copy_moves_exactly_the_recorded_bytes() -> None:
    call = made(copy(1000))
    call.call()
    source, target = (one.tensor for one in call.inputs)
    assert [one.bytes for one in call.inputs] == [1000, 1000]
    assert source.equal(target)
    assert len(source.unique()) > 1


def test_a_fill_writes_exactly_the_recorded_bytes() -> None:
    call = made(PlannedKernel(0, "s", "Memset (Device)", kind="memset", bytes=64))
    assert call.inputs[0].bytes == 64
    call.call()
    assert int(call.inputs[0].tensor.sum()) == 0
