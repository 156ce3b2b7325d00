"""Programs of transformers families, of which the truth is watched: training steps, passes, and tokens with a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.replay import families
from tests.replay.families import DECODER, SPECIAL, VOCABULARY, WIDTH, Family, causal

Program = Callable[[], None]

RWKV = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "context_length": 16, **SPECIAL}
ENCODEC = {"num_filters": 4, "upsampling_ratios": [4, 2], "hidden_size": 16, "codebook_size": 16, "num_lstm_layers": 1,
           "target_bandwidths": [24.0], "sampling_rate": 24000}  # fmt: skip
GRIFFIN = {**DECODER, "lru_width": WIDTH, "attention_window_size": 8, "num_hidden_layers": 3, **SPECIAL}


def sound() -> dict[str, Any]:
    import torch

    return {"input_values": torch.randn(1, 1, 320)}


OTHERS = (
    Family("rwkv", "RwkvForCausalLM", "RwkvConfig", RWKV, causal, "sgd"),
    Family("recurrent-gemma", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", GRIFFIN, causal, "sgd"),
    Family("encodec", "EncodecModel", "EncodecConfig", ENCODEC, sound),
)

MAMBA2 = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 1, "state_size": 8, "num_heads": 8,
          "head_dim": 8, "expand": 2, "n_groups": 1, "chunk_size": 4, **SPECIAL}  # fmt: skip
FNET = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "intermediate_size": 48,
        "max_position_embeddings": 32}  # fmt: skip


def unmasked() -> dict[str, Any]:
    return {name: value for name, value in families.classified().items() if name != "attention_mask"}


NEW = (
    Family("mamba2", "Mamba2ForCausalLM", "Mamba2Config", MAMBA2, causal, "adamw-loop"),
    Family("olmoe", "OlmoeForCausalLM", "OlmoeConfig", {**DECODER, "num_experts": 4, "num_experts_per_tok": 2}, causal),
    Family("fnet", "FNetForSequenceClassification", "FNetConfig", FNET, unmasked, "sgd"),
)
KNOWN = {one.name: one for one in (*families.FAMILIES, *families.FURTHER, *OTHERS, *NEW)}


def training(family: Family) -> Program:
    """A training step."""
    model, stepper = families.build(family)
    inputs = family.inputs()
    return lambda: families.step(model, stepper, inputs, family.optimizer)


def forward(family: Family) -> Program:
    """The model alone, without gradients."""
    import torch

    model, inputs = families.build(family)[0].eval(), family.inputs()

    def run() -> None:
        with torch.no_grad():
            model(**inputs)

    return run


def decoding(family: Family) -> Program:
    """A token more at each run; what is kept of the tokens before is there from the run before."""
    import torch

    model, ids = families.build(family)[0].eval(), family.inputs()["input_ids"]
    state: dict[str, Any] = {}
    with torch.no_grad():
        state["cache"] = model(input_ids=ids, use_cache=True).past_key_values

    def run() -> None:
        with torch.no_grad():
            found = model(input_ids=ids[:, -1:], past_key_values=state["cache"], use_cache=True)
        state["cache"] = found.past_key_values

    return run


PROGRAMS = (
    "llama-train", "resnet-train", "t5-train", "whisper-forward", "mamba-train", "llama-decode", "gpt2-train",
    "bert-train", "bloom-train", "mixtral-train", "vit-train", "clip-train", "qwen2-decode", "xlnet-train",
    "deberta-v2-forward", "swin-train", "deepseek-v3-train", "wav2vec2-train", "rwkv-train", "recurrent-gemma-train",
    "encodec-forward",
)  # fmt: skip
"""Programs of twenty families."""

FURTHER = (
    "bart-train", "convnext-train", "segformer-forward", "hubert-train", "gpt-neox-decode", "albert-train",
    "dinov2-train", "mamba2-train", "olmoe-train", "fnet-train",
)  # fmt: skip
"""Programs of families that the rebuilding of steps was not written for."""

KINDS: dict[str, Callable[[Family], Program]] = {"train": training, "forward": forward, "decode": decoding}


def made(name: str) -> Program:
    """A program by its name, `llama-train`, built with a seed and run once."""
    family, _, kind = name.rpartition("-")
    _seed()
    program = KINDS[kind](KNOWN[family])
    program()
    _seed()
    return program


def _seed() -> None:
    import numpy as np
    import torch

    torch.manual_seed(0)
    np.random.seed(0)
