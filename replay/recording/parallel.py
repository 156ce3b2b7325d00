"""Tensor parallelism: a rank's part of a decoder, as in Megatron-LM (arXiv:1909.08053, section 3).

Attention heads and the width of the MLP are shared out, so that a rank's part of the model is a model of its own with
fewer heads and narrower layers. What the projections back to the hidden size make is summed over the ranks: one
all-reduce per attention and one per MLP. The vocabulary of the output is shared out too, and its logits gathered.
Embeddings and normalisations are on every rank. With the same seed the parts are those of the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from kerneldb.replay.recording.settings import Model, Settings

DIVISIBLE: Final = frozenset({"LlamaConfig", "Qwen2Config"})
"""Configs in which the size of a head is an argument of its own."""
SHARED_OUT: Final = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
HEAD: Final = "lm_head"
OUTPUTS: Final = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", HEAD)
"""Layers whose outputs are shared out; their weights and biases are cut along the first dimension."""
INPUTS: Final = ("o_proj", "down_proj")
"""Layers whose inputs are shared out; their weights are cut along the second dimension, their outputs summed."""


def check(model: Model, settings: Settings, stages: Sequence[str]) -> None:
    """Raise UsageError where the model cannot be divided as wanted."""
    message = None
    if model.config_class not in DIVISIBLE:
        message = f"--tp divides models of the make of Llama and Qwen2, and {model.name} is none"
    elif "train_step" in stages:
        message = "--tp records prefill and decode: a training step is not divided"
    else:
        sizes = _sizes(model.arguments(tiny=settings.tiny, layers=settings.layers))
        odd = [f"{name} {size}" for name, size in sizes.items() if size % settings.tp]
        message = f"--tp {settings.tp} does not divide {', '.join(odd)} of {model.name}" if odd else None
    if message is not None:
        raise UsageError(message)


def _sizes(arguments: Mapping[str, Any]) -> dict[str, int]:
    """What is shared out, of a whole model."""
    heads = arguments["num_attention_heads"]
    sizes = {name: arguments.get(name, heads) for name in SHARED_OUT}
    return sizes if arguments.get("tie_word_embeddings") else {**sizes, "vocab_size": arguments["vocab_size"]}


def divided(arguments: Mapping[str, Any], ways: int) -> dict[str, Any]:
    """The arguments of the config of one rank's part."""
    sizes = {name: size // ways for name, size in _sizes(arguments).items() if name in SHARED_OUT}
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
