"""Steps rebuilt from recordings against the truth: order of calls, shared memory, and lifetimes of allocations."""

from __future__ import annotations

import pytest

from tests.replay import programs

pytest.importorskip("transformers")
from tests.replay import truths

FEW = ("llama-train", "resnet-train", "llama-decode")
"""A decoder, a CNN with running statistics, tokens with a cache."""


def compared(names: tuple[str, ...], factory: pytest.TempPathFactory) -> dict[str, truths.Score]:
    folder = factory.mktemp("truths") / "steps"
    known = truths.record(names, folder)
    found = truths.rebuilt(folder)
    return {name: truths.compare(known[name], found[name]) for name in names}


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> dict[str, truths.Score]:
    return compared(FEW, tmp_path_factory)


def check(score: truths.Score) -> None:
    assert not score.wrong
    assert score.calls == score.in_order > 50
    assert score.storages == score.aliased == score.lived > 50


@pytest.mark.parametrize("name", FEW)
def test_order_shared_memory_and_lifetimes_are_those_of_the_program(few: dict[str, truths.Score], name: str) -> None:
    check(few[name])


@pytest.mark.thorough
@pytest.mark.parametrize("name", [one for one in programs.PROGRAMS if one not in FEW])
def test_so_are_those_of_other_families(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(compared((name,), tmp_path_factory)[name])
