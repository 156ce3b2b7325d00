"""Sizes of a model's configuration: what is refused, and with what words."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldb.errors import UsageError
from kerneldb.replay.infer.dims import from_config

HEADS = {"hidden_size": 4096, "num_attention_heads": 32}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"hidden_size": 10**30}, ["hidden_size = 1000", "…", "up to 262,144"]),
        ({"n_embd": 768, "vocab_size": 10**9}, ["vocab_size = 1000000000", "up to 16,777,216"]),
        ({"hidden_size": 7, "num_attention_heads": 100}, ["num_attention_heads = 100", "hidden_size = 7", "head_dim"]),
        ({**HEADS, "num_key_value_heads": 64}, ["num_key_value_heads = 64", "num_attention_heads = 32"]),
        ({**HEADS, "num_key_value_heads": 5}, ["num_key_value_heads = 5", "num_attention_heads = 32"]),
        ({**HEADS, "num_experts": 8, "num_experts_per_tok": 9}, ["num_experts_per_tok = 9", "num_experts = 8"]),
        ({**HEADS, "num_experts": "8"}, ["num_experts = '8'", "whole number"]),
        ({"architectures": ["Some"], "vocab_size": 32000}, ["no hidden size"]),
        ({"hidden_size": "4096"}, ["hidden_size = '4096'"]),
        ({"hidden_size": -1}, ["hidden_size = -1"]),
        ({"hidden_size": 64, "vocab_size": True}, ["vocab_size = True"]),
    ],
)
def test_impossible_sizes_are_refused(config: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        from_config(config, "bf16")
    assert [word for word in words if word not in str(refused.value)] == []
    assert len(str(refused.value)) < 200


def test_a_head_of_its_own_size_need_not_divide() -> None:
    model = from_config({"hidden_size": 5376, "num_attention_heads": 40, "head_dim": 128}, "bf16")
    assert (model.heads, model.head_dim, model.kv_heads) == (40, 128, 40)


def test_experts_are_read() -> None:
    qwen = {
        **HEADS,
        "intermediate_size": 6144,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
    }
    model = from_config({**qwen, "shared_expert_intermediate_size": 2048}, "bf16")
    assert (model.experts, model.per_token, model.expert_ffn, model.shared_ffn, model.ffn) == (128, 8, 768, 2048, 6144)


@pytest.mark.parametrize("dense", [{"num_experts": 1}, {"num_experts": 0}, {"n_routed_experts": None}])
def test_dense_models_that_name_experts_have_none(dense: dict[str, Any]) -> None:
    assert from_config({**HEADS, **dense}, "bf16").experts == 0
