"""Record the example trace: a Llama-style decoder with random weights, one prefill and a few decode steps.

    python examples/record_decoder.py examples/decoder-h200.json.gz examples/decoder-h200.facts.json

Needs a CUDA GPU, torch, transformers and nvidia-ml-py. Nothing is downloaded: the weights are random, so the text is
nonsense, and the kernels, shapes and launches are those of a trained model of this size.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import pynvml
import torch
import transformers
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig, PreTrainedModel

DEVICE = "cuda"
SEED = 0


def decoder_config(layers: int) -> LlamaConfig:
    """Return the decoder's shape: hidden 2048, 16 query heads on 4 key/value heads, vocabulary 32000."""
    return LlamaConfig(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32_000,
    )


def build_model(config: LlamaConfig) -> PreTrainedModel:
    """Return the decoder in bfloat16 on the GPU, with seeded random weights and PyTorch's own attention (SDPA)."""
    torch.manual_seed(SEED)
    with torch.device(DEVICE):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
    return model.eval()


def generate(model: PreTrainedModel, prompt: torch.Tensor, steps: int) -> None:
    """Run one prefill over `prompt` (batch x tokens), then `steps` greedy decode steps of one token each.

    Args:
        model: A causal language model on the GPU.
        prompt: Token ids, int64, on the same GPU.
        steps: Decode steps after the prefill.
    """
    cache = DynamicCache(config=model.config)
    tokens = prompt
    for phase in ("prefill", *["decode"] * steps):
        with torch.inference_mode(), record_function(phase):
            output = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
            tokens = output.logits[:, -1].argmax(dim=-1, keepdim=True)
    torch.cuda.synchronize()


def record(model: PreTrainedModel, prompt: torch.Tensor, steps: int, trace: Path) -> None:
    """Profile one `generate` and write its Chrome trace, gzip-compressed when the name ends in .gz."""
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    # The first profile of a process pays for the start of CUPTI and is thrown away.
    for _ in range(2):
        with profile(activities=activities, record_shapes=True) as profiler:
            generate(model, prompt, steps)
    profiler.export_chrome_trace(str(trace))


def driver_version() -> str:
    """Return the version of the NVIDIA driver, for example '580.159.04'."""
    pynvml.nvmlInit()
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    finally:
        pynvml.nvmlShutdown()


def software_facts() -> dict[str, object]:
    """Return when and on what the trace was recorded."""
    return {
        "recorded": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name(),
        "driver": driver_version(),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def model_facts(model: PreTrainedModel) -> dict[str, object]:
    """Return the size, shape, dtype and attention of the model."""
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    return {
        "model_type": model.config.model_type,
        **{name: getattr(model.config, name) for name in (*names, "vocab_size")},
        "parameters": model.num_parameters(),
        "dtype": str(model.dtype).removeprefix("torch."),
        "attention": "sdpa",
        "weights": f"random, seed {SEED}",
    }


def parse_arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, help="the Chrome trace to write, .json or .json.gz")
    parser.add_argument("facts", type=Path, help="the JSON file of facts to write")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--decode-steps", type=int, default=6)
    parser.add_argument("--warm-up", type=int, default=3, help="unrecorded runs before the recorded one")
    return parser.parse_args()


def main() -> None:
    """Build the decoder, warm it up, record it and write the facts."""
    arguments = parse_arguments()
    config = decoder_config(arguments.layers)
    model = build_model(config)
    prompt = torch.randint(config.vocab_size, (1, arguments.prompt_tokens), device=DEVICE)
    for _ in range(arguments.warm_up):
        generate(model, prompt, arguments.decode_steps)
    record(model, prompt, arguments.decode_steps, arguments.trace)
    workload = {"batch": 1, "prompt_tokens": arguments.prompt_tokens, "decode_steps": arguments.decode_steps}
    facts = {**software_facts(), "model": model_facts(model), "workload": workload}
    arguments.facts.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
