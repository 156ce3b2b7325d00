"""Tiny random models of transformers families, and a training step of each under the profiler."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

VOCABULARY = 64
WIDTH = 32


@dataclass(frozen=True)
class Family:
    """A model class of transformers with a tiny configuration, the inputs it takes, and the optimizer that steps it."""

    name: str
    model: str
    config: str
    options: dict[str, Any]
    inputs: Callable[[], dict[str, Any]]
    optimizer: str = "adamw"


@dataclass(frozen=True)
class Executed:
    """A call in an Execution Trace: `aten::add.Tensor`, and the dtype names of each of its tensor lists."""

    overload: str
    list_dtypes: tuple[tuple[str, ...], ...]


TEXT = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = {**TEXT, "intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 32}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
VISION = {
    "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "image_size": 16, "patch_size": 8,
}  # fmt: skip


def tokens(*shape: int) -> Any:
    import torch

    return torch.randint(3, VOCABULARY, shape)


def causal() -> dict[str, Any]:
    ids = tokens(2, 9)
    return {"input_ids": ids, "attention_mask": ids.new_ones(2, 9), "labels": ids}


def padded() -> dict[str, Any]:
    ids = tokens(2, 9)
    mask = ids.new_ones(2, 9)
    mask[0, :3] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids}


def classified() -> dict[str, Any]:
    import torch

    return {**{key: value for key, value in padded().items() if key != "labels"}, "labels": torch.tensor([0, 1])}


def translated() -> dict[str, Any]:
    return {"input_ids": tokens(2, 7), "labels": tokens(2, 5)}


def image() -> dict[str, Any]:
    import torch

    return {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}


def image_and_text() -> dict[str, Any]:
    import torch

    return {"pixel_values": torch.randn(2, 3, 16, 16), "input_ids": tokens(2, 6), "return_loss": True}


def speech() -> dict[str, Any]:
    import torch

    return {"input_features": torch.randn(2, 8, 24), "labels": tokens(2, 5)}


def waveform() -> dict[str, Any]:
    import torch

    return {"input_values": torch.randn(2, 800), "labels": torch.tensor([0, 1])}


CLIP_TEXT = {**TEXT, "intermediate_size": 48, "max_position_embeddings": 16, **SPECIAL}
CLIP = {"text_config": CLIP_TEXT, "vision_config": VISION, "projection_dim": 16}
EXPERTS = {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True}
BLOOM = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": 2, "n_head": 4, **SPECIAL}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 32, **SPECIAL}
T5 = {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0}  # fmt: skip
WHISPER = {
    "vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 8,
    "max_source_positions": 12, "max_target_positions": 16, "decoder_start_token_id": 1, **SPECIAL,
}  # fmt: skip
MAMBA = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 1, "state_size": 4, **SPECIAL}

B = {**TEXT, "intermediate_size": 48, "max_position_embeddings": 40}
DEBERTA = {**B, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
XLNET = {"vocab_size": VOCABULARY, "d_model": WIDTH, "n_layer": 2, "n_head": 4, "d_inner": 48}
SWIN = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 2], "num_heads": [2, 2], "window_size": 4}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [2, 2], "layer_type": "basic"}
DEEPSEEK = {
    **DECODER, "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
    "moe_intermediate_size": 24, "first_k_dense_replace": 1, "q_lora_rank": 16, "kv_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "n_shared_experts": 1,
}  # fmt: skip
SPEECH = {
    **B, "conv_dim": [8, 8], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "mask_time_length": 2, "classifier_proj_size": 8,
}  # fmt: skip

FAMILIES = (
    Family("llama", "LlamaForCausalLM", "LlamaConfig", DECODER, causal),
    Family("gpt2", "GPT2LMHeadModel", "GPT2Config", GPT2, padded, "adamw-loop"),
    Family("bert", "BertForSequenceClassification", "BertConfig", {**TEXT, "intermediate_size": 48}, classified, "sgd"),
    Family("bloom", "BloomForCausalLM", "BloomConfig", BLOOM, padded, "sgd-loop"),
    Family("t5", "T5ForConditionalGeneration", "T5Config", T5, translated, "adamw-fused"),
    Family("mixtral", "MixtralForCausalLM", "MixtralConfig", EXPERTS, causal),
    Family("vit", "ViTForImageClassification", "ViTConfig", VISION, image, "sgd-momentum"),
    Family("clip", "CLIPModel", "CLIPConfig", CLIP, image_and_text),
    Family("whisper", "WhisperForConditionalGeneration", "WhisperConfig", WHISPER, speech),
    Family("mamba", "MambaForCausalLM", "MambaConfig", MAMBA, causal, "adamw-loop"),
    Family("qwen2", "Qwen2ForCausalLM", "Qwen2Config", DECODER, padded, "adamw-clip"),
    Family("xlnet", "XLNetForSequenceClassification", "XLNetConfig", XLNET, classified),
    Family("deberta-v2", "DebertaV2ForSequenceClassification", "DebertaV2Config", DEBERTA, classified, "sgd"),
    Family("swin", "SwinForImageClassification", "SwinConfig", SWIN, image, "adamw-fused"),
    Family("resnet", "ResNetForImageClassification", "ResNetConfig", RESNET, image, "sgd-momentum"),
    Family("deepseek-v3", "DeepseekV3ForCausalLM", "DeepseekV3Config", DEEPSEEK, causal),
    Family("wav2vec2", "Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", SPEECH, waveform),
)  # fmt: skip

OPT = {**TEXT, "ffn_dim": 48, "max_position_embeddings": 32, "word_embed_proj_dim": WIDTH, **SPECIAL}
DISTIL = {"vocab_size": VOCABULARY, "dim": WIDTH, "n_layers": 2, "n_heads": 4, "hidden_dim": 48,
          "max_position_embeddings": 32}  # fmt: skip
ALBERT = {**TEXT, "embedding_size": 16, "intermediate_size": 48, "max_position_embeddings": 32}
BART = {
    "vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 32,
    "decoder_start_token_id": 1, "forced_eos_token_id": 2, **SPECIAL,
}  # fmt: skip
GEMMA = {**DECODER, "head_dim": 8}
CONVNEXT = {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2, "patch_size": 2, "image_size": 16}
SEGFORMER = {
    "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16], "patch_sizes": [3, 3],
    "strides": [2, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2],
}  # fmt: skip

FURTHER = (
    Family("opt", "OPTForCausalLM", "OPTConfig", OPT, padded),
    Family("gpt-neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", {**TEXT, "intermediate_size": 48}, causal, "adamw-fused"),
    Family("gemma", "GemmaForCausalLM", "GemmaConfig", GEMMA, causal),
    Family("phi", "PhiForCausalLM", "PhiConfig", DECODER, padded, "adamw-loop"),
    Family("falcon", "FalconForCausalLM", "FalconConfig", TEXT, causal, "sgd-momentum"),
    Family("distilbert", "DistilBertForSequenceClassification", "DistilBertConfig", DISTIL, classified),
    Family("albert", "AlbertForSequenceClassification", "AlbertConfig", ALBERT, classified, "adamw-loop"),
    Family("electra", "ElectraForSequenceClassification", "ElectraConfig", {**ALBERT}, classified, "sgd"),
    Family("bart", "BartForConditionalGeneration", "BartConfig", BART, translated, "adamw-clip"),
    Family("deit", "DeiTForImageClassification", "DeiTConfig", VISION, image),
    Family("dinov2", "Dinov2ForImageClassification", "Dinov2Config", {**VISION, "mlp_ratio": 2}, image, "adamw-loop"),
    Family("convnext", "ConvNextForImageClassification", "ConvNextConfig", CONVNEXT, image, "sgd-momentum"),
    Family("segformer", "SegformerForImageClassification", "SegformerConfig", SEGFORMER, image),
    Family("hubert", "HubertForSequenceClassification", "HubertConfig", SPEECH, waveform),
)  # fmt: skip
"""Families that inference of data flow was not written for."""


def build(family: Family) -> tuple[Any, Any]:
    """The model, in training mode, and its optimizer."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, family.config)(**family.options)
    model = getattr(transformers, family.model)(config).train()
    return model, optimizer(family.optimizer, list(model.parameters()))


def optimizer(kind: str, parameters: list[Any]) -> Any:
    from torch import optim

    if kind.startswith("sgd"):
        momentum = 0.9 if "momentum" in kind else 0.0
        return optim.SGD(parameters, lr=1e-3, momentum=momentum, foreach="loop" not in kind)
    ways = {"adamw-loop": {"foreach": False}, "adamw-fused": {"fused": True}}
    return optim.AdamW(parameters, lr=1e-3, **ways.get(kind, {"foreach": True}))


def step(model: Any, stepper: Any, inputs: dict[str, Any], kind: str) -> None:
    """Forward, backward, optimizer step."""
    import torch

    model(**inputs).loss.backward()
    if kind.endswith("clip"):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    stepper.step()
    stepper.zero_grad(set_to_none=False)


def record(family: Family, folder: Path) -> tuple[Path, dict[int, Executed]]:
    """Trace one training step (after one that is not traced).

    Returns the Kineto file and, by record function id, the calls of the Execution Trace of the same run.
    """
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

    model, stepper = build(family)
    step(model, stepper, family.inputs(), family.optimizer)
    observer = ExecutionTraceObserver().register_callback(str(folder / f"{family.name}-et.json"))
    cpu = [ProfilerActivity.CPU]
    inputs = family.inputs()
    with profile(activities=cpu, record_shapes=True, execution_trace_observer=observer) as profiler:
        step(model, stepper, inputs, family.optimizer)
    kineto = folder / f"{family.name}.json"
    profiler.export_chrome_trace(str(kineto))
    observer.unregister_callback()
    return kineto, executed(folder / f"{family.name}-et.json")


def executed(path: Path) -> dict[int, Executed]:
    """What an Execution Trace tells of each call, by record function id."""
    found: dict[int, Executed] = {}
    for node in orjson.loads(path.read_bytes())["nodes"]:
        attributes = {one["name"]: one["value"] for one in node.get("attrs", ())}
        text = attributes.get("op_schema") or ""
        if text:
            name = text.split("(", 1)[0]
            overload = name if "." in name.rpartition("::")[2] else f"{name}.default"
            lists = (kind for kind in node["inputs"]["types"] if kind.startswith("GenericList[Tensor"))
            dtypes = tuple(tuple(re.findall(r"Tensor\(([^()]*)\)", kind)) for kind in lists)
            found[attributes["rf_id"]] = Executed(overload, dtypes)
    return found
