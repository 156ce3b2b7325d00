"""A model shared out: the parts compute what the whole computes, with two sums a layer; what cannot be shared out."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.errors import UsageError
from kerneldb.replay.recording import build, workloads
from kerneldb.replay.recording.settings import Settings, resolved
from tests.collective.conftest import tiny

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")

WAYS = 2


class Exchange:
    """Ranks as threads of this process, in place of a process group."""

    def __init__(self, ways: int) -> None:
        self._barrier = threading.Barrier(ways)
        self._given: dict[int, Any] = {}
        self._own = threading.local()
        self.sums = self.gathers = 0

    def as_rank(self, rank: int) -> None:
        self._own.rank = rank

    def _all(self, value: Any) -> list[Any]:
        self._given[self._own.rank] = value.clone()
        self._barrier.wait()
        found = [self._given[rank] for rank in sorted(self._given)]
        self._barrier.wait()
        return found

    def all_reduce(self, tensor: Any) -> None:
        tensor.copy_(sum(self._all(tensor)))
        self.sums += 1

    def all_gather_into_tensor(self, target: Any, tensor: Any) -> None:
        target.copy_(torch.cat(self._all(tensor)))
        self.gathers += 1


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> Exchange:
    made = Exchange(WAYS)
    monkeypatch.setattr("torch.distributed.all_reduce", made.all_reduce)
    monkeypatch.setattr("torch.distributed.all_gather_into_tensor", made.all_gather_into_tensor)
    return made


def logits(settings: Settings) -> torch.Tensor:
    model = build.build(settings, training=False)
    with torch.no_grad():
        found: torch.Tensor = model(**workloads.inputs_of(model, settings)).logits
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["vicuna-7b", "qwen2.5-0.5b"])
def test_the_parts_compute_what_the_whole_model_computes(model: str, exchange: Exchange) -> None:
    whole = logits(tiny(model))
    parts = [build.build(tiny(model, tp=WAYS, rank=rank), training=False) for rank in range(WAYS)]

    def run(rank: int) -> torch.Tensor:
        exchange.as_rank(rank)
        with torch.no_grad():
            found: torch.Tensor = parts[rank](**workloads.inputs_of(parts[rank], tiny(model))).logits
        return found

    with ThreadPoolExecutor(WAYS) as pool:
        both = list(pool.map(run, range(WAYS)))
    for one in both:
        torch.testing.assert_close(one, whole, rtol=1e-4, atol=1e-5)
    tied = model == "qwen2.5-0.5b"
    assert (exchange.sums, exchange.gathers) == (WAYS * 2 * 2, 0 if tied else WAYS)


@pytest.mark.thorough
def test_a_part_has_its_share_of_the_weights() -> None:
    part = build.build(tiny(tp=WAYS), training=False)
    attention, mlp = part.model.layers[0].self_attn, part.model.layers[0].mlp
    assert attention.q_proj.weight.shape == (32, 64)
    assert attention.o_proj.weight.shape == (64, 32)
    assert mlp.down_proj.weight.shape == (64, 64)
    assert part.lm_head.weight.shape == (128, 64)
    assert part.model.embed_tokens.weight.shape == (256, 64)


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ("gpt2", {"tp": 2}, "gpt2 is none"),
        ("vicuna-7b", {"tp": 3}, "--tp 3 does not divide num_attention_heads 4"),
        ("qwen2.5-0.5b", {"tp": 4}, "does not divide num_key_value_heads 2"),
        ("vicuna-7b", {"tp": 2, "workloads": ("train",)}, "a training step is not divided"),
        ("vicuna-7b", {"tp": 2, "compile": True}, "do not go together"),
        ("vicuna-7b", {"tp": 2, "device": "cuda:1"}, "leave --device out"),
    ],
)
def test_what_cannot_be_shared_out(model: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tiny(model, **more)


def test_a_recording_of_one_rank_is_what_it_was() -> None:
    alone = resolved(Settings("gpt2", device="cpu", tiny=True))
    assert "tp" not in alone.kept()
    assert "tp" not in alone.tags("prefill", "eager")
    assert tiny(tp=2).bundle_name == "llama-2-7b-tiny-float32-b1-p8-tp2"
    assert tiny(tp=2).kept()["tp"] == 2


def test_a_bias_of_summed_outputs_is_not_cut() -> None:
    assert build.cut("model.layers.0.self_attn.o_proj.bias", (64,), ways=2, tied=False) is None
    assert build.cut("model.layers.0.self_attn.q_proj.bias", (32,), ways=2, tied=False) == 0
    assert build.cut("lm_head.weight", (256, 64), ways=2, tied=True) is None
