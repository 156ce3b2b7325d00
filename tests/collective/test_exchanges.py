"""Every kind of exchange of a step, between processes, in groups of four, of two and of one."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

WHOLE = [[10.0 * rank + place for place in range(8)] for rank in range(4)]
"""What each rank has before an exchange."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    subprocess.run([sys.executable, "-m", "tests.collective.exchanging", str(folder)], check=True, timeout=300)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(4)]


def summed(*ranks: int) -> list[float]:
    return [sum(WHOLE[rank][place] for rank in ranks) for place in range(8)]


def test_what_all_of_a_group_hold_afterwards(ranks: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(ranks):
        one, other = pair = (0, 1) if rank < 2 else (2, 3)
        assert found["sum"]["given"] == summed(*pair)
        assert found["sum of all"]["given"] == summed(0, 1, 2, 3)
        assert found["from one"]["given"] == WHOLE[other]
        assert found["gathered"]["taken"] == WHOLE[one][:4] + WHOLE[other][:4]
        assert found["scattered sum"]["taken"] == (summed(*pair)[:4] if rank == one else summed(*pair)[4:])


def test_what_one_of_a_group_holds_afterwards(ranks: list[dict[str, Any]]) -> None:
    for first, last in ((0, 1), (2, 3)):
        assert ranks[last]["sum to one"]["given"] == summed(first, last)
        assert ranks[last]["sent"]["taken"] == WHOLE[first]
    assert ranks[0]["alone"]["given"] == WHOLE[0]


def test_shares_are_exchanged_as_large_as_they_are(ranks: list[dict[str, Any]]) -> None:
    for first, last in ((0, 1), (2, 3)):
        assert ranks[first]["exchanged"]["taken"] == WHOLE[first][:4] + WHOLE[last][:4]
        assert ranks[last]["exchanged"]["taken"] == WHOLE[first][4:] + WHOLE[last][4:]
        assert ranks[first]["exchanged unequally"]["taken"] == WHOLE[first][:5] + WHOLE[last][:1]
        assert ranks[last]["exchanged unequally"]["taken"] == WHOLE[first][5:] + WHOLE[last][1:]


def test_what_cost_one_rank_its_worker_no_rank_makes_again(ranks: list[dict[str, Any]]) -> None:
    for found in ranks:
        assert found["refused"] == []
        assert found["refused as broken"] == ["recv", "send"]
        assert found["kept"]
