"""What a recording is to do.

The bundled models: sizes from their published configs, built by classes of transformers, never downloaded.

`kind` says what is fed and what the workloads are: a `decoder` and a `vision_decoder` (images and text) have prefill
and decode, a `text_encoder` and an `image_encoder` have forward; all can be trained.

Errors of a recording; each message says what to do.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from kerneldb import codec
from kerneldb.errors import KerneldbError, UsageError
from kerneldb.recordings import EAGER
from kerneldb.replay.options import Flag, option

CUDA_GRAPH: Final = "cuda_graph"
SCRIPT: Final = "script"
DTYPES: Final = ("float16", "bfloat16", "float32")
TP_HELP: Final = "Share the model out to N GPUs (tensor parallel); run so many processes of a script."
NOT_KEPT: Final = frozenset({"modules", "script", "checkpoint", "label", "name", "rank"})
"""Settings that bundle.json has otherwise, or not at all: paths and arguments are the user's own."""
DIVISIBLE: Final = frozenset({"LlamaConfig", "Qwen2Config"})
"""Configs in which the size of a head is an argument of its own."""
SHARED_OUT: Final = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
Kind = Literal["decoder", "vision_decoder", "text_encoder", "image_encoder"]

GENERATING: Final = ("prefill", "decode")
WORKLOADS: Final[Mapping[str, tuple[str, ...]]] = {
    "decoder": (*GENERATING, "train_step"),
    "vision_decoder": (*GENERATING, "train_step"),
    "text_encoder": ("forward", "train_step"),
    "image_encoder": ("forward", "train_step"),
}
"""The workloads of each kind, in the order in which they are recorded."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to record; `kerneldb record`, the module for machines without a database and child processes have it alike.

    `prompt` and `new_tokens` count tokens per sequence; `seconds` is the measured time per workload and mode.
    `iterations` are traced. `script` is a file and its arguments, run instead of a model. `workloads` (also joined by
    commas) and `dtype` are settled by `resolved`. `modules` are imported first: they may register a meter. `tp`
    processes share the model, one a GPU (a script is run in so many), and `rank` is the one of them that these are the
    settings of.
    """

    model: str
    checkpoint: str | None = option(None, Flag("Weights of a local model, not random ones.", metavar="DIRECTORY"))
    workloads: tuple[str, ...] = option((), Flag("Of prefill, decode, forward, train; with commas.", metavar="NAMES"))
    device: str = option("cuda:0", Flag("cuda:N or cpu.", metavar="DEVICE"))
    dtype: str | None = option(None, Flag("Default: of the model; float32 on a CPU.", choices=DTYPES))
    batch: int = option(1, Flag("Sequences or images at once.", least=1))
    prompt: int = option(128, Flag("Tokens per sequence.", least=1))
    new_tokens: int = option(16, Flag("Decode steps per iteration.", least=1))
    tp: int = option(1, Flag(TP_HELP, metavar="N", least=1))
    cuda_graphs: bool = option(default=False, flag=Flag("Also under CUDA graphs."))
    compile: bool = option(default=False, flag=Flag("Through torch.compile; keeps the sources of its kernels."))
    seconds: float = option(12.0, Flag("Measured, per workload and mode.", least=0.1))
    iterations: int = option(2, Flag("Traced, per workload and mode.", least=1))
    load: float = option(0.0, Flag("Seconds under load before it is traced: clocks as when it goes on.", least=0))
    trace_only: bool = option(default=False, flag=Flag("Trace, do not measure. With --output: do not ingest either."))
    stack: bool = option(
        default=False, flag=Flag("Also note the lines of code that call operators: the host is slower.")
    )
    label: str | None = option(None, Flag("What it is, in your words; shown wherever the traces are.", metavar="TEXT"))
    name: str | None = option(None, Flag("Name of the recording (default: of the folder).", metavar="NAME"))
    tiny: bool = option(default=False, flag=Flag("Sizes for a test on a CPU."))
    layers: int | None = option(None, Flag("So many layers instead of the model's own.", least=1))
    seed: int = option(0, Flag("Of random weights and inputs."))
    modules: tuple[str, ...] = option((), Flag("Module that registers a meter.", "import", metavar="MODULE"))
    script: tuple[str, ...] = ()
    rank: int = 0

    @property
    def on_gpu(self) -> bool:
        """Whether the device is one of CUDA (or ROCm, which PyTorch calls the same)."""
        return self.device != "cpu"

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """(workload, mode) of everything to record, in order."""
        modes = (EAGER, CUDA_GRAPH) if self.cuda_graphs else (EAGER,)
        return tuple((workload, mode) for workload in self.workloads for mode in modes)

    @property
    def bundle_name(self) -> str:
        """The name of the recording: as given, else of model and settings."""
        if self.name is not None:
            return self.name
        if self.script:
            return self.model
        scale, ways = "-tiny" if self.tiny else "", f"-tp{self.tp}" if self.tp > 1 else ""
        return f"{self.model}{scale}-{self.dtype}-b{self.batch}-p{self.prompt}{ways}"

    def kept(self) -> dict[str, Any]:
        """What bundle.json says of the settings, and what a resumed recording must agree with."""
        left_out = NOT_KEPT if self.tp > 1 else NOT_KEPT | {"tp"}
        found = {key: value for key, value in dataclasses.asdict(self).items() if key not in left_out}
        weights = "script" if self.script else f"seed {self.seed}"
        return {**found, "weights": Path(self.checkpoint).name if self.checkpoint else weights}

    def tags(self, workload: str, mode: str) -> dict[str, str]:
        """The notes that the trace of a workload gets."""
        found: dict[str, Any] = {"model": self.model, "workload": workload, "mode": mode}
        if not self.script:
            found |= {"precision": self.dtype, "batch": self.batch, "weights": self.kept()["weights"]}
        if workload in GENERATING or (workload == "train_step" and not self.script):
            found["prompt"] = self.prompt
        if workload == "decode":
            found["new_tokens"] = self.new_tokens
        if self.tiny:
            found["scale"] = "tiny"
        if self.layers is not None:
            found["layers"] = self.layers
        if self.compile:
            found["compile"] = "inductor"
        if self.tp > 1:
            found["ranks" if self.script else "tp"] = self.tp
        return {key: str(value) for key, value in found.items()}


def resolved(given: Settings) -> Settings:
    """The settings with model, workloads and dtype settled. Raises UsageError and UnknownModelError."""
    given = dataclasses.replace(given, device="cuda:0" if given.device == "cuda" else given.device)
    if given.cuda_graphs and (not given.on_gpu or given.script):
        raise UsageError("--cuda-graphs needs a GPU and a model: a CPU and a script have none")
    if given.tp > 1:
        _check_ranks(given)
    if given.script:
        return dataclasses.replace(given, model=Path(given.script[0]).stem, workloads=(SCRIPT,))
    model = model_of(given)
    workloads = workloads_of(model.kind, given.workloads)
    if given.tp > 1:
        _check_divisible(model, given, workloads)
    # Positions beyond the model's own are an illegal access on a GPU, which ends the process.
    text = model.config.get("text_config", model.config)
    limit = text.get("n_positions", text.get("max_position_embeddings"))
    length = given.prompt + (given.new_tokens if "decode" in workloads else 0)
    if limit is not None and length > limit:
        raise UsageError(f"{length} tokens are more than the model's {limit}: lower --prompt or --new-tokens")
    training = "train_step" in workloads
    usual = "bfloat16" if training else model.dtype
    dtype = given.dtype or (usual if given.on_gpu else "float32")
    if training and dtype == "float16":
        raise UsageError("training in float16 needs a loss scale that moves: give --dtype bfloat16 or float32")
    return dataclasses.replace(given, model=model.name, workloads=workloads, dtype=dtype)


def _check_ranks(given: Settings) -> None:
    """What many processes cannot do together. Raises UsageError."""
    message = None
    if given.device not in ("cpu", "cuda:0"):
        message = "--tp takes the first GPUs of the machine: leave --device out, or choose with CUDA_VISIBLE_DEVICES"
    elif given.checkpoint:
        message = "--tp divides the bundled models: a --checkpoint is loaded whole. Run it as a --script."
    elif given.compile:
        message = "--tp and --compile do not go together: the compiler would cut the model at every exchange"
    if message is not None:
        raise UsageError(message)


def _check_divisible(model: Model, settings: Settings, workloads: Sequence[str]) -> None:
    """Raise UsageError where the model cannot be divided as wanted."""
    message = None
    if model.config_class not in DIVISIBLE:
        message = f"--tp divides models of the make of Llama and Qwen2, and {model.name} is none"
    elif "train_step" in workloads:
        message = "--tp records prefill and decode: a training step is not divided"
    else:
        sizes = shared_sizes(model.arguments(tiny=settings.tiny, layers=settings.layers))
        odd = [f"{name} {size}" for name, size in sizes.items() if size % settings.tp]
        message = f"--tp {settings.tp} does not divide {', '.join(odd)} of {model.name}" if odd else None
    if message is not None:
        raise UsageError(message)


def shared_sizes(arguments: Mapping[str, Any]) -> dict[str, int]:
    """What is shared out, of a whole model."""
    heads = arguments["num_attention_heads"]
    sizes = {name: arguments.get(name, heads) for name in SHARED_OUT}
    return sizes if arguments.get("tie_word_embeddings") else {**sizes, "vocab_size": arguments["vocab_size"]}


def model_of(given: Settings) -> Model:
    """The bundled model, or what is known of a local checkpoint. Raises UsageError and UnknownModelError."""
    if given.checkpoint is None:
        return find(given.model)
    path = Path(given.checkpoint) / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path}: no checkpoint of transformers ({error}). Give the folder with config.json and weights."
        raise UsageError(message) from error
    return Model(name=given.model, kind=_kind(config), config_class="", config=config, tiny={}, source=str(path))


def _kind(config: Mapping[str, Any]) -> Kind:
    """The kind of model that the config.json of a checkpoint is of."""
    architecture = str((config.get("architectures") or [""])[0])
    if "vision_config" in config:
        return "vision_decoder"
    if architecture.endswith("ForImageClassification") or "image_size" in config:
        return "image_encoder"
    return "decoder" if architecture.endswith(("CausalLM", "LMHeadModel")) else "text_encoder"


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


MODELS: Final = tuple(
    codec.decode(Model, one)
    for one in tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))["model"]
)


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


def workloads_of(kind: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The wanted workloads in the order of recording; without a wish, all but training. Raises UsageError."""
    known = WORKLOADS[kind]
    named = {name.strip() for names in wanted for name in names.split(",")} - {""}
    asked = {{"train": "train_step"}.get(name, name) for name in named} or set(known) - {"train_step"}
    if "forward" in known and not asked.isdisjoint(GENERATING):
        asked = asked - set(GENERATING) | {"forward"}
    foreign = sorted(asked - set(known))
    if foreign:
        raise UsageError(f"no workload {', '.join(foreign)}: this model has {', '.join(known)}")
    return tuple(workload for workload in known if workload in asked)


class RecordError(KerneldbError):
    """The recording cannot start or go on: no PyTorch, no such device, out of memory, a script that failed."""


class UnknownModelError(UsageError):
    """No such model; the message names near ones."""


class WorkloadError(KerneldbError):
    """One workload cannot be recorded in one mode; the others go on."""
