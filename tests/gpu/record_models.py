"""Records three models on a GPU with random weights: a 7B decoder, a mixture-of-experts decoder, a vision encoder.

    python tests/gpu/record_models.py FOLDER

Each trace holds one prefill of 128 tokens and four decode steps, or two batches of images, with shapes recorded. The
replay figures in docs/results/ are made from them.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    LlamaConfig,
    PretrainedConfig,
    Qwen3MoeConfig,
    ViTConfig,
)

PROMPT_TOKENS = 128
DECODE_STEPS = 4
IMAGES = 8


def llama_7b() -> PretrainedConfig:
    """The shape of Llama-2 7B."""
    return LlamaConfig(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32)


def mixture_of_experts() -> PretrainedConfig:
    """Sixteen experts, four of them per token, twelve layers."""
    return Qwen3MoeConfig(
        hidden_size=2048,
        intermediate_size=6144,
        moe_intermediate_size=1024,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=4,
        head_dim=128,
        num_experts=16,
        num_experts_per_tok=4,
        vocab_size=32000,
    )


def vit_large() -> PretrainedConfig:
    """ViT-L/16."""
    return ViTConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16)


def decoding(config: PretrainedConfig, dtype: torch.dtype) -> Callable[[], None]:
    """Prefill and greedy decoding with a growing cache."""
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa").eval()
    prompt = torch.randint(config.vocab_size, (1, PROMPT_TOKENS), device="cuda")

    @torch.inference_mode()
    def run() -> None:
        with record_function("prefill"):
            out = model(prompt, use_cache=True)
        for _ in range(DECODE_STEPS):
            with record_function("decode"):
                token = out.logits[:, -1:].argmax(-1)
                out = model(token, past_key_values=out.past_key_values, use_cache=True)

    return run


def encoding(config: PretrainedConfig, dtype: torch.dtype) -> Callable[[], None]:
    """Two batches of images through an encoder."""
    with torch.device("cuda"):
        model = AutoModel.from_config(config, dtype=dtype, attn_implementation="sdpa").eval()
    images = torch.randn(IMAGES, 3, config.image_size, config.image_size, device="cuda", dtype=dtype)

    @torch.inference_mode()
    def run() -> None:
        for _ in range(2):
            with record_function("encode"):
                model(images)

    return run


def record(name: str, run: Callable[[], None], folder: Path) -> None:
    """Warm up, record, and write the trace compressed."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as recorded:
        run()
        torch.cuda.synchronize()
    plain = folder / f"{name}.json"
    recorded.export_chrome_trace(str(plain))
    with plain.open("rb") as source, gzip.open(folder / f"{name}.json.gz", "wb") as packed:
        shutil.copyfileobj(source, packed)
    plain.unlink()


def main() -> None:
    """Record all three."""
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    record("llama-7b", decoding(llama_7b(), torch.float16), folder)
    torch.cuda.empty_cache()
    record("moe", decoding(mixture_of_experts(), torch.bfloat16), folder)
    torch.cuda.empty_cache()
    record("vit-large", encoding(vit_large(), torch.float16), folder)


if __name__ == "__main__":
    main()
