"""The bundled models: sizes from their published configs, built by classes of transformers, never downloaded.

`kind` says what is fed and what the stages are: a `decoder` and a `vision_decoder` (images and text) have prefill and
decode, a `text_encoder` and an `image_encoder` have forward; all can be trained.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from kerneldb.errors import UsageError
from kerneldb.replay.recording.errors import UnknownModelError

Kind = Literal["decoder", "vision_decoder", "text_encoder", "image_encoder"]

GENERATING: Final = ("prefill", "decode")
STAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "decoder": (*GENERATING, "train_step"),
    "vision_decoder": (*GENERATING, "train_step"),
    "text_encoder": ("forward", "train_step"),
    "image_encoder": ("forward", "train_step"),
}
"""The stages of each kind, in the order in which they are recorded."""
SHORT_STAGES: Final[Mapping[str, str]] = {"train": "train_step"}


@dataclass(frozen=True, slots=True)
class Model:
    """A bundled model.

    `config` are the arguments of the transformers class `config_class`; `tiny` replaces some of them, also inside of
    nested configs, by sizes that a CPU runs in milliseconds. `layers` are the names of the arguments that count layers
    (with a dot: inside a nested config). `source` is where the sizes come from.
    """

    name: str
    kind: Kind
    config_class: str
    config: Mapping[str, Any]
    tiny: Mapping[str, Any]
    source: str
    layers: tuple[str, ...] = ("num_hidden_layers",)
    aliases: tuple[str, ...] = ()
    dtype: str = "float16"
    note: str = ""

    def arguments(self, *, tiny: bool, layers: int | None) -> dict[str, Any]:
        """The arguments of the config class, scaled down as asked."""
        scale = self.tiny if tiny else {}
        made = {**self.config, **scale}
        for name, value in self.config.items():
            if isinstance(value, Mapping):
                made[name] = {**value, **scale.get(name, {})}
        for name in self.layers if layers is not None else ():
            outer, _, inner = name.rpartition(".")
            (made[outer] if outer else made)[inner] = layers
        return made


def _sizes(hidden: int, inner: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    """Sizes by the names that most configs have."""
    usual = {"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers}
    return {**usual, "num_attention_heads": heads, **more}


TINY: Final = _sizes(64, 128, 2, 4)

MODELS: Final[tuple[Model, ...]] = (
    Model(
        name="bloom-560m",
        kind="decoder",
        config_class="BloomConfig",
        config={"hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880},
        tiny={"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256},
        layers=("n_layer",),
        source="bigscience/bloom-560m config.json",
    ),
    Model(
        name="llama-2-7b",
        kind="decoder",
        config_class="LlamaConfig",
        config=_sizes(4096, 11008, 32, 32, vocab_size=32000, max_position_embeddings=4096, rms_norm_eps=1e-5),
        tiny={**TINY, "vocab_size": 256},
        source="meta-llama/Llama-2-7b-hf config.json; lmsys/vicuna-7b-v1.5 has the same sizes",
        aliases=("vicuna-7b", "llama-7b"),
    ),
    Model(
        name="gpt2",
        kind="decoder",
        config_class="GPT2Config",
        config={"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257},
        tiny={"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256},
        layers=("n_layer",),
        source="openai-community/gpt2 config.json",
    ),
    Model(
        name="qwen2.5-0.5b",
        kind="decoder",
        config_class="Qwen2Config",
        config=_sizes(
            896, 4864, 24, 14,
            num_key_value_heads=2, vocab_size=151936, max_position_embeddings=32768, tie_word_embeddings=True,
        ),
        tiny={**TINY, "vocab_size": 256, "num_key_value_heads": 2},
        source="Qwen/Qwen2.5-0.5B config.json",
        aliases=("qwen",),
        dtype="bfloat16",
    ),
    Model(
        name="deepseek-vl2-tiny",
        kind="vision_decoder",
        config_class="LlavaConfig",
        config={
            "text_config": _sizes(
                1280, 6848, 12, 10,
                model_type="qwen2_moe", moe_intermediate_size=896, shared_expert_intermediate_size=1792,
                num_key_value_heads=10, num_experts=64, num_experts_per_tok=6, mlp_only_layers=[0],
                vocab_size=129280, max_position_embeddings=4096,
            ),
            "vision_config": _sizes(
                1152, 4304, 27, 16, model_type="siglip_vision_model", image_size=384, patch_size=14
            ),
            "image_token_index": 1,
            "image_seq_length": 729,
            "vision_feature_select_strategy": "full",
        },
        tiny={
            "image_seq_length": 16,
            "text_config": _sizes(
                64, 128, 2, 4,
                moe_intermediate_size=32, shared_expert_intermediate_size=64,
                num_key_value_heads=4, num_experts=8, num_experts_per_tok=2, vocab_size=256,
            ),
            "vision_config": {**TINY, "image_size": 32, "patch_size": 8},
        },
        layers=("text_config.num_hidden_layers", "vision_config.num_hidden_layers"),
        source="deepseek-ai/deepseek-vl2-tiny config.json",
        aliases=("moe-vision", "deepseek-moe"),
        dtype="bfloat16",
        note="its sizes in the Qwen2-MoE classes: 64 experts, 6 per token, shared ones, SigLIP encoder",
    ),
    Model(
        name="vit-large",
        kind="image_encoder",
        config_class="ViTConfig",
        config=_sizes(1024, 4096, 24, 16, image_size=224, patch_size=16, num_labels=1000),
        tiny={**TINY, "image_size": 32, "patch_size": 8, "num_labels": 10},
        source="google/vit-large-patch16-224 config.json",
        aliases=("vit",),
    ),
    Model(
        name="bert-base",
        kind="text_encoder",
        config_class="BertConfig",
        config=_sizes(768, 3072, 12, 12, vocab_size=30522, max_position_embeddings=512),
        tiny={**TINY, "vocab_size": 256},
        source="google-bert/bert-base-uncased config.json",
        aliases=("bert", "bert-base-uncased"),
    ),
)  # fmt: skip


def find(name: str) -> Model:
    """The model called `name`, or by one of its aliases. Raises UnknownModelError."""
    named = {alias: model for model in MODELS for alias in (model.name, *model.aliases)}
    found = named.get(name.lower())
    if found is not None:
        return found
    near = difflib.get_close_matches(name.lower(), named, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    message = f"no bundled model {name!r}: {meant}kerneldb record --list shows all; --checkpoint DIR takes a local one"
    raise UnknownModelError(message)


def stages_of(kind: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The wanted stages in the order of recording; without a wish, all but training. Raises UsageError."""
    known = STAGES[kind]
    named = {name.strip() for names in wanted for name in names.split(",")} - {""}
    asked = {SHORT_STAGES.get(name, name) for name in named} or set(known) - {"train_step"}
    if "forward" in known and not asked.isdisjoint(GENERATING):
        asked = asked - set(GENERATING) | {"forward"}
    foreign = sorted(asked - set(known))
    if foreign:
        message = f"no stage {', '.join(foreign)}: this model has {', '.join(known)}"
        raise UsageError(message)
    return tuple(stage for stage in known if stage in asked)
