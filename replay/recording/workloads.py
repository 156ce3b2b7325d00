"""What one iteration of each workload is: the same work, on the same input, every time.

    prefill     one pass over the prompt, which fills a new cache, and the choice of the first new token
    decode      `new_tokens` steps of one token each, from the cache that the prompt left: it is put back before, at no
                cost on the device (its tensors are referred to again, the cache's growth makes new ones)
    forward     one pass of an encoder
    train_step  forward, loss, backward and a step of AdamW, in autocast unless the dtype is float32
    script      one run of the user's script as `__main__`

In a CUDA graph, one replay is one iteration: all steps of a decode are captured, with the shapes of the eager ones.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from kerneldb.replay.recording import build
from kerneldb.replay.recording.settings import CUDA_GRAPH, SCRIPT, RecordError, Settings, WorkloadError, model_of

WARM_RUNS: Final = 3


Watch = Callable[[], contextlib.AbstractContextManager[Any]]
"""Around the capture of a graph."""


class Work(Protocol):
    """One iteration of a workload; called, it enqueues it. `tokens`: how many it reads (prefill) or makes (decode)."""

    tokens: int | None

    def __call__(self) -> None:
        """Enqueue one iteration; it ends in the state that it began with."""


class Models:
    """Builds models when they are first needed, and keeps one at a time: two may not fit into memory."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._training: bool | None = None
        self._model: Any = None
        if not settings.script:
            build.transformers()  # what it keeps of its own import keeps the frames above, and a model in one of them

    def get(self, *, training: bool) -> Any:
        """The model for training, or for inference."""
        if self._training != training:
            self._model = None
            empty_cache(self._settings)
            self._model = build.build(self._settings, training=training)
            if self._settings.compile:
                self._model.compile(dynamic=False)
            self._training = training
        return self._model


def make(workload: str, mode: str, settings: Settings, models: Models, watch: Watch | None = None) -> Work:
    """The work of a workload, run a few times already (a script once): kernels are chosen, and memory is there.

    A graph is captured inside of `watch`.
    Raises WorkloadError where it cannot be captured in a CUDA graph.
    """
    work = _eager(workload, settings, models)
    if mode == CUDA_GRAPH:
        return Captured(work, watch or contextlib.nullcontext)
    if workload != SCRIPT or not settings.trace_only:
        for _ in range(1 if workload == SCRIPT else WARM_RUNS):
            work()
        synchronize(settings)
    return work


def _eager(workload: str, settings: Settings, models: Models) -> Work:
    if workload == SCRIPT:
        return Script(settings.script)
    model = models.get(training=workload == "train_step")
    inputs = inputs_of(model, settings)
    if workload == "train_step":
        return TrainStep(model, inputs, settings)
    if workload == "decode":
        return Decode(model, inputs, settings)
    return Pass(model, inputs, first_token=workload == "prefill")


def inputs_of(model: Any, settings: Settings) -> dict[str, Any]:
    """Random inputs of the model: token ids, images ~ N(0, 1), or both, with as many image tokens as it makes."""
    import torch

    kind, config = model_of(settings).kind, model.config
    made = torch.Generator(device=settings.device).manual_seed(settings.seed)
    inputs: dict[str, Any] = {}
    if kind in ("image_encoder", "vision_decoder"):
        side = getattr(config, "vision_config", config).image_size
        shape = (settings.batch, 3, side, side)
        inputs["pixel_values"] = torch.randn(shape, device=settings.device, dtype=model.dtype, generator=made)
    if kind != "image_encoder":
        vocabulary = getattr(config, "text_config", config).vocab_size
        size = (settings.batch, settings.prompt)
        inputs["input_ids"] = torch.randint(2, vocabulary, size, device=settings.device, generator=made)
    if kind == "vision_decoder":
        inputs["input_ids"] = _with_image(inputs["input_ids"], config)
    return inputs


def _with_image(ids: Any, config: Any) -> Any:
    """Token ids after the image tokens for the patches of one image."""
    import torch

    vision, token = config.vision_config, getattr(config, "image_token_id", None)
    token = config.image_token_index if token is None else token
    patches = (vision.image_size // vision.patch_size) ** 2
    return torch.cat([torch.full((ids.shape[0], patches), token, dtype=ids.dtype, device=ids.device), ids], dim=1)


def _last_logits(model: Any) -> dict[str, int]:
    """The argument that keeps the logits of the last token only, as generation does."""
    known = inspect.signature(model.forward).parameters
    return next(({name: 1} for name in ("logits_to_keep", "num_logits_to_keep") if name in known), {})


class Pass:
    """One pass over the inputs: the prefill of a decoder, or the forward pass of an encoder."""

    def __init__(self, model: Any, inputs: Mapping[str, Any], *, first_token: bool) -> None:
        ids = inputs.get("input_ids")
        self.tokens = None if ids is None else int(ids.numel())
        self._model = model
        self._inputs = dict(inputs)
        self._first_token = first_token
        if first_token:
            self._inputs |= {"use_cache": True, **_last_logits(model)}

    def __call__(self) -> None:
        """Run the pass."""
        import torch

        with torch.inference_mode():
            output = self._model(**self._inputs)
            if self._first_token:
                output.logits[:, -1:].argmax(-1)


class Decode:
    """All steps of a decode, from the state after the prompt."""

    def __init__(self, model: Any, inputs: Mapping[str, Any], settings: Settings) -> None:
        import torch

        self.tokens: int | None = settings.batch * settings.new_tokens
        self._model = model
        self._steps = settings.new_tokens
        with torch.inference_mode():
            output = model(**inputs, use_cache=True, **_last_logits(model))
            self._first = output.logits[:, -1:].argmax(-1)
        self._cache = output.past_key_values

    def __call__(self) -> None:
        """Make the tokens, one after the other."""
        import torch

        cache, token = fork(self._cache), self._first
        with torch.inference_mode():
            for _ in range(self._steps):
                output = self._model(input_ids=token, past_key_values=cache, use_cache=True)
                cache, token = output.past_key_values, output.logits[:, -1:].argmax(-1)


def fork(cache: Any) -> Any:
    """A cache with the same tensors that grows apart from `cache` (DynamicCache of transformers 4.45 to 5, tuples)."""
    if isinstance(cache, tuple):
        return cache
    made = copy.copy(cache)
    if hasattr(cache, "layers"):
        made.layers = [copy.copy(layer) for layer in cache.layers]
    for name in ("key_cache", "value_cache"):
        if isinstance(vars(cache).get(name), list):
            setattr(made, name, list(vars(cache)[name]))
    return made


class TrainStep:
    """A step of training on one batch."""

    def __init__(self, model: Any, inputs: Mapping[str, Any], settings: Settings) -> None:
        import torch

        ids = inputs.get("input_ids")
        self.tokens = None if ids is None else int(ids.numel())
        self._model = model
        self._inputs = {**inputs, "labels": _labels(model, inputs, settings)}
        self._precision: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        if settings.dtype != "float32":
            kind, dtype = torch.device(settings.device).type, getattr(torch, str(settings.dtype))
            self._precision = functools.partial(torch.autocast, kind, dtype=dtype)
        fused = {"fused": True, "capturable": True} if settings.on_gpu else {}
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **fused)

    def __call__(self) -> None:
        """Forward, backward, update."""
        self._optimizer.zero_grad(set_to_none=True)
        with self._precision():
            loss = self._model(**self._inputs).loss
        loss.backward()
        self._optimizer.step()


def _labels(model: Any, inputs: Mapping[str, Any], settings: Settings) -> Any:
    import torch

    if "input_ids" in inputs:
        return inputs["input_ids"].clone()
    made = torch.Generator(device=settings.device).manual_seed(settings.seed)
    return torch.randint(model.config.num_labels, (settings.batch,), device=settings.device, generator=made)


class Script:
    """A user's script, run as `__main__` with its arguments, in this process, beside its modules."""

    tokens: int | None = None

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)

    def __call__(self) -> None:
        """Run the script. Raises RecordError where it ends with an exit code other than 0."""
        with _as_started(self._command):
            try:
                runpy.run_path(self._command[0], run_name="__main__")
            except SystemExit as end:
                if end.code not in (None, 0):
                    message = f"{self._command[0]}: ended with exit code {end.code}; run it by itself to see why"
                    raise RecordError(message) from end
            except OSError as error:
                raise RecordError(f"{error.filename}: {error.strerror}") from error


@contextlib.contextmanager
def _as_started(command: list[str]) -> Iterator[None]:
    """What Python sets up for a script; and undoes afterwards what would change the next run."""
    arguments, modules, current = sys.argv, list(sys.path), Path.cwd()
    sys.argv = list(command)
    sys.path.insert(0, str(Path(command[0]).resolve().parent))
    try:
        yield
    finally:
        sys.argv = arguments
        sys.path[:] = modules
        os.chdir(current)


class Captured:
    """Work in a CUDA graph. Raises WorkloadError where it cannot be captured, with the reason."""

    def __init__(self, work: Work, watch: Watch = contextlib.nullcontext) -> None:
        import torch

        self.tokens = work.tokens
        self._work = work  # the graph reads its tensors
        self._graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_RUNS):
                work()
        torch.cuda.synchronize()
        try:
            with watch(), torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
                work()
        except RuntimeError as error:
            raise WorkloadError(f"cannot be captured in a CUDA graph: {str(error).splitlines()[0]}") from error
        for _ in range(WARM_RUNS):
            self._graph.replay()
        torch.cuda.synchronize()

    def __call__(self) -> None:
        """Replay the graph."""
        self._graph.replay()


def synchronize(settings: Settings) -> None:
    """Wait for the device."""
    if settings.on_gpu:
        import torch

        torch.cuda.synchronize()


def empty_cache(settings: Settings) -> None:
    """Give memory back that no tensor uses."""
    import gc

    gc.collect()
    if settings.on_gpu:
        import torch

        torch.cuda.empty_cache()
