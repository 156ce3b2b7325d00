"""What a recording is to do."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kerneldb.errors import UsageError
from kerneldb.replay.recording import models, parallel

EAGER: Final = "eager"
CUDA_GRAPH: Final = "cuda_graph"
SCRIPT: Final = "script"
DTYPES: Final = ("float16", "bfloat16", "float32")
NOT_KEPT: Final = frozenset({"modules", "script", "checkpoint", "label", "name", "rank"})
"""Settings that bundle.json has otherwise, or not at all: paths and arguments are the user's own."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`prompt` and `new_tokens` count tokens per sequence; `seconds` is the measured time per stage and mode.

    `iterations` are traced. `script` is a file and its arguments, run instead of a model. `stages` and `dtype` are
    filled in by `resolved`. `modules` are imported first: they may register a meter. `tp` processes share the model,
    one a GPU (a script is run in so many), and `rank` is the one of them that these are the settings of.
    """

    model: str
    device: str = "cuda:0"
    dtype: str | None = None
    batch: int = 1
    prompt: int = 128
    new_tokens: int = 16
    stages: tuple[str, ...] = ()
    cuda_graphs: bool = False
    compile: bool = False
    seconds: float = 12.0
    iterations: int = 2
    trace_only: bool = False
    tiny: bool = False
    layers: int | None = None
    seed: int = 0
    label: str | None = None
    name: str | None = None
    checkpoint: str | None = None
    script: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    tp: int = 1
    rank: int = 0

    @property
    def on_gpu(self) -> bool:
        """Whether the device is one of CUDA (or ROCm, which PyTorch calls the same)."""
        return self.device != "cpu"

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that each stage is recorded in."""
        return (EAGER, CUDA_GRAPH) if self.cuda_graphs else (EAGER,)

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """(stage, mode) of everything to record, in order."""
        return tuple((stage, mode) for stage in self.stages for mode in self.modes)

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
        found = {key: value for key, value in dataclasses.asdict(self).items() if key not in NOT_KEPT}
        if self.tp == 1:
            del found["tp"]
        weights = "script" if self.script else f"seed {self.seed}"
        return {**found, "weights": Path(self.checkpoint).name if self.checkpoint else weights}

    def tags(self, stage: str, mode: str) -> dict[str, str]:
        """The notes that the trace of a stage gets."""
        found: dict[str, Any] = {"model": self.model, "stage": stage, "mode": mode}
        if not self.script:
            found |= {"precision": self.dtype, "batch": self.batch, "weights": self.kept()["weights"]}
        if stage in models.GENERATING or (stage == "train_step" and not self.script):
            found["prompt"] = self.prompt
        if stage == "decode":
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
    """The settings with model, stages and dtype settled. Raises UsageError and UnknownModelError."""
    device = "cuda:0" if given.device == "cuda" else given.device
    if given.cuda_graphs and (device == "cpu" or given.script):
        message = "--cuda-graphs needs a GPU and a model: a CPU and a script have none"
        raise UsageError(message)
    if given.tp > 1:
        _check_ranks(given, device)
    if given.script:
        return dataclasses.replace(given, device=device, model=Path(given.script[0]).stem, stages=(SCRIPT,))
    known = None if given.checkpoint else models.find(given.model)
    kind = known.kind if known else checkpoint_kind(Path(str(given.checkpoint)))
    stages = models.stages_of(kind, given.stages)
    if known is not None and given.tp > 1:
        parallel.check(known, given, stages)
    _check_length(given, known.config if known else checkpoint_config(Path(str(given.checkpoint))), stages)
    usual = "float32" if device == "cpu" else (known.dtype if known else "float16")
    if "train_step" in stages and usual == "float16":
        usual = "bfloat16"
    dtype = given.dtype or usual
    if "train_step" in stages and dtype == "float16":
        message = "training in float16 needs a loss scale that moves: give --dtype bfloat16 or float32"
        raise UsageError(message)
    return dataclasses.replace(
        given, device=device, model=known.name if known else given.model, stages=stages, dtype=dtype
    )


def _check_ranks(given: Settings, device: str) -> None:
    """What many processes cannot do together. Raises UsageError."""
    message = None
    if device not in ("cpu", "cuda:0"):
        message = "--tp takes the first GPUs of the machine: leave --device out, or choose with CUDA_VISIBLE_DEVICES"
    elif given.checkpoint:
        message = "--tp divides the bundled models: a --checkpoint is loaded whole. Run it as a --script."
    elif given.compile:
        message = "--tp and --compile do not go together: the compiler would cut the model at every exchange"
    if message is not None:
        raise UsageError(message)


def _check_length(given: Settings, config: Mapping[str, Any], stages: tuple[str, ...]) -> None:
    """Positions beyond the model's own are an illegal access on a GPU, which ends the process."""
    text = config.get("text_config", config)
    limit = text.get("n_positions", text.get("max_position_embeddings"))
    length = given.prompt + (given.new_tokens if "decode" in stages else 0)
    if limit is not None and length > limit:
        message = f"{length} tokens are more than the model's {limit}: lower --prompt or --new-tokens"
        raise UsageError(message)


def checkpoint_config(folder: Path) -> dict[str, Any]:
    """The config.json of a local checkpoint. Raises UsageError."""
    path = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path}: no checkpoint of transformers ({error}). Give the folder with config.json and weights."
        raise UsageError(message) from error
    return config


def checkpoint_kind(folder: Path) -> str:
    """The kind of model in a local checkpoint. Raises UsageError."""
    config = checkpoint_config(folder)
    architecture = str((config.get("architectures") or [""])[0])
    if "vision_config" in config:
        return "vision_decoder"
    if architecture.endswith("ForImageClassification") or "image_size" in config:
        return "image_encoder"
    return "decoder" if architecture.endswith(("CausalLM", "LMHeadModel")) else "text_encoder"


def to_dict(settings: Settings) -> dict[str, Any]:
    """All of it, for a child process."""
    return dataclasses.asdict(settings)


def from_dict(given: Mapping[str, Any]) -> Settings:
    """The settings in `given`."""
    lists = {name: tuple(given[name]) for name in ("stages", "script", "modules") if name in given}
    return Settings(**{**given, **lists})
