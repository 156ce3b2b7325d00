"""Builds models: from bundled configs with random weights, or from a local checkpoint. Never downloads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from kerneldb.replay.facts import INSTALL
from kerneldb.replay.recording import parallel
from kerneldb.replay.recording.settings import RecordError, Settings, model_of

SPREAD: Final = 0.02
"""Standard deviation of random weights, the `initializer_range` of most of the models."""
CLASSES: Final = {
    "decoder": "AutoModelForCausalLM",
    "vision_decoder": "LlavaForConditionalGeneration",
    "text_encoder": "AutoModelForMaskedLM",
    "image_encoder": "AutoModelForImageClassification",
}


def transformers() -> Any:
    """The library. Raises RecordError where it is missing."""
    try:
        import transformers as library
    except ImportError as error:
        message = f"recording a model needs transformers: {INSTALL}"
        raise RecordError(message) from error
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
        arguments = parallel.divided(arguments, wanted.tp)
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
    with torch.device(wanted.device), default_dtype(dtype):
        made = maker.from_config(config) if hasattr(maker, "from_config") else maker(config)
    made = made.to(dtype)
    if wanted.tp > 1:
        parallel.connect(made, wanted.tp)
    randomize(made, wanted)
    return made


@contextlib.contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    """New floating-point tensors are of `dtype`."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def randomize(model: Any, wanted: Settings) -> None:
    """Weights and biases ~ N(0, 0.02), scales of normalisations ~ N(1, 0.02): zeros would draw less power.

    The part of a divided model gets what these are in the whole one.
    """
    import torch

    made = torch.Generator(device=wanted.device).manual_seed(wanted.seed)
    tied = wanted.tp > 1 and bool(model.config.tie_word_embeddings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            dimension = parallel.cut(name, parameter.shape, ways=wanted.tp, tied=tied)
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
