"""Steps rebuilt from recordings against the truth: order of calls, shared memory, and lifetimes of allocations."""

from __future__ import annotations

import pytest

from tests.replay import programs

pytest.importorskip("transformers")
from tests.replay import truths

FEW = ("llama-train", "resnet-train", "llama-decode")
"""A decoder, a CNN with running statistics, tokens with a cache."""
OTHERS = (
    "whisper-forward",
    "mamba-train",
    "bert-train",
    "mixtral-train",
    "vit-train",
    "qwen2-decode",
    "deberta-v2-forward",
    "swin-train",
)
"""A decoder behind an encoder, scans, masks, experts, patches, heads in groups, relative places, long tensor lists."""


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


def further() -> list[object]:
    """The families whose steps take longest are of the same kinds."""
    names = [name for name in programs.PROGRAMS if name not in FEW]
    return [pytest.param(name, marks=[] if name in OTHERS else pytest.mark.volume) for name in names]


@pytest.mark.thorough
@pytest.mark.parametrize("name", further())
def test_so_are_those_of_other_families(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(compared((name,), tmp_path_factory)[name])
