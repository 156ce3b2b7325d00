"""Builds models: from bundled configs with random weights, or from a local checkpoint. Never downloads.

Under tensor parallelism a rank has its part of a decoder, as in Megatron-LM (arXiv:1909.08053, section 3). Attention
heads and the width of the MLP are shared out, so that a rank's part of the model is a model of its own with fewer heads
and narrower layers. What the projections back to the hidden size make is summed over the ranks: one all-reduce per
attention and one per MLP. The vocabulary of the output is shared out too, and its logits gathered. Embeddings and
normalisations are on every rank. With the same seed the parts are those of the whole model.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kerneldb.replay import processes
from kerneldb.replay.facts import INSTALL
from kerneldb.replay.recording.settings import SHARED_OUT, RecordError, Settings, model_of, shared_sizes

SPREAD: Final = 0.02
"""Standard deviation of random weights, the `initializer_range` of most of the models."""
CLASSES: Final = {
    "decoder": "AutoModelForCausalLM",
    "vision_decoder": "LlavaForConditionalGeneration",
    "text_encoder": "AutoModelForMaskedLM",
    "image_encoder": "AutoModelForImageClassification",
}
HEAD: Final = "lm_head"
OUTPUTS: Final = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", HEAD)
"""Layers whose outputs are shared out; their weights and biases are cut along the first dimension."""
INPUTS: Final = ("o_proj", "down_proj")
"""Layers whose inputs are shared out; their weights are cut along the second dimension, their outputs summed."""


def transformers() -> Any:
    """The library. Raises RecordError where it is missing."""
    try:
        with processes.importing():
            import transformers as library

            importlib.import_module("transformers.modeling_utils")  # what all models share
    except ImportError as error:
        raise RecordError(f"recording a model needs transformers: {INSTALL}") from error
    library.utils.logging.set_verbosity_error()
    return library


def build(wanted: Settings, *, training: bool) -> Any:
    """The model on its device: in the wanted dtype, or for training in float32 under autocast.

    Raises RecordError where this transformers does not have it, or the checkpoint cannot be loaded.
    """
    import torch

    dtype = torch.float32 if training else getattr(torch, str(wanted.dtype))
    made = _loaded(wanted, dtype) if wanted.checkpoint is not None else _random(wanted, dtype)
    return made.train() if training else made.eval()


def _loaded(wanted: Settings, dtype: Any) -> Any:
    library, folder = transformers(), str(wanted.checkpoint)
    loader = getattr(library, {**CLASSES, "vision_decoder": "AutoModelForImageTextToText"}[model_of(wanted).kind])
    try:
        made = loader.from_pretrained(folder, local_files_only=True, torch_dtype=dtype)
    except (OSError, ValueError, KeyError) as error:
        message = f"{folder}: cannot be loaded by transformers {library.__version__}: {str(error).splitlines()[0]}"
        raise RecordError(message) from error
    return made.to(device=wanted.device, dtype=dtype)


def _random(wanted: Settings, dtype: Any) -> Any:
    import torch

    library, model = transformers(), model_of(wanted)
    arguments = model.arguments(tiny=wanted.tiny, layers=wanted.layers)
    if wanted.tp > 1:
        arguments = divided(arguments, wanted.tp)
    try:
        config = getattr(library, model.config_class)(**arguments)
        maker = getattr(library, CLASSES[model.kind])
    except (AttributeError, KeyError) as error:
        message = f"transformers {library.__version__} cannot build {model.name} ({error}): it needs 4.45 or newer"
        raise RecordError(message) from error
    for one in (config, getattr(config, "text_config", None)):
        if one is not None and getattr(one, "pad_token_id", None) is not None:
            one.pad_token_id = None  # text is fed as token ids of any value: none of them is padding
    torch.manual_seed(wanted.seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(wanted.device):
            made = maker.from_config(config) if hasattr(maker, "from_config") else maker(config)
    finally:
        torch.set_default_dtype(before)
    made = made.to(dtype)
    if wanted.tp > 1:
        connect(made, wanted.tp)
    randomize(made, wanted)
    return made


def randomize(model: Any, wanted: Settings) -> None:
    """Weights and biases ~ N(0, 0.02), scales of normalisations ~ N(1, 0.02): zeros would draw less power.

    The part of a divided model gets what these are in the whole one.
    """
    import torch

    made = torch.Generator(device=wanted.device).manual_seed(wanted.seed)
    tied = wanted.tp > 1 and bool(model.config.tie_word_embeddings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            dimension = cut(name, parameter.shape, ways=wanted.tp, tied=tied)
            noise = _noise(parameter, dimension, wanted, made)
            scale = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(noise + 1 if scale else noise)


def _noise(parameter: Any, dimension: int | None, wanted: Settings, made: Any) -> Any:
    """Noise for a parameter; of a cut one, the rank's part of the noise for the whole."""
    import torch

    if dimension is None:
        return torch.empty_like(parameter).normal_(0.0, SPREAD, generator=made)
    shape, own = list(parameter.shape), parameter.shape[dimension]
    shape[dimension] = own * wanted.tp
    whole = parameter.new_empty(shape).normal_(0.0, SPREAD, generator=made)
    return whole.narrow(dimension, wanted.rank * own, own)


def divided(arguments: Mapping[str, Any], ways: int) -> dict[str, Any]:
    """The arguments of the config of one rank's part."""
    sizes = {name: size // ways for name, size in shared_sizes(arguments).items() if name in SHARED_OUT}
    return {**arguments, **sizes, "head_dim": arguments["hidden_size"] // arguments["num_attention_heads"]}


def connect(model: Any, ways: int) -> None:
    """Let the ranks of the process group exchange what their parts make. The output layer is replaced by its part."""
    import torch

    if not model.config.tie_word_embeddings:
        whole = model.lm_head
        like = {"device": whole.weight.device, "dtype": whole.weight.dtype}
        model.lm_head = torch.nn.Linear(whole.in_features, whole.out_features // ways, bias=False, **like)
        model.lm_head.register_forward_hook(_gathered(ways))
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in INPUTS:
            module.register_forward_hook(_summed)


def _summed(module: Any, arguments: Any, output: Any) -> Any:
    """The sum of all ranks' outputs, in place."""
    import torch.distributed

    del module, arguments
    torch.distributed.all_reduce(output)
    return output


def _gathered(ways: int) -> Callable[[Any, Any, Any], Any]:
    """The outputs of all ranks, one behind the other in the last dimension."""
    import torch
    import torch.distributed

    def gather(module: Any, arguments: Any, output: Any) -> Any:
        del module, arguments
        parts = output.new_empty((ways * output.shape[0], *output.shape[1:]))
        torch.distributed.all_gather_into_tensor(parts, output.contiguous())
        return torch.cat(parts.chunk(ways), dim=-1)

    return gather


def cut(name: str, shape: Sequence[int], *, ways: int, tied: bool) -> int | None:
    """The dimension along which the parameter `name`, of `shape` in a rank's part, is cut; None where it is whole."""
    layer = name.split(".")[-2]
    if ways == 1 or (layer == HEAD and tied):
        return None
    if layer in OUTPUTS:
        return 0
    return 1 if layer in INPUTS and len(shape) > 1 else None
