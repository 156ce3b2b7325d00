"""Fixtures of the tests of jobs of many ranks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from kerneldb.replay.recording.settings import Settings, resolved

TINY: dict[str, Any] = {
    "device": "cpu",
    "tiny": True,
    "prompt": 8,
    "new_tokens": 2,
    "seconds": 0.3,
    "iterations": 1,
}


def tiny(model: str = "vicuna-7b", **more: Any) -> Settings:
    """Settings of a recording that takes a second."""
    return resolved(Settings(model, **{**TINY, **more}))


@pytest.fixture(autouse=True)
def quiet_libraries() -> Iterator[None]:
    """Warnings of torch and transformers are theirs; and one thread, for cores are few."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
