"""Settings and fixtures of the tests of recordings: tiny models on a CPU."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.measure.energy import meter
from kerneldb.replay.measure.energy.meter import Meter, NoMeterError
from kerneldb.replay.recording.settings import Settings, resolved

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

TINY: dict[str, Any] = {
    "device": "cpu",
    "tiny": True,
    "prompt": 8,
    "new_tokens": 3,
    "seconds": 0.3,
    "iterations": 2,
}


def tiny(model: str = "gpt2", **more: Any) -> Settings:
    """Settings of a recording that takes a second."""
    return resolved(Settings(model, **{**TINY, **more}))


def read(folder: Path) -> dict[str, Any]:
    """What bundle.json holds, as plain JSON."""
    content: dict[str, Any] = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture(autouse=True)
def quiet_libraries() -> Iterator[None]:
    """Warnings of torch and transformers are theirs; and one thread, for cores are few."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def fake_meter() -> Iterator[None]:
    """A meter with a known power."""
    from tests.recording import meters as fake

    meter.register(fake.NAME, fake.open_fake)
    yield
    meter.unregister(fake.NAME)


@pytest.fixture
def no_meter() -> Iterator[None]:
    """A machine whose energy cannot be read."""

    def none(device: str, uuid: str | None) -> Meter:
        message = "no energy counter here"
        raise NoMeterError(message)

    meter.register("none", none)
    yield
    meter.unregister("none")
