from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.gpu_traces import coverage

pytest.importorskip("torch", reason="torch is not installed")

TRACES = {
    "tracelens-h100-bert-small": 61,
    "tracelens-mi300-qwen1.5-0.5b": 1054,
    "tracelens-torch-compile-triton": 8,
    "tracelens-vllm-decode-graph": 13,
}
OTHERS = {"bloom-560m": 5937, "gpt2-train": 1260, "tracelens-h100-qwen1.5-0.5b": 1198}
CASES = [*TRACES.items(), *(pytest.param(*one, marks=pytest.mark.thorough) for one in OTHERS.items())]


@pytest.mark.parametrize(("name", "linked"), CASES)
def test_every_recorded_call_that_launched_is_rebuilt(shared_data: Path, name: str, linked: int) -> None:
    found = coverage(shared_data / "pytorch" / f"{name}.json.gz")
    assert found.linked == linked
    assert found.rebuilt == found.linked, "\n".join(f"{count:6} {miss}" for miss, count in found.misses.most_common())


def test_a_training_step_recorded_on_a_gpu(root: Path) -> None:
    found = coverage(root / "tests" / "fixtures" / "train-step-h200.json.gz")
    assert found.linked > 100
    assert found.rebuilt == found.linked, "\n".join(f"{count:6} {miss}" for miss, count in found.misses.most_common())
